package service

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// next are the statuses that may follow one in a step. An attempt that has ended is continued
// only by a scale-up from 0.
var next = map[AttemptStatus][]AttemptStatus{
	AttemptRunning:   {AttemptRunning, AttemptReturning, AttemptSuccessful, AttemptStopped, AttemptReturned, AttemptNotReturned},
	AttemptReturning: {AttemptReturning, AttemptReturned, AttemptNotReturned},
}

// checkAttempts checks what a step has made of the history: what has ended stays as it is, one
// attempt at most has not ended, and one that is given up returns to the last deployment of
// which all copies were healthy.
func checkAttempts(w *world, before State, in Input) {
	if _, asked := in.(RollbackRequested); asked && w.state.LastEvent != before.LastEvent {
		id := w.state.Primary().ID
		w.proven = append(slices.DeleteFunc(w.proven, func(o string) bool { return o == id }), id)
	}
	for _, old := range before.History {
		i := slices.IndexFunc(w.state.History, func(a Attempt) bool { return a.Number == old.Number })
		if i < 0 {
			if len(w.state.History) < keptAttempts {
				broken("attempt %d is forgotten, and there are %d", old.Number, len(w.state.History))
			}
			continue
		}
		now := w.state.History[i]
		update, scaled := in.(Updated)
		resumed := scaled && update.DesiredCount != nil && before.DesiredCount == 0
		switch {
		case old.Ended() && !reflect.DeepEqual(old, now) && !resumed:
			broken("%T: attempt %d had ended: %+v is now %+v", in, old.Number, old, now)
		case !old.Ended() && !slices.Contains(next[old.Status], now.Status):
			broken("%T: attempt %d is %s after %s", in, old.Number, now.Status, old.Status)
		case old.Return == nil && now.Return != nil:
			checkReturn(w, now)
		}
	}
	last := w.state.History[len(w.state.History)-1]
	// One that had ended may go on and end again within the step.
	ended := slices.ContainsFunc(before.History, func(a Attempt) bool { return a.Ended() && reflect.DeepEqual(a, last) })
	if good := last.Status == AttemptSuccessful || last.Status == AttemptReturned; good && !ended && w.state.DesiredCount > 0 {
		w.proven = append(slices.DeleteFunc(w.proven, func(id string) bool { return id == last.Aim() }), last.Aim())
	}
}

func checkReturn(w *world, a Attempt) {
	want := ""
	for _, p := range w.proven {
		if p != a.Target.Deployment {
			want = p
		}
	}
	if a.Progress != nil && !a.rolls() && len(a.Sources) > 0 {
		return // to what still runs: see checkStages
	}
	if a.Return.Deployment != want {
		broken("attempt %d to %s returns to %s, and the last that was good is %q", a.Number, a.Target.Deployment, a.Return.Deployment, want)
	}
}

// tale is the history in short: status and target of each attempt, and where it returned.
func tale(w *world) string {
	var parts []string
	for _, a := range w.state.History {
		text := fmt.Sprintf("%s %s", a.Target.Deployment, a.Status)
		if a.Return != nil {
			text += " " + a.Return.Deployment
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func wantTale(t *testing.T, w *world, want string) {
	t.Helper()
	if got := tale(w); got != want {
		t.Errorf("the history is %q, want %q", got, want)
	}
}

func TestHistoryOfASuccessAndARollback(t *testing.T) {
	t.Parallel()
	w := newWorld(2, careful, spec(1))
	wantTale(t, w, "web/1 IN_PROGRESS")
	waitForRest(w, t, time.Minute)
	wantTale(t, w, "web/1 SUCCESSFUL")
	w.bad["web:2"] = Observation{Stopped: true, Reason: "exit 1"}
	w.now = w.now.Add(time.Hour)
	began := w.now
	w.tell(update(spec(2)))
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 IN_PROGRESS")
	if a := w.state.History.current(); a.Target != (Share{"web/2", 2, 0, 1}) || !slices.Equal(a.Sources, []Share{{"web/1", 2, 2, 0}}) || a.Breaker != (BreakerUse{careful.Breaker, 0, 3, false}) {
		t.Errorf("%+v", a)
	}
	waitForRest(w, t, time.Hour)
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 ROLLBACK_SUCCESSFUL web/1")
	a := w.state.History[1]
	if a.Target != (Share{Deployment: "web/2"}) || !slices.Equal(a.Sources, []Share{{"web/1", 2, 2, 0}}) || a.Breaker != (BreakerUse{careful.Breaker, 3, 3, true}) || !strings.Contains(a.Reason, "3 tasks failed, the last: exit 1") {
		t.Errorf("%+v", a)
	}
	if x := a.Times; !x.CreatedAt.Equal(began) || !x.StoppedAt.After(began) || !a.Return.StartedAt.Equal(x.StoppedAt) || x.EndedAt.Before(x.StoppedAt) || !x.UpdatedAt.Equal(x.EndedAt) {
		t.Errorf("%+v, returned from %s", x, a.Return.StartedAt)
	}
	if r := w.state.Revisions[1]; r.Deployment != "web/2" || r.TaskDefinition != "web:2" || !slices.Equal(r.Images, []Image{{"app", "web"}}) || !r.CreatedAt.Equal(began) {
		t.Errorf("%+v", r)
	}
}

func TestHistoryOfAttemptsThatAreGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(2, careful, spec(1))
	w.tell(update(spec(2)))
	wantTale(t, w, "web/1 STOPPED, web/2 IN_PROGRESS")
	if a := w.state.History[0]; !strings.Contains(a.Reason, "replaced by deployment web/2 (web:2)") || a.Times.StoppedAt.IsZero() || a.Times.EndedAt.IsZero() {
		t.Errorf("%+v", a)
	}
	waitForRest(w, t, time.Minute)
	w.tell(update(spec(3)))
	w.tell(RollbackRequested{})
	wantTale(t, w, "web/1 STOPPED, web/2 SUCCESSFUL, web/3 ROLLBACK_IN_PROGRESS web/2")
	w.tell(update(spec(4)))
	wantTale(t, w, "web/1 STOPPED, web/2 SUCCESSFUL, web/3 ROLLBACK_FAILED web/2, web/4 IN_PROGRESS")
	waitForRest(w, t, time.Minute)
	w.tell(RollbackRequested{}) // nothing is under way: this is an attempt of its own
	wantTale(t, w, "web/1 STOPPED, web/2 SUCCESSFUL, web/3 ROLLBACK_FAILED web/2, web/4 SUCCESSFUL, web/2 IN_PROGRESS")
	waitForRest(w, t, time.Minute)
	w.has(t, "web:2=2")
	w.tell(update(spec(5)))
	w.tell(RollbackRequested{})
	w.tell(DeleteRequested{})
	waitForRest(w, t, time.Minute)
	wantTale(t, w, "web/1 STOPPED, web/2 SUCCESSFUL, web/3 ROLLBACK_FAILED web/2, web/4 SUCCESSFUL, web/2 SUCCESSFUL, web/5 ROLLBACK_FAILED web/2")
}

func TestAnAbortedAttemptStandsStill(t *testing.T) {
	t.Parallel()
	w := newWorld(2, careful, spec(1))
	w.tell(AbortRequested{})
	wantTale(t, w, "web/1 STOPPED")
	if text := w.state.Explain(w.now)[0].Text; !strings.Contains(text, "a user stopped it") || !strings.Contains(text, "update --force web") {
		t.Errorf("it is explained with %q", text)
	}
	w.tell(update(spec(1)))
	waitForRest(w, t, time.Minute)
	w.tell(AbortRequested{}) // there is nothing to stop
	wantTale(t, w, "web/1 STOPPED, web/2 SUCCESSFUL")
	w.tell(update(spec(2)))
	w.tell(AbortRequested{})
	waitForRest(w, t, time.Hour)
	wantTale(t, w, "web/1 STOPPED, web/2 SUCCESSFUL, web/3 STOPPED")
	w.has(t, "web:1=2 web:2=1")
	w.tell(RollbackRequested{})
	waitForRest(w, t, time.Minute)
	w.has(t, "web:1=2")
	wantTale(t, w, "web/1 STOPPED, web/2 SUCCESSFUL, web/3 STOPPED, web/2 SUCCESSFUL")
}

// A deployment of no copies has proven nothing: it continues when there are to be some.
func TestAnAttemptWithoutCopiesIsResumed(t *testing.T) {
	t.Parallel()
	w := newWorld(2, careful, spec(1))
	waitForRest(w, t, time.Minute)
	w.tell(scale(0))
	waitForRest(w, t, time.Minute)
	w.bad["web:2"] = Observation{Stopped: true, Reason: "exit 1"}
	w.tell(update(spec(2)))
	waitForRest(w, t, time.Minute)
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 SUCCESSFUL")
	w.tell(scale(1))
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 IN_PROGRESS")
	waitForRest(w, t, time.Hour)
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 ROLLBACK_SUCCESSFUL web/1")
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(1, careful, spec(1))
	waitForRest(w, t, time.Minute)
	for i := 2; i <= 14; i++ {
		w.bad[fmt.Sprintf("web:%d", i)] = Observation{Stopped: true, Reason: "exit 1"}
		w.tell(update(spec(i)))
		waitForRest(w, t, time.Hour)
	}
	if h := w.state.History; len(h) != keptAttempts || h[0].Number != 5 || h[9].Number != 14 || h[9].Status != AttemptReturned {
		t.Errorf("%s", tale(w))
	}
	// The revision that runs is known, although its attempt is forgotten.
	if r := w.state.Revisions; !r.has("web/1") || len(r) != keptAttempts+1 {
		t.Errorf("the revisions are %+v", r)
	}
}

// A record of a version without a history gets one.
func TestARecordWithoutAHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(2, careful, spec(1))
	waitForRest(w, t, time.Minute)
	w.tell(update(spec(2)))
	waitForRest(w, t, time.Minute)
	w.tell(update(spec(3)))
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(w.saved, &fields); err != nil {
		t.Fatal(err)
	}
	delete(fields, "history")
	delete(fields, "revisions")
	var err error
	if w.saved, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	var old State
	if err := json.Unmarshal(w.saved, &old); err != nil || Check(old) != nil {
		t.Fatal(err, Check(old))
	}
	w.proven = []string{"web/1", "web/2"}
	w.state.History = nil
	w.crash(func(Effect) bool { return false })
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 SUCCESSFUL, web/3 IN_PROGRESS")
	waitForRest(w, t, time.Minute)
	wantTale(t, w, "web/1 SUCCESSFUL, web/2 SUCCESSFUL, web/3 SUCCESSFUL")
}
