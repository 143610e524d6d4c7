//go:build e2e

//e2e:bed plain

package e2e

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// secondPodman starts a Podman of the same user that keeps its containers elsewhere, and returns its address in the form
// of CONTAINER_HOST.
func secondPodman(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	socket := filepath.Join(dir, "podman.sock")
	var log syncBuffer
	cmd := exec.Command("podman", "--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "run"), "system", "service", "--time", "0", "unix://"+socket)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = exec.Command("podman", "unshare", "rm", "-rf", filepath.Join(dir, "root"), filepath.Join(dir, "run")).Run()
	})
	eventually(t, "a second Podman", func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return "unix://" + socket
}

// A task whose owner has died, and a command that reaches another Podman than the one that the task is in: that one
// says of each container that there is none. The task is neither called stopped nor forgotten.
func TestTaskOfAnotherPodman(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--wait=running", b.waiter())
	b.killOwner(id)
	elsewhere := "CONTAINER_HOST=" + secondPodman(t)
	for _, command := range []string{"stop", "wait", "rm -f"} {
		r := b.startWith(func(c *exec.Cmd) { c.Env = append(c.Env, elsewhere) }, append(strings.Fields(command), id)...).wait()
		if r.code == 0 || !strings.Contains(r.err, "is in another Podman") {
			t.Errorf("%s ended with %d: %s", command, r.code, r.err)
		}
	}
	r := b.startWith(func(c *exec.Cmd) { c.Env = append(c.Env, elsewhere) }, "ps", "--format", "{{.Status}}").want(0)
	if !strings.Contains(r.out, "RUNNING") {
		t.Errorf("ps says %q", r.out)
	}
	if got := b.running(); got == "" {
		t.Error("the container does not run any more")
	}
	b.want(0, "stop", id)
	if got := fmt.Sprint(b.inspect(id).Containers[0].Errors); b.inspect(id).StopCode != "UserInitiated" || got != "[]" {
		t.Errorf("%s, errors %s", b.inspect(id).StopCode, got)
	}
	b.want(0, "rm", id)
}
