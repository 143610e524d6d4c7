package service

import (
	"slices"
	"strings"
	"time"
)

// alarmPause is between two checks of the alarms of an attempt.
const alarmPause = 10 * time.Second

// names are those of the alarms that are asked.
func (a Alarms) names() (names []string) {
	if a.Enable {
		for _, alarm := range a.Alarms {
			names = append(names, alarm.Name)
		}
	}
	return names
}

// checked takes in what the alarms of an attempt say. Those that are raised when it begins do not count.
func (s *State) checked(at time.Time, in AlarmsChecked) {
	a := s.staged()
	if a == nil || a.Number != in.Attempt || a.Alarms == nil || a.Alarms.op != busy {
		return
	}
	w := a.Alarms
	problem := in.Problem != "" && in.Problem != w.Problem
	w.op, w.NextCheck, w.Problem = idle, at.Add(alarmPause), in.Problem
	raised := strings.Join(in.Raised, ", ")
	switch {
	case problem:
		s.say(at, "(deployment %s) its alarms cannot be asked: %s.", s.Primary().ID, in.Problem)
	case in.Problem != "":
	case len(in.Raised) == 0:
		w.Watched = true
	case !w.Watched:
		w.Raised = slices.Clone(in.Raised)
		s.say(at, "(deployment %s) does not watch its alarms, because %s was raised when it began.", s.Primary().ID, raised)
	default:
		w.Raised = slices.Clone(in.Raised)
		why := "the alarm " + raised + " was raised"
		s.giveUp(at, failure{why, why, why}, a.Method.Alarms.Rollback)
	}
}

// asks reports whether the alarms are to be asked again.
func (a *Attempt) asks() bool {
	return a.Alarms != nil && !a.Progress.Back && (a.Alarms.Watched || len(a.Alarms.Raised) == 0)
}

// startCheck returns the check of the alarms, if it is due.
func (s *State) startCheck(at time.Time) []Effect {
	a := s.staged()
	if a == nil || !a.asks() || a.Alarms.op != idle || at.Before(a.Alarms.NextCheck) {
		return nil
	}
	a.Alarms.op = busy
	return []Effect{CheckAlarms{Attempt: a.Number}}
}
