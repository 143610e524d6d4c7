package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/state"
)

// commit makes the state durable, where that part of it changed, and then
// visible. On a full disk it waits: to go on without a record would risk more
// than to stand still.
func (r *run) commit(ctx context.Context, s lifecycle.State) error {
	data, err := json.Marshal(s.Durable())
	if err != nil {
		return fmt.Errorf("encode task %s: %w", r.id, err)
	}
	for !bytes.Equal(data, r.saved) {
		r.host.fail.at(beforeSave)
		err := r.host.Tasks.Store.Put(r.id, data)
		if err == nil {
			r.host.fail.at(afterSave)
			r.saved = data
			break
		}
		if !errors.Is(err, state.ErrNoSpace) {
			return fmt.Errorf("save task %s: %w", r.id, err)
		}
		r.host.log.Error("the task stands still until there is space", "task", r.id, "error", err)
		r.asleep()
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		r.busy()
	}
	r.publish(ctx, s)
	r.snapshot.Store(&s)
	r.mu.Lock()
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
	return nil
}

// publish appends to the host's event log what it lacks of the task's history. A
// failure is made up for by the next call.
func (r *run) publish(ctx context.Context, s lifecycle.State) {
	var entries []json.RawMessage
	last := r.published
	for _, t := range s.History {
		if t.Seq > r.published {
			entries = append(entries, encodeEvent(s, t))
			last = t.Seq
		}
	}
	if len(entries) == 0 {
		return
	}
	if _, err := r.host.Events.log.Append(ctx, entries...); err != nil {
		r.host.log.Warn("events are not in the log yet", "task", r.id, "error", err)
		return
	}
	r.published = last
	r.host.fail.at(afterPublish)
}

// erase forgets a task of which nothing is left.
func (r *run) erase() error {
	if r.suspect {
		if err := r.host.Ledger.RequestSweep(r.ctx); err != nil {
			r.host.log.Warn("the next sweep comes when it is due", "error", err)
		}
	}
	r.host.fail.at(beforeErase)
	if err := r.host.Tasks.Store.Delete(r.id); err != nil {
		return fmt.Errorf("delete the record of task %s: %w", r.id, err)
	}
	r.host.fail.at(afterErase)
	r.host.Tasks.ForgetForeground(r.State())
	return r.lock.Remove()
}
