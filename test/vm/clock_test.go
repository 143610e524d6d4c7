//go:build e2e && bed_vm && nightly

package vm

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/podtask/podtask/test/testbed"
)

// A task that restarts again and again continues while the host's clock is set, with its
// owner and with the next one, and stops in time.
func TestClockOfTheHostIsSet(t *testing.T) {
	begun := time.Now() // with a monotonic reading
	wall := begun.Round(0)
	t.Cleanup(func() { setClock(t, wall.Add(time.Since(begun))) })
	for _, by := range []time.Duration{24 * time.Hour, -48 * time.Hour} {
		clockIsSet(t, by)
	}
}

// clockIsSet sets the clock once while a task restarts. Each pause before a restart is twice as
// long as the one before it, so each time has a task of its own.
func clockIsSet(t *testing.T, by time.Duration) {
	t.Helper()
	again := box("again", "sleep 1s -- exit 1", 32)
	again.Restart = map[string]any{"enabled": true, "x-podtask": map[string]any{"backOff": 1}}
	id := podtask(t, "run", "-d", "--wait=running", defineLasting(t, "clock", "256", "128", again))
	defer podtask(t, "rm", "--force", id)
	restarts := func() int { return inspect(t, id).Containers[0].RestartCount }
	goesOn := func(when string) {
		t.Helper()
		before := restarts()
		if !testbed.Until(func() bool { return restarts() >= before+2 }) {
			t.Fatalf("no restart %s: %s", when, podtask(t, "why", id))
		}
	}
	goesOn("before")
	setClock(t, time.Now().Add(by))
	goesOn(fmt.Sprintf("after the clock was set by %s", by))
	owner, err := os.FindProcess(inspect(t, id).Owner.PID)
	if err == nil {
		err = owner.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	goesOn(fmt.Sprintf("with the next owner, after the clock was set by %s", by))
	podtask(t, "stop", id)
}

// setClock sets the clock of the machine.
func setClock(t *testing.T, to time.Time) {
	t.Helper()
	must(t, "sudo", "date", "--set", "@"+strconv.FormatInt(to.Unix(), 10))
}
