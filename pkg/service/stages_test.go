package service

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// with returns a configuration that deploys by a method, with a listener of each kind.
func with(m Method) Config {
	c := careful
	c.Listeners = []Listener{{Address: "127.0.0.1:8080", Container: "app", Port: 8000}}
	c.TestListeners = []Listener{{Address: "127.0.0.1:9090", Container: "app", Port: 8000}}
	c.Method = m
	return c
}

// configure asks for a method.
func configure(m Method) Updated {
	c := with(m)
	return Updated{Config: &c}
}

// callHook answers a call as the test wants.
func (w *world) callHook(e CallHook) {
	r, open := w.state.HookRequest(e.ID)
	if !open || r.Number != e.Number {
		return // it was given up
	}
	call := fmt.Sprintf("%s %s %d", r.Hook, r.Stage, r.Step)
	if r.Returning {
		call += " back"
	}
	w.called, w.requests = append(w.called, call), append(w.requests, r)
	answer := HookAnswered{Status: HookSucceeded}
	if all := w.answers[r.Hook]; len(all) > 0 {
		answer = all[0]
		if len(all) > 1 {
			w.answers[r.Hook] = all[1:]
		}
	}
	answer.ID, answer.Number = e.ID, e.Number
	w.tell(answer)
}

// checkStages checks what holds in each step of an attempt with stages.
func checkStages(w *world, before State, in Input) {
	for _, test := range []bool{false, true} {
		sum := Permille(0)
		groups := w.state.Groups(test)
		for _, g := range groups {
			sum += g.Weight
			if g.Weight <= 0 || len(g.Copies) == 0 {
				broken("%+v has no part or no copy", g)
			}
		}
		if len(groups) > 0 && sum != Whole {
			broken("the parts are %d in all", sum)
		}
	}
	checkNotDeserted(w, before, in)
	if a := w.state.staged(); a != nil && !a.rolls() {
		for _, d := range w.state.Deployments {
			if n := w.state.Count(d.ID).Present; n > before.Count(d.ID).Present && n > w.state.DesiredCount+1 {
				broken("%d copies of %s were made, %d are desired", n, d.ID, w.state.DesiredCount)
			}
		}
	}
	was, is := before.staged(), w.state.staged()
	if was == nil || is == nil || was.Number != is.Number {
		return
	}
	checkWeights(*was, *is)
	p, q := was.Progress, is.Progress
	if p.Stage != q.Stage && !q.Back {
		for _, c := range q.Calls {
			if failed := c.Status == HookFailed || c.Status == HookTimedOut && mustHook(is, c).OnTimeout != TimeoutContinue; failed && !c.Returning {
				broken("the stage %s began after the hook %s was %s", q.Stage, c.Hook, c.Status)
			}
			if c.Open() && !c.isOf(q) {
				broken("the stage %s began before the hook %s of %s had ended", q.Stage, c.Hook, c.Stage)
			}
		}
	}
}

func mustHook(a *Attempt, c HookCall) Hook {
	h, ok := a.hook(c.Hook)
	if !ok {
		broken("there is no hook %s", c.Hook)
	}
	return h
}

// checkWeights checks that green gets what the method gives it, and never less unless it goes.
func checkWeights(was, is Attempt) {
	p, q := was.Progress, is.Progress
	want := Whole
	switch m := is.Method; {
	case q.Steps == 0:
		want = 0
	case q.Blue == "":
	case m.Strategy == Linear:
		want = min(Whole, m.Step.Part*Permille(q.Steps))
	case m.Strategy == Canary && q.Steps == 1:
		want = m.Step.Part
	}
	switch {
	case is.rolls() || p.Green != q.Green:
	case !q.Back && q.Weight != want:
		broken("after %d steps green has %s of the connections, want %s", q.Steps, q.Weight, want)
	case q.Back && q.Weight != 0 && q.Weight != p.Weight:
		broken("green has %s on the way back, and had %s", q.Weight, p.Weight)
	}
}

// checkNotDeserted: no decision leaves the listeners without a copy if there was a healthy one.
func checkNotDeserted(w *world, before State, in Input) {
	switch in := in.(type) {
	case Seen, Vanished, DeleteRequested:
		return
	case Updated:
		if in.DesiredCount != nil && *in.DesiredCount == 0 {
			return
		}
	}
	if a := w.state.shift(); a == nil || w.state.Status != Active || w.state.DesiredCount == 0 {
		return
	}
	if len(before.groups(false, Task.Healthy)) > 0 && len(w.state.Groups(false)) == 0 {
		broken("%T leaves the listeners without a copy: %+v", in, *w.state.shift().Progress)
	}
}

// course does all there is to do and returns the weights of production that there were, with the time of each.
func course(w *world, t *testing.T, limit time.Duration) (shares []string) {
	t.Helper()
	began, last := w.now, ""
	end := w.now.Add(limit)
	for range 100000 {
		if text := weights(w.state); text != last {
			last = text
			shares = append(shares, fmt.Sprintf("%s at %s", text, w.now.Sub(began).Round(time.Minute)))
		}
		switch {
		case len(w.asked) > 0:
			w.do(0)
			continue
		case w.advanceAny():
			continue
		}
		wake := w.state.Wake(w.now)
		if wake.IsZero() || wake.After(end) {
			return shares
		}
		w.now = wake
		w.tell(TimerFired{})
	}
	t.Fatal("it never comes to rest")
	return nil
}

// weights are the parts of the connections to the listeners, by deployment.
func weights(s State) string {
	var parts []string
	for _, g := range s.Groups(false) {
		parts = append(parts, fmt.Sprintf("%s %s", strings.TrimPrefix(g.Deployment, "web/"), g.Weight))
	}
	return strings.Join(parts, " + ")
}

func steady(t *testing.T, count int, m Method) *world {
	t.Helper()
	w := newWorld(count, with(m), spec(1))
	waitForRest(w, t, 48*time.Hour)
	w.has(t, fmt.Sprintf("web:1=%d", count))
	w.called, w.requests = nil, nil
	return w
}

func TestShifts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		method Method
		want   []string
		total  time.Duration
	}{
		"blue/green": {Method{Strategy: BlueGreen}, []string{"1 100 %", "2 100 %"}, 0},
		"blue/green with bake": {
			Method{Strategy: BlueGreen, Bake: 5 * time.Minute},
			[]string{"1 100 %", "2 100 %"}, 5 * time.Minute,
		},
		"linear": {
			Method{Strategy: Linear, Step: Increment{200, time.Minute}, Bake: 2 * time.Minute},
			[]string{"1 100 %", "1 80 % + 2 20 %", "1 60 % + 2 40 % at 1m", "1 40 % + 2 60 % at 2m", "1 20 % + 2 80 % at 3m", "2 100 % at 4m"}, 6 * time.Minute,
		},
		"linear with a rest": {
			Method{Strategy: Linear, Step: Increment{300, time.Minute}},
			[]string{"1 100 %", "1 70 % + 2 30 %", "1 40 % + 2 60 % at 1m", "1 10 % + 2 90 % at 2m", "2 100 % at 3m"}, 3 * time.Minute,
		},
		"linear in one step": {Method{Strategy: Linear, Step: Increment{Whole, time.Minute}}, []string{"1 100 %", "2 100 %"}, 0},
		"canary": {
			Method{Strategy: Canary, Step: CanaryStep, Bake: 5 * time.Minute},
			[]string{"1 100 %", "1 95 % + 2 5 %", "2 100 % at 10m"}, 15 * time.Minute,
		},
		"canary in one step": {Method{Strategy: Canary, Step: Increment{Whole, time.Minute}}, []string{"1 100 %", "2 100 %"}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := steady(t, 2, tt.method)
			began := w.now
			w.tell(update(spec(2)))
			got := course(w, t, 48*time.Hour)
			if len(got) != len(tt.want) {
				t.Fatalf("the parts were %q, want %q", got, tt.want)
			}
			for i, want := range tt.want {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("part %d was %q, want %q", i, got[i], want)
				}
			}
			w.has(t, "web:2=2")
			// Copies without a health check are healthy after five seconds.
			if took := w.state.History[1].Times.EndedAt.Sub(began); took < tt.total || took > tt.total+time.Minute {
				t.Errorf("it took %s, want %s", took, tt.total)
			}
			wantTale(t, w, "web/1 SUCCESSFUL, web/2 SUCCESSFUL")
			if a := w.state.History[1]; a.Progress.Stage != CleanUp || a.Progress.Weight != Whole || a.Progress.TestWeight != Whole {
				t.Errorf("it ended with %+v", a.Progress)
			}
		})
	}
}

func TestGreenHasAllCopiesBeforeAConnection(t *testing.T) {
	t.Parallel()
	w := steady(t, 2, Method{Strategy: BlueGreen, Hooks: []Hook{{Name: "ask", Stages: []Stage{PostScaleUp}, Target: HookTarget{Kind: HookPause}}}})
	w.tell(update(spec(2)))
	waitForRest(w, t, time.Minute)
	w.has(t, "web:1=2 web:2=2")
	if got := weights(w.state); got != "1 100 %" {
		t.Errorf("the parts are %s", got)
	}
	if r := w.state.Explain(w.now)[0]; r.Code != WhyPause {
		t.Errorf("%+v", r)
	}
}

// all has a hook in each stage that has some.
var all = Hook{Name: "all", Stages: hookStages, Target: HookTarget{Kind: HookURL, Value: "http://127.0.0.1:1/"}}

func TestHooksAreCalledInTheirStages(t *testing.T) {
	t.Parallel()
	w := steady(t, 1, Method{Strategy: Linear, Step: Increment{500, time.Minute}, Hooks: []Hook{all}})
	w.tell(update(spec(2)))
	waitForRest(w, t, time.Hour)
	want := []string{
		"all PRE_SCALE_UP 0", "all POST_SCALE_UP 0", "all TEST_TRAFFIC_SHIFT 0", "all POST_TEST_TRAFFIC_SHIFT 0",
		"all PRE_PRODUCTION_TRAFFIC_SHIFT 1", "all PRODUCTION_TRAFFIC_SHIFT 1", "all PRE_PRODUCTION_TRAFFIC_SHIFT 2", "all PRODUCTION_TRAFFIC_SHIFT 2",
		"all POST_PRODUCTION_TRAFFIC_SHIFT 0",
	}
	if !slices.Equal(w.called, want) {
		t.Errorf("the calls were %q, want %q", w.called, want)
	}
	weights := map[int]string{0: "map[] map[]", 2: "map[web/1:0 % web/2:100 %] map[]", 4: "map[] map[web/1:100 % web/2:0 %]", 5: "map[] map[web/1:50 % web/2:50 %]", 7: "map[] map[web/1:0 % web/2:100 %]", 8: "map[] map[]"}
	for i, want := range weights {
		if r := w.requests[i]; fmt.Sprint(r.TestWeights, r.ProductionWeights) != want {
			t.Errorf("call %d has the weights %v and %v, want %s", i, r.TestWeights, r.ProductionWeights, want)
		}
	}
	ids := make(map[string]bool)
	for _, r := range w.requests {
		ids[r.ID] = true
		if !strings.HasPrefix(r.ID, "ecs-lambda-") || len(r.ID) != len("ecs-lambda-")+43 {
			t.Errorf("the id is %s", r.ID)
		}
	}
	if len(ids) != len(want) {
		t.Errorf("%d calls have %d ids", len(want), len(ids))
	}
}

// hookOf is a hook of one stage.
func hookOf(stage Stage) Hook {
	return Hook{Name: "test", Stages: []Stage{stage}, Target: all.Target}
}

func TestAHookThatFailsRollsBack(t *testing.T) {
	t.Parallel()
	for _, stage := range hookStages[1:] {
		t.Run(string(stage), func(t *testing.T) {
			t.Parallel()
			w := steady(t, 2, Method{Strategy: Canary, Step: Increment{100, time.Minute}})
			w.tell(configure(Method{Strategy: Canary, Step: Increment{100, time.Minute}, Hooks: []Hook{hookOf(stage)}}))
			w.answers = map[string][]HookAnswered{"test": {{Status: HookFailed, Reason: "exit 1: no such page"}}}
			w.tell(update(spec(2)))
			shares := course(w, t, time.Hour)
			w.has(t, "web:1=2")
			wantTale(t, w, "web/1 SUCCESSFUL, web/2 ROLLBACK_SUCCESSFUL web/1")
			a := w.state.History[1]
			if want := string(stage) + " hooks failed: test: exit 1: no such page"; a.Reason != want || a.Return.Stage != stage {
				t.Errorf("the reason is %q in %s, want %q", a.Reason, a.Return.Stage, want)
			}
			if last := shares[len(shares)-1]; !strings.HasPrefix(last, "1 100 %") {
				t.Errorf("the parts were %q", shares)
			}
			calls := 1
			if stage.shifts() {
				calls = 2 // also on the way back, whatever it answers
			}
			if len(w.called) != calls {
				t.Errorf("the calls were %q", w.called)
			}
			if w.state.Rollbacks != 1 || !w.state.Primary().Rollback {
				t.Errorf("%d rollbacks, %+v", w.state.Rollbacks, w.state.Primary())
			}
		})
	}
}

func TestAHookInProgressIsCalledAgain(t *testing.T) {
	t.Parallel()
	h := hookOf(PostScaleUp)
	h.Details = json.RawMessage(`{"a":1}`)
	w := steady(t, 1, Method{Strategy: BlueGreen})
	w.tell(configure(Method{Strategy: BlueGreen, Hooks: []Hook{h}}))
	w.answers = map[string][]HookAnswered{"test": {
		{Status: HookInProgress, CallBackDelay: time.Minute, Details: json.RawMessage(`{"b":2}`)},
		{Status: HookInProgress},
		{Status: HookSucceeded},
	}}
	w.tell(update(spec(2)))
	waitForRest(w, t, 30*time.Second)
	if len(w.requests) != 1 || explains(w, WhyHook) == false {
		t.Fatalf("the calls were %q, %+v", w.called, w.state.Explain(w.now))
	}
	w.crash(func(Effect) bool { return false })
	waitForRest(w, t, time.Hour)
	var details []string
	for _, r := range w.requests {
		details = append(details, string(r.Details))
	}
	if want := []string{`{"a":1}`, `{"a":1,"b":2}`, `{"a":1,"b":2}`}; !slices.Equal(details, want) {
		t.Errorf("the details were %q, want %q", details, want)
	}
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 SUCCESSFUL")
}

func TestATimeoutOfAHook(t *testing.T) {
	t.Parallel()
	for action, want := range map[TimeoutAction]string{
		"":              "web/1 SUCCESSFUL, web/2 ROLLBACK_SUCCESSFUL web/1",
		TimeoutContinue: "web/1 SUCCESSFUL, web/2 SUCCESSFUL",
	} {
		for _, kind := range []HookKind{HookPause, HookCommand} {
			w := steady(t, 1, Method{Strategy: BlueGreen})
			h := hookOf(PostTestShift)
			h.Timeout, h.OnTimeout, h.Target = time.Minute, action, HookTarget{Kind: kind}
			w.tell(configure(Method{Strategy: BlueGreen, Hooks: []Hook{h}}))
			w.answers = map[string][]HookAnswered{"test": {{Status: HookInProgress}}}
			w.tell(update(spec(2)))
			waitForRest(w, t, time.Hour)
			wantTale(t, w, want)
			if c := w.state.History[1].Progress.Calls[0]; c.Status != HookTimedOut {
				t.Errorf("%s %s: the call is %+v", kind, action, c)
			}
		}
	}
}

// pauseAt returns a world that waits at a pause, and the id of it.
func pauseAt(t *testing.T, stage Stage, m Method, others ...Hook) (*world, string) {
	t.Helper()
	w := steady(t, 2, Method{Strategy: m.Strategy, Step: m.Step})
	m.Hooks = append(others, Hook{Name: "ok", Stages: []Stage{stage}, Target: HookTarget{Kind: HookPause}})
	w.tell(configure(m))
	w.tell(update(spec(2)))
	waitForRest(w, t, time.Minute)
	id, err := w.state.Pause("")
	if err != nil {
		t.Fatal(err)
	}
	return w, id
}

func TestAPause(t *testing.T) {
	t.Parallel()
	for rollback, want := range map[bool]string{
		false: "web/1 SUCCESSFUL, web/2 SUCCESSFUL",
		true:  "web/1 SUCCESSFUL, web/2 ROLLBACK_SUCCESSFUL web/1",
	} {
		w, id := pauseAt(t, PostTestShift, Method{Strategy: BlueGreen})
		if c := w.state.History[1].Progress.Calls[0]; c.Status != HookAwaiting || !c.ExpiresAt.After(w.now.Add(23*time.Hour)) || len(id) != len("ecs-pause-")+43 {
			t.Errorf("the call is %+v", c)
		}
		w.crash(func(Effect) bool { return false })
		if again, err := w.state.Pause("ok"); again != id || err != nil {
			t.Errorf("after a kill it is %s, %v; before %s", again, err, id)
		}
		w.tell(ContinueRequested{ID: id, Rollback: rollback})
		waitForRest(w, t, time.Hour)
		wantTale(t, w, want)
		if _, err := w.state.Pause(""); err == nil {
			t.Error("it waits still")
		}
	}
}

func TestEachStepHasAPauseOfItsOwn(t *testing.T) {
	t.Parallel()
	w, first := pauseAt(t, PreProduction, Method{Strategy: Linear, Step: Increment{Part: 500}})
	w.tell(ContinueRequested{ID: first})
	waitForRest(w, t, time.Minute)
	second, err := w.state.Pause("")
	if err != nil || second == first || weights(w.state) != "1 50 % + 2 50 %" {
		t.Fatalf("%s, %s, %v: %s", first, second, err, weights(w.state))
	}
	w.tell(ContinueRequested{ID: first})
	if again, _ := w.state.Pause(""); again != second {
		t.Error("the first id continued the second pause")
	}
	w.tell(ContinueRequested{ID: second})
	waitForRest(w, t, time.Minute)
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 SUCCESSFUL")
}

func TestAFailedHookEndsAPause(t *testing.T) {
	t.Parallel()
	w, id := pauseAt(t, PostScaleUp, Method{Strategy: BlueGreen}, Hook{Name: "slow", Stages: []Stage{PostScaleUp}, Target: all.Target})
	_ = id
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 IN_PROGRESS")
	w.tell(update(spec(3)))
	w.answers = map[string][]HookAnswered{"slow": {{Status: HookFailed}}}
	waitForRest(w, t, time.Minute)
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 STOPPED, web/3 ROLLBACK_SUCCESSFUL web/1")
	if _, err := w.state.Pause(""); err == nil {
		t.Error("the pause is open")
	}
}

func TestAnUpdateDuringAShift(t *testing.T) {
	t.Parallel()
	m := Method{Strategy: Linear, Step: Increment{400, time.Hour}, Hooks: []Hook{all}}
	w := steady(t, 2, m)
	w.tell(update(spec(2)))
	waitForRest(w, t, time.Minute)
	if got := weights(w.state); got != "1 60 % + 2 40 %" {
		t.Fatalf("the parts are %s", got)
	}
	w.called = nil
	w.tell(update(spec(3)))
	if got := weights(w.state); got != "1 100 %" {
		t.Errorf("the parts are %s", got)
	}
	waitForRest(w, t, 10*time.Hour)
	w.has(t, "web:3=2")
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 STOPPED, web/3 SUCCESSFUL")
	if w.called[0] != "all RECONCILE_SERVICE 0" {
		t.Errorf("the calls were %q", w.called)
	}
}

func TestARollbackInTheBakeTime(t *testing.T) {
	t.Parallel()
	w := steady(t, 2, Method{Strategy: BlueGreen, Bake: time.Hour, Hooks: []Hook{all}})
	w.tell(update(spec(2)))
	waitForRest(w, t, time.Minute)
	w.has(t, "web:1=2 web:2=2")
	w.called = nil
	w.tell(RollbackRequested{})
	if got := weights(w.state); got != "1 100 %" {
		t.Errorf("the parts are %s", got)
	}
	waitForRest(w, t, time.Minute)
	w.has(t, "web:1=2")
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 ROLLBACK_SUCCESSFUL web/1")
	if want := []string{"all PRODUCTION_TRAFFIC_SHIFT 0 back", "all TEST_TRAFFIC_SHIFT 0 back"}; !slices.Equal(w.called, want) {
		t.Errorf("the calls were %q, want %q", w.called, want)
	}
	if r := w.requests[len(w.requests)-1]; r.TestWeights["web/2"] != 0 || r.TestWeights["web/1"] != Whole || r.Green != "web/2" {
		t.Errorf("the last call was about %+v", r)
	}
}

func TestARollbackInCleanUpWaitsForBlue(t *testing.T) {
	t.Parallel()
	w := steady(t, 2, Method{Strategy: BlueGreen})
	protected := protect(w, t, "web:1", w.now.Add(time.Hour))
	w.tell(update(spec(2)))
	waitForRest(w, t, time.Minute)
	w.has(t, "web:1=1 web:2=2")
	if a := w.state.staged(); a.Progress.Stage != CleanUp {
		t.Fatalf("the stage is %s", a.Progress.Stage)
	}
	w.tell(RollbackRequested{})
	if got := weights(w.state); got != "2 100 %" {
		t.Errorf("the parts are %s", got)
	}
	waitForRest(w, t, time.Minute)
	w.has(t, "web:1=2")
	if w.tasks[protected] == nil || w.tasks[protected].Stopped {
		t.Error("the protected copy was replaced")
	}
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 ROLLBACK_SUCCESSFUL web/1")
}

func TestTheFirstDeploymentGoesThroughAllStages(t *testing.T) {
	t.Parallel()
	w := newWorld(1, with(Method{Strategy: Linear, Step: LinearStep, Hooks: []Hook{all}}), spec(1))
	waitForRest(w, t, time.Minute) // there is nothing to shift from, so there is one step
	wantTale(t, w, "web/1 SUCCESSFUL")
	if len(w.called) != len(hookStages)-1 {
		t.Errorf("the calls were %q", w.called)
	}
	if r := w.requests[5]; len(r.ProductionWeights) != 1 || r.ProductionWeights["web/1"] != Whole {
		t.Errorf("%+v", r)
	}
}

func TestTheFirstDeploymentHasNoWayBack(t *testing.T) {
	t.Parallel()
	w := newWorld(1, with(Method{Strategy: BlueGreen, Hooks: []Hook{all}}), spec(1))
	w.answers = map[string][]HookAnswered{"all": {{Status: HookFailed}}}
	waitForRest(w, t, time.Hour)
	wantTale(t, w, "web/1 ROLLBACK_FAILED")
	w.has(t, "")
	if w.state.Primary().Rollout != Failed {
		t.Errorf("%+v", w.state.Primary())
	}
	w.answers = nil
	w.tell(update(spec(2)))
	waitForRest(w, t, time.Hour)
	w.has(t, "web:2=1")
}

func TestTheBreakerRollsBackAGreenThatFails(t *testing.T) {
	t.Parallel()
	m := Method{Strategy: BlueGreen}
	c := with(m)
	c.Breaker.Threshold = Threshold{ThresholdCount, 1}
	w := newWorld(2, c, spec(1))
	waitForRest(w, t, time.Minute)
	blue := slices.Sorted(maps.Keys(w.tasks))
	w.bad["web:2"] = Observation{Stopped: true, Reason: "exit 1"}
	w.tell(update(spec(2)))
	waitForRest(w, t, time.Hour)
	w.has(t, "web:1=2")
	for _, id := range blue {
		if w.tasks[id] == nil || w.tasks[id].Stopped {
			t.Error("a copy of blue has stopped")
		}
	}
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 ROLLBACK_SUCCESSFUL web/1")
	if a := w.state.History[1]; !a.Breaker.Tripped || a.Breaker.Threshold != 1 || a.Return.Stage != ScaleUp {
		t.Errorf("%+v", a)
	}
}

func TestACopyOfBlueIsReplacedByOneOfBlue(t *testing.T) {
	t.Parallel()
	w, id := pauseAt(t, PostProduction, Method{Strategy: BlueGreen})
	for _, task := range w.state.Tasks {
		if w.tasks[task.ID].definition == "web:1" {
			w.tasks[task.ID].Observation = Observation{Stopped: true, Reason: "exit 3"}
			w.look(task.ID)
			break
		}
	}
	waitForRest(w, t, time.Minute)
	w.has(t, "web:1=2 web:2=2")
	w.tell(scale(3))
	waitForRest(w, t, time.Minute)
	w.has(t, "web:1=3 web:2=3")
	w.tell(scale(1))
	waitForRest(w, t, time.Minute)
	w.has(t, "web:1=1 web:2=1")
	w.tell(ContinueRequested{ID: id})
	waitForRest(w, t, time.Minute)
	w.has(t, "web:2=1")
}

func TestBlueGetsTheConnectionsOfAGreenThatDies(t *testing.T) {
	t.Parallel()
	w, _ := pauseAt(t, PostProduction, Method{Strategy: BlueGreen})
	for _, task := range w.state.Tasks {
		if c := w.tasks[task.ID]; c.definition == "web:2" {
			c.Observation = Observation{Stopped: true, Reason: "exit 3"}
			w.look(task.ID)
		}
	}
	if got := weights(w.state); got != "1 100 %" {
		t.Errorf("the parts are %q", got)
	}
}

func TestWithoutRoomAStageIsGivenUpAfterADay(t *testing.T) {
	t.Parallel()
	w := steady(t, 2, Method{Strategy: BlueGreen})
	w.refuses = "no memory"
	w.tell(update(spec(2)))
	waitForRest(w, t, 10*time.Minute)
	w.now = w.now.Add(23 * time.Hour)
	w.tell(TimerFired{})
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 IN_PROGRESS")
	w.mustSay(t, "was unable to place a task because no memory")
	if !explains(w, WhyPlacement) || !explains(w, WhyStage) {
		t.Errorf("%+v", w.state.Explain(w.now))
	}
	w.now = w.now.Add(time.Hour)
	w.tell(TimerFired{})
	waitForRest(w, t, time.Minute)
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 ROLLBACK_SUCCESSFUL web/1")
	w.mustSay(t, "the stage SCALE_UP was not done after 24h0m0s")
	w.has(t, "web:1=2")
}

func TestStoppedInTheMiddleOfAShiftItStandsStill(t *testing.T) {
	t.Parallel()
	w := steady(t, 2, Method{Strategy: Canary, Step: Increment{100, time.Hour}})
	w.tell(update(spec(2)))
	waitForRest(w, t, time.Minute)
	w.tell(AbortRequested{})
	waitForRest(w, t, 10*time.Hour)
	w.has(t, "web:1=2 web:2=2")
	if got := weights(w.state); got != "1 90 % + 2 10 %" {
		t.Errorf("the parts are %q", got)
	}
	w.tell(RollbackRequested{})
	if got := weights(w.state); got != "1 100 %" {
		t.Errorf("the parts are %q", got)
	}
	waitForRest(w, t, time.Hour)
	w.has(t, "web:1=2")
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 STOPPED, web/1 SUCCESSFUL")
}

func TestARollbackOfARollback(t *testing.T) {
	t.Parallel()
	w := steady(t, 2, Method{Strategy: BlueGreen, Bake: time.Hour})
	w.tell(update(spec(2)))
	waitForRest(w, t, time.Minute)
	w.tell(AbortRequested{})
	w.tell(RollbackRequested{}) // to the first
	if got := weights(w.state); got != "1 100 %" {
		t.Errorf("the parts are %q", got)
	}
	waitForRest(w, t, time.Minute)
	w.has(t, "web:1=2")

	w = steady(t, 2, Method{Strategy: BlueGreen})
	protect(w, t, "web:1", w.now.Add(time.Hour))
	w.tell(update(spec(2)))
	waitForRest(w, t, time.Minute) // in CLEAN_UP: the second is good too
	w.tell(RollbackRequested{})
	w.tell(RollbackRequested{}) // back to the second
	if got := weights(w.state); got != "2 100 %" {
		t.Errorf("the parts are %q", got)
	}
	waitForRest(w, t, 2*time.Hour)
	w.has(t, "web:2=2")
}

func TestAlarms(t *testing.T) {
	t.Parallel()
	m := Method{Strategy: BlueGreen, Bake: time.Hour, Alarms: Alarms{Enable: true, Rollback: true, Alarms: []Alarm{{Name: "errors"}}}}
	w := steady(t, 1, m)
	w.tell(update(spec(2)))
	waitForRest(w, t, 10*time.Minute)
	w.raised = []string{"errors"}
	waitForRest(w, t, time.Minute)
	w.has(t, "web:1=1")
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 ROLLBACK_SUCCESSFUL web/1")
	w.tell(update(spec(3))) // raised at its beginning, so it is not watched
	waitForRest(w, t, 2*time.Hour)
	w.has(t, "web:3=1")
	w.mustSay(t, "does not watch its alarms, because errors was raised when it began")
}

func TestRollingWithHooksAndBakeTime(t *testing.T) {
	t.Parallel()
	w := newWorld(2, with(Method{Hooks: []Hook{all}, Bake: time.Hour}), spec(1))
	waitForRest(w, t, 2*time.Hour)
	w.called = nil
	w.tell(update(spec(2)))
	waitForRest(w, t, 30*time.Minute)
	w.has(t, "web:2=2")
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 IN_PROGRESS")
	if want := []string{"all PRE_SCALE_UP 0", "all POST_SCALE_UP 0"}; !slices.Equal(w.called, want) {
		t.Errorf("the calls were %q, want %q", w.called, want)
	}
	waitForRest(w, t, time.Hour)
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 SUCCESSFUL")
	w.answers = map[string][]HookAnswered{"all": {{Status: HookFailed}}}
	w.tell(update(spec(3)))
	waitForRest(w, t, time.Hour)
	w.has(t, "web:2=2")
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 SUCCESSFUL, web/3 ROLLBACK_SUCCESSFUL web/2")
}

func TestEarlySuccess(t *testing.T) {
	t.Parallel()
	for _, deferred := range []bool{true, false} {
		c := careful
		c.Bounds = &Bounds{MinimumHealthyPercent: 50, MaximumPercent: 150}
		c.Method = Method{Early: EarlySuccess{Enable: true, HealthyPercent: 50, Deferred: deferred}}
		w := newWorld(4, c, spec(1))
		waitForRest(w, t, time.Minute)
		protect(w, t, "web:1", w.now.Add(time.Hour))
		w.tell(update(spec(2)))
		waitForRest(w, t, time.Minute)
		want := "web/1 SUCCESSFUL, web/2 IN_PROGRESS"
		if deferred {
			want = "web/1 SUCCESSFUL, web/2 SUCCESSFUL"
		}
		wantTale(t, w, want)
		w.has(t, "web:1=1 web:2=4")
		waitForRest(w, t, 2*time.Hour)
		w.has(t, "web:2=4")
		wantTale(t, w, "web/1 SUCCESSFUL, web/2 SUCCESSFUL")
	}
}

func TestARollbackWins(t *testing.T) {
	t.Parallel()
	w := newWorld(3, careful, spec(1))
	waitForRest(w, t, time.Minute)
	w.tell(update(spec(2)))
	waitForRest(w, t, time.Minute)
	w.tell(RollbackRequested{})
	w.bad["web:3"] = Observation{Stopped: true, Reason: "exit 1"}
	w.tell(update(spec(3))) // before the way back has ended
	waitForRest(w, t, time.Hour)
	w.has(t, "web:1=3")
}

func TestTimersFollowTheClock(t *testing.T) {
	t.Parallel()
	w := steady(t, 1, Method{Strategy: BlueGreen, Bake: time.Hour})
	w.tell(update(spec(2)))
	waitForRest(w, t, time.Minute)
	w.now = w.now.Add(30 * time.Minute)
	jump := -1000 * time.Hour
	w.now = w.now.Add(jump)
	w.tell(ClockChanged{By: jump})
	waitForRest(w, t, 20*time.Minute)
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 IN_PROGRESS")
	waitForRest(w, t, 40*time.Minute)
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 SUCCESSFUL")
}

// hookCourse holds the answers of the hooks of a deployment from a stage on; without a stage from the beginning.
type hookCourse struct {
	at      Stage
	answers []HookAnswered
}

// A kill in each stage, in its bake times, in hooks that run, fail, are in progress or time out, and on the way back, with any
// of what was asked for done or not, ends as without the kill. So do two kills.
func TestAKillInEachStage(t *testing.T) {
	t.Parallel()
	slow := all
	slow.Timeout = 90 * time.Second
	goesOn := slow
	goesOn.OnTimeout = TimeoutContinue
	failed, later := []HookAnswered{{Status: HookFailed}}, []HookAnswered{{Status: HookInProgress, CallBackDelay: time.Minute}}
	courses := []hookCourse{{}, {PostTestShift, failed}, {Production, failed}, {PostProduction, failed}, {"", append(slices.Clone(later), HookAnswered{Status: HookSucceeded})}, {PreProduction, later}}
	for _, m := range []Method{
		{Strategy: BlueGreen, Bake: time.Minute, Hooks: []Hook{slow}},
		{Strategy: BlueGreen, Bake: time.Minute, Hooks: []Hook{goesOn}},
		{Strategy: Linear, Step: Increment{400, time.Minute}, Hooks: []Hook{slow}},
		{Strategy: Canary, Step: Increment{200, time.Minute}, Bake: time.Minute, Hooks: []Hook{slow}},
		{Hooks: []Hook{slow}, Bake: time.Minute},
		{Early: EarlySuccess{Enable: true, HealthyPercent: 50}},
		{Early: EarlySuccess{Enable: true, HealthyPercent: 50, Deferred: true}},
	} {
		for _, c := range courses {
			if len(m.Hooks) == 0 && len(c.answers) > 0 {
				continue
			}
			whole, steps := killed(t, m, c, -1, 0)
			for n := range steps {
				again := 0
				if n%5 == 4 {
					again = 3
				}
				if got, _ := killed(t, m, c, n, again); got != whole {
					t.Fatalf("%+v, %+v: after a kill at step %d, and again %d steps later, it ended with %s, without with %s", m, c, n, again, got, whole)
				}
			}
		}
	}
}

// killed updates a service whose process is killed after n steps, and once more after some steps, 0 for not; it returns how
// that ends.
func killed(t *testing.T, m Method, c hookCourse, n, again int) (end string, steps int) {
	t.Helper()
	w := steady(t, 2, m)
	w.tell(update(spec(2)))
	if c.at == "" && len(c.answers) > 0 {
		w.answers = map[string][]HookAnswered{"all": slices.Clone(c.answers)}
	}
	for ; steps < 100000; steps++ {
		if steps == n || again > 0 && steps == n+again {
			w.crash(func(Effect) bool { return steps%2 == 0 })
		}
		if a := w.state.staged(); a != nil && c.at == a.Progress.Stage && c.at != "" && !a.Progress.Back {
			w.answers = map[string][]HookAnswered{"all": slices.Clone(c.answers)}
		}
		switch {
		case len(w.asked) > 0:
			w.do(0)
		case w.advanceAny():
		default:
			wake := w.state.Wake(w.now)
			if wake.IsZero() || wake.After(noon.Add(48*time.Hour)) {
				end = fmt.Sprint(tale(w), w.running(), weights(w.state))
				if p := w.state.History[1].Progress; p != nil {
					end += string(p.Stage)
				}
				return end, steps
			}
			w.now = wake
			w.tell(TimerFired{})
		}
	}
	t.Fatal("it never comes to rest")
	return "", 0
}

func TestAnAnswerThatComesTooLateChangesNothing(t *testing.T) {
	t.Parallel()
	w, _ := pauseAt(t, PreScaleUp, Method{Strategy: BlueGreen}, Hook{Name: "slow", Stages: []Stage{PostScaleUp}, Target: all.Target})
	first, _ := w.state.Pause("")
	w.tell(ContinueRequested{ID: first})
	for len(w.called) == 0 && len(w.asked) > 0 || w.advanceAny() {
		if i := slices.IndexFunc(w.asked, func(e Effect) bool { _, hook := e.(CallHook); return hook }); i >= 0 {
			break
		}
		if len(w.asked) > 0 {
			w.do(0)
		}
	}
	w.now = w.now.Add(10 * time.Second)
	w.tell(TimerFired{})
	i := slices.IndexFunc(w.asked, func(e Effect) bool { _, hook := e.(CallHook); return hook })
	if i < 0 {
		t.Fatalf("no hook is called: %+v", w.asked)
	}
	call := w.asked[i].(CallHook)
	w.crash(func(Effect) bool { return false }) // it is called again, with another number
	w.tell(HookAnswered{ID: call.ID, Number: call.Number, Status: HookFailed})
	waitForRest(w, t, time.Minute)
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 SUCCESSFUL")
}

func TestAPauseIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	other := Hook{Name: "other", Stages: []Stage{PostScaleUp}, Target: HookTarget{Kind: HookPause}}
	w := steady(t, 1, Method{Strategy: BlueGreen})
	ok := other
	ok.Name = "ok"
	w.tell(configure(Method{Strategy: BlueGreen, Hooks: []Hook{ok, other}}))
	w.tell(update(spec(2)))
	waitForRest(w, t, time.Minute)
	if _, err := w.state.Pause(""); err == nil {
		t.Error("one of two pauses was chosen")
	}
	first, _ := w.state.Pause("ok")
	second, _ := w.state.Pause("other")
	w.tell(ContinueRequested{ID: first})
	w.tell(ContinueRequested{ID: first, Rollback: true})
	w.tell(ContinueRequested{ID: second})
	waitForRest(w, t, time.Minute)
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 SUCCESSFUL")
}

func TestMethodsThatCannotBe(t *testing.T) {
	t.Parallel()
	pause := HookTarget{Kind: HookPause}
	hook := func(h Hook) Method { return Method{Strategy: BlueGreen, Hooks: []Hook{h}} }
	many := Method{Strategy: BlueGreen}
	for i := range 11 {
		many.Hooks = append(many.Hooks, Hook{Name: fmt.Sprint("p", i), Stages: []Stage{PreScaleUp}, Target: pause})
	}
	for want, m := range map[string]Method{
		"the strategy is":              {Strategy: "RED_BLACK"},
		"BLUE_GREEN has no steps":      {Strategy: BlueGreen, Step: LinearStep},
		"ROLLING has no steps":         {Step: LinearStep},
		"LINEAR is 3 to 100":           {Strategy: Linear, Step: Increment{Part: 29}},
		"CANARY is 0.1 to 100":         {Strategy: Canary, Step: Increment{Part: 1001}},
		"bake time of a step":          {Strategy: Canary, Step: Increment{Part: 1, Bake: 25 * time.Hour}},
		"the bake time is up to":       {Strategy: BlueGreen, Bake: 25 * time.Hour},
		"it has no stage":              hook(Hook{Name: "a", Target: pause}),
		"not a stage with hooks":       hook(Hook{Name: "a", Stages: []Stage{Bake}, Target: pause}),
		"a pause is not possible":      hook(Hook{Name: "a", Stages: []Stage{Production}, Target: pause}),
		"is there twice":               hook(Hook{Name: "a", Stages: []Stage{PreScaleUp, PreScaleUp}, Target: pause}),
		"neither a target nor a role":  hook(Hook{Name: "a", Stages: []Stage{PreScaleUp}, Target: pause, Role: "r"}),
		"the target is missing":        hook(Hook{Name: "a", Stages: []Stage{PreScaleUp}, Target: HookTarget{Kind: HookLambda}}),
		"not an http or https URL":     hook(Hook{Name: "a", Stages: []Stage{PreScaleUp}, Target: HookTarget{Kind: HookURL, Value: "ftp://a"}}),
		"an absolute path":             hook(Hook{Name: "a", Stages: []Stage{PreScaleUp}, Target: HookTarget{Kind: HookCommand, Command: []string{"check"}}}),
		"the kind of the target":       hook(Hook{Name: "a", Stages: []Stage{PreScaleUp}}),
		"the timeout is up to 24h":     hook(Hook{Name: "a", Stages: []Stage{PreScaleUp}, Target: all.Target, Timeout: 25 * time.Hour}),
		"the timeout is up to 336h":    hook(Hook{Name: "a", Stages: []Stage{PreScaleUp}, Target: pause, Timeout: 15 * 24 * time.Hour}),
		"the action after":             hook(Hook{Name: "a", Stages: []Stage{PreScaleUp}, Target: pause, OnTimeout: "WAIT"}),
		"the details are":              hook(Hook{Name: "a", Stages: []Stage{PreScaleUp}, Target: pause, Details: []byte("{")}),
		"the name of the hook":         hook(Hook{Name: "a b", Stages: []Stage{PreScaleUp}, Target: pause}),
		"at most 10":                   many,
		"early success is for":         {Strategy: BlueGreen, Early: EarlySuccess{Enable: true, HealthyPercent: 100}},
		"the healthy percent of early": {Early: EarlySuccess{Enable: true, HealthyPercent: 101}},
		"at least the minimum healthy": {Early: EarlySuccess{Enable: true, HealthyPercent: 50}},
		"alarms are enabled, and none": {Alarms: Alarms{Enable: true}},
		"has no name, or the one of":   {Alarms: Alarms{Enable: true, Alarms: []Alarm{{Name: "a"}, {Name: "a"}}}},
		"there are two hooks":          {Hooks: []Hook{{Name: "a", Stages: []Stage{PreScaleUp}, Target: pause}, {Name: "a", Stages: []Stage{PreScaleUp}, Target: pause}}},
	} {
		if err := Validate("web", spec(1), 2, Config{Method: m}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", m, err, want)
		}
	}
	for want, threshold := range map[string]Threshold{"needs a type": {Value: 1}, "at least 1": {Type: ThresholdCount}, "1 to 100": {Type: BoundedPercent, Value: 101}, "not \"HALF\"": {Type: "HALF", Value: 1}} {
		if err := Validate("web", spec(1), 2, Config{Breaker: Breaker{Threshold: threshold}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", threshold, err, want)
		}
	}
	if err := Validate("web", spec(1, 80), 1, Config{Method: Method{Strategy: Canary, Step: CanaryStep}}); err == nil || !strings.Contains(err.Error(), "side by side") {
		t.Errorf("with a fixed port: %v", err)
	}
	both := with(Method{Strategy: BlueGreen})
	both.TestListeners = both.Listeners
	if err := Validate("web", spec(1), 1, both); err == nil || !strings.Contains(err.Error(), "two listeners") {
		t.Errorf("one address for both: %v", err)
	}
}

func TestThresholds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		Threshold
		count, want int
	}{
		{Threshold{}, 1, 3}, {Threshold{}, 25, 13}, {Threshold{}, 400, 200}, {Threshold{}, 800, 200},
		{Threshold{UnboundedPercent, 50}, 800, 400}, {Threshold{UnboundedPercent, 50}, 0, 1}, {Threshold{UnboundedPercent, 1}, 1, 1},
		{Threshold{ThresholdCount, 7}, 1, 7}, {Threshold{BoundedPercent, 10}, 100, 10}, {Threshold{BoundedPercent, 100}, 2, 3},
	} {
		if got := tt.of(tt.count); got != tt.want {
			t.Errorf("%+v of %d is %d, want %d", tt.Threshold, tt.count, got, tt.want)
		}
	}
}

func TestCheckNoticesProgressThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Progress){
		"an odd stage":    func(p *Progress) { p.Stage = "ODD" },
		"an odd weight":   func(p *Progress) { p.Weight = 1001 },
		"no green":        func(p *Progress) { p.Green = "web/9" },
		"a hook of none":  func(p *Progress) { p.Calls[0].Hook = "other" },
		"a stage of none": func(p *Progress) { p.Back, p.Stage = true, PreScaleUp },
	} {
		w, _ := pauseAt(t, PostScaleUp, Method{Strategy: BlueGreen})
		s := w.state.clone()
		if err := Check(s); err != nil {
			t.Fatal(err)
		}
		if spoil(s.History[1].Progress); Check(s) == nil {
			t.Errorf("%s is not noticed", name)
		}
	}
}

// In an incident all connections move back as soon as the copies are healthy; the strategy's steps, waits and hooks are
// for those who ask for them.
func TestARollbackOfACompletedDeploymentIsAtOnce(t *testing.T) {
	t.Parallel()
	hook := Hook{Name: "ask", Stages: []Stage{PostScaleUp}, Target: HookTarget{Kind: HookCommand, Command: []string{"true"}}}
	for name, m := range map[string]Method{
		"canary":     {Strategy: Canary, Step: CanaryStep, Bake: time.Hour, Hooks: []Hook{hook}},
		"linear":     {Strategy: Linear, Step: LinearStep, Bake: time.Hour},
		"blue/green": {Strategy: BlueGreen, Bake: time.Hour, Alarms: Alarms{Enable: true, Rollback: true, Alarms: []Alarm{{Name: "errors"}}}},
		"rolling":    {Strategy: Rolling, Bake: time.Hour},
	} {
		for _, gradual := range []bool{false, true} {
			w := steady(t, 2, m)
			w.passes = true
			w.tell(update(spec(2)))
			waitForRest(w, t, 48*time.Hour)
			w.has(t, "web:2=2")
			w.tell(RollbackRequested{Gradual: gradual})
			waitForRest(w, t, 48*time.Hour)
			w.has(t, "web:1=2")
			times := w.state.History[len(w.state.History)-1].Times
			if took := times.EndedAt.Sub(times.CreatedAt); took < time.Minute == gradual {
				t.Errorf("%s, gradual %t: the rollback took %s:\n%s", name, gradual, took, w.said())
			}
			if w.state.Config.Method.Strategy != m.Strategy {
				t.Errorf("%s: the service's strategy became %s", name, w.state.Config.Method.Strategy)
			}
		}
	}
}
