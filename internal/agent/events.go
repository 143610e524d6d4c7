package agent

import (
	"context"
	"encoding/json"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/state"
)

// Event is one transition of one task.
type Event struct {
	// Seq is the host's number for it, dense over all tasks.
	Seq uint64 `json:"seq,omitempty"`
	// TaskSeq is the task's own: Transition.Seq, which Seq hides.
	TaskSeq uint64 `json:"taskSeq"`
	Task    string `json:"task"`
	Name    string `json:"name,omitempty"`
	Family  string `json:"family"`
	lifecycle.Transition
}

func encodeEvent(s lifecycle.State, t lifecycle.Transition) json.RawMessage {
	b, err := json.Marshal(Event{TaskSeq: t.Seq, Task: s.ID, Name: s.Name, Family: s.Task.Family, Transition: t})
	if err != nil {
		panic("agent: an event cannot be encoded: " + err.Error())
	}
	return b
}

func decodeEvent(e state.Entry) (Event, error) {
	var ev Event
	err := json.Unmarshal(e.Data, &ev)
	ev.Seq = e.Seq
	return ev, err
}

// Read calls fn for the events of all tasks numbered above after, in order.
// With follow it goes on until ctx ends or fn returns an error, which it returns.
func (e *EventLog) Read(ctx context.Context, after uint64, follow bool, fn func(Event) error) error {
	each := func(entry state.Entry) error {
		ev, err := decodeEvent(entry)
		if err != nil {
			e.logger.Warn("an event cannot be read", "seq", entry.Seq, "error", err)
			return nil
		}
		return fn(ev)
	}
	if follow {
		return e.log.Follow(ctx, after, each)
	}
	for entry, err := range e.log.Read(ctx, after) {
		if err != nil {
			e.logger.Warn("an event cannot be read", "error", err)
			continue
		}
		if err := each(entry); err != nil {
			return err
		}
	}
	return ctx.Err()
}
