package lifecycle

import (
	"testing"
	"time"
)

// outageCase is an operation that fails while Podman is away.
type outageCase struct {
	kind  Kind
	index int
	goal  Goal
}

func outageCases() []outageCase {
	return []outageCase{{Pull, 0, Up}, {Prepare, -1, Up}, {Launch, -1, Up}, {Create, 0, Up}, {Start, 0, Up}, {Stop, 0, Down}, {Halt, -1, Down}, {Remove, -1, Gone}}
}

// reach drives a task until the operation of the case is in flight.
func (c outageCase) reach(t *testing.T) *driver {
	t.Helper()
	d := drive(t, Options{}, container("web"))
	switch c.kind {
	case Pull, Prepare:
		d.upTo(Pull)
	case Launch:
		d.upTo(Pull)
		d.answer(Prepare, -1, Failure{}, Result{PodID: "pod"})
	case Create, Start:
		d.upTo(c.kind)
	default:
		d.upTo(Stop)
		d.do(StopRequested{By: "user"})
	}
	if c.kind == Halt || c.kind == Remove {
		d.see(Stop, 0, Exited, 0)
	}
	if c.kind == Remove {
		d.answer(Halt, -1, Failure{}, Result{})
		d.do(RemoveRequested{By: "user"})
	}
	return d
}

// away fails what is in flight on the container or sandbox of the case, or lets time pass.
func (c outageCase) away(d *driver) {
	d.t.Helper()
	if op := d.op(c.index); op.Busy() {
		d.fail(op.Kind, c.index, Outage)
	} else {
		d.wake()
	}
}

func TestAnOutageIsNoFailure(t *testing.T) {
	t.Parallel()
	for _, c := range outageCases() {
		t.Run(c.kind.String(), func(t *testing.T) {
			t.Parallel()
			d := c.reach(t)
			began := d.at
			for steps := 0; d.at.Sub(began) < OutageLimit-outagePause; steps++ {
				c.away(d)
				if r := d.s.Explain()[0]; r.Code != WhyOutage || !r.Since.Equal(began) || !r.Until.Equal(began.Add(OutageLimit)) {
					t.Fatalf("after %d steps the first reason is %+v", steps, r)
				}
				if steps > 100 {
					t.Fatal("it has no pause between attempts")
				}
			}
			r := d.s.Sandbox.Retry
			if c.index >= 0 {
				r = d.s.Containers[c.index].Retry
			}
			if d.s.Goal != c.goal || r.Attempts+r.Persist != 0 {
				t.Errorf("the goal is %s, %+v", d.s.Goal, r)
			}
			if !d.s.Durable().OutageSince.IsZero() {
				t.Error("the outage is saved")
			}
		})
	}
}

// After two minutes without any answer attempts count as others do.
func TestAnOutageThatLastsIsAFailure(t *testing.T) {
	t.Parallel()
	for _, c := range outageCases()[:3] {
		t.Run(c.kind.String(), func(t *testing.T) {
			t.Parallel()
			d := c.reach(t)
			c.away(d)
			d.at = d.at.Add(OutageLimit)
			d.do(TimerFired{})
			for steps := 0; d.s.Goal == Up; steps++ {
				if c.away(d); steps > 100 {
					t.Fatal("it is never given up")
				}
			}
		})
	}
}

// An answer ends the outage: the next one has its own two minutes.
func TestAnAnswerEndsAnOutage(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("web"))
	d.upTo(Create)
	for range 10 {
		d.fail(Create, 0, Outage)
		d.at = d.at.Add(OutageLimit / 20)
		d.see(Inspect, 0, Absent)
		if !d.s.OutageSince.IsZero() {
			t.Fatal("it has answered")
		}
		d.wake()
	}
	if n := d.s.Containers[0].Retry.Attempts; n != 0 || d.s.Goal != Up {
		t.Errorf("%d attempts count, the goal is %s", n, d.s.Goal)
	}
}

// A call that makes Podman crash each time is given up, although Podman answers in between.
func TestACallThatAlwaysEndsPodmanIsGivenUp(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("web"))
	d.upTo(Create)
	began := d.at
	for steps := 0; d.s.Goal == Up; steps++ {
		d.fail(Create, 0, Outage)
		d.see(Inspect, 0, Absent)
		if d.s.Goal == Up {
			d.wake()
		}
		if steps > 1000 {
			t.Fatal("it is never given up")
		}
	}
	if took := d.at.Sub(began); took < OutageLimit || took > OutageLimit+time.Minute {
		t.Errorf("it is given up after %s", took)
	}
}

// What fails after a call that was cut off may be about what it left. It is excused once.
func TestTheLeftoverOfACutOffCallIsExcusedOnce(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("web"))
	d.upTo(Create)
	next := func(class Class) int {
		d.fail(Create, 0, class)
		d.see(Inspect, 0, Absent)
		d.wake()
		return d.s.Containers[0].Retry.Attempts
	}
	for range 10 { // a storm
		if next(Outage) != 0 || next(Temporary) != 0 {
			t.Fatal("what a cut-off call left counts")
		}
	}
	if next(Temporary) != 1 || next(Outage) != 1 || next(Temporary) != 1 || next(Temporary) != 2 {
		t.Errorf("%d attempts count", d.s.Containers[0].Retry.Attempts)
	}
}
