package driver

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

var at = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// newState is a task of one container, in a pod with an infra container, to which nothing has
// happened yet.
func newState() lifecycle.State {
	def := taskdef.Task{Family: "web", Network: taskdef.NetworkBridge, IPCMode: taskdef.IPCTask, Containers: []taskdef.Container{
		{Name: "app", Image: "example.com/app:1", Essential: true, StopTimeout: time.Second},
	}}
	return lifecycle.New(strings.Repeat("ab", 16), "", def, lifecycle.Options{}, at)
}

// settledState is a task that has stopped, or that is removed if the goal is Gone.
func settledState(goal lifecycle.Goal) lifecycle.State {
	s := newState()
	s.Goal, s.Stop = goal, lifecycle.StopReason{Code: lifecycle.StopUserInitiated}
	s.Sandbox.Phase, s.Sandbox.Reservation = lifecycle.SandboxStopped, lifecycle.ReservationNone
	s.Containers[0].Ended = true
	if goal == lifecycle.Gone {
		s.Sandbox.Phase = lifecycle.SandboxRemoved
	}
	return s
}

// runningState is a task whose container runs.
func runningState() lifecycle.State {
	s := newState()
	s.Sandbox.Phase, s.Sandbox.Reservation, s.Sandbox.Dirty = lifecycle.SandboxReady, lifecycle.ReservationNone, true
	c := &s.Containers[0]
	c.Resolved, c.Pulled, c.Presence, c.StartedAt, c.ID = true, true, lifecycle.Running, at, "id"
	return s
}

func step(t *testing.T, d *Task, at time.Time, batch ...lifecycle.Event) TaskDecision {
	t.Helper()
	decision, err := d.Step(at, batch)
	if err != nil {
		t.Fatal(err)
	}
	return decision
}

func TestOnlyChangesOfTheDurablePartAreSaved(t *testing.T) {
	t.Parallel()
	d := NewTask(newState(), 0, EncodeTask)
	if got := step(t, d, at, lifecycle.Restarted{}); got.Record == nil || len(got.Start) == 0 {
		t.Errorf("the first step saves %s and starts %v; want a record and effects", got.Record, got.Start)
	}
	if got := step(t, d, at, lifecycle.TimerFired{}); got.Record != nil {
		t.Errorf("a step that changes nothing saves %s", got.Record)
	}
	if got := step(t, d, at, lifecycle.StopRequested{By: "test"}, lifecycle.TimerFired{}); got.Record == nil {
		t.Error("a stop is not saved")
	}
	none := NewTask(newState(), 0, nil)
	if got := step(t, none, at, lifecycle.Restarted{}); got.Record != nil {
		t.Errorf("without records %s is saved", got.Record)
	}
}

func TestARecordThatCannotBeEncodedIsAnError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	d := NewTask(newState(), 0, func(lifecycle.State) ([]byte, error) { return nil, broken })
	if _, err := d.Step(at, nil); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestHistoryIsPublishedUntilTheLogHasIt(t *testing.T) {
	t.Parallel()
	s := newState()
	for seq := range uint64(4) {
		s.History = append(s.History, lifecycle.Transition{Seq: seq + 1, At: at, Status: "NONE"})
	}
	d := NewTask(s, 2, nil)
	for _, want := range []int{2, 2} { // a publication that fails is repeated
		if got := step(t, d, at).Publish; len(got) != want || got[0].Seq != 3 {
			t.Fatalf("%v is published, want the events 3 and 4", got)
		}
	}
	d.Published(4)
	if got := step(t, d, at).Publish; len(got) != 0 {
		t.Errorf("%v is published again", got)
	}
}

func TestCancellationsAreNotStarted(t *testing.T) {
	t.Parallel()
	d := NewTask(newState(), 0, nil)
	first := step(t, d, at, lifecycle.Restarted{})
	then := step(t, d, at, lifecycle.StopRequested{By: "test"})
	if got := then.Cancel; len(got) != 1 || got[0] != first.Start[0].Op() {
		t.Errorf("operations %v are canceled, want that of %+v", got, first.Start[0])
	}
	// Asked for and canceled in one batch: it is not carried out.
	again := NewTask(newState(), 0, nil)
	both := step(t, again, at, lifecycle.Restarted{}, lifecycle.StopRequested{By: "test"})
	if len(both.Cancel) > 0 || slices.ContainsFunc(both.Start, makes) || !both.Settled {
		t.Errorf("%+v starts, %v are canceled, settled: %t", both.Start, both.Cancel, both.Settled)
	}
	for _, e := range slices.Concat(first.Start, both.Start, then.Start) {
		if _, ok := e.(lifecycle.CancelOp); ok {
			t.Errorf("%+v is to be started", e)
		}
	}
}

func TestWatchesFollowTheState(t *testing.T) {
	t.Parallel()
	d := NewTask(runningState(), 0, nil)
	want := func(what string, got TaskDecision, watch, unwatch []Watch) {
		t.Helper()
		if !slices.Equal(got.Watch, watch) || !slices.Equal(got.Unwatch, unwatch) {
			t.Errorf("%s: watches %v begin and %v end, want %v and %v", what, got.Watch, got.Unwatch, watch, unwatch)
		}
	}
	want("at first", step(t, d, at), []Watch{0, Infra}, nil)
	want("later", step(t, d, at), nil, nil)
	// The watch has reported and is over. The container is inspected and still runs.
	looked := step(t, d, at, lifecycle.Hinted{Index: 0})
	want("after a hint", looked, nil, nil)
	seen := lifecycle.Observed{Presence: lifecycle.Running, ID: "id", StartedAt: at}
	if len(looked.Start) != 1 {
		t.Fatalf("a hint starts %v", looked.Start)
	}
	id := looked.Start[0].Op()
	want("after a false alarm", step(t, d, at, lifecycle.OpFinished{ID: id, Result: lifecycle.Result{Seen: seen}}), []Watch{0}, nil)

	queued := newState()
	queued.Sandbox.Reservation, queued.Sandbox.Queue = lifecycle.ReservationRequested, "room"
	d = NewTask(queued, 0, nil)
	want("in the queue", step(t, d, at), []Watch{Queue}, nil)
	want("when stopped", step(t, d, at, lifecycle.StopRequested{By: "test"}), nil, []Watch{Queue})
}

func TestLimitsAreAppliedOncePerChange(t *testing.T) {
	t.Parallel()
	s := runningState()
	s.Sandbox.Slice = "podtask.slice"
	d := NewTask(s, 0, nil)
	if step(t, d, at).ApplyLimits {
		t.Error("the limits of a new slice are applied a second time")
	}
	for _, want := range []bool{true, false} {
		if got := step(t, d, at, lifecycle.LimitsRequested{Quota: lifecycle.Quota{TasksMax: 7}}).ApplyLimits; got != want {
			t.Errorf("limits are applied: %t, want %t", got, want)
		}
	}
	more := lifecycle.ResourcesOf(s.Task)
	more.Memory = 64 << 20
	for _, want := range []bool{true, false} {
		if got := step(t, d, at, lifecycle.ResourcesRequested{Resources: more}).ApplyLimits; got != want {
			t.Errorf("resources are applied: %t, want %t", got, want)
		}
	}
	if !step(t, NewTask(d.State(), 0, nil), at).ApplyLimits {
		t.Error("the resources of an earlier owner are not applied")
	}
	again := d.State()
	again.Containers = slices.Clone(again.Containers)
	again.Containers[0].Stale = true
	d = NewTask(again, 0, nil)
	step(t, d, at, lifecycle.Restarted{})
	op := d.State().Containers[0].Op.ID
	seen := lifecycle.Observed{Presence: lifecycle.Running, ID: "id", StartedAt: at.Add(time.Hour)}
	if !step(t, d, at, lifecycle.OpFinished{ID: op, Result: lifecycle.Result{Seen: seen}}).ApplyLimits {
		t.Error("the resources of a container that an earlier owner has started are not applied")
	}
	s.Options.Quota.TasksMax = 7 // changed by an earlier owner, which may have died before it applied them
	if !step(t, NewTask(s, 0, nil), at).ApplyLimits {
		t.Error("the limits of an earlier owner are not applied")
	}
}

func TestEndpointIsResumedOnceAndClosed(t *testing.T) {
	t.Parallel()
	s := runningState()
	s.Sandbox.Metadata = "169.254.170.2"
	d := NewTask(s, 0, nil)
	for _, want := range []Endpoint{ResumeEndpoint, KeepEndpoint} {
		if got := step(t, d, at).Endpoint; got != want {
			t.Errorf("endpoint %d, want %d", got, want)
		}
	}
	if got := step(t, NewTask(settledState(lifecycle.Down), 0, nil), at).Endpoint; got != CloseEndpoint {
		t.Errorf("endpoint %d of a stopped task", got)
	}
}

func TestEverythingThatRunsIsLookedAt(t *testing.T) {
	t.Parallel()
	d := NewTask(runningState(), 0, nil)
	if got := step(t, d, at); !got.Look.Equal(at.Add(LookInterval)) || !got.Outcome().Timer.Equal(got.Look) {
		t.Errorf("the look is at %v, the timer at %v", got.Look, got.Outcome().Timer)
	}
	early, due := at.Add(LookInterval-1), at.Add(LookInterval)
	if got := d.Tick(early); !slices.Equal(got, []lifecycle.Event{lifecycle.TimerFired{}}) {
		t.Errorf("an early timer means %v", got)
	}
	want := []lifecycle.Event{lifecycle.TimerFired{}, lifecycle.Hinted{Index: 0}, lifecycle.Hinted{Index: lifecycle.InfraIndex}}
	if got := d.Tick(due); !slices.Equal(got, want) {
		t.Errorf("the look means %v, want %v", got, want)
	}
	if got := step(t, d, due).Look; !got.Equal(due.Add(LookInterval)) {
		t.Errorf("the next look is at %v", got)
	}
	back := at.Add(-24 * time.Hour)
	if got := step(t, d, back).Look; !got.Equal(back.Add(LookInterval)) {
		t.Errorf("after the clock was set back the look is at %v", got)
	}
	if got := step(t, NewTask(newState(), 0, nil), at).Look; !got.IsZero() {
		t.Errorf("nothing runs, and the look is at %v", got)
	}
}

func TestRest(t *testing.T) {
	t.Parallel()
	remove := lifecycle.RemoveRequested{By: "user"}
	auto := lifecycle.RemoveRequested{By: "--rm"}
	for _, tt := range []struct {
		name                string
		goal                lifecycle.Goal
		autoRemove, showing bool
		arrived             []lifecycle.Event
		want                []lifecycle.Event
		end                 End
	}{
		{name: "stopped", goal: lifecycle.Down, end: Stopped},
		{name: "stopped, and a removal has arrived", goal: lifecycle.Down, arrived: []lifecycle.Event{remove}, want: []lifecycle.Event{remove}, end: Continue},
		{name: "stopped with --rm", goal: lifecycle.Down, autoRemove: true, want: []lifecycle.Event{auto}, end: Continue},
		{name: "stopped with --rm, and a removal has arrived", goal: lifecycle.Down, autoRemove: true, arrived: []lifecycle.Event{remove}, want: []lifecycle.Event{auto, remove}, end: Continue},
		{name: "stopped with --rm in the foreground", goal: lifecycle.Down, autoRemove: true, showing: true, end: Stopped},
		{name: "removed", goal: lifecycle.Gone, end: Removed},
		{name: "removed with --rm", goal: lifecycle.Gone, autoRemove: true, end: Removed},
		{name: "removed, and a stop has arrived", goal: lifecycle.Gone, arrived: []lifecycle.Event{lifecycle.StopRequested{}}, want: []lifecycle.Event{lifecycle.StopRequested{}}, end: Removed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := settledState(tt.goal)
			s.Options.Remove = tt.autoRemove
			d := NewTask(s, 0, nil)
			decision := step(t, d, at)
			if !decision.Settled {
				t.Fatal("the task has not settled")
			}
			if got, want := decision.AutoRemove, tt.autoRemove && tt.goal == lifecycle.Down; got != want {
				t.Errorf("AutoRemove: %t, want %t", got, want)
			}
			batch, end := d.Rest(decision, tt.arrived, tt.showing)
			if fmt.Sprint(batch) != fmt.Sprint(tt.want) || end != tt.end {
				t.Errorf("got %v, %d; want %v, %d", batch, end, tt.want, tt.end)
			}
		})
	}
}

// A removal that failed is left to the user: --rm asks once.
func TestAutoRemoveAsksOnce(t *testing.T) {
	t.Parallel()
	s := settledState(lifecycle.Down)
	s.Options.Remove = true
	d := NewTask(s, 0, nil)
	d.Rest(step(t, d, at), nil, true) // in the foreground nothing is asked
	if batch, _ := d.Rest(step(t, d, at), nil, false); len(batch) != 1 {
		t.Fatalf("--rm asks for %v", batch)
	}
	second := step(t, d, at)
	if batch, end := d.Rest(second, nil, false); second.AutoRemove || len(batch) > 0 || end != Stopped {
		t.Errorf("the second time --rm asks for %v, %d", batch, end)
	}
}

func TestASweepFollowsATaskThatAnEarlierOwnerWasMaking(t *testing.T) {
	t.Parallel()
	for _, dirty := range []bool{false, true} {
		s := newState()
		s.Sandbox.Dirty = dirty
		d := NewTask(s, 0, nil)
		d.state = settledState(lifecycle.Gone)
		if got := step(t, d, at).RequestSweep; got != dirty {
			t.Errorf("dirty %t: a sweep is requested: %t", dirty, got)
		}
	}
	s := settledState(lifecycle.Down)
	s.Sandbox.Dirty = true // but it has stopped since
	d := NewTask(s, 0, nil)
	d.state = settledState(lifecycle.Gone)
	if step(t, d, at).RequestSweep {
		t.Error("a sweep is requested after a task that had stopped")
	}
}

func TestACopyIsIndependent(t *testing.T) {
	t.Parallel()
	d := NewTask(runningState(), 0, EncodeTask)
	step(t, d, at)
	before := *d
	step(t, d, at, lifecycle.Hinted{Index: 0}, lifecycle.StopRequested{By: "test"})
	if before.state.Goal != lifecycle.Up || !slices.Equal(before.watched, []Watch{0, Infra}) {
		t.Errorf("a step of the original has changed its copy: goal %s, watches %v", before.state.Goal, before.watched)
	}
	if got := step(t, &before, at, lifecycle.StopRequested{By: "test"}); got.Record == nil {
		t.Error("the copy does not save its own change")
	}
}
