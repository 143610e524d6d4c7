//go:build e2e && bed_systemd

package e2e

import (
	"syscall"
	"testing"
)

// systemd restarts the owner of a detached task that is killed, so the end of the
// essential container is noticed without any command.
func TestKilledOwnerOfADetachedTaskIsRestarted(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--wait=running", b.waiter())
	b.up(id)
	before := b.inspect(id)
	if err := syscall.Kill(before.Owner.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.touch(before.Containers[0].RuntimeID, "/tmp/go")
	b.await("task STOPPED")
	if got := b.inspect(id); got.Status != "STOPPED" || got.codes() != "app=7" || got.Owner.PID == before.Owner.PID && got.Owner.Alive {
		t.Errorf("%s %s, owner %+v", got.Status, got.codes(), got.Owner)
	}
	if n := count(b.events(), "app RUNNING"); n != 1 {
		t.Errorf("app RUNNING is reported %d times", n)
	}
}
