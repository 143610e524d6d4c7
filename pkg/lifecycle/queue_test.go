package lifecycle

import (
	"testing"
	"time"
)

func TestQueuedTaskAsksAgainUnpromptedAndWhenTheQueueMoves(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("web", hungry))
	waits := func(ahead int, pace time.Duration) {
		t.Helper()
		d.answer(Admit, -1, Failure{}, Result{Queue: Queue{For: "room", Ahead: ahead}})
		if !d.s.Queued() || d.op(-1).Busy() {
			t.Fatalf("queued: %t, operation %s", d.s.Queued(), d.op(-1).Kind)
		}
		if wake := d.s.Wake(d.at); wake.Sub(d.at) != pace {
			t.Errorf("with %d ahead it asks again in %s, want %s", ahead, wake.Sub(d.at), pace)
		}
	}
	waits(1_000_000, maxQueuePace)
	d.wake()
	waits(2, 3*queuePace)
	d.do(QueueMoved{})
	waits(0, queuePace)
	d.do(QueueMoved{})
	d.answer(Admit, -1, Failure{}, Result{Admitted: true})
	if d.s.Queued() || d.s.Sandbox.Queue != "" || d.s.Sandbox.Reservation != ReservationGranted {
		t.Errorf("let in, it is %+v", d.s.Sandbox)
	}
	d.do(QueueMoved{})
	if d.op(-1).Kind == Admit {
		t.Error("it asks though it is in")
	}
}

func TestSavedTaskAsksForItsShareAnew(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("web", hungry))
	d.answer(Admit, -1, Failure{}, Result{Admitted: true})
	d.upTo(Stop)
	d.do(Restarted{})
	if e, ok := d.asked[len(d.asked)-1].(AdmitTask); !ok || !e.Begun {
		t.Errorf("asked for %+v", d.asked)
	}
}

func TestOtherLimitsAreAskedForAsAnotherShare(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("web", hungry))
	more := Quota{CPU: d.s.Task.CPU + 2}
	d.do(LimitsRequested{Quota: more}) // while it asks
	d.answer(Admit, -1, Failure{}, Result{Admitted: true})
	if got := d.op(-1).Kind; got != Admit || d.s.Sandbox.Reservation != ReservationRequested {
		t.Fatalf("after an answer about another need: %s, share %v", got, d.s.Sandbox.Reservation)
	}
	d.answer(Admit, -1, Failure{}, Result{Queue: Queue{For: "room"}})
	d.do(LimitsRequested{Quota: Quota{}}) // in the queue: it asks at once
	d.answer(Admit, -1, Failure{}, Result{Admitted: true})
	d.upTo(Stop)
	asked := len(d.asked)
	d.do(LimitsRequested{Quota: Quota{TasksMax: 5}})
	if len(d.asked) != asked {
		t.Errorf("a limit that is not shared is requested: %+v", d.asked[asked:])
	}
	d.do(LimitsRequested{Quota: more})
	if e, ok := d.asked[len(d.asked)-1].(AdmitTask); !ok || !e.Begun || d.s.Need().CPU != int64(more.CPU*1024) {
		t.Errorf("asked for %+v, need %+v", d.asked, d.s.Need())
	}
	d.answer(Admit, -1, Failure{}, Result{Admitted: true})
	if d.s.Sandbox.Reservation != ReservationGranted {
		t.Errorf("share %v", d.s.Sandbox.Reservation)
	}
}
