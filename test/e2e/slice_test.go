//go:build e2e && bed_systemd

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func unitState(t *testing.T, unit string) string {
	t.Helper()
	out, err := exec.Command("systemctl", "--user", "show", "--property=ActiveState", "--value", unit).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestSliceHoldsTheTask(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--wait=running", b.waiter())
	b.up(id)
	slice := "podtask" + id + ".slice"
	if got := unitState(t, slice); got != "active" {
		t.Errorf("%s is %s", slice, got)
	}
	got := b.inspect(id)
	if got.Slice != slice {
		t.Errorf("inspect says the slice is %q", got.Slice)
	}
	pid := b.podman("inspect", "--format", "{{.State.Pid}}", got.Containers[0].RuntimeID)
	cgroup, err := os.ReadFile(filepath.Join("/proc", pid, "cgroup"))
	if err != nil || !strings.Contains(string(cgroup), "/"+slice+"/") {
		t.Errorf("the container's process is in %s %v", cgroup, err)
	}
	b.want(0, "stop", id)
	b.want(0, "rm", id)
	if got := unitState(t, slice); got != "inactive" {
		t.Errorf("after rm %s is %s", slice, got)
	}
}

// It turns on the socket that all tests would find, so it does not run beside them.
func TestUsersOwnPodmanSocketIsUsed(t *testing.T) {
	b := newBox(t)
	endService()
	eventually(t, "the end of our service", func() bool { return servicePID() == 0 })
	systemctl := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("systemctl", append([]string{"--user"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("systemctl %v: %v %s", args, err, out)
		}
	}
	systemctl("start", "podman.socket")
	t.Cleanup(func() { systemctl("stop", "podman.socket", "podman.service") })
	r := b.want(0, "run", "--rm", b.hello(b.testbox()))
	if !strings.Contains(r.out, "hello") {
		t.Errorf("it printed %q", r.out)
	}
	if pid := servicePID(); pid != 0 {
		t.Errorf("podtask started a service of its own, process %d", pid)
	}
}

func TestDetachedOwnerOutlivesTheSession(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--wait=running", b.waiter())
	owner := b.owners()
	if len(owner) != 1 {
		t.Fatalf("owners: %v", owner)
	}
	cgroup, err := os.ReadFile(filepath.Join("/proc", owner[0], "cgroup"))
	if err != nil || !strings.Contains(string(cgroup), "/user@") {
		t.Errorf("the owner is no unit of the user manager: %s %v", cgroup, err)
	}
	b.up(id)
	b.tell(id, "app", "/tmp/go")
	if got := b.want(0, "wait", id).out; got != "7\n" {
		t.Errorf("wait printed %q", got)
	}
}
