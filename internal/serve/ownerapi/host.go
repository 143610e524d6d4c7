package ownerapi

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Host is the tasks of this user on this machine, as the API shows them.
type Host struct {
	Engine *engine.Engine
	Log    *slog.Logger
	// StateDir contains the records and RuntimeDir the sockets.
	StateDir, RuntimeDir string
	// ProgramVersion is the version of this program.
	ProgramVersion string
	// Patience limits the time that a task may be locked without having a socket: an owner takes
	// the lock first and releases it last.
	Patience time.Duration
}

// Socket returns the path at which the owner of a task listens.
func (h Host) Socket(id string) string {
	return filepath.Join(h.RuntimeDir, "tasks", id+".sock")
}

// OfferSocket returns the path at which the creator of a task offers it to its next owner.
func (h Host) OfferSocket(id string) string {
	return filepath.Join(h.RuntimeDir, "tasks", id+".offer.sock")
}

// Unreachable is the error for an owner that holds the lock and does not answer.
func Unreachable(id string, err error) error {
	if locked, ok := errors.AsType[*state.LockedError](err); ok && locked.Holder.PID != 0 {
		return fmt.Errorf("task %s is owned by process %d (%s), which does not answer: end it with `kill -9 %d` (the task continues to run) and try again",
			lifecycle.ShortID(id), locked.Holder.PID, locked.Holder.Command, locked.Holder.PID)
	}
	return fmt.Errorf("task %s is owned by a process that does not answer: %w", lifecycle.ShortID(id), err)
}

// FromState returns a recorded task with the owner that holds its lock.
func (h Host) FromState(st lifecycle.State) api.Task {
	t := api.FromState(st)
	if st.Goal == lifecycle.Up && st.Sandbox.Reservation == lifecycle.ReservationRequested && t.Queue == "" {
		t.Queue = h.Engine.Queue.Waiting()[st.ID].String()
	}
	if holder, held := h.Engine.Tasks.Holder(st.ID); held {
		t.Owner = api.Owner{PID: holder.PID, Alive: true}
	}
	return t
}

// Recorded is FromState of a state that was read from the record. If the task has no owner and is
// not settled, it reads the record once more and returns that: the owner may have saved its last state
// and exited since.
func (h Host) Recorded(st lifecycle.State) (lifecycle.State, api.Task) {
	t := h.FromState(st)
	if t.Settled || t.Owner.Alive {
		return st, t
	}
	newer, err := h.Engine.Tasks.Find(st.ID)
	if err != nil {
		return st, t // removed since, or never recorded
	}
	return newer, h.FromState(newer)
}
