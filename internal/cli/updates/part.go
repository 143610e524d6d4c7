package updates

import (
	"context"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/run/imagelook"
	"github.com/podtask/podtask/internal/serve/metrics/imagemetrics"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/images/imageage"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Part is the part updates.
func Part() part.Part {
	return part.Part{
		Name:    "updates",
		Explain: newExplainer,
		Agent: func(a *part.Agent) error {
			l := imagelook.New(a.Log, a.Engine.Images, a.Engine.Tasks, a.StateDir)
			a.Collect(imagemetrics.New(l.Pending))
			a.Run(func(ctx context.Context) error {
				l.Run(ctx)
				return nil
			})
			return nil
		},
	}
}

// newExplainer explains updates of a task or service that wait.
func newExplainer(m *command.Machine) part.Explainer {
	tasks, trust, looker := m.Engine.Tasks, m.Engine.Images.Trust, imagelook.New(m.Log, m.Engine.Images, m.Engine.Tasks, m.Connector.StateDir)
	return part.Explainer{
		Task: func(t api.Task) []api.Reason {
			s, found := tasks.Lookup(t.ID)
			if !found {
				return nil
			}
			return reasons(looker, trust, s)
		},
		Service: func(_ context.Context, s api.Service) []api.Reason {
			return reasons(looker, trust, lifecycle.State{Options: lifecycle.Options{Service: s.ServiceName}})
		},
	}
}

// reasons returns why somebody goes on with an image although its tag has another one.
func reasons(l *imagelook.Looker, trust func(image string) string, s lifecycle.State) (all []api.Reason) {
	waiting, _, err := l.Pending()
	if err != nil {
		return nil
	}
	for _, p := range waiting {
		if p.For == imagestore.TakerOf(s) {
			all = append(all, reasonOf(p, containerOf(s, p.Image.Ref), trust(p.Image.Ref)))
		}
	}
	return all
}

// containerOf returns the first container with an image; empty if there is none.
func containerOf(s lifecycle.State, ref string) string {
	for _, c := range s.Task.Containers {
		if i, _ := imagestore.ImageOf(c.Image); i.Ref == ref {
			return c.Name
		}
	}
	return ""
}

func reasonOf(p imageage.Pending, container, trust string) api.Reason {
	r := api.Reason{
		Code: api.WhyUpdateWaits, Container: container, Since: p.Since, Until: p.Until, Then: "it may be updated",
		Text: "the tag " + p.Image.Ref + " has another image, which is not taken yet: " + p.Why,
	}
	if p.Why == "" {
		r.Text, r.Then = "the tag "+p.Image.Ref+" has another image, which the next update takes", ""
	}
	if trust != imagestore.AnyImage {
		r.Text += "; Podman's policy.json: " + trust
	}
	return r
}
