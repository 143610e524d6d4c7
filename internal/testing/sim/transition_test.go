package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// TestTransitions writes down every change of a container's status that can be
// reached, with what brings it about.
func TestTransitions(t *testing.T) {
	t.Parallel()
	type change struct{ from, to lifecycle.Status }
	found := make(map[change]map[string]bool)
	telling := []string{"one, few faults", "one, crashes and vanishing", "SUCCESS, few faults", "SUCCESS with startTimeout", "HEALTHY, stopped", "one that restarts"}
	for _, c := range modelCases() {
		if !slices.Contains(telling, c.name) {
			continue
		}
		w := blank(c.task, lifecycle.Options{Pull: c.pull, Logs: taskdef.LogsAuto}, c.Budget)
		w.tell = func(before, after lifecycle.State, ev lifecycle.Event, _ []lifecycle.Effect) {
			for i := range after.Containers {
				ch := change{before.Containers[i].Status(), after.Containers[i].Status()}
				if ch.from == ch.to {
					continue
				}
				if found[ch] == nil {
					found[ch] = make(map[string]bool)
				}
				found[ch][cause(&before, i, ev)] = true
			}
		}
		w.step(lifecycle.Restarted{})
		if _, err := w.Explore(everydayStates); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	b.WriteString("| from | to | when |\n|---|---|---|\n")
	changes := slices.SortedFunc(maps.Keys(found), func(a, b change) int {
		return int(a.from)*100 + int(a.to) - int(b.from)*100 - int(b.to)
	})
	for _, ch := range changes {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", ch.from, ch.to, strings.Join(slices.Sorted(maps.Keys(found[ch])), "; "))
	}
	golden(t, "testdata/transitions.golden.md", b.String())
}

// cause says what an event is to container i.
func cause(before *lifecycle.State, i int, ev lifecycle.Event) string {
	switch ev := ev.(type) {
	case lifecycle.OpFinished:
		own := before.Containers[i].Op
		switch {
		case own.ID != ev.ID:
			return "something else in the task has ended or failed"
		case ev.Failure.Class != lifecycle.OK:
			return fmt.Sprintf("its %s failed or was given up", own.Kind)
		case own.Kind == lifecycle.Inspect:
			return "an inspection showed it"
		default:
			return fmt.Sprintf("its %s worked", own.Kind)
		}
	case lifecycle.StopRequested, lifecycle.RemoveRequested:
		return "a user asked"
	case lifecycle.TimerFired:
		return "a time limit has passed"
	case lifecycle.Restarted:
		return "a new owner took over"
	default:
		return fmt.Sprintf("%T", ev)
	}
}
