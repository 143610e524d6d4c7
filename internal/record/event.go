package record

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/state"
)

// Events is the ordered log of the transitions of all tasks.
type Events struct {
	Log   *slog.Logger
	Store *state.Log
	index publishedIndex
}

// publishedIndex knows what the event log contains of each task. It is read again only
// when the log has changed, not for each of the many tasks that a starting agent takes
// over.
type publishedIndex struct {
	mu    sync.Mutex // guards the fields below
	mark  state.Mark // of the log when it was read
	first Event      // the oldest in the log
	last  map[string]uint64
}

// LastPublished is the Seq of the last transition of a task that is, or was, in the
// event log. The log drops what is old: a transition from before its first event
// was there, or would be out of order now.
func (e *Events) LastPublished(ctx context.Context, s lifecycle.State) (seq uint64) {
	if len(s.History) == 0 {
		return 0
	}
	p := &e.index
	p.mu.Lock()
	defer p.mu.Unlock()
	if mark := e.Store.Mark(); p.last == nil || mark != p.mark {
		p.read(ctx, e)
		p.mark = mark // from before: what was added meanwhile is read by the next
	}
	seq = p.last[s.ID]
	if p.first.Seq <= 1 {
		return seq
	}
	for _, t := range s.History {
		if t.At.Before(p.first.At) {
			seq = max(seq, t.Seq)
		}
	}
	return seq
}

func (p *publishedIndex) read(ctx context.Context, events *Events) {
	p.first, p.last = Event{}, make(map[string]uint64)
	_ = events.Read(ctx, 0, false, func(e Event) error {
		if p.first.Seq == 0 {
			p.first = e
		}
		if e.TaskSeq > 0 { // else it is no transition
			p.last[e.Task] = e.TaskSeq
		}
		return nil
	})
	if ctx.Err() != nil {
		p.last = nil // it was not read to the end
	}
}

// Event is one transition of one task.
type Event struct {
	// Seq is the host's number for it, dense over all tasks.
	Seq uint64 `json:"seq,omitempty"`
	// TaskSeq is the task's own: Transition.Seq, which Seq hides; 0 for what is no
	// transition of its state.
	TaskSeq uint64 `json:"taskSeq"`
	Task    string `json:"task"`
	Name    string `json:"name,omitempty"`
	Family  string `json:"family"`
	lifecycle.Transition
}

func EncodeEvent(s lifecycle.State, t lifecycle.Transition) json.RawMessage {
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
// With follow it continues until ctx ends or fn returns an error, which it returns.
func (e *Events) Read(ctx context.Context, after uint64, follow bool, fn func(Event) error) error {
	each := func(entry state.Entry) error {
		ev, err := decodeEvent(entry)
		if err != nil {
			e.Log.Warn("an event cannot be read", "seq", entry.Seq, "error", err)
			return nil
		}
		return fn(ev)
	}
	if follow {
		return e.Store.Follow(ctx, after, each)
	}
	for entry, err := range e.Store.Read(ctx, after) {
		if err != nil {
			e.Log.Warn("an event cannot be read", "error", err)
			continue
		}
		if err := each(entry); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Note adds an event that is no transition of a task's state.
func (e *Events) Note(ctx context.Context, s lifecycle.State, t lifecycle.Transition) {
	t.Seq = 0
	if err := e.Append(ctx, EncodeEvent(s, t)); err != nil {
		e.Log.Warn("the event log lacks an event", "task", s.ID, "status", t.Status, "error", err)
	}
}

// Append adds entries.
func (e *Events) Append(ctx context.Context, entries ...json.RawMessage) error {
	_, err := e.Store.Append(ctx, entries...)
	return err
}
