package service

import (
	"slices"
	"testing"
	"time"
)

// protect has the first copy of a definition protect itself.
func protect(w *world, t *testing.T, definition string, until time.Time) string {
	t.Helper()
	for _, task := range w.state.Tasks {
		if c := w.tasks[task.ID]; c != nil && c.definition == definition && !c.Stopped {
			c.Protected = until
			w.look(task.ID)
			return task.ID
		}
	}
	t.Fatalf("there is no copy of %s", definition)
	return ""
}

func explains(w *world, code string) bool {
	return slices.ContainsFunc(w.state.Explain(w.now), func(r Reason) bool { return r.Code == code })
}

func TestAProtectedCopyIsReplacedWhenItsProtectionEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(2, careful, spec(1))
	waitForRest(w, t, time.Minute)
	until := w.now.Add(time.Hour)
	protect(w, t, "web:1", until)
	w.tell(update(spec(2)))
	_ = calm(w, 30*time.Minute)
	w.has(t, "web:1=1 web:2=2")
	if w.state.Steady || !explains(w, WhyProtected) {
		t.Errorf("steady: %t; %+v", w.state.Steady, w.state.Explain(w.now))
	}
	w.crash(func(Effect) bool { return false }) // the protection is in the record
	_ = calm(w, 10*time.Minute)
	w.has(t, "web:1=1 web:2=2")
	waitForRest(w, t, time.Hour)
	w.has(t, "web:2=2")
	if w.now.Before(until) || explains(w, WhyProtected) {
		t.Errorf("it was replaced at %s, before %s", w.now, until)
	}
}

func TestScalingDownSparesProtectedCopies(t *testing.T) {
	t.Parallel()
	w := newWorld(3, careful, spec(1))
	waitForRest(w, t, time.Minute)
	oldest := protect(w, t, "web:1", w.now.Add(time.Hour))
	w.tell(scale(0))
	_ = calm(w, 30*time.Minute)
	w.has(t, "web:1=1")
	if task := w.state.task(oldest); task.Phase != Live || !explains(w, WhyProtected) {
		t.Errorf("%+v, %+v", task, w.state.Explain(w.now))
	}
	w.tasks[oldest].Protected = time.Time{}
	w.look(oldest)
	waitForRest(w, t, time.Minute)
	if n := w.count(); n != 0 {
		t.Errorf("%d copies are left", n)
	}
}

// A copy that protects itself while it is drained, or is about to be stopped, stays.
func TestACopyProtectsItselfAtTheLastMoment(t *testing.T) {
	t.Parallel()
	for _, last := range []Effect{DrainTask{}, StopTask{}} {
		w := newWorld(1, listening, spec(1))
		waitForRest(w, t, time.Minute)
		old := w.state.Rotation()[0]
		w.tell(update(spec(2)))
		isLast := func(e Effect) bool {
			_, drain := e.(DrainTask)
			_, stop := e.(StopTask)
			_, drains := last.(DrainTask)
			return drain && drains || stop && !drains
		}
		for len(w.asked) == 0 || !isLast(w.asked[0]) {
			if len(w.asked) > 0 {
				w.do(0)
			} else if !w.advanceAny() {
				w.now = w.state.Wake(w.now)
				w.tell(TimerFired{})
			}
		}
		protect(w, t, "web:1", w.now.Add(time.Hour))
		_ = calm(w, 30*time.Minute)
		w.has(t, "web:1=1 web:2=1")
		if !slices.Contains(w.state.Rotation(), old) {
			t.Errorf("%T: the copy is not in rotation again", last)
		}
		waitForRest(w, t, time.Hour)
		w.has(t, "web:2=1")
	}
}

// What fails its health checks is replaced all the same, and a removal stops everything.
func TestProtectionHasLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(2, careful, spec(1))
	waitForRest(w, t, time.Minute)
	id := protect(w, t, "web:1", w.now.Add(24*time.Hour))
	w.tasks[id].Health = Unhealthy
	w.look(id)
	waitForRest(w, t, time.Hour)
	if c := w.tasks[id]; c != nil && !c.Stopped {
		t.Error("an unhealthy copy is kept")
	}
	protect(w, t, "web:1", w.now.Add(24*time.Hour))
	w.tell(DeleteRequested{})
	waitForRest(w, t, time.Hour)
	if n := w.count(); n != 0 {
		t.Errorf("%d copies are left of a removed service", n)
	}
}

// Only a stop is asked for again after a pause: what has stopped is removed at once.
func TestAStoppedCopyOfARemovedServiceIsRemovedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(2, careful, spec(1))
	waitForRest(w, t, time.Minute)
	w.tell(scale(1))
	waitForRest(w, t, time.Second)
	w.tell(DeleteRequested{})
	waitForRest(w, t, repeatStop/2)
	if !w.state.Gone() {
		t.Errorf("left after %s: %+v", repeatStop/2, w.state.Tasks)
	}
}
