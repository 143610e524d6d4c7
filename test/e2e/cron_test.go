//go:build e2e && bed_systemd

package e2e

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A job of cron, and a shell of su, have no variables of a login. podtask finds the sockets of the user all the same.
func TestJobOfCron(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	cron := func(args ...string) *process {
		return b.startWith(func(c *exec.Cmd) {
			c.Env = slices.DeleteFunc(slices.Clone(c.Env), func(e string) bool {
				return strings.HasPrefix(e, "XDG_RUNTIME_DIR=") || strings.HasPrefix(e, "DBUS_SESSION_BUS_ADDRESS=")
			})
		}, args...)
	}
	cron("run", "--rm", b.hello(b.testbox())).want(0)
	id := b.detach("--wait=running", b.waiter())
	cron("stop", id).want(0)
	if got := b.inspect(id); got.StopCode != "UserInitiated" {
		t.Errorf("%s: %s", got.StopCode, got.StoppedReason)
	}
}
