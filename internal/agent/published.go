package agent

import (
	"context"
	"sync"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/state"
)

// publishedIndex knows what the event log holds of each task. It is read anew when the log
// has changed, and not for each of the many tasks that an agent takes over at its start.
type publishedIndex struct {
	mu    sync.Mutex // guards the fields below
	mark  state.Mark // of the log when it was read
	first Event      // the oldest in the log
	last  map[string]uint64
}

// LastPublished is the Seq of the last transition of a task that is, or was, in the
// event log. The log drops what is old: a transition from before its first event
// was there, or would be out of order now.
func (e *EventLog) LastPublished(ctx context.Context, s lifecycle.State) (seq uint64) {
	if len(s.History) == 0 {
		return 0
	}
	p := &e.index
	p.mu.Lock()
	defer p.mu.Unlock()
	if mark := e.log.Mark(); p.last == nil || mark != p.mark {
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

func (p *publishedIndex) read(ctx context.Context, events *EventLog) {
	p.first, p.last = Event{}, make(map[string]uint64)
	_ = events.Read(ctx, 0, false, func(e Event) error {
		if p.first.Seq == 0 {
			p.first = e
		}
		p.last[e.Task] = e.TaskSeq
		return nil
	})
	if ctx.Err() != nil {
		p.last = nil // it was not read to the end
	}
}
