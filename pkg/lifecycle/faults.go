package lifecycle

import (
	"slices"
	"time"

	"github.com/podtask/podtask/pkg/fault"
)

// The statuses of History for a fault that has begun and one that is over.
const (
	FaultStarted = "FAULT_STARTED"
	FaultStopped = "FAULT_STOPPED"
)

// setFaults replaces the faults of a task, and records those that begin and end.
func setFaults(s *State, at time.Time, faults []fault.Fault, reason string) {
	for _, f := range s.Faults {
		if fault.Find(faults, f) < 0 && !f.Since.IsZero() {
			text := f.String()
			if reason != "" {
				text += ": " + reason
			}
			addTransition(s, Transition{At: at, Status: FaultStopped, Reason: text})
		}
	}
	for _, f := range faults {
		if i := fault.Find(s.Faults, f); !f.Since.IsZero() && (i < 0 || s.Faults[i].Since.IsZero()) {
			addTransition(s, Transition{At: at, Status: FaultStarted, Reason: f.String()})
		}
	}
	s.Faults = faults
}

// endFaults ends the faults whose time is over, and all of them when nothing of the task runs.
func endFaults(s *State, at time.Time) {
	if len(s.Faults) == 0 {
		return
	}
	if allEnded(s) {
		setFaults(s, at, nil, "the task has ended")
		return
	}
	over := func(f fault.Fault) bool { return !f.Until.IsZero() && !at.Before(f.Until) }
	if slices.ContainsFunc(s.Faults, over) {
		setFaults(s, at, slices.DeleteFunc(slices.Clone(s.Faults), over), "its time is over")
	}
}

// limitFaults brings the ends of faults nearer that are further off than they are ever set.
func limitFaults(s *State, at time.Time) {
	latest := at.Add(fault.MaxDuration)
	for i, f := range s.Faults {
		if f.Until.After(latest) {
			s.Faults = slices.Clone(s.Faults) // older states share them
			s.Faults[i].Until = latest
		}
	}
}

// explainFaults are the faults that the network of the task has.
func explainFaults(s State) []Reason {
	var all []Reason
	for _, f := range s.Faults {
		if f.Since.IsZero() {
			continue
		}
		r := Reason{Code: WhyFault, Text: "a fault was injected into its network: " + f.String(), Since: f.Since, Until: f.Until}
		if !f.Until.IsZero() {
			r.Then = "the fault ends"
		}
		all = append(all, r)
	}
	return all
}
