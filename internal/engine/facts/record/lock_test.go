package record

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/state"
)

// A process that was just started keeps the lock of an agent that was killed until it runs its
// program. The next agent waits for that, and never for an agent that lives.
func TestAgentAfterOneThatWasKilled(t *testing.T) {
	t.Parallel()
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	for name, holder := range map[string]int{"dead": ended.Process.Pid, "alive": os.Getpid()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			before, err := state.OpenLocks(dir, state.Holder{PID: holder})
			if err != nil {
				t.Fatal(err)
			}
			lock, err := before.Lock(agentKey)
			if err != nil {
				t.Fatal(err)
			}
			locks, err := state.OpenLocks(dir, state.Holder{})
			if err != nil {
				t.Fatal(err)
			}
			release := time.AfterFunc(100*time.Millisecond, func() { _ = lock.Unlock() })
			defer release.Stop()
			unlock, err := (&Tasks{Locks: locks}).LockAgent()
			switch {
			case name == "alive" && !errors.Is(err, state.ErrLocked):
				t.Errorf("it does not report that there is an agent: %v", err)
			case name == "dead" && err != nil:
				t.Error(err)
			}
			if err == nil {
				_ = unlock()
			}
		})
	}
}
