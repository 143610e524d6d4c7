package service

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/podtask/podtask/pkg/taskdef"
)

// checkRest checks that a service that sleeps starts nothing but a copy to try a deployment with, and that one which wakes
// starts one copy before the others.
func checkRest(w *world, before State) {
	now := w.state
	for _, t := range now.Tasks {
		if old := before.task(t.ID); old != nil && old.Phase == Stopping && t.Phase == Live {
			delete(w.drained, t.ID)
			if (old.op == busy || old.op == done) && !t.spared(w.now) {
				broken("task %d was told to stop, and is not to stop any more", t.Number)
			}
		}
	}
	if !now.Rest.Asleep && !now.Rest.Waking || now.Status != Active {
		return
	}
	if a := now.staged(); a != nil && !a.rolls() {
		return // two sets of copies
	}
	made, kept := len(now.Tasks) > len(before.Tasks) && now.LastTask > before.LastTask, 0
	for _, t := range now.Tasks {
		if t.kept() && t.Deployment == now.Primary().ID {
			kept++
		}
	}
	if made && kept > 1 {
		broken("%d copies were started of a service that sleeps or wakes", kept)
	}
	if made && now.Rest.Asleep && now.Primary().Rollout != InProgress {
		broken("a copy was started of a service that sleeps")
	}
}

// checkSleeps checks that a service at rest falls asleep once it is without use, only if it is to sleep, and wakes again.
func checkSleeps(w *world, t *rapid.T) {
	count := w.state.DesiredCount
	w.use = Used{IdleSince: w.now}
	w.tell(w.use)
	if err := calm(w, 6*time.Hour); err != nil {
		t.Fatal(err)
	}
	if sleeps := w.state.Config.Sleep != nil && count > 0; w.state.Rest.Asleep != sleeps || sleeps && w.count() > 0 || !sleeps && w.count() != count {
		t.Fatalf("%d of %d copies without use; %+v; it said:\n%s", w.count(), count, w.state.Rest, w.said())
	}
	w.use = Used{Busy: true, Waiting: true}
	w.crash(func(Effect) bool { return true })
	if err := calm(w, time.Hour); err != nil || w.count() != count || !w.state.Steady {
		t.Fatalf("%v: %d copies, want %d; it said:\n%s", err, w.count(), count, w.said())
	}
}

var drowsy = Config{
	Breaker: careful.Breaker, Listeners: []Listener{{Address: "127.0.0.1:8080", Container: "app", Port: 8000}},
	Sleep: &Sleep{After: 15 * time.Minute},
}

func (w *world) told(u Used) {
	w.use = u
	w.tell(u)
}

// asleep returns a world with a service of some copies that sleeps.
func asleep(t *testing.T, count int, c Config) *world {
	t.Helper()
	w := newWorld(count, c, spec(1))
	waitForRest(w, t, time.Minute)
	w.told(Used{IdleSince: w.now})
	waitForRest(w, t, time.Hour)
	if w.count() != 0 || !w.state.Rest.Asleep || !w.state.Steady {
		t.Fatalf("it does not sleep: %+v\n%s", w.state.Rest, w.said())
	}
	return w
}

func TestAServiceWithoutUseSleepsAndWakesWithOneCopyFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(3, drowsy, spec(1))
	waitForRest(w, t, time.Minute)
	since := w.now
	w.told(Used{Busy: true})
	w.now = since.Add(time.Hour)
	w.tell(TimerFired{})
	w.has(t, "web:1=3")
	w.told(Used{IdleSince: w.now})
	if wake := w.state.Wake(w.now); !wake.Equal(w.now.Add(15 * time.Minute)) {
		t.Fatalf("it wakes at %s", wake)
	}
	w.now = w.now.Add(15*time.Minute - time.Second)
	w.tell(TimerFired{})
	if w.state.Rest.Asleep {
		t.Fatal("it sleeps too early")
	}
	waitForRest(w, t, time.Hour)
	w.has(t, "")
	w.mustSay(t, "falls asleep: it had no connection for 15m. The next one wakes it.")
	if r := w.state.Explain(w.now); r[0].Code != WhyAsleep || w.state.DesiredCount != 3 {
		t.Errorf("%+v", r)
	}
	made := w.state.LastTask
	for range 200 { // connections
		w.told(Used{Busy: true, Waiting: true})
	}
	if n := w.state.LastTask - made; n != 1 || !w.state.Rest.Waking || w.state.Explain(w.now)[0].Code != WhyWaking {
		t.Fatalf("%d copies were started, %+v", n, w.state.Rest)
	}
	waitForRest(w, t, time.Minute)
	w.has(t, "web:1=3")
	if w.state.Rest.Waking || w.state.Rest.Wakes != 1 {
		t.Errorf("%+v", w.state.Rest)
	}
}

// Nobody uses a new service, and it takes longer to become healthy than to sleep.
func TestANewServiceSleeps(t *testing.T) {
	t.Parallel()
	c := drowsy
	c.Sleep = &Sleep{After: time.Second}
	w := newWorld(1, c, spec(1))
	w.told(Used{IdleSince: w.now})
	waitForRest(w, t, time.Minute)
	if !w.state.Rest.Asleep || w.count() != 0 {
		t.Errorf("%+v, %d copies; it said:\n%s", w.state.Rest, w.count(), w.said())
	}
}

func TestADeploymentOfASleepingServiceIsTriedWithOneCopy(t *testing.T) {
	t.Parallel()
	w := asleep(t, 3, drowsy)
	w.tell(update(spec(2)))
	if n := w.state.Count("").Present; n != 1 {
		t.Fatalf("%d copies to try it with", n)
	}
	waitForRest(w, t, time.Minute)
	w.has(t, "")
	if p := w.state.Primary(); p.TaskDefinition != "web:2" || p.Rollout != Completed || !w.state.Rest.Asleep || w.state.Rest.Wakes != 0 {
		t.Errorf("%+v, %+v", p, w.state.Rest)
	}
	w.bad["web:3"] = Observation{Stopped: true, Reason: "exit 1"}
	w.tell(update(spec(3)))
	waitForRest(w, t, time.Hour)
	if p := w.state.Primary(); p.TaskDefinition != "web:2" || w.state.Rollbacks != 1 || w.count() != 0 || !w.state.Rest.Asleep {
		t.Errorf("%+v, %d copies", p, w.count())
	}
}

func TestAConnectionDuringATrialWakes(t *testing.T) {
	t.Parallel()
	w := asleep(t, 2, drowsy)
	w.tell(update(spec(2)))
	w.told(Used{Busy: true, Waiting: true})
	waitForRest(w, t, time.Minute)
	w.has(t, "web:2=2")
}

// A connection that comes while the copies finish theirs keeps them; one that comes later starts another.
func TestAWakeKeepsACopyThatWasNotToldToStop(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		killed bool
		steps  int // effects that are done before the connection
		starts int
	}{
		{"while it drains", false, 0, 0},
		{"while it drains, and the agent is killed", true, 0, 0},
		{"when it was told to stop", false, 2, 1},
		{"when it is drained, and the agent is killed", true, 1, 1},
	} {
		w := newWorld(1, drowsy, spec(1))
		waitForRest(w, t, time.Minute)
		w.told(Used{IdleSince: w.now})
		w.now = w.now.Add(15 * time.Minute)
		w.tell(TimerFired{})
		if !w.state.Rest.Asleep || len(w.asked) != 1 {
			t.Fatalf("%s: %+v, %v", tt.name, w.state.Rest, w.asked)
		}
		for range tt.steps {
			w.do(0)
		}
		made := w.state.LastTask
		w.use = Used{Busy: true}
		if tt.killed {
			w.crash(func(Effect) bool { return false })
		}
		w.told(w.use)
		waitForRest(w, t, time.Minute)
		if n := w.state.LastTask - made; n != tt.starts {
			t.Errorf("%s: %d copies were started, want %d\n%s", tt.name, n, tt.starts, w.said())
		}
		w.has(t, "web:1=1")
	}
}

func TestWhatIsUnderWayKeepsAServiceAwake(t *testing.T) {
	t.Parallel()
	w := newWorld(1, drowsy, spec(1))
	waitForRest(w, t, time.Minute)
	id := w.state.Tasks[0].ID
	w.tasks[id].Protected = w.now.Add(time.Hour)
	w.look(id)
	w.told(Used{IdleSince: w.now})
	w.now = w.now.Add(30 * time.Minute)
	w.tell(TimerFired{})
	if w.state.Rest.Asleep {
		t.Error("it sleeps with a copy that is protected")
	}
	waitForRest(w, t, 2*time.Hour)
	if !w.state.Rest.Asleep {
		t.Error("it does not sleep when the protection has ended")
	}
}

func TestAServiceThatIsNotToSleepAnyMoreWakes(t *testing.T) {
	t.Parallel()
	w := asleep(t, 2, drowsy)
	c := w.state.Config
	c.Sleep = &Sleep{}
	w.tell(Updated{Config: &c})
	waitForRest(w, t, time.Minute)
	w.has(t, "web:1=2")
	w = asleep(t, 2, drowsy)
	w.tell(scale(0))
	waitForRest(w, t, time.Minute)
	if w.state.Rest.Asleep || w.state.Explain(w.now)[0].Code != WhySteady {
		t.Errorf("%+v", w.state.Explain(w.now))
	}
}

// An agent that starts knows nothing of connections. It does not take that for none.
func TestAnAgentThatStartsWaitsForFacts(t *testing.T) {
	t.Parallel()
	w := newWorld(1, drowsy, spec(1))
	waitForRest(w, t, time.Minute)
	w.told(Used{IdleSince: w.now})
	data, err := json.Marshal(w.state)
	if err != nil {
		t.Fatal(err)
	}
	var s State
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	if s, _ = Step(s, w.now.Add(time.Hour), TimerFired{}); s.Rest.Asleep {
		t.Error("it sleeps")
	}
}

func TestTheClockOfASleeper(t *testing.T) {
	t.Parallel()
	w := newWorld(1, drowsy, spec(1))
	waitForRest(w, t, time.Minute)
	w.told(Used{IdleSince: w.now})
	w.now = w.now.Add(24 * time.Hour)
	w.tell(ClockChanged{By: 24 * time.Hour})
	if w.state.Rest.Asleep {
		t.Error("it sleeps because the clock was set")
	}
	waitForRest(w, t, time.Hour)
	if !w.state.Rest.Asleep {
		t.Error("it never sleeps after the clock was set")
	}
}

// A clock that was set back while no agent ran keeps no service awake until it is as late again.
func TestASleeperOfTheFuture(t *testing.T) {
	t.Parallel()
	at := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	s := State{Rest: Rest{Since: at.Add(20 * 365 * 24 * time.Hour), Wakes: 1}}
	if s.mendClock(at); !s.Rest.Since.Equal(at) {
		t.Errorf("it was woken at %s", s.Rest.Since)
	}
}

func TestSleepIsChecked(t *testing.T) {
	t.Parallel()
	s := spec(1)
	s.Task.Extensions.SleepAfter = time.Hour
	for _, tt := range []struct {
		config Config
		want   string
	}{
		{Config{}, "add a listener, a name or a public address"},
		{Config{Sleep: &Sleep{}}, ""},
		{Config{Listeners: drowsy.Listeners}, ""},
		{Config{Names: Names{Namespace: "default", Offered: []Name{{Name: "web", Port: 80, Container: "app", ContainerPort: 8000}}}}, ""},
		{Config{Ingress: &[]taskdef.Ingress{{URL: "https://a.example.com", Container: "app", Port: 8000}}}, ""},
		{Config{Ingress: &[]taskdef.Ingress{}}, "add a listener"},
		{Config{Listeners: drowsy.Listeners, Sleep: &Sleep{After: time.Millisecond}}, "sleeps after 1s to 720h"},
		{Config{Listeners: drowsy.Listeners, Sleep: &Sleep{After: time.Hour, Hold: 2 * time.Hour}}, "is held for 1s to 1h"},
	} {
		err := Validate("web", s, 1, tt.config)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%+v: %v", tt.config, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%+v: %v, want %q", tt.config, err, tt.want)
		}
	}
	if slept := (State{Config: Config{}, Deployments: []Deployment{{Spec: s}}}).Sleep(); slept != (Sleep{After: time.Hour}) || slept.Held() != DefaultHold {
		t.Errorf("%+v", slept)
	}
}

// A service that is woken by hand stays awake as long as after a connection, and falls asleep again.
func TestWakeByHand(t *testing.T) {
	t.Parallel()
	w := asleep(t, 3, Config{Sleep: &Sleep{After: 15 * time.Minute}})
	w.tell(WakeRequested{By: "podtask service wake"})
	if err := calm(w, 10*time.Minute); err != nil || w.count() != 3 || w.state.Rest.Wakes != 1 {
		t.Fatalf("%v: %d copies, %+v", err, w.count(), w.state.Rest)
	}
	w.mustSay(t, "wakes: podtask service wake asks for it.")
	w.tell(WakeRequested{By: "podtask service wake"})
	if w.state.Rest.Wakes != 1 {
		t.Error("it was woken while it is awake")
	}
	if err := calm(w, time.Hour); err != nil || !w.state.Rest.Asleep {
		t.Errorf("%v: it does not fall asleep again: %+v", err, w.state.Rest)
	}
}
