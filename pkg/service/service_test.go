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

func waitForRest(w *world, t *testing.T, limit time.Duration) {
	t.Helper()
	if err := calm(w, limit); err != nil {
		t.Fatal(err)
	}
}

// has fails unless exactly these copies run, as in "web:1=3".
func (w *world) has(t *testing.T, want string) {
	t.Helper()
	var got []string
	running := w.running()
	for _, name := range slices.Sorted(maps.Keys(running)) {
		got = append(got, fmt.Sprintf("%s=%d", name, running[name]))
	}
	if text := strings.Join(got, " "); text != want {
		t.Errorf("%q run, want %q; it said:\n%s", text, want, w.said())
	}
}

func (w *world) said() string {
	var lines []string
	for _, e := range w.state.Events {
		lines = append(lines, e.CreatedAt.Format("15:04:05 ")+e.Message)
	}
	return strings.Join(lines, "\n")
}

func (w *world) mustSay(t *testing.T, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(w.said(), p) {
			t.Errorf("%q was not said:\n%s", p, w.said())
		}
	}
}

func update(s Spec) Updated { return Updated{Spec: &s} }
func scale(n int) Updated   { return Updated{DesiredCount: &n} }

func TestAServiceReachesASteadyState(t *testing.T) {
	t.Parallel()
	w := newWorld(3, careful, spec(1))
	waitForRest(w, t, time.Minute)
	w.has(t, "web:1=3")
	w.mustSay(t, "has started 3 tasks: (task web-1) (task web-2) (task web-3).", "(deployment web/1) deployment completed.", "has reached a steady state.")
	if p := w.state.Primary(); !w.state.Steady || p.Rollout != Completed || w.state.Explain(w.now)[0].Code != WhySteady {
		t.Errorf("steady %t, %+v, %+v", w.state.Steady, p, w.state.Explain(w.now))
	}
}

func TestWhatStopsOrGoesIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(3, careful, spec(1))
	waitForRest(w, t, time.Minute)
	ids := slices.Sorted(maps.Keys(w.tasks))
	w.tasks[ids[0]].Observation = Observation{Stopped: true, Reason: "exit 1"}
	w.look(ids[0])
	w.tasks[ids[1]].Observation = Observation{Stopped: true, ByUser: true, Reason: "stopped by podtask stop"}
	w.look(ids[1])
	delete(w.tasks, ids[2])
	w.look(ids[2])
	if n := w.state.Primary().FailedTasks; n != 1 {
		t.Errorf("%d failures, want 1: users' stops are none", n)
	}
	if !slices.ContainsFunc(w.state.Events, func(e Event) bool {
		return strings.HasSuffix(e.Message, "was stopped by podtask stop.") && !strings.Contains(e.Message, "user")
	}) {
		t.Errorf("no event says who stopped a task: %+v", w.state.Events)
	}
	waitForRest(w, t, time.Minute)
	w.has(t, "web:1=3")
	if w.state.LastTask != 6 {
		t.Errorf("%d tasks were made, want 6", w.state.LastTask)
	}
}

func TestAnUnhealthyTaskIsReplacedAfterItsReplacementIsWell(t *testing.T) {
	t.Parallel()
	c := careful
	c.HealthCheckGracePeriod = time.Minute
	w := newWorld(2, c, spec(1))
	waitForRest(w, t, 10*time.Second)
	id := slices.Sorted(maps.Keys(w.tasks))[0]
	w.tasks[id].Observation = Observation{Running: true, Since: noon, Health: Unhealthy}
	w.look(id)
	if w.state.LastTask != 2 {
		t.Fatal("it was replaced within its grace period")
	}
	if wake := w.state.Wake(w.now); !wake.Equal(noon.Add(time.Minute)) {
		t.Fatalf("it wakes at %s", wake)
	}
	w.now = noon.Add(time.Minute)
	w.tell(TimerFired{})
	if w.state.task(id).Phase != Live || w.state.LastTask != 3 {
		t.Errorf("%s, %d tasks", w.state.task(id).Phase, w.state.LastTask)
	}
	waitForRest(w, t, time.Minute)
	w.has(t, "web:1=2")
	w.mustSay(t, "failed container health checks")
	if w.state.task(id).Phase != Stopped {
		t.Errorf("the unhealthy one is %s", w.state.task(id).Phase)
	}
}

// A copy that has ended, which Podman is slow to say, does not count as healthy: no other copy
// is stopped for it. Nor does one that the agent has not seen since it was started.
func TestACopyInDoubtDoesNotBecomeHealthy(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		w := newWorld(1, careful, spec(1))
		waitForRest(w, t, time.Minute)
		w.tell(update(spec(2)))
		w.do(0)
		id := w.state.Tasks[1].ID
		running := Observation{Running: true, Since: w.now}
		w.tell(Seen{ID: id, Observation: running})
		if restarted {
			w.now = w.now.Add(time.Hour)
			w.state = State{}
			if err := json.Unmarshal(w.saved, &w.state); err != nil {
				t.Fatal(err)
			}
		} else {
			running.Unconfirmed = true
			w.tell(Seen{ID: id, Observation: running})
			w.now = w.now.Add(time.Minute)
		}
		w.tell(TimerFired{})
		if n := w.state.Count("").Healthy; n != 1 || w.state.Tasks[0].Phase != Live {
			t.Errorf("restarted: %t: %d healthy copies; the old one is %s", restarted, n, w.state.Tasks[0].Phase)
		}
		running.Unconfirmed = false
		w.tell(Seen{ID: id, Observation: running})
		if w.state.Tasks[0].Phase != Stopping {
			t.Errorf("restarted: %t: the new copy does run, and the old one is %s", restarted, w.state.Tasks[0].Phase)
		}
		// Doubt does not take a healthy copy out of the rotation.
		running.Unconfirmed = true
		if w.tell(Seen{ID: id, Observation: running}); !slices.Contains(w.state.Rotation(), id) {
			t.Errorf("restarted: %t: the copies in rotation are %v", restarted, w.state.Rotation())
		}
	}
}

// A copy that becomes unhealthy once a day is replaced at once each day.
func TestRareFailuresDoNotBackOff(t *testing.T) {
	t.Parallel()
	w := newWorld(1, careful, spec(1))
	for range 5 {
		waitForRest(w, t, time.Minute)
		w.now = w.now.Add(24 * time.Hour)
		id := w.state.Tasks[len(w.state.Tasks)-1].ID
		w.tasks[id].Health = Unhealthy
		if w.look(id); w.state.BackOff.Streak != 1 {
			t.Fatalf("%d failures in a row", w.state.BackOff.Streak)
		}
	}
}

// The sequence of a roll one by one: which copies there were after each change.
func courseOf(w *world, t *testing.T) (course []string) {
	t.Helper()
	for range 1000 {
		r := w.running()
		if now := fmt.Sprintf("%d+%d", r["web:1"], r["web:2"]); len(course) == 0 || course[len(course)-1] != now {
			course = append(course, now)
		}
		switch wake := w.state.Wake(w.now); {
		case len(w.asked) > 0:
			w.do(0)
		case w.advanceAny():
		case wake.IsZero():
			return course
		default:
			w.now = wake
			w.tell(TimerFired{})
		}
	}
	t.Fatal("it never comes to rest")
	return nil
}

func TestRollingKeepsToItsBounds(t *testing.T) {
	t.Parallel()
	bounds := func(least, most int) *Bounds { return &Bounds{MinimumHealthyPercent: least, MaximumPercent: most} }
	for _, tt := range []struct {
		name   string
		count  int
		bounds *Bounds
		port   []uint16
		want   string
	}{
		{"one by one", 3, nil, nil, "3+0 3+1 2+1 2+2 1+2 1+3 0+3"},
		{"one copy", 1, nil, nil, "1+0 1+1 0+1"},
		{"a fixed port", 1, nil, []uint16{80}, "1+0 0+0 0+1"},
		{"as ECS does by default", 2, bounds(100, 200), nil, "2+0 2+1 2+2 1+2 0+2"},
		{"without room for more", 2, bounds(50, 100), nil, "2+0 1+0 1+1 0+1 0+2"},
		{"rounded", 3, bounds(34, 100), nil, "3+0 2+0 2+1 1+1 1+2 0+2 0+3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := careful
			c.Bounds = tt.bounds
			if err := Validate("web", spec(1, tt.port...), tt.count, c); err != nil {
				t.Fatal(err)
			}
			w := newWorld(tt.count, c, spec(1, tt.port...))
			waitForRest(w, t, time.Minute)
			w.tell(update(spec(2, tt.port...)))
			if got := strings.Join(courseOf(w, t), " "); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if len(w.state.Deployments) != 1 || w.state.Primary().Rollout != Completed {
				t.Errorf("%+v", w.state.Deployments)
			}
		})
	}
}

func TestABadRevisionIsRolledBack(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]Observation{
		"it exits":        {Stopped: true, Reason: "exit 1"},
		"it is unhealthy": {Running: true, Health: Unhealthy},
		"it exits soon":   brief,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(3, careful, spec(1))
			waitForRest(w, t, time.Minute)
			old := maps.Clone(w.tasks)
			w.bad["web:2"] = how
			w.tell(update(spec(2)))
			waitForRest(w, t, time.Hour)
			w.has(t, "web:1=3")
			for id := range old {
				if w.tasks[id] == nil || w.tasks[id].Stopped {
					t.Errorf("task %s did not outlive the roll", id[:12])
				}
			}
			if p := w.state.Primary(); p.ID != "web/1" || !p.Rollback || p.Rollout != Completed || w.state.Rollbacks != 1 {
				t.Errorf("%+v, %d rollbacks", p, w.state.Rollbacks)
			}
			w.mustSay(t, "(deployment web/2) deployment failed: tasks failed to start.", "rolling back to (deployment web/1).")
			if w.state.LastTask != 3+3 {
				t.Errorf("%d tasks were made, want 3 of the bad revision", w.state.LastTask-3)
			}
		})
	}
}

// Copies may fail within a moment. Who looks every few seconds sees the deployment all the same, and
// that it failed.
func TestADeploymentThatFailsAtOnceIsSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(3, careful, spec(1))
	waitForRest(w, t, time.Minute)
	w.bad["web:2"] = Observation{Stopped: true, Reason: "exit 1"}
	w.now = w.now.Add(time.Hour)
	began := w.now
	w.tell(update(spec(2)))
	see := func(after time.Duration, want string) {
		t.Helper()
		if err := calm(w, began.Add(after).Sub(w.now)); err != nil {
			t.Fatal(err)
		}
		w.now = began.Add(after)
		w.tell(TimerFired{})
		var got []string
		for _, d := range w.state.Deployments {
			got = append(got, fmt.Sprintf("%s %s %d", d.ID, d.Rollout, d.FailedTasks))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("after %s: %q, want %q", after, got, want)
		}
	}
	see(leastRollout-time.Second, "web/2 IN_PROGRESS 3, web/1 COMPLETED 0")
	see(leastRollout, "web/1 COMPLETED 0, web/2 FAILED 3")
	see(leastRollout+shownFailed-time.Second, "web/1 COMPLETED 0, web/2 FAILED 3")
	see(leastRollout+shownFailed, "web/1 COMPLETED 0")
}

// Three failures end a deployment, if none of its tasks was healthy in between or they add up.
func TestAHealthyTaskResetsTheBreaker(t *testing.T) {
	t.Parallel()
	for _, cumulative := range []bool{false, true} {
		c := careful
		c.Breaker.Cumulative = cumulative
		c.Bounds = &Bounds{MinimumHealthyPercent: 0, MaximumPercent: 200}
		w := newWorld(2, c, spec(1))
		waitForRest(w, t, time.Minute)
		w.tell(update(spec(2)))
		next := func(seen Observation) {
			t.Helper()
			for range 20 {
				for len(w.asked) > 0 {
					w.do(0)
				}
				for id, task := range w.tasks {
					if known := w.state.task(id); task.definition == "web:2" && known.Phase == Live && !task.Running {
						task.Observation = seen
						w.look(id)
						return
					}
				}
				w.now = w.state.Wake(w.now)
				w.tell(TimerFired{})
			}
			t.Fatal("no task is due")
		}
		fails, fit := Observation{Stopped: true, Reason: "exit 1"}, Observation{Running: true, Health: Healthy}
		next(fails)
		next(fit)
		next(fails)
		if n, want := w.state.Primary().FailedTasks, map[bool]int{false: 1, true: 2}[cumulative]; n != want {
			t.Errorf("cumulative %t: %d failures, want %d", cumulative, n, want)
		}
		next(fails)
		w.now = w.now.Add(leastRollout)
		w.tell(TimerFired{})
		if tripped := w.state.Rollbacks == 1; tripped != cumulative {
			t.Errorf("cumulative %t: %d rollbacks", cumulative, w.state.Rollbacks)
		}
	}
}

func TestWithoutRollbackAFailedDeploymentStandsStill(t *testing.T) {
	t.Parallel()
	c := careful
	c.Breaker.Rollback = false
	w := newWorld(2, c, spec(1))
	waitForRest(w, t, time.Minute)
	w.bad["web:2"] = Observation{Stopped: true, Reason: "exit 1"}
	w.tell(update(spec(2)))
	waitForRest(w, t, 24*time.Hour)
	w.has(t, "web:1=2")
	if p := w.state.Primary(); p.ID != "web/2" || p.Rollout != Failed || p.FailedTasks != 3 {
		t.Errorf("%+v", p)
	}
	if r := w.state.Explain(w.now)[0]; r.Code != WhyBreaker {
		t.Errorf("%+v", r)
	}
	w.tell(RollbackRequested{})
	waitForRest(w, t, time.Minute)
	w.has(t, "web:1=2")
	if p := w.state.Primary(); p.ID != "web/1" || p.Rollback || p.Rollout != Completed {
		t.Errorf("%+v", p)
	}
}

// Without a deployment to return to, it continues, with the back-off that is printed here.
func TestRepeatedFailuresBackOff(t *testing.T) {
	t.Parallel()
	w := newWorld(2, careful, spec(1))
	w.bad["web:1"] = Observation{Stopped: true, Reason: "exit 1"}
	var pauses []string
	for w.state.LastTask < 32 {
		made := w.state.LastTask
		for len(w.asked) > 0 {
			w.do(0)
		}
		for w.advanceAny() {
		}
		if w.state.LastTask > made {
			pauses = append(pauses, "0s")
			continue
		}
		wake := w.state.Wake(w.now)
		pauses = append(pauses, wake.Sub(w.now).String())
		if code := w.state.Explain(w.now)[0].Code; code != WhyBackOff {
			t.Errorf("it explains %s", code)
		}
		w.now = wake.Add(-time.Nanosecond)
		if w.tell(TimerFired{}); w.state.LastTask != made {
			t.Fatal("a task was made too early")
		}
		w.now = wake
		w.tell(TimerFired{})
	}
	want := "0s 1s 2s 4s 8s 16s 32s 1m4s 2m8s 4m16s 8m32s 15m0s 15m0s 15m0s 15m0s"
	if got := strings.Join(pauses, " "); got != want {
		t.Errorf("pauses %s, want %s", got, want)
	}
	w.mustSay(t, "is unable to consistently start tasks successfully")
	if n := w.state.Count("").Present; n > 2 || len(w.tasks) > 2+keptStopped {
		t.Errorf("%d copies, %d tasks are kept", n, len(w.tasks))
	}

	// The back-off resets after a long healthy time.
	delete(w.bad, "web:1")
	waitForRest(w, t, time.Minute)
	id := w.state.Tasks[len(w.state.Tasks)-1].ID
	w.now = w.now.Add(forgiven)
	w.tasks[id].Observation = Observation{Stopped: true, Reason: "exit 1"}
	if w.look(id); w.state.BackOff.Streak != 1 {
		t.Errorf("%d failures in a row", w.state.BackOff.Streak)
	}
}

func TestScaling(t *testing.T) {
	t.Parallel()
	w := newWorld(1, careful, spec(1))
	for _, n := range []int{4, 2, 0, 1} {
		w.tell(scale(n))
		waitForRest(w, t, time.Minute)
		if w.count() != n || !w.state.Steady {
			t.Errorf("%d copies, steady %t; want %d", w.count(), w.state.Steady, n)
		}
	}
}

// A task that has been in the queue for a while is an event, once; one that is soon let in is none.
func TestATaskWithoutRoomIsAnEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(2, careful, spec(1))
	for range 2 {
		w.do(0)
	}
	waits := func(task int, what string) {
		w.tell(Seen{ID: w.state.Tasks[task].ID, Observation: Observation{Queue: what}})
	}
	waits(0, "0.25 vCPU (0 vCPU of 2 vCPU free), which a has")
	waits(1, "its turn")
	w.now = w.now.Add(queueNotice - time.Second)
	waits(1, "")
	if said := w.said(); strings.Contains(said, "unable to place") {
		t.Errorf("too soon: %s", said)
	}
	for range 2 {
		w.now = w.state.Wake(w.now)
		w.tell(TimerFired{})
		waits(0, "its turn: b is ahead")
		w.now = w.now.Add(time.Hour)
	}
	want := "(service web) was unable to place a task because it waits for 0.25 vCPU (0 vCPU of 2 vCPU free), which a has (task web-1)."
	if said := w.said(); strings.Count(said, "unable to place") != 1 || !strings.Contains(said, want) {
		t.Error(said)
	}
	waits(0, "")
	waits(0, "its turn")
	w.now = w.now.Add(queueNotice)
	w.tell(TimerFired{})
	if n := strings.Count(w.said(), "unable to place"); n != 2 {
		t.Errorf("it was said %d times that it waits again", n-1)
	}
}

func TestAHostThatRefusesIsAskedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(1, careful, spec(1))
	w.refuses = "this host is draining"
	waitForRest(w, t, time.Minute)
	if r := w.state.Explain(w.now)[0]; r.Code != WhyPlacement || !strings.Contains(r.Text, "draining") || r.Until.IsZero() {
		t.Errorf("%+v", r)
	}
	if n := strings.Count(w.said(), "unable to place"); n != 1 {
		t.Errorf("it was said %d times", n)
	}
	w.refuses = ""
	waitForRest(w, t, time.Minute)
	w.has(t, "web:1=1")
}

func TestRemovalLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(3, careful, spec(1))
	w.do(0)
	w.tell(DeleteRequested{})
	waitForRest(w, t, time.Minute)
	if !w.state.Gone() || len(w.tasks) != 0 {
		t.Errorf("%d tasks are left, %d are known", len(w.tasks), len(w.state.Tasks))
	}
	w.tell(scale(3))
	w.tell(update(spec(2)))
	if waitForRest(w, t, time.Minute); len(w.tasks) != 0 {
		t.Error("a service that is removed makes tasks")
	}
}

func TestRollbackByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(2, careful, spec(1))
	waitForRest(w, t, time.Minute)
	if _, ok := w.state.RollbackTarget(); ok {
		t.Error("there is something to return to from the first deployment")
	}
	w.tell(update(spec(2)))
	waitForRest(w, t, time.Minute)
	for _, want := range []string{"web:1=2", "web:2=2"} {
		w.tell(RollbackRequested{})
		waitForRest(w, t, time.Minute)
		w.has(t, want)
	}
	if w.state.Rollbacks != 0 {
		t.Errorf("%d rollbacks without being asked", w.state.Rollbacks)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	bounds := func(least, most int) Config { return Config{Bounds: &Bounds{least, most}} }
	for _, tt := range []struct {
		name   string
		spec   Spec
		count  int
		config Config
		want   []string // nil: it is fine
	}{
		{"web", spec(1), 3, careful, nil},
		{"web", spec(1, 80), 1, careful, nil},
		{"web", spec(1), 0, bounds(100, 100), nil},
		{"web", spec(1, 80), 1, bounds(0, 100), nil},
		{"no name", spec(1), -1, Config{HealthCheckGracePeriod: -1}, []string{"no name", "-1", "grace"}},
		{"web", spec(1, 80), 2, careful, []string{"80/tcp", "hostPort"}},
		{"web", spec(1, 80), 1, bounds(50, 200), []string{"80/tcp", "percent of 0"}},
		{"web", spec(1), 2, bounds(100, 100), []string{"at least 2 and at most 2"}},
		{"web", spec(1), 1, bounds(50, 150), []string{"at least 1 and at most 1"}},
		{"web", spec(1), 1, bounds(101, 99), []string{"101 and 99"}},
	} {
		err := Validate(tt.name, tt.spec, tt.count, tt.config)
		if (err == nil) != (tt.want == nil) {
			t.Errorf("%s %d %+v: %v", tt.name, tt.count, tt.config.Bounds, err)
		}
		for _, part := range tt.want {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%q is not in %q", part, err)
			}
		}
	}
}

func TestCheckNoticesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*State){
		"no deployment":  func(s *State) { s.Deployments = nil },
		"two primaries":  func(s *State) { s.Deployments = append(s.Deployments, s.Deployments[0]) },
		"an id twice":    func(s *State) { s.Tasks[1].ID = s.Tasks[0].ID },
		"a task of none": func(s *State) { s.Tasks[0].Deployment = "web/9" },
		"an odd phase":   func(s *State) { s.Tasks[0].Phase = "ODD" },
		"an odd status":  func(s *State) { s.Status = "" },
		"too many tasks": func(s *State) { s.LastTask = 1 },
	} {
		s := newWorld(2, careful, spec(1)).state.clone()
		if err := Check(s); err != nil {
			t.Fatal(err)
		}
		if spoil(&s); Check(s) == nil {
			t.Errorf("%s is not noticed", name)
		}
	}
}

var listening = Config{Breaker: careful.Breaker, Listeners: []Listener{{Address: "127.0.0.1:8080", Container: "app", Port: 8000}}}

// A copy leaves the rotation when its successor is in it, finishes its connections, and is
// then told to stop.
func TestACopyIsDrainedBeforeItStops(t *testing.T) {
	t.Parallel()
	w := newWorld(1, listening, spec(1))
	waitForRest(w, t, time.Minute)
	old := w.state.Rotation()
	w.tell(update(spec(2)))
	for len(w.asked) == 0 || w.asked[0] != Effect(DrainTask{ID: old[0]}) {
		if len(w.asked) > 0 {
			w.do(0)
		} else if !w.advanceAny() {
			w.now = w.state.Wake(w.now)
			w.tell(TimerFired{})
		}
	}
	if now := w.state.Rotation(); len(now) != 1 || now[0] == old[0] || w.tasks[old[0]].stopping {
		t.Errorf("while %v is drained, %v are in rotation", old, now)
	}
	w.mustSay(t, "has begun draining connections on 1 tasks.")
	w.crash(func(Effect) bool { return false })
	if len(w.asked) != 1 || w.asked[0] != Effect(DrainTask{ID: old[0]}) {
		t.Errorf("after a crash %v is asked for", w.asked)
	}
	w.do(0)
	if len(w.asked) != 1 || w.asked[0] != Effect(StopTask{ID: old[0], Cause: "replaced by deployment web/2", Spare: true}) {
		t.Errorf("of a drained copy %v is asked for", w.asked)
	}
	waitForRest(w, t, time.Minute)
	w.has(t, "web:2=1")
}

// Listeners that are taken away while a copy is drained do not keep it from stopping.
func TestADrainedCopyStopsWithoutListeners(t *testing.T) {
	t.Parallel()
	w := newWorld(1, listening, spec(1))
	waitForRest(w, t, time.Minute)
	w.tell(scale(0))
	w.tell(Updated{Config: &careful})
	waitForRest(w, t, time.Minute)
	w.has(t, "")
}

func TestRotation(t *testing.T) {
	t.Parallel()
	run := func(h Health, healthy bool, p Phase) Task {
		return Task{ID: fmt.Sprint(h, healthy, p), Phase: p, HealthyNow: healthy, Seen: Observation{Running: true, Health: h}}
	}
	young, grown, checked := run(Unchecked, false, Live), run(Unchecked, true, Live), run(Healthy, true, Live)
	starting, ill, leaving := run(Unknown, false, Live), run(Unhealthy, false, Live), run(Healthy, true, Stopping)
	for _, tt := range []struct {
		tasks, want []Task
	}{
		{[]Task{young, grown, checked, starting, ill, leaving}, []Task{grown, checked}},
		{[]Task{young, starting, ill, leaving}, []Task{young}},
		{[]Task{starting, ill, leaving}, nil},
	} {
		var want []string
		for _, task := range tt.want {
			want = append(want, task.ID)
		}
		if got := (State{Deployments: []Deployment{{}}, Tasks: tt.tasks}).Rotation(); !slices.Equal(got, want) {
			t.Errorf("in rotation are %q, want %q", got, want)
		}
	}
}

func TestListenersThatCannotBe(t *testing.T) {
	t.Parallel()
	at := func(address, container string, port uint16) []Listener {
		return []Listener{{Address: address, Container: container, Port: port}}
	}
	for _, tt := range []struct {
		want      string
		listeners []Listener
	}{
		{"", at("127.0.0.1:8080", "app", 8000)},
		{"", at(":8080", "app", 8000)},
		{"", at("[::1]:8080", "app", 8000)},
		{"is not IP:PORT", at("localhost:8080", "app", 8000)},
		{"is not IP:PORT", at("8080", "app", 8000)},
		{"is not IP:PORT", at("127.0.0.1:0", "app", 8000)},
		{"two listeners", append(at(":8080", "app", 8000), at(":8080", "app", 8000)...)},
		{`"db", which web does not have`, at(":8080", "db", 8000)},
		{`add {"containerPort": 81}`, at(":8080", "app", 81)},
	} {
		err := Validate("web", spec(1), 1, Config{Listeners: tt.listeners})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.listeners, err, tt.want)
		}
	}
}

// A certificate that cannot be renewed is told by why, and by one event until it is. The address is served.
func TestWhyAndEventsTellOfACertificate(t *testing.T) {
	t.Parallel()
	w := newWorld(1, listening, spec(1))
	waitForRest(w, t, time.Minute)
	events := func() (all []string) {
		for _, e := range w.state.Events {
			if strings.Contains(e.Message, "certificate") {
				all = append(all, e.Message)
			}
		}
		return all
	}
	failed := func(text string) Heard {
		return Heard{Not: []Unheard{{Address: "https://a.test", Problem: "its certificate: " + text, Certificate: true, Served: true}}}
	}
	w.tell(Heard{Not: []Unheard{{Address: "https://a.test", Problem: "its certificate: it is being obtained"}}})
	if got := events(); len(got) != 0 {
		t.Errorf("events %v", got)
	}
	w.tell(Heard{})
	w.tell(failed("status 503"))
	w.tell(failed("status 429"))
	if why := w.state.Explain(w.now); why[0].Code != WhyIngress || why[0].Text != "https://a.test is served, but has a problem: its certificate: status 429" {
		t.Errorf("%+v", why)
	}
	if got := events(); len(got) != 1 || !strings.Contains(got[0], "has a problem with the certificate of https://a.test: its certificate: status 503") {
		t.Errorf("events %v", got)
	}
	w.tell(Heard{})
	if got := events(); len(got) != 2 || !strings.Contains(got[1], "has no problem with the certificate of https://a.test any more") {
		t.Errorf("events %v", got)
	}
}

// Why names the error of a copy that is tried again and again, once for all copies.
func TestWhyNamesWhatKeepsCopiesFromStarting(t *testing.T) {
	t.Parallel()
	w := newWorld(2, careful, spec(1))
	for i := range 2 {
		w.do(0)
		w.tell(Seen{ID: w.state.Tasks[i].ID, Observation: Observation{Failing: "no such host"}})
	}
	want := Reason{Code: WhyRetry, Text: "web-1 does not start and podtask keeps trying: no such host"}
	if why := w.state.Explain(w.now); len(why) != 1 || why[0] != want {
		t.Errorf("%+v", why)
	}
	for _, c := range w.state.Tasks {
		w.tell(Seen{ID: c.ID, Observation: Observation{Running: true}})
	}
	if why := w.state.Explain(w.now); why[0].Code == WhyRetry {
		t.Errorf("%+v", why)
	}
}

func TestWhyNamesAListenerThatIsNotOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(1, listening, spec(1))
	waitForRest(w, t, time.Minute)
	w.tell(Heard{Not: []Unheard{{Address: "127.0.0.1:8080", Problem: "address already in use"}}})
	if why := w.state.Explain(w.now); why[0].Code != WhyListener || !strings.Contains(why[0].Text, "127.0.0.1:8080 and keeps trying: address already in use") {
		t.Errorf("%+v", why)
	}
	w.tell(Heard{})
	if why := w.state.Explain(w.now); why[0].Code != WhySteady {
		t.Errorf("%+v", why)
	}
}

// "Has started" is said of a task that the host has let in, as ECS says it of one that is placed.
func TestATaskInTheQueueHasNotStarted(t *testing.T) {
	t.Parallel()
	w := newWorld(2, careful, spec(1))
	for range 2 {
		w.do(0)
	}
	see := func(task int, o Observation) { w.tell(Seen{ID: w.state.Tasks[task].ID, Observation: o}) }
	see(0, Observation{Queue: "port 80"})
	if said := w.said(); strings.Contains(said, "has started") {
		t.Errorf("one waits, and the other one is not known: %s", said)
	}
	see(1, Observation{Placed: true})
	w.mustSay(t, "has started 1 tasks: (task web-2).")
	see(0, Observation{Placed: true})
	w.mustSay(t, "has started 1 tasks: (task web-1).")
	if n := strings.Count(w.said(), "has started"); n != 2 {
		t.Errorf("it was said %d times: %s", n, w.said())
	}
}

// A deployment that fails makes no copy past the threshold of its circuit breaker, whatever its strategy.
func TestNoCopyPastTheThreshold(t *testing.T) {
	t.Parallel()
	for _, strategy := range []Strategy{Rolling, BlueGreen, Canary, Linear} {
		for count := 1; count <= 5; count++ {
			for threshold := count; threshold <= count+2; threshold++ {
				c := with(Method{Strategy: strategy})
				if strategy == Canary || strategy == Linear {
					c.Method.Step = LinearStep
				}
				c.Breaker.Threshold = Threshold{Type: ThresholdCount, Value: threshold}
				w := newWorld(count, c, spec(1))
				waitForRest(w, t, 48*time.Hour)
				made := w.state.LastTask
				w.bad["web:2"] = Observation{Stopped: true, Reason: "exit 3"}
				w.tell(update(spec(2)))
				waitForRest(w, t, 48*time.Hour)
				if n := w.state.LastTask - made; n != threshold {
					t.Errorf("%s of %d copies made %d with the threshold %d: %s", strategy, count, n, threshold, w.said())
				}
			}
		}
	}
}
