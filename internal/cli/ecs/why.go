package ecs

import (
	"context"
	"path"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/cli/reason"
	"github.com/podtask/podtask/internal/ecsstatus"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api"
)

// waits are what the instance of an ECS cluster of this user waits for; none without one.
func (o explainer) waits() []ecsstatus.Wait {
	s, running, _ := find(o.getenv)
	if s == nil || !running {
		return nil
	}
	return s.Waits
}

// explainer explains what podtask-ecs waits for.
type explainer struct{ getenv func(string) string }

func newExplainer(m *command.Machine) part.Explainer {
	o := explainer{m.Program.Getenv}
	return part.Explainer{
		Ref: func(_ context.Context, ref string) (reason.Explanation, bool, error) {
			a, found := explainECS(o.waits(), ref, time.Now())
			return a, found, nil
		},
		Task: func(t api.Task) []api.Reason { return ecsReasons(o.waits(), t) },
	}
}

// find finds the instance that podtask-ecs keeps for this user, if there is one.
func find(getenv func(string) string) (s *ecsstatus.Status, running, is bool) {
	stateDir, runtimeDir, err := state.Dirs(getenv)
	if err != nil {
		return nil, false, false
	}
	return ecsstatus.Find(stateDir, runtimeDir)
}

// ecsReasons are the waits of a task that came from ECS.
func ecsReasons(waits []ecsstatus.Wait, t api.Task) (out []api.Reason) {
	name := t.Tags[arn.TagTask]
	for _, w := range waits {
		if name != "" && w.Task == name {
			out = append(out, api.Reason{Code: reason.ECS, Text: "podtask-ecs waits for " + w.Text, Since: w.Since})
		}
	}
	return out
}

// explainECS makes a sentence of the waits of a task of ECS that the agent does not have: by its ARN, the ID
// that ECS gave it, or the name that it is going to have.
func explainECS(waits []ecsstatus.Wait, ref string, now time.Time) (a reason.Explanation, found bool) {
	i := slices.IndexFunc(waits, func(w ecsstatus.Wait) bool {
		id := path.Base(w.Task)
		return w.Task != "" && (ref == w.Task || ref == id || ref == "ecs-"+id)
	})
	if i < 0 {
		return a, false
	}
	task := waits[i].Task
	a = reason.Explanation{ID: path.Base(task), Name: "ecs-" + path.Base(task), Status: "NONE", Why: ecsReasons(waits, api.Task{Tags: map[string]string{arn.TagTask: task}})}
	a.Sentence = a.Name + " is not created yet: " + console.Reason(a.Why[0], now) + "."
	return a, true
}
