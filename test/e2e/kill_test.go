//go:build e2e

//e2e:bed systemd

package e2e

import (
	"strings"
	"syscall"
	"testing"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

// moment is one at which the owner of a task is killed with -9.
type moment struct {
	name string
	// begin starts a task of the name b.family and returns when the moment has
	// come; kill kills its owner with -9.
	begin func(b *box) (kill func())
	// finish lets the task come to its own end with code 7.
	finish func(b *box)
	// runs says whether a container runs at that moment.
	runs bool
	// again: the unit of the owner may have started another one.
	again bool
}

func moments() []moment {
	return []moment{
		{
			name: "mid-pull",
			begin: func(b *box) func() {
				ref, _ := b.push("app:1", b.freshImage("app"))
				held := b.fault("GET", "app", "blobs/", 1, registrytest.Hang(nil))
				p := b.start("run", "--name", b.family, b.define(ctr{Name: "app", Image: ref, Command: words("exit 7")}))
				b.arrived(held)
				return p.kill
			},
			finish: func(*box) {},
		},
		{
			name: "between create and start",
			begin: func(b *box) func() {
				p := b.start("run", "--name", b.family, b.define(
					ctr{Name: "db", Command: words("sleep forever"), Health: healthyIf("exists /tmp/go"), Essential: optional},
					ctr{Name: "app", Command: words("exit 7"), DependsOn: []on{{"db", "HEALTHY"}}}))
				b.await("app CREATED")
				b.await("db RUNNING")
				return p.kill
			},
			finish: func(b *box) { b.tell(b.family, "db", "/tmp/go") },
			runs:   true,
		},
		{
			name: "running",
			begin: func(b *box) func() {
				p := b.start("run", "--name", b.family, b.waiter())
				b.up(b.family)
				return p.kill
			},
			finish: func(b *box) { b.tell(b.family, "app", "/tmp/go") },
			runs:   true,
		},
		{
			name: "detached",
			begin: func(b *box) func() {
				b.detach("--name", b.family, b.waiter())
				b.up(b.family)
				return func() { b.killOwner(b.family) }
			},
			finish: func(b *box) { b.tell(b.family, "app", "/tmp/go") },
			runs:   true,
			again:  true,
		},
	}
}

// killOwner kills the process that inspect calls the task's owner. A task without a
// living one has process 0 or none, and a signal to that would be for the tests.
func (b *box) killOwner(ref string) {
	b.t.Helper()
	owner := b.inspect(ref).Owner
	if owner.PID <= 1 || !owner.Alive {
		b.t.Fatalf("task %s has no living owner: %+v", ref, owner)
	}
	if err := syscall.Kill(owner.PID, syscall.SIGKILL); err != nil {
		b.t.Fatalf("owner %d: %v", owner.PID, err)
	}
	eventually(b.t, "the end of the owner", func() bool { // its unit may start another one
		now := b.inspect(ref).Owner
		return !now.Alive || now.PID != owner.PID
	})
}

func TestOwnerIsKilled(t *testing.T) {
	t.Parallel()
	for _, m := range moments() {
		for _, then := range []struct {
			command string
			act     func(b *box)
		}{
			{"wait", func(b *box) {
				waiting := b.start("wait", b.family)
				m.finish(b)
				if got := waiting.want(0).out; got != "7\n" {
					b.t.Errorf("wait printed %q", got)
				}
				if got := b.inspect(b.family); got.Status != "STOPPED" || *got.ExitCode != 7 {
					b.t.Errorf("%s %d", got.Status, *got.ExitCode)
				}
			}},
			{"stop", func(b *box) {
				b.want(0, "stop", b.family)
				if got := b.inspect(b.family); got.Status != "STOPPED" || got.StopCode != "UserInitiated" {
					b.t.Errorf("%s %s", got.Status, got.StopCode)
				}
				if got := b.running(); got != "" {
					b.t.Errorf("still running: %s", got)
				}
			}},
			{"rm", func(b *box) {
				b.want(0, "rm", "-f", b.family)
				b.want(125, "inspect", b.family)
				if got := b.objects(); got != "" {
					b.t.Errorf("left: %s", got)
				}
			}},
		} {
			t.Run(m.name+"/"+then.command, func(t *testing.T) {
				t.Parallel()
				b := newBox(t)
				kill := m.begin(b)
				kill()
				if got := b.inspect(b.family); got.Owner.Alive && !m.again || got.Status == "STOPPED" {
					t.Errorf("without an owner: %s, %+v", got.Status, got.Owner)
				}
				if runs := b.running() != ""; runs != m.runs {
					t.Errorf("containers run: %v, want %v", runs, m.runs)
				}
				then.act(b)
			})
		}
	}
}

func TestContainerThatEndsWhileNobodyOwnsIt(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	owner := b.start("run", "--name", b.family, b.waiter())
	b.up(b.family)
	container := b.inspect(b.family).Containers[0].RuntimeID
	owner.kill()
	b.touch(container, "/tmp/go")
	b.podman("wait", container)
	// Nobody has updated the record, so Podman is asked.
	if out := b.want(0, "ps").out; !strings.Contains(out, "no owner, 0 of 1 containers running") {
		t.Errorf("ps printed\n%s", out)
	}
	if got := b.inspect(b.family); !got.Observed || got.codes() != "app=7" || got.Containers[0].Status != "STOPPED" {
		t.Errorf("inspect: observed %t, %s, %s", got.Observed, got.codes(), got.Containers[0].Status)
	}
	if out := b.want(0, "why", b.family).out; !strings.Contains(out, "Last known: its container is up") {
		t.Errorf("why printed %q", out)
	}
	if got := b.want(0, "wait", b.family).out; got != "7\n" {
		t.Errorf("wait printed %q", got)
	}
	inOrder(t, b.events(), "app RUNNING", "app STOPPED", "~infra STOPPED", "task STOPPED")
	if n := count(b.events(), "app RUNNING"); n != 1 {
		t.Errorf("app RUNNING is reported %d times", n)
	}
}

// It ends the service that all tests share, so it does not run beside them.
func TestPodmanServiceIsKilled(t *testing.T) {
	b := newBox(t)
	run := b.start("run", "--name", b.family, b.waiter())
	b.up(b.family)
	service := servicePID()
	if service == 0 {
		t.Skip("the bed's user has a Podman service of his own")
	}
	if err := syscall.Kill(service, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the service is gone", func() bool { return servicePID() != service })
	if b.running() == "" {
		t.Error("the container ended with the service")
	}
	b.tell(b.family, "app", "/tmp/go")
	r := run.want(7)
	if got := b.inspect(b.family); got.Status != "STOPPED" || got.codes() != "app=7" {
		t.Errorf("%s %s", got.Status, got.codes())
	}
	if n := count(b.events(), "app STOPPED"); n != 1 {
		t.Errorf("app STOPPED is reported %d times\n%s", n, r.err)
	}
}
