package admit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/admission"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/transient"
)

// Ledger is the file that all processes with the same state directory share. It never calls
// Podman.
type Ledger struct {
	Log   *slog.Logger
	Store *state.Ledger
	Tasks *record.Tasks
}

// Content is the stored content of the ledger.
type Content struct {
	Queue admission.Queue `json:"queue,omitzero"`
	Drain *Drain          `json:"drain,omitempty"`
	// SweptAt is the time at which a process last looked for what dead owners left behind.
	SweptAt time.Time `json:"sweptAt,omitzero"`
	// SuspectUntil is until when Podman may still create a pod that a dead owner requested.
	SuspectUntil time.Time `json:"suspectUntil,omitzero"`
}

// Read returns the content of the ledger. It takes no lock, so another process may change it.
func (l *Ledger) Read() (Content, error) {
	data, err := l.Store.Read()
	if err != nil || data == nil {
		return Content{}, err
	}
	var c Content
	err = json.Unmarshal(data, &c)
	return c, err
}

// Change changes the ledger under its lock. If the file is missing or damaged, the queue is
// first rebuilt from the records of tasks, and the next sweep is due after sweepPace.
func (l *Ledger) Change(ctx context.Context, change func(*Content)) error {
	return l.Store.Update(ctx, func(old []byte) ([]byte, error) {
		var c Content
		if old == nil || json.Unmarshal(old, &c) != nil {
			c = Content{Queue: l.rebuildQueue(), SweptAt: time.Now().UTC()}
		}
		change(&c)
		return json.Marshal(c)
	})
}

// rebuildQueue returns a queue according to the records: admitted tasks keep their
// reservation; waiting tasks must ask again.
func (l *Ledger) rebuildQueue() admission.Queue {
	var q admission.Queue
	all, _ := l.Tasks.States()
	for _, s := range all {
		if s.Sandbox.Reservation == lifecycle.ReservationGranted && s.Status() != lifecycle.StatusStopped {
			q, _ = q.Take(entryOf(s), s.CreatedAt)
		}
	}
	return q
}

// entryOf returns the entry of a task in the queue.
func entryOf(s lifecycle.State) admission.Entry {
	name := s.Name
	if name == "" {
		name = s.Task.Family
	}
	return admission.Entry{Task: s.ID, Name: name, Need: s.Need(), GPUs: s.Sandbox.GPUs}
}

// markTransient marks a failure of the ledger, such as a full disk, as transient, unless a newer
// podtask wrote the ledger or ctx has ended.
func markTransient(err error) error {
	if err == nil || errors.Is(err, state.ErrFuture) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return transient.Mark(err)
}

// Follow calls fn after each change, until ctx ends or the ledger cannot be watched.
func (l *Ledger) Follow(ctx context.Context, fn func()) error { return l.Store.Follow(ctx, fn) }

// Drain is the state of a draining host, which accepts no new tasks.
type Drain struct {
	Since time.Time `json:"since"`
}

// ErrDraining is returned for a new task while this host is draining.
var ErrDraining = errors.New("this host is draining")

// Draining reports whether the host is draining, and since when.
func (l *Ledger) Draining() (Drain, bool) {
	c, err := l.Read()
	if err != nil || c.Drain == nil {
		return Drain{}, false
	}
	return *c.Drain, true
}

// SetDraining makes the host refuse new tasks, or accept them again. No new task is recorded
// after SetDraining(ctx, true) has returned.
func (l *Ledger) SetDraining(ctx context.Context, draining bool) error {
	lock, err := l.Tasks.Locks.LockWait(ctx, record.AllTasks) // as for the record of a new task
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return l.Change(ctx, func(l *Content) {
		switch {
		case !draining:
			l.Drain = nil
		case l.Drain == nil:
			l.Drain = &Drain{Since: time.Now().UTC()}
		}
	})
}

// RefuseDraining returns ErrDraining, with a hint, while the host is draining.
func (l *Ledger) RefuseDraining() error {
	if d, draining := l.Draining(); draining {
		return fmt.Errorf("%w since %s and takes no new tasks; `podtask drain --undo` ends that", ErrDraining, d.Since.Local().Format(time.DateTime))
	}
	return nil
}
