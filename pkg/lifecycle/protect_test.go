package lifecycle

import (
	"slices"
	"testing"
	"time"
)

func protected(s State) bool {
	return slices.ContainsFunc(s.Explain(), func(r Reason) bool { return r.Code == WhyProtected })
}

func TestAProtectedTaskIsSparedUntilItsProtectionEnds(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", pinned))
	until := d.at.Add(2 * time.Hour)
	d.do(ProtectionRequested{Until: until})
	d.do(StopRequested{By: "service web", Spare: true})
	if d.s.Goal != Up || !d.s.ProtectedUntil.Equal(until) || !protected(d.s) {
		t.Fatalf("goal %s, protected until %s", d.s.Goal, d.s.ProtectedUntil)
	}
	if d.s = d.s.Durable(); !d.s.ProtectedUntil.Equal(until) {
		t.Error("the protection does not survive its owner")
	}
	d.do(Restarted{})
	if wake := d.s.Wake(d.at); wake.IsZero() || wake.After(until) {
		t.Errorf("it wakes up at %s", wake)
	}
	d.at = until
	d.do(TimerFired{})
	if !d.s.ProtectedUntil.IsZero() || protected(d.s) {
		t.Error("the protection has not ended")
	}
	d.do(StopRequested{By: "service web", Spare: true})
	if d.s.Goal != Down {
		t.Error("a task that is not protected is spared")
	}
}

func TestAUserStopsAProtectedTask(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", pinned))
	d.do(ProtectionRequested{Until: d.at.Add(time.Hour)})
	d.do(StopRequested{By: "user"})
	if d.s.Goal != Down || !d.s.ProtectedUntil.IsZero() {
		t.Errorf("goal %s, protected until %s", d.s.Goal, d.s.ProtectedUntil)
	}
	d.do(ProtectionRequested{Until: d.at.Add(time.Hour)})
	if !d.s.ProtectedUntil.IsZero() {
		t.Error("a task that stops is protected")
	}
}

// The clock is set back: no protection is longer than the longest.
func TestAProtectionIsNeverLongerThanTheLongest(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", pinned))
	d.do(ProtectionRequested{Until: d.at.Add(MaxProtection)})
	d.at = d.at.Add(-24 * time.Hour)
	d.do(TimerFired{})
	if left := d.s.ProtectedUntil.Sub(d.at); left != MaxProtection {
		t.Errorf("%s are left", left)
	}
	d.do(ProtectionRequested{})
	if protected(d.s) {
		t.Error("the protection was not ended")
	}
}

// A task that ends by itself is not protected any more, in the same step.
func TestAProtectedTaskThatEndsIsNotProtected(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", pinned))
	d.upTo(Probe)
	d.do(ProtectionRequested{Until: d.at.Add(time.Hour)})
	d.end(0, 0)
	if d.s.Goal != Down || !d.s.ProtectedUntil.IsZero() {
		t.Errorf("goal %s, protected until %s", d.s.Goal, d.s.ProtectedUntil)
	}
}
