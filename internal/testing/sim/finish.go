package sim

import (
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// maxFinish is how many friendly moves bring any task to rest.
const maxFinish = 600

// finish runs the world on with nothing unfriendly happening until nothing is
// left to do, and checks that the task has come to its goal. Worlds in good are
// known to; those passed on the way are added. With good nil the world at rest
// is returned; w itself is left as it is.
func finish(w *World, good map[string]bool) *World {
	var key []byte
	var passed []string
	for n := range maxFinish {
		if good != nil {
			key = w.key(key[:0])
			if good[string(key)] {
				break
			}
			passed = append(passed, string(key))
		}
		if n == 0 {
			w = w.clone()
		}
		m, ok := friendly(w)
		if !ok {
			checkFinal(w)
			break
		}
		if n == maxFinish-1 {
			w.broken(ReachesGoal, "it does not come to rest in %d moves", maxFinish)
		}
		w.make(m)
	}
	for _, k := range passed {
		good[k] = true
	}
	return w
}

// friendly is the one move of a world in which nothing fails.
func friendly(w *World) (m move, ok bool) {
	if m, ok := prompt(w); ok {
		return m, true
	}
	for i := range w.truth {
		if w.truth[i].paused {
			return move{verb: resumes, slot: i}, true
		}
	}
	for i := range w.truth {
		if w.truth[i].presence == lifecycle.Running && !w.state.Task.Containers[i].Essential && w.state.Goal == lifecycle.Up && awaited(w, i) {
			return move{verb: exits, slot: i}, true
		}
	}
	if w.state.Settled() || steady(w) || w.wake().IsZero() {
		return move{}, false
	}
	return move{verb: timer}, true
}

// prompt is the next friendly move that takes no time.
func prompt(w *World) (m move, ok bool) {
	for _, f := range w.flights {
		return move{works, f.kind, f.slot, 0}, true
	}
	for i := sandbox; i < len(w.truth); i++ {
		if hintDue(w, i) {
			return move{verb: hint, slot: i}, true
		}
	}
	return move{}, false
}

// awaited reports whether a container waits for container i to end.
func awaited(w *World, i int) bool {
	for k := range w.state.Containers {
		if w.state.Containers[k].Ended {
			continue
		}
		for _, d := range w.state.Task.Containers[k].DependsOn {
			if d.Container == i && (d.Condition == taskdef.Success || d.Condition == taskdef.Complete) {
				return true
			}
		}
	}
	return false
}

// steady: everything that should run is running and nothing waits.
func steady(w *World) bool {
	if w.state.Goal != lifecycle.Up {
		return false
	}
	for i := range w.state.Containers {
		c := &w.state.Containers[i]
		if w.truth[i].unhealthy && !c.Ended && !w.truth[i].paused {
			return false // it is to be restarted
		}
		if cutOff(w, i) || !c.Ended && (c.Presence != lifecycle.Running || c.Stale || w.truth[i].presence != lifecycle.Running) {
			return false
		}
	}
	return true
}
