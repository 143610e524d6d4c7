package lifecycle

import (
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// probe answers the health check in flight; the time is since the start.
type probed struct {
	at      time.Duration
	healthy bool
	want    Health
}

func TestHealthFollowsItsChecks(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for _, tt := range []struct {
		name   string
		period time.Duration
		probes []probed
	}{
		{"an early success counts at once", 0, []probed{{100 * time.Millisecond, true, HealthHealthy}}},
		{"early failures do not count", 0, []probed{{s, false, HealthUnknown}, {2 * s, false, HealthUnknown}, {9 * s, false, HealthUnknown}, {9 * s, false, HealthUnknown}}},
		{"failures from the first interval on count, up to retries", 0, []probed{{10 * s, false, HealthUnknown}, {20 * s, false, HealthUnknown}, {30 * s, false, HealthUnhealthy}}},
		{"failures within the start period do not count", 30 * s, []probed{{10 * s, false, HealthUnknown}, {20 * s, false, HealthUnknown}, {29 * s, false, HealthUnknown}, {39 * s, false, HealthUnknown}, {49 * s, false, HealthUnknown}, {59 * s, false, HealthUnhealthy}}},
		{"the first success ends the start period", 300 * s, []probed{{10 * s, true, HealthHealthy}, {20 * s, false, HealthHealthy}, {30 * s, false, HealthHealthy}, {40 * s, false, HealthUnhealthy}}},
		{"a success between starts the count again", 0, []probed{{10 * s, false, HealthUnknown}, {20 * s, false, HealthUnknown}, {30 * s, true, HealthHealthy}, {40 * s, false, HealthHealthy}, {50 * s, false, HealthHealthy}, {60 * s, false, HealthUnhealthy}}},
		{"one success makes it healthy again", 0, []probed{{10 * s, false, HealthUnknown}, {20 * s, false, HealthUnknown}, {30 * s, false, HealthUnhealthy}, {40 * s, true, HealthHealthy}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := drive(t, Options{}, container("a", checked, func(c *taskdef.Container) { c.HealthCheck.StartPeriod = tt.period }))
			d.upTo(Stop)
			for n, p := range tt.probes {
				d.at = epoch.Add(p.at)
				d.s.Containers[0].Health.Next = d.at // the moment is the table's business
				d.do(TimerFired{})
				r := ProbeResult{Healthy: p.healthy}
				if !p.healthy {
					r.ExitCode = 1
				}
				d.answer(Probe, 0, Failure{}, Result{Probe: r})
				if got := d.s.Containers[0].Health.Status; got != p.want {
					t.Errorf("check %d, at %s: %s, want %s", n+1, p.at, got, p.want)
				}
			}
		})
	}
}

// The first interval is filled with early checks; later ones are regular.
func TestChecksComeEarlyAndThenRegularly(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", checked))
	d.upTo(Stop)
	for _, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 10000, 20000, 30000} {
		d.wake()
		if got := d.at.Sub(epoch); got != want*time.Millisecond {
			t.Fatalf("a check at %s, want %d ms", got, want)
		}
		d.answer(Probe, 0, Failure{}, Result{Probe: ProbeResult{ExitCode: 1}})
	}
}

func TestOverrunCountsOnceForEachInterval(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", checked))
	d.upTo(Stop)
	d.wake()
	d.answer(Probe, 0, Failure{}, Result{Probe: ProbeResult{Healthy: true}})
	d.wake() // the check that never ends
	op := d.op(0)
	if op.Kind != Probe {
		t.Fatalf("a %s is in flight", op.Kind)
	}
	begun := d.at
	for n, want := range []struct {
		after  time.Duration
		health Health
	}{{3 * time.Second, HealthHealthy}, {13 * time.Second, HealthHealthy}, {23 * time.Second, HealthUnhealthy}, {33 * time.Second, HealthUnhealthy}} {
		d.wake()
		c := d.s.Containers[0]
		if d.at.Sub(begun) != want.after || c.Health.Status != want.health || c.Health.Streak != n+1 || c.Health.ExitCode != -1 {
			t.Errorf("after %s: %+v; want %s after %s", d.at.Sub(begun), c.Health, want.health, want.after)
		}
		if len(d.asked) > 0 || d.op(0).ID != op.ID {
			t.Errorf("asked %v while it continues", d.asked)
		}
	}
	d.answer(Probe, 0, Failure{}, Result{Probe: ProbeResult{Healthy: true}})
	if h := d.s.Containers[0].Health; h.Status != HealthUnhealthy || !h.Next.Equal(d.at.Add(10*time.Second)) {
		t.Errorf("its late answer counted, or the next check is not an interval on: %+v", h)
	}
}

func TestCheckThatCannotRunCausesALookInsteadOfAVerdict(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", checked))
	d.upTo(Stop)
	d.at = epoch.Add(time.Minute)
	d.do(TimerFired{})
	d.fail(Probe, 0, Permanent)
	if h := d.s.Containers[0].Health; h.Streak != 0 || d.op(0).Kind != Inspect {
		t.Errorf("streak %d, in flight %s; want an inspection", h.Streak, d.op(0).Kind)
	}
}

func TestCheckThatPodmanCallsLateCountsAsFailed(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", checked))
	d.upTo(Stop)
	d.at = epoch.Add(time.Minute)
	d.do(TimerFired{})
	d.fail(Probe, 0, Timeout)
	if h := d.s.Containers[0].Health; h.Streak != 1 || h.ExitCode != -1 || d.op(0).Busy() {
		t.Errorf("%+v, in flight %s; want one failure counted", h, d.op(0).Kind)
	}
}

func TestCheckIsCancelledWhenTheTaskStops(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", checked))
	d.upTo(Stop)
	d.wake()
	id := d.op(0).ID
	d.do(StopRequested{By: "user"})
	if len(d.asked) != 1 || d.asked[0] != (CancelOp{ID: id}) {
		t.Errorf("asked %v, want the check cancelled", d.asked)
	}
}

func TestTaskHealthIsTheWorstOfItsEssentialContainers(t *testing.T) {
	t.Parallel()
	const none = numHealth // no check
	for _, tt := range []struct {
		name      string
		essential []Health
		optional  Health
		want      Health
	}{
		{"no checks", []Health{none, none}, none, HealthUnknown},
		{"all healthy", []Health{HealthHealthy, HealthHealthy}, none, HealthHealthy},
		{"one without a check does not matter", []Health{HealthHealthy, none}, none, HealthHealthy},
		{"one unknown", []Health{HealthHealthy, HealthUnknown}, none, HealthUnknown},
		{"one unhealthy", []Health{HealthHealthy, HealthUnhealthy}, none, HealthUnhealthy},
		{"unhealthy is worse than unknown", []Health{HealthUnhealthy, HealthUnknown}, none, HealthUnhealthy},
		{"in any order", []Health{HealthUnknown, HealthUnhealthy}, none, HealthUnhealthy},
		{"one that is not essential does not matter", []Health{HealthHealthy, HealthHealthy}, HealthUnhealthy, HealthHealthy},
		{"nor if it is the only one with a check", []Health{none, none}, HealthHealthy, HealthUnknown},
	} {
		var s State
		for i, h := range append(tt.essential, tt.optional) {
			c := container("a")
			c.Essential = i < len(tt.essential)
			if h != none {
				checked(&c)
			}
			s.Task.Containers = append(s.Task.Containers, c)
			s.Containers = append(s.Containers, Container{Health: HealthState{Status: h}})
		}
		if got := s.Health(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// A check that takes too long because Podman hangs says nothing about the container.
func TestChecksThatPodmanCannotRunAreNotFailures(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("web", checked))
	d.upTo(Stop)
	d.wake()
	d.answer(Probe, 0, Failure{}, Result{Probe: ProbeResult{Healthy: true}})
	for n := range 2 * d.s.Task.Containers[0].HealthCheck.Retries {
		for d.op(0).Kind != Probe || !d.op(0).Overran {
			d.wake()
		}
		d.fail(Probe, 0, Temporary)
		d.see(Inspect, 0, Running)
		if h := d.s.Containers[0].Health; h.Status != HealthHealthy || h.Streak != 0 {
			t.Fatalf("after %d checks without an answer of Podman it is %s with %d failures", n+1, h.Status, h.Streak)
		}
	}
}
