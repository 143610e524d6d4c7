package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/podtask/podtask/internal/engine/record"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/admission"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/transient"
)

// Ledger is what all owners share: the queue, whether new tasks are refused, and when
// leftovers were last removed.
type Ledger struct {
	Log   *slog.Logger
	Store *state.Ledger
	Tasks *record.Tasks
}

// Content is what all owners share, as it is stored.
type Content struct {
	Queue admission.Queue `json:"queue,omitzero"`
	Drain *Drain          `json:"drain,omitempty"`
	// SweptAt is when a process last looked for what dead owners left behind.
	SweptAt time.Time `json:"sweptAt,omitzero"`
	// SuspectUntil: until then a dead owner's pod may still come into being.
	SuspectUntil time.Time `json:"suspectUntil,omitzero"`
}

// Read reads what owners share; it may be changing.
func (l *Ledger) Read() (Content, error) {
	data, err := l.Store.Read()
	if err != nil || data == nil {
		return Content{}, err
	}
	var c Content
	err = json.Unmarshal(data, &c)
	return c, err
}

// Change changes what owners share. When there is none, or it was damaged, it
// is made of the records first; where all is new there is nothing to sweep yet.
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

// rebuildQueue makes a queue of the records: those who are in are in, and those who wait
// ask again.
func (l *Ledger) rebuildQueue() admission.Queue {
	var q admission.Queue
	all, _ := l.Tasks.States()
	for _, s := range all {
		if s.Sandbox.Reservation == lifecycle.ReservationGranted && s.Status() != lifecycle.StatusStopped {
			q, _ = q.Take(Entry(s), s.CreatedAt)
		}
	}
	return q
}

func Entry(s lifecycle.State) admission.Entry {
	name := s.Name
	if name == "" {
		name = s.Task.Family
	}
	return admission.Entry{Task: s.ID, Name: name, Need: s.Need(), GPUs: s.Sandbox.GPUs}
}

// Transient marks a failure of the ledger, such as a full disk, as transient, unless a newer podtask
// wrote the ledger or ctx has ended.
func Transient(err error) error {
	if err == nil || errors.Is(err, state.ErrFuture) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return transient.Mark(err)
}

// Follow calls fn after each change, until ctx ends or the ledger cannot be watched.
func (l *Ledger) Follow(ctx context.Context, fn func()) error { return l.Store.Follow(ctx, fn) }

// Drain says since when the host takes no new tasks.
type Drain struct {
	Since time.Time `json:"since"`
}

// ErrDraining says that this host takes no new tasks.
var ErrDraining = errors.New("this host is draining")

// Draining tells whether the host takes no new tasks, and since when.
func (l *Ledger) Draining() (Drain, bool) {
	c, err := l.Read()
	if err != nil || c.Drain == nil {
		return Drain{}, false
	}
	return *c.Drain, true
}

// SetDraining makes the host refuse new tasks, or take them again. No task is
// created after it has returned.
func (l *Ledger) SetDraining(ctx context.Context, draining bool) error {
	lock, err := l.Tasks.Locks.LockWait(ctx, record.AllTasks) // as Create
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

// RefuseDraining is asked before a task is created.
func (l *Ledger) RefuseDraining() error {
	if d, draining := l.Draining(); draining {
		return fmt.Errorf("%w since %s and takes no new tasks; `podtask drain --undo` ends that", ErrDraining, d.Since.Local().Format(time.DateTime))
	}
	return nil
}
