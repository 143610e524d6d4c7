//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A service that is stopped accepts connections and answers nothing. podtask says so and
// replaces one that it has started itself. The test stops the service that all tests share, so it does
// not run beside them.
func TestPodmanServiceThatHangsIsReplaced(t *testing.T) {
	b := newBox(t)
	defer endService() // the owner has started the last one, in its own unit
	id := b.detach("--wait=running", b.waiter())
	first := servicePID()
	if first == 0 {
		t.Skip("the bed's user has a Podman service of his own")
	}
	freeze(t, first)
	defer func() { _ = syscall.Kill(first, syscall.SIGCONT) }()
	r := b.want(0, "logs", id)
	if !strings.Contains(r.err, "did not answer for 10 seconds") {
		t.Errorf("logs does not say that the service hangs: %q", r.err)
	}
	second := servicePID()
	if second == first {
		t.Fatal("the service was not replaced")
	}
	freeze(t, second)
	defer func() { _ = syscall.Kill(second, syscall.SIGCONT) }()
	stop := b.start("stop", "--time", "0", id)
	eventually(t, "why says that the service hangs", func() bool {
		return strings.Contains(b.podtask("why", id).out, "Podman's service at ")
	})
	stop.want(0)
	if third := servicePID(); third == second {
		t.Error("the service was not replaced during the stop")
	}
}

// freeze stops a process and returns when all its threads have stopped: before, it may still answer.
func freeze(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a process that has stopped", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		return err == nil && !slices.ContainsFunc(threads, func(file string) bool {
			stat, err := os.ReadFile(file)
			return err == nil && !strings.Contains(string(stat), ") T ")
		})
	})
}

// A health check that Podman does not run is no failure of the container, and replaces the service
// without a command that waits for it. exec says what it waits for.
func TestPodmanServiceThatHangsFailsNoHealthCheck(t *testing.T) {
	b := newBox(t)
	defer endService()
	id := b.detach("--wait=healthy", b.define(ctr{Name: "app", Command: words("sleep forever"), More: obj{
		"healthCheck": obj{"command": []string{"CMD", "/testbox", "print", "ok"}, "interval": 5, "timeout": 4, "retries": 3},
	}}))
	first := servicePID()
	if first == 0 {
		t.Skip("the bed's user has a Podman service of his own")
	}
	hang := func(pid int) {
		t.Helper()
		freeze(t, pid)
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	}
	hang(first)
	eventually(t, "another service", func() bool { second := servicePID(); return second != 0 && second != first })
	if got := b.want(0, "exec", id, "/testbox", "print", "hello").out; got != "hello\n" {
		t.Errorf("exec printed %q", got)
	}
	if got := b.want(0, "events", "--stream=false", "--format", "json", "--filter", "task="+id).out; strings.Contains(got, "UNHEALTHY") {
		t.Errorf("the container is blamed for Podman:\n%s", got)
	}
	frozen := 0
	eventually(t, "the service in use to be frozen", func() bool { // it may just be replaced once more
		pid := servicePID()
		if pid != 0 && pid != frozen {
			frozen = pid
			hang(pid)
			return false
		}
		return pid != 0
	})
	// It fails if its connection was made before the service was replaced. It reports the hang: that it has ended the
	// service, or that it waits for it, if the owner of the task has ended it first; unless the owner had done so before.
	r := b.podtask("exec", id, "/testbox", "print", "hello")
	told := strings.Contains(r.err, "did not answer for 10 seconds") || strings.Contains(r.err, "has not answered for 10 seconds")
	replaced := r.code == 0 && r.out == "hello\n" && servicePID() != frozen
	if r.code != 0 && r.code != 125 || !told && !replaced {
		t.Errorf("exec ended with %d and does not say that the service hangs: %q", r.code, r.err)
	}
	b.want(0, "stop", "--time", "0", id)
}
