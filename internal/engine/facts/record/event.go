package record

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"

	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Events is the ordered log of the transitions of all tasks.
type Events struct {
	Log   *slog.Logger
	Store *state.Log
	index publishedIndex
}

// publishedIndex indexes the event log by task. Only the events added since are read, not the log for each of the many
// tasks that an agent takes over or starts.
type publishedIndex struct {
	mu    sync.Mutex // guards the fields below
	asked int
	place state.Place // up to which the log was read
	mark  state.Mark  // of the log when it was read
	first Event       // the oldest in the log
	last  map[string]uint64
}

// aloneAsked is the number of tasks that a process searches for in the log before it builds an index. Most processes ask
// for one.
const aloneAsked = 2

// LastPublished is the Seq of the last transition of a task that is, or was, in the
// event log. The log drops what is old: a transition from before its first event
// was there, or would be out of order now.
func (e *Events) LastPublished(ctx context.Context, s lifecycle.State) (seq uint64) {
	if len(s.History) == 0 {
		return 0
	}
	first, seq := e.index.lookUp(ctx, e.Store, s.ID)
	if first.Seq <= 1 {
		return seq
	}
	for _, t := range s.History {
		if t.At.Before(first.At) {
			seq = max(seq, t.Seq)
		}
	}
	return seq
}

// lookUp returns the oldest event of the log, and the number of the task's last transition
// in it.
func (p *publishedIndex) lookUp(ctx context.Context, log *state.Log, id string) (first Event, seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if p.asked <= aloneAsked {
		alone := publishedIndex{last: make(map[string]uint64)}
		_ = log.Search(ctx, id, alone.add) // on an error nothing was published
		return alone.first, alone.last[id]
	}
	if mark := log.Mark(); p.last == nil || mark != p.mark {
		p.mark = mark // from before: what was added meanwhile is read by the next
		var err error
		if p.place, err = log.ReadOn(ctx, p.place, p.restart, p.add); err != nil {
			p.restart()
			p.mark = state.Mark{}
		}
	}
	return p.first, p.last[id]
}

func (p *publishedIndex) restart() { p.first, p.last = Event{}, make(map[string]uint64) }

// add adds an event of the log.
func (p *publishedIndex) add(entry state.Entry) {
	e, err := decodeEvent(entry)
	if err != nil {
		return
	}
	if p.first.Seq == 0 {
		p.first = e
	}
	if e.TaskSeq > 0 { // else it is no transition
		p.last[e.Task] = e.TaskSeq
	}
}

// Event is one transition of one task, or of what Kind says.
type Event struct {
	// Seq is the host's number for it, dense over all tasks.
	Seq uint64 `json:"seq,omitempty"`
	// TaskSeq is the task's own: Transition.Seq, which Seq hides; 0 for what is no
	// transition of its state.
	TaskSeq uint64 `json:"taskSeq"`
	Task    string `json:"task"`
	Name    string `json:"name,omitempty"`
	// Family of the task, or the deployment.
	Family string `json:"family"`
	// Service is the service that the task is a copy for; empty for none.
	Service string `json:"service,omitempty"`
	// Kind is the kind of the subject if it is no task; Task and TaskSeq are empty then, and Name is the name of it.
	Kind Kind `json:"kind,omitempty"`
	lifecycle.Transition
}

// Kind is a kind of subjects of events, other than tasks.
type Kind string

// The kinds.
const (
	// Deployment is a deployment of a service; Status is one of ECS's service deployments.
	Deployment Kind = "deployment"
	// UnitUpdate is an update of a unit to other images; Status is one of a deployment.
	UnitUpdate Kind = "unit"
	// ScheduledRun is a decision about a due time of a schedule: RunMissed or RunFailed.
	ScheduledRun Kind = "schedule"
)

// DeploymentFailed is the status of a Deployment that failed and was not rolled back; RunMissed and RunFailed are those
// of a ScheduledRun.
const (
	DeploymentFailed = "FAILED"

	RunMissed = "MISSED"
	RunFailed = "FAILED"
)

// Report adds an event of something else than a task. Of is what of it: a deployment; empty for none.
func (e *Events) Report(ctx context.Context, k Kind, name, of string, t lifecycle.Transition) error {
	b, err := json.Marshal(Event{Kind: k, Name: name, Family: of, Transition: t})
	if err != nil {
		return err
	}
	return e.Append(ctx, b)
}

// Reported reports whether the log has such an event.
func (e *Events) Reported(ctx context.Context, k Kind, name, of, status string) (found bool) {
	_ = e.Store.Search(ctx, of, func(entry state.Entry) { // on an error it is added again
		ev, err := decodeEvent(entry)
		found = found || err == nil && ev.Kind == k && ev.Name == name && ev.Family == of && ev.Status == status
	})
	return found
}

// EncodeEvent returns a transition of a task as a line of the event log.
func EncodeEvent(s lifecycle.State, t lifecycle.Transition) json.RawMessage {
	b, err := json.Marshal(Event{TaskSeq: t.Seq, Task: s.ID, Name: s.Name, Family: s.Task.Family, Service: s.Options.Service, Transition: t})
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

// Last is the number of the last event, 0 if there is none or it cannot be read.
func (e *Events) Last(ctx context.Context) uint64 {
	seq, err := e.Store.Last(ctx)
	if err != nil {
		e.Log.Warn("the end of the event log cannot be read", "error", err)
	}
	return seq
}

// Read calls fn for the events of all tasks numbered above after, in order.
// With follow it continues until ctx ends or fn returns an error, which it returns.
func (e *Events) Read(ctx context.Context, after uint64, follow bool, fn func(Event) error) error {
	return e.ReadAll(ctx, after, follow, func(ev Event) error {
		if ev.Kind != "" {
			return nil
		}
		return fn(ev)
	})
}

// ReadAll is Read for the events of all kinds.
func (e *Events) ReadAll(ctx context.Context, after uint64, follow bool, fn func(Event) error) error {
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
