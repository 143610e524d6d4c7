package service

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever happens to a service and to its process: bounds are kept by each step (world),
// no task is made twice or forgotten, and in the end there are as many as desired, of a
// revision that is healthy.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := Config{Breaker: Breaker{Enable: true, Rollback: true, Cumulative: rapid.Bool().Draw(t, "cumulative")}}
		if rapid.Bool().Draw(t, "bounds") {
			c.Bounds = &Bounds{MinimumHealthyPercent: rapid.SampledFrom([]int{0, 50, 100}).Draw(t, "least"), MaximumPercent: rapid.SampledFrom([]int{100, 150, 200}).Draw(t, "most")}
		}
		ports := []uint16{}
		if rapid.Bool().Draw(t, "listeners") {
			c.Listeners = []Listener{{Address: "127.0.0.1:8080", Container: "app", Port: 8000}}
		}
		c.Method = drawMethod(t)
		if rapid.Bool().Draw(t, "test listeners") {
			c.TestListeners = []Listener{{Address: "127.0.0.1:9090", Container: "app", Port: 8000}}
		}
		if len(c.Listeners) > 0 && rapid.Bool().Draw(t, "sleeps") {
			c.Sleep = &Sleep{After: 10 * time.Minute}
		}
		if rapid.Bool().Draw(t, "port") {
			ports = []uint16{80}
		}
		count := rapid.IntRange(0, 4).Draw(t, "count")
		first := spec(1, ports...)
		if rapid.Bool().Draw(t, "numbered") {
			first = numbered(first, rapid.Bool().Draw(t, "parallel"))
		}
		if Validate("web", first, count, c) != nil {
			t.Skip()
		}
		w := newWorld(count, c, first)
		revision := 1
		for range rapid.IntRange(0, 60).Draw(t, "moves") {
			w.move(t, &revision, ports)
			checkNoneLost(w)
		}
		w.refuses, w.raised = "", nil
		w.answers = map[string][]HookAnswered{}
		w.resolveAll()
		if w.state.Primary().Rollout == Failed { // somebody stopped it: it goes on when somebody wants that
			w.tell(update(w.state.Primary().Spec))
		}
		if len(w.bad) == 0 || w.bad["web:1"] == (Observation{}) && len(w.state.Completed) > 0 {
			checkConverges(w, t)
		}
	})
}

func (w *world) move(t *rapid.T, revision *int, ports []uint16) {
	ids := slices.Sorted(maps.Keys(w.tasks))
	one := func() string { return rapid.SampledFrom(ids).Draw(t, "task") }
	switch move := rapid.IntRange(0, 24).Draw(t, "move"); {
	case move <= 4 && len(w.asked) > 0:
		w.do(rapid.IntRange(0, len(w.asked)-1).Draw(t, "effect"))
	case move <= 8 && len(ids) > 0:
		w.advance(one())
	case move == 9:
		w.crash(func(e Effect) bool { return rapid.Bool().Draw(t, fmt.Sprintf("%T was done", e)) })
	case move == 10 && len(ids) > 0: // it dies, or a user stops or removes it
		id := one()
		if rapid.Bool().Draw(t, "removed") {
			delete(w.tasks, id)
		} else if !w.tasks[id].Stopped {
			w.tasks[id].Observation = Observation{Stopped: true, ByUser: rapid.Bool().Draw(t, "by a user"), Reason: "it ended"}
		}
		if known := w.state.task(id); known != nil && known.Phase != Wanted {
			w.look(id)
		}
	case move == 11:
		n := rapid.IntRange(0, 4).Draw(t, "scale")
		if Validate("web", w.state.Primary().Spec, n, w.state.Config) == nil {
			w.tell(scale(n))
		}
	case move == 12:
		*revision++
		s := w.state.Primary().like(spec(*revision, ports...))
		if rapid.Bool().Draw(t, "bad") {
			w.bad[s.TaskDefinition] = rapid.SampledFrom([]Observation{{Stopped: true, Reason: "exit 1"}, {Running: true, Health: Unhealthy}}).Draw(t, "how")
		}
		w.tell(update(s))
	case move == 13:
		w.tell(RollbackRequested{})
	case move == 17:
		if rapid.IntRange(0, 3).Draw(t, "abort") == 0 {
			w.tell(AbortRequested{})
		}
	case move == 14:
		w.refuses = rapid.SampledFrom([]string{"", "no room"}).Draw(t, "refused")
	case move == 16 && len(ids) > 0: // it protects itself, if it is not on its way down
		id := one()
		if c := w.tasks[id]; !c.stopping && !c.Stopped {
			c.Protected = w.now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "minutes")) * time.Minute)
			if known := w.state.task(id); known != nil && known.Phase != Wanted {
				w.look(id)
			}
		}
	case move >= 23: // connections come and go
		busy := rapid.Bool().Draw(t, "busy")
		w.use = Used{Busy: busy, Waiting: busy && rapid.Bool().Draw(t, "waiting"), IdleSince: w.now}
		w.tell(w.use)
	case move >= 18:
		w.moveStages(t, move)
	case move == 15:
		w.now = w.now.Add(time.Duration(rapid.IntRange(0, 600).Draw(t, "seconds")) * time.Second)
		w.tell(TimerFired{})
	}
}

// moveStages makes a move that only concerns deployments with stages.
func (w *world) moveStages(t *rapid.T, move int) {
	switch move {
	case 18: // the hooks change their mind
		w.answers = map[string][]HookAnswered{"ask": {drawAnswer(t)}}
	case 19: // a user decides about a pause, an old one too
		if a := w.state.History[len(w.state.History)-1]; a.Progress != nil && len(a.Progress.Calls) > 0 {
			c := rapid.SampledFrom(a.Progress.Calls).Draw(t, "call")
			w.tell(ContinueRequested{ID: c.ID, Rollback: rapid.IntRange(0, 3).Draw(t, "rollback") == 0})
		}
	case 20:
		w.raised = rapid.SampledFrom([][]string{nil, nil, {"errors"}}).Draw(t, "raised")
	case 21:
		c := w.state.Config
		c.Method = drawMethod(t)
		if Validate("web", w.state.Primary().Spec, w.state.DesiredCount, c) == nil {
			w.tell(Updated{Config: &c})
		}
	case 22: // an answer that nobody asked for, or that comes too late
		if a := w.state.History[len(w.state.History)-1]; a.Progress != nil && len(a.Progress.Calls) > 0 {
			c := rapid.SampledFrom(a.Progress.Calls).Draw(t, "call")
			answer := drawAnswer(t)
			answer.ID, answer.Number = c.ID, c.Number-1
			w.tell(answer)
		}
	}
}

// drawMethod draws how deployments are done.
func drawMethod(t *rapid.T) Method {
	m := Method{Strategy: rapid.SampledFrom([]Strategy{"", BlueGreen, Linear, Canary}).Draw(t, "strategy")}
	minutes := func(label string) time.Duration {
		return time.Duration(rapid.SampledFrom([]int{0, 0, 5}).Draw(t, label)) * time.Minute
	}
	switch m.Strategy {
	case Linear:
		m.Step = Increment{Part: Permille(rapid.IntRange(30, 1000).Draw(t, "step")), Bake: minutes("step bake")}
	case Canary:
		m.Step = Increment{Part: Permille(rapid.IntRange(1, 1000).Draw(t, "canary")), Bake: minutes("canary bake")}
	}
	m.Bake = minutes("bake")
	if rapid.Bool().Draw(t, "hook") {
		m.Hooks = append(m.Hooks, Hook{Name: "ask", Stages: rapid.SliceOfNDistinct(rapid.SampledFrom(hookStages), 1, 8, rapid.ID).Draw(t, "stages"), Target: all.Target})
		m.Hooks[0].Timeout = time.Hour
	}
	if rapid.IntRange(0, 3).Draw(t, "pause") == 0 {
		stage := rapid.SampledFrom([]Stage{PreScaleUp, PostTestShift, PreProduction, PostProduction}).Draw(t, "pause at")
		action := rapid.SampledFrom([]TimeoutAction{"", TimeoutContinue}).Draw(t, "timeout")
		m.Hooks = append(m.Hooks, Hook{Name: "ok", Stages: []Stage{stage}, Target: HookTarget{Kind: HookPause}, Timeout: time.Hour, OnTimeout: action})
	}
	if rapid.IntRange(0, 3).Draw(t, "alarms") == 0 {
		m.Alarms = Alarms{Enable: true, Rollback: rapid.Bool().Draw(t, "alarm rollback"), Alarms: []Alarm{{Name: "errors"}}}
	}
	return m
}

func drawAnswer(t *rapid.T) HookAnswered {
	return rapid.SampledFrom([]HookAnswered{
		{Status: HookSucceeded}, {Status: HookFailed, Reason: "exit 1"}, {Status: HookInProgress, CallBackDelay: time.Minute},
		{Status: HookInProgress}, {Status: "NONSENSE"}, {Status: HookInProgress, CallBackDelay: -time.Hour, Details: []byte(`{"a":1}`)},
	}).Draw(t, "answer")
}

// resolveAll continues all pauses from now on, as a user who lets everything pass.
func (w *world) resolveAll() { w.passes = true }

// checkNoneLost: what runs is known, and the bound of what there is holds for what was
// made too.
func checkNoneLost(w *world) {
	for id, task := range w.tasks {
		if known := w.state.task(id); !task.Stopped && (known == nil || !known.present()) {
			broken("a task runs that the service does not know of")
		}
	}
	if n, known := w.count(), w.state.Count("").Present; n > known {
		broken("%d copies there are, %d are known", n, known)
	}
}

func checkConverges(w *world, t *rapid.T) {
	w.lookAtAll()
	w.use = Used{Busy: true}
	w.tell(w.use)
	if err := calm(w, 6*time.Hour); err != nil {
		t.Fatalf("%v:\n%+v", err, w.state.Tasks)
	}
	p := w.state.Primary()
	if n := len(w.state.Deployments); n != 1 {
		t.Fatalf("%d deployments are left, and it says:\n%s\n%+v\n%+v", n, w.said(), w.state.Explain(w.now), w.state.Tasks)
	}
	if _, bad := w.bad[p.TaskDefinition]; bad && w.state.DesiredCount > 0 {
		t.Fatalf("it came to rest with %s, which is bad", p.TaskDefinition)
	}
	if w.running()[p.TaskDefinition] != w.state.DesiredCount || w.count() != w.state.DesiredCount || !w.state.Steady {
		t.Fatalf("%v run, want %d of %s; %+v", w.running(), w.state.DesiredCount, p.TaskDefinition, w.state.Tasks)
	}
	checkSleeps(w, t)
	w.tell(DeleteRequested{})
	if err := calm(w, time.Hour); err != nil || !w.state.Gone() || len(w.tasks) != 0 && w.count() != 0 {
		t.Fatalf("%v: %d tasks after the removal", err, len(w.tasks))
	}
}
