package task

import (
	"path"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/reason"
	"github.com/podtask/podtask/internal/ecsstatus"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api"
)

// ecsWaits are what the instance of an ECS cluster of this user waits for; none without one.
func (o whyOptions) ecsWaits() []ecsstatus.Wait {
	stateDir, runtimeDir, err := state.Dirs(o.getenv)
	if err != nil {
		return nil
	}
	s, running, _ := ecsstatus.Find(stateDir, runtimeDir)
	if s == nil || !running {
		return nil
	}
	return s.Waits
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
