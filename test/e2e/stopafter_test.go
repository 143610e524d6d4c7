//go:build e2e

//e2e:bed systemd

package e2e

import (
	"strings"
	"syscall"
	"testing"
)

// A task with a time limit is stopped when that is over, also if its owner was killed meanwhile.
func TestStopAfter(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		b := newBox(t)
		id := b.detach("--stop-after", "12s", "--wait=running", b.waiter())
		if killed {
			if err := syscall.Kill(b.inspect(id).Owner.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		} else if got := b.want(0, "why", id).out; !strings.Contains(got, "Its time limit ends ") {
			t.Errorf("why does not count down: %s", got)
		}
		b.want(0, "wait", id)
		if got := b.inspect(id); got.StopCode != "DeadlineExceeded" || !strings.Contains(got.StoppedReason, "its time limit of 12s") {
			t.Errorf("owner killed %t: it ended for %s: %s", killed, got.StopCode, got.StoppedReason)
		}
	}
}
