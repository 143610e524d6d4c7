package effects

import (
	"context"
	"fmt"
	"os"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/transient"
)

// ElsewhereError reports that a task is in another Podman than the one of this process, which knows nothing of its
// containers: what it says about them must not be believed.
type ElsewhereError struct {
	// Task is the ID of the task.
	Task string
	// Has and Here are the directories in which the two keep containers.
	Has, Here string
}

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("task %s is in another Podman: that one keeps containers in %s, and this one in %s; set CONTAINER_HOST, CONTAINERS_STORAGE_CONF and XDG_DATA_HOME as they were when the task was created",
		lifecycle.ShortID(e.Task), e.Has, e.Here)
}

// CheckStorage returns an *ElsewhereError if the pod of a task is in another Podman, and an error if Podman does not say
// where it keeps containers. Both are temporary. A Podman that has moved its directory, or has lost it, is the same one.
func (r *Interpreter) CheckStorage(ctx context.Context, s lifecycle.State) error {
	if s.Sandbox.Storage == "" || s.Sandbox.Phase == lifecycle.SandboxRemoved {
		return nil
	}
	here, err := r.Storage(ctx)
	if err != nil {
		return transient.Mark(err)
	}
	if here == "" || here == s.Sandbox.Storage {
		return nil
	}
	there, err := os.Stat(s.Sandbox.Storage)
	if err != nil {
		return nil
	}
	if now, err := os.Stat(here); err == nil && os.SameFile(there, now) {
		return nil
	}
	return transient.Mark(&ElsewhereError{Task: s.ID, Has: s.Sandbox.Storage, Here: here})
}
