package agent

import (
	"context"
	"errors"
	"fmt"
	"time"
)

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
	lock, err := l.tasks.Locks.LockWait(ctx, hostKey) // as Create
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return l.Change(ctx, func(l *ledger) {
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
