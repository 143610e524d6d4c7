package lifecycle

import (
	"testing"
	"time"
)

// The owner may die during the grace period, which nothing but it ends with a kill.
func TestNextOwnerGrantsTheRestOfTheStopTimeout(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("web"))
	d.upTo(Stop)
	grants := func(want time.Duration) {
		t.Helper()
		for _, e := range d.asked {
			if stop, ok := e.(StopContainer); ok {
				if stop.Grace != want {
					t.Errorf("it has %s, want %s", stop.Grace, want)
				}
				return
			}
		}
		t.Fatalf("no stop in %+v", d.asked)
	}
	takeOver := func(after time.Duration) {
		t.Helper()
		d.at = d.at.Add(after)
		d.s = d.s.Durable()
		d.do(Restarted{})
		d.see(Inspect, 0, Running)
	}
	d.do(StopRequested{By: "you"})
	grants(10 * time.Second)
	takeOver(4 * time.Second)
	grants(6 * time.Second)
	takeOver(time.Minute)
	grants(minGrace)
	d.fail(Stop, 0, Temporary) // perhaps it never got its signal
	d.wake()
	d.see(Inspect, 0, Running)
	grants(10 * time.Second)
}
