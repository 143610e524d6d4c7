package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/fault"
)

// faultHistory are the statuses and reasons of the faults of a task.
func faultHistory(s State) (all []string) {
	for _, t := range s.History {
		if strings.HasPrefix(t.Status, "FAULT_") {
			all = append(all, t.Status+" "+t.Reason)
		}
	}
	return all
}

func faulty(s State) bool {
	return slices.ContainsFunc(s.Explain(), func(r Reason) bool { return r.Code == WhyFault })
}

func TestAFaultEndsByItself(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", pinned))
	f := fault.Fault{Kind: fault.Latency, DelayMilliseconds: 200, Sources: []string{"0.0.0.0/0"}, FlowsPercent: 100, Until: d.at.Add(time.Minute)}
	d.do(FaultsChanged{Faults: []fault.Fault{f}})
	if faulty(d.s) || len(faultHistory(d.s)) > 0 || len(d.s.Durable().Faults) != 1 {
		t.Errorf("before the network has it: %q %+v", faultHistory(d.s), d.s.Explain())
	}
	f.Since = d.at
	d.do(FaultsChanged{Faults: []fault.Fault{f}})
	if !faulty(d.s) {
		t.Errorf("%+v", d.s.Explain())
	}
	if wake := d.s.Wake(d.at); wake.IsZero() || wake.After(f.Until) {
		t.Errorf("it wakes at %s", wake)
	}
	d.at = f.Until
	d.do(TimerFired{})
	const what = "packets to 0.0.0.0/0 are 200 ms late"
	if got, want := faultHistory(d.s), []string{"FAULT_STARTED " + what, "FAULT_STOPPED " + what + ": its time is over"}; len(d.s.Faults) > 0 || faulty(d.s) || !slices.Equal(got, want) {
		t.Errorf("%+v\n%q, want\n%q", d.s.Faults, got, want)
	}
}

func TestNoFaultOutlivesItsOwner(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", pinned))
	hole := fault.Fault{Kind: fault.BlackholePort, Port: 80, Protocol: "tcp", TrafficType: fault.Ingress, Since: d.at}
	loss := fault.Fault{Kind: fault.PacketLoss, LossPercent: 5, Sources: []string{"::/0"}, FlowsPercent: 100}
	d.do(FaultsChanged{Faults: []fault.Fault{hole, loss}}) // one is there, one is not yet
	d.do(Restarted{})
	want := []string{"FAULT_STARTED " + hole.String(), "FAULT_STOPPED " + hole.String() + ": the process that owned the task has ended"}
	if got := faultHistory(d.s); len(d.s.Faults) > 0 || !slices.Equal(got, want) {
		t.Errorf("%+v\n%q, want\n%q", d.s.Faults, got, want)
	}
}

func TestAFaultEndsWithItsTask(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", pinned))
	d.upTo(Pull)
	d.do(FaultsChanged{Faults: []fault.Fault{{Kind: fault.BlackholePort, Port: 80, Protocol: "tcp", TrafficType: fault.Ingress, Since: d.at}}})
	d.fail(Pull, 0, Permanent)
	if got := faultHistory(d.s); len(d.s.Faults) > 0 || len(got) != 2 || !strings.HasSuffix(got[1], ": the task has ended") {
		t.Errorf("%+v %q", d.s.Faults, got)
	}
	d.do(FaultsChanged{Faults: []fault.Fault{{Kind: fault.Latency}}})
	if len(d.s.Faults) > 0 {
		t.Error("a task that has ended gets a fault")
	}
}

// The clock is set back: no fault is longer than the longest, and older states stay as they were.
func TestAFaultIsNeverLongerThanTheLongest(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", pinned))
	until := d.at.Add(fault.MaxDuration)
	d.do(FaultsChanged{Faults: []fault.Fault{{Kind: fault.Latency, Since: d.at, Until: until}}})
	before := d.s
	d.at = d.at.Add(-24 * time.Hour)
	d.do(TimerFired{})
	if got := d.s.Faults[0].Until; !got.Equal(until.Add(-24*time.Hour)) || !before.Faults[0].Until.Equal(until) {
		t.Errorf("until %s, before until %s", got, before.Faults[0].Until)
	}
}
