//go:build e2e

//e2e:bed systemd

package e2e

import (
	"strings"
	"syscall"
	"testing"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

func TestInterruptBeforeAnythingRan(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, method, what string }{
		{"mid-resolve", "HEAD", "manifests/"},
		{"mid-pull", "GET", "blobs/"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			ref, _ := b.push("app:1", b.freshImage("app"))
			held := b.fault(tc.method, "app", tc.what, 0, registrytest.Hang(nil))
			run := b.start("run", "--name", b.family, b.hello(ref))
			b.arrived(held)
			run.interrupt()
			run.want(130)
			got := b.inspect(b.family)
			if got.Status != "STOPPED" || got.StopCode != "UserInitiated" {
				t.Errorf("%s %s", got.Status, got.StopCode)
			}
			if got := b.running(); got != "" {
				t.Errorf("still running: %s", got)
			}
		})
	}
}

func TestInterruptStopsTheTaskAndNothingElse(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	other := b.detach("--wait=running", "--name", "other", b.waiter())
	service := servicePID()
	run := b.start("run", "--name", b.family, b.define(
		ctr{Name: "db", Command: words("term 4 -- serve 8001")},
		ctr{Name: "web", Command: words("serve 8002"), DependsOn: []on{{"db", "START"}}},
		ctr{Name: "probe", Essential: optional, Command: words("await http://db:8001/ -- await http://web:8002/")}))
	b.await("probe STOPPED")
	run.interrupt()
	run.want(143) // web's: it depends on db and stops first
	if got := b.inspect(b.family).codes(); got != "db=4 web=143 probe=0" {
		t.Error(got)
	}
	if now := servicePID(); now != service {
		t.Errorf("the Podman service was process %d and is %d", service, now)
	}
	if got := b.inspect(other); got.Status != "RUNNING" || !got.Owner.Alive {
		t.Errorf("the other task is %s, %+v", got.Status, got.Owner)
	}
	b.tell(other, "app", "/tmp/go")
	if got := b.want(0, "wait", other).out; got != "7\n" {
		t.Errorf("wait printed %q", got)
	}
}

func TestSecondInterruptKills(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	run := b.start("run", "--name", b.family, b.define(
		ctr{Name: "app", Command: words("term ignore -- serve 8001"), StopTimeout: 119},
		ctr{Name: "probe", Essential: optional, Command: words("await http://app:8001/")}))
	b.await("probe STOPPED")
	run.interrupt()
	eventually(t, "a word about the first interrupt", func() bool { return strings.Contains(run.err.String(), "again") })
	run.interrupt()
	run.want(137) // its own end, after 119 s, would come too late for this test
	if got := b.inspect(b.family); got.Status != "STOPPED" || got.codes() != "app=137 probe=0" {
		t.Errorf("%s %s", got.Status, got.codes())
	}
	if got := b.running(); got != "" {
		t.Errorf("still running: %s", got)
	}
}

func TestTerminateStopsTheTask(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	run := b.start("run", "--name", b.family, b.waiter())
	b.up(b.family)
	if err := run.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	run.want(5)
	if got := b.inspect(b.family); got.Status != "STOPPED" || !strings.Contains(got.StoppedReason, "SIGTERM") {
		t.Errorf("%s: %s", got.Status, got.StoppedReason)
	}
}
