package history

import "slices"

// The verbs of Services and Tasks.
const (
	Create = "create" // a service
	Update = "update"
	Delete = "delete"
	Run    = "run" // a task
	Stop   = "stop"
	Look   = "look" // at either
)

// Statuses of a service. Gone is also one that is no longer known.
const (
	Active   = "ACTIVE"
	Draining = "DRAINING"
	Gone     = "INACTIVE"
)

// Refusals.
const (
	Exists    = "there is one"
	NotActive = "not active"
	Missing   = "not found"
)

// Services is the model of a service. One that is deleted drains for some time and is gone then.
func Services(s State, q Request, a Answer) (State, bool) {
	made, none := State{Status: Active, Value: q.Value}, s.Status == "" || s.Status == Gone
	switch q.Do {
	case Create:
		switch a.Refused {
		case Exists:
			return s, s.Status == Active
		case NotActive:
			return s, s.Status == Draining
		}
		if a.Lost && s.Status == Active {
			return s, true
		}
		return made, s.Status != Active
	case Update:
		switch {
		case a.Refused != "":
			return s, s.Status != Active && (a.Refused == Missing || s.Status != "")
		case a.Lost && s.Status != Active:
			return s, true
		}
		return made, s.Status == Active
	case Delete:
		switch {
		case a.Refused != "" || a.Lost && none:
			return gone(s), s.Status != Active
		}
		return State{Status: Draining}, !none
	}
	switch {
	case a.Lost:
		return s, true
	case a.Status == Active:
		return s, s.Status == Active && s.Value == a.Value
	case a.Status == Draining:
		return s, s.Status == Draining
	}
	return gone(s), s.Status != Active
}

// gone is the state of a service that is not there, if it ever was.
func gone(s State) State {
	if s.Status == "" {
		return s
	}
	return State{Status: Gone}
}

// statuses lists the statuses of a task in their order.
var statuses = []string{"", "PROVISIONING", "PENDING", "ACTIVATING", "RUNNING", "DEACTIVATING", "STOPPING", "DEPROVISIONING", "STOPPED"}

// Tasks is the model of a task that a client token names: it is made once, never goes back to an earlier status, is there once a
// client was told of it, and stays to be stopped. It may stop by itself.
func Tasks(s State, q Request, a Answer) (State, bool) {
	known := q.Task != "" && q.Task == s.Task
	switch {
	case a.Lost && q.Do == Stop && known:
		s.Down = true
		return s, true
	case a.Lost:
		return s, true
	case a.Refused != "":
		return s, q.Do != Run && !known
	case q.Do == Run:
		same := s.Task == "" || s.Task == a.Task
		s.Task = a.Task
		return s, same
	case q.Do == Stop:
		s.Down = true
		return s, known
	}
	forward := slices.Index(statuses, a.Status) >= slices.Index(statuses, s.Status) && (a.Down || !s.Down)
	s.Status, s.Down = a.Status, a.Down
	return s, known && forward
}
