//go:build e2e && bed_systemd

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/podtask/podtask/internal/engine/facts/failpoint"
)

// agentUnit is the agent as a service of the user, as contrib/systemd has it.
type agentUnit struct {
	systemctl func(args ...string) string
	show      func(property string) string
}

// agentUnit installs the units of contrib/systemd until the test ends, with settings of
// [Service] besides. They are on the user's own socket, which other tests would find, so
// its tests do not run beside them.
func (b *box) agentUnit(settings string) agentUnit {
	t := b.t
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, ".config", "systemd", "user")
	dropIn := filepath.Join(dir, "podtask.service.d")
	if err := os.MkdirAll(dropIn, 0o700); err != nil {
		t.Fatal(err)
	}
	systemctl := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("systemctl", append([]string{"--user"}, args...)...).CombinedOutput()
		if err != nil {
			said, _ := exec.Command("journalctl", "--user", "--no-pager", "-n", "40", "-u", "podtask.service").CombinedOutput()
			t.Fatalf("systemctl %v: %v %s\n%s", args, err, out, said)
		}
		return strings.TrimSpace(string(out))
	}
	t.Cleanup(func() {
		systemctl("stop", "podtask.socket", "podtask.service")
		for _, name := range []string{"podtask.service", "podtask.socket", "podtask.service.d"} {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Error(err)
			}
		}
		systemctl("daemon-reload")
	})
	contrib := filepath.Join(filepath.Dir(os.Getenv("PODTASK_EXAMPLES")), "contrib", "systemd")
	for _, name := range []string{"podtask.service", "podtask.socket"} {
		text, err := os.ReadFile(filepath.Join(contrib, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	changes := fmt.Sprintf("[Service]\nExecStart=\nExecStart=%s agent\nEnvironment=XDG_STATE_HOME=%s REGISTRY_AUTH_FILE=%s\n", bed.podtask, b.stateHome(), bed.auth) + settings
	if err := os.WriteFile(filepath.Join(dropIn, "test.conf"), []byte(changes), 0o600); err != nil {
		t.Fatal(err)
	}
	systemctl("daemon-reload")
	return agentUnit{systemctl, func(property string) string {
		t.Helper()
		return systemctl("show", "--property="+property, "--value", "podtask.service")
	}}
}

func TestAgentAsAUserService(t *testing.T) {
	b := newBox(t)
	unit := b.agentUnit("WatchdogSec=3s\n")
	systemctl, show := unit.systemctl, unit.show
	systemctl("start", "podtask.socket")
	if got := show("ActiveState"); got != "inactive" {
		t.Fatalf("the agent is %s before anybody wants it", got)
	}

	// The first command starts it through the socket.
	id := b.detach("--wait=running", b.waiter())
	b.up(id)
	began := b.startedAt(id)
	if got := strconv.Itoa(b.inspect(id).Owner.PID); got != show("MainPID") || got == "0" {
		t.Errorf("owner %s, want the service's process %s", got, show("MainPID"))
	}
	if got := show("ActiveState"); got != "active" {
		t.Errorf("the agent is %s", got)
	}
	systemctl("reload", "podtask.service")
	systemctl("kill", "--signal=SIGUSR1", "--kill-whom=main", "podtask.service")
	eventually(t, "the answer to SIGUSR1 with fields in the journal", func() bool {
		said, err := exec.Command("journalctl", "--user", "--no-pager", "--output=json", "PODTASK_ID="+id).Output()
		return err == nil && strings.Contains(string(said), `"PRIORITY":"4"`) && strings.Contains(string(said), `"PODTASK_GOAL":"UP"`)
	})

	// One that hangs is killed by the watchdog; its successor takes the task.
	first, err := strconv.Atoi(show("MainPID"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(first, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the next agent's owning the task", func() bool {
		owner := b.inspect(id).Owner
		return owner.Alive && owner.PID != first
	})
	if got := show("NRestarts"); got != "1" {
		t.Errorf("%s restarts, want 1", got)
	}
	if got := b.startedAt(id); got != began {
		t.Errorf("the container started at %s, now at %s", began, got)
	}

	// Without the agent the container runs on, and commands take its task themselves.
	systemctl("stop", "podtask.socket", "podtask.service")
	if got := b.running(); got == "" {
		t.Error("the container ended with the agent")
	}
	b.tell(id, "app", "/tmp/go")
	if got := b.want(0, "wait", id).out; got != "7\n" {
		t.Errorf("wait printed %q", got)
	}
	b.want(0, "rm", id)
}

// The agent's unit stops and starts while podman.service has ended because it is idle, also if it is
// ordered after that service, which systemd then does not start.
func TestAgentUnitStopsWithoutPodmanService(t *testing.T) {
	b := newBox(t)
	unit := b.agentUnit("[Unit]\nAfter=podman.service\n")
	unit.systemctl("start", "podtask.socket")
	t.Cleanup(func() { unit.systemctl("stop", "podman.socket", "podman.service") })
	id := b.detach("--wait=running", b.define(quiet("db"), quiet("app")))
	idle := func() {
		t.Helper()
		eventually(t, "the end of an idle podman.service", func() bool {
			return unit.systemctl("show", "--property=ActiveState", "--value", "podman.service") == "inactive"
		})
	}
	idle()
	unit.systemctl("restart", "podtask.service")
	b.want(0, "stop", id)
	again := b.detach("--wait=running", b.define(quiet("db"), quiet("app")))
	idle()
	unit.systemctl("stop", "podtask.socket", "podtask.service")
	if got := unit.show("Result"); got != "success" {
		t.Errorf("the agent's unit stopped with %s", got)
	}
	b.want(0, "rm", "-f", id, again)
}

// A task's loop that is stuck is not seen by anything that the API answers; systemd
// restarts the agent all the same.
func TestWatchdogRestartsAnAgentWithAStuckLoop(t *testing.T) {
	b := newBox(t)
	unit := b.agentUnit("WatchdogSec=3s\nEnvironment=" + failpoint.Env + "=after-save:5:hang\n")
	unit.systemctl("start", "podtask.socket")
	id := b.detach(b.waiter())
	first := b.inspect(id).Owner.PID
	b.up(id) // which it reaches although each agent stands still at its fifth save
	if got := unit.show("NRestarts"); got == "0" {
		t.Error("no restart")
	}
	if second := b.inspect(id).Owner; second.PID == first {
		t.Errorf("owner %+v, as before", second)
	}
	said, err := exec.Command("journalctl", "--user", "--no-pager", "-u", "podtask.service", "-g", "are stuck", "PODTASK_TASKS=["+id+"]").CombinedOutput()
	if err != nil {
		t.Errorf("the agent did not say whose loop is stuck: %v %s", err, said)
	}
	unit.systemctl("stop", "podtask.socket", "podtask.service")
	b.want(0, "rm", "-f", id)
}
