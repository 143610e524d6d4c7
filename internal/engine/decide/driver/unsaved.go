package driver

import (
	"slices"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
)

// A decision is carried out when its record is saved. While the disk is full:
//
//   - a step whose decision starts or creates something is undone, and its events are kept
//     for the next attempt;
//   - a step below goal Up is carried out, because it only ends things: the successor of an
//     owner that is killed then sees in Podman what has ended, and starts from the record
//     before. It does not know of the request to stop.
//
// So a request that lowers the goal comes first among the events that are kept.

// Undo takes the latest step back, because its record could not be saved, and returns the
// events to step with instead, together with later ones.
func (t *Task) Undo(batch []lifecycle.Event) []lifecycle.Event {
	*t = *t.before
	var requests, facts []lifecycle.Event
	keep := func(list *[]lifecycle.Event, ev lifecycle.Event) {
		if !slices.Contains(*list, ev) {
			*list = append(*list, ev)
		}
	}
	for _, ev := range batch {
		switch ev.(type) {
		case lifecycle.TimerFired: // the next attempt is a tick, or has an event, and so the time
		case lifecycle.Restarted: // comes before everything else
			requests = slices.Insert(requests, 0, ev)
		case lifecycle.StopRequested, lifecycle.RemoveRequested:
			keep(&requests, ev)
		case lifecycle.OpFinished: // comes once, and is not comparable
			facts = append(facts, ev)
		default:
			keep(&facts, ev)
		}
	}
	return append(requests, facts...)
}

// makes reports whether an effect creates or starts something.
func makes(e lifecycle.Effect) bool {
	switch e.(type) {
	case lifecycle.PullImage, lifecycle.CreateSandbox, lifecycle.RunSandbox, lifecycle.CreateContainer, lifecycle.StartContainer:
		return true
	default:
		return false
	}
}

// Undo takes the latest step back, because its record could not be saved, and returns the
// messages to step with instead, together with later ones.
func (v *Service) Undo(batch []Message) []Message {
	v.machine = v.before
	return slices.DeleteFunc(batch, func(m Message) bool {
		_, timer := m.Input.(service.TimerFired) // as with tasks
		return timer
	})
}
