package serve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/engine/network/names"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	svc "github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// withNames adds to the reasons of a task the names by which it reaches no service now.
func (b AgentBackend) withNames(t api.Task, s lifecycle.State) api.Task {
	if s.Options.Namespace == "" || s.Goal != lifecycle.Up {
		return t
	}
	add := func(text string) {
		t.Why = append(slices.Clone(t.Why), api.Reason{Code: api.WhyNames, Text: text})
	}
	problem := b.Engine.Names.Problem(s.ID)
	if names.InCluster(s.Options.Namespace) {
		if problem != nil {
			add("it cannot reach all Services of its node by name, and podtask keeps trying: " + problem.Error())
		}
		return t
	}
	if problem != nil {
		add("it cannot reach all names of the namespace " + s.Options.Namespace + ", and podtask keeps trying: " + problem.Error())
	}
	for _, text := range explainNames(s.Task, s.Options.Namespace, b.Controller.States()) {
		add(text)
	}
	return t
}

// explainNames says which names of a namespace lead to no copy, and why.
func explainNames(t taskdef.Task, namespace string, all []svc.State) (texts []string) {
	known := false
	for _, s := range all {
		if s.Config.Names.Namespace != namespace {
			continue
		}
		known = known || len(s.Config.Names.Offered) > 0
		for _, n := range s.Config.Names.Offered {
			if why := svc.OwnHost(t, n.Name); why != "" {
				texts = append(texts, fmt.Sprintf("the name %s does not lead to service %s in this task: %s", n.Name, s.Name, why))
			}
		}
		if len(s.Groups(false)) > 0 {
			continue
		}
		var names []string
		for _, n := range s.Config.Names.Offered {
			names = append(names, n.String())
		}
		switch {
		case len(names) == 0:
		case s.DesiredCount == 0:
			texts = append(texts, fmt.Sprintf("connections to %s find no copy: service %s has a desired count of 0", strings.Join(names, ", "), s.Name))
		default:
			texts = append(texts, fmt.Sprintf("connections to %s wait: no copy of service %s is healthy; `podtask why %s` shows more", strings.Join(names, ", "), s.Name, s.Name))
		}
	}
	if !known {
		texts = append(texts, fmt.Sprintf("no service has a name in the namespace %s, so it reaches none: give one a name with `podtask service create --namespace %s --name-as NAME`", namespace, namespace))
	}
	return texts
}
