//go:build e2e

//e2e:bed systemd

package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/podtask/podtask/internal/engine/act/effects"
	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/engine/facts/failpoint"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/test/testbed"
)

// ownerEnv makes the test binary an owner: it holds "STATEDIR ID VERB", and VERB
// is run or remove.
const ownerEnv = "PODTASK_TEST_OWNER"

// ownerMain owns a task until it has settled.
func ownerMain() int {
	words := strings.Fields(os.Getenv(ownerEnv))
	dir, id, verb := words[0], words[1], words[2]
	err := func() error {
		h, err := Open(Config{StateDir: dir, RuntimeDir: filepath.Join(dir, "run"), Getenv: os.Getenv, FailPoint: os.Getenv(failpoint.Env), NetnsHelper: netnsHelper()})
		if err != nil {
			return err
		}
		o, err := h.Owners.Own(id)
		if err != nil {
			return err
		}
		if verb == "remove" {
			o.Send(lifecycle.RemoveRequested{By: "test"})
		}
		return errors.Join(o.Run(context.Background()), o.Close(), h.Close())
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// killedOwner lets a process of its own drive the task until the fail point
// kills it.
func (w *world) killedOwner(verb, failPoint string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), testbed.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), ownerEnv+"="+strings.Join([]string{filepath.Join(w.dir, "state"), w.id, verb}, " "), failpoint.Env+"="+failPoint)
	for k, v := range w.env() {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL || ctx.Err() != nil {
		if s, err := w.host.Tasks.Find(w.id); err == nil {
			w.dump(s)
		}
		w.t.Fatalf("the owner was not killed at %s: %v\n%s", failPoint, err, &out)
	}
}

// shop is a task of three containers with all of SUCCESS, HEALTHY and START, and
// with hooks and a port, for which it needs a share of the host. The first and the last end when their health check has told them to, so that each
// is seen running; db has to be stopped.
func (w *world) shop() { shopIn(w, false) }

// shopIn is the same on a network of its own or, if shared, on that of an infra container.
func shopIn(w *world, shared bool) {
	w.t.Helper()
	port, err := netns.FreePort("tcp", "")
	if err != nil {
		w.t.Fatal(err)
	}
	createJoined(w, shared, "shop",
		container{"name": "init", "command": "print started -- wait /tmp/go", "essential": false, "healthCheck": check("write /tmp/go")},
		container{"name": "db", "command": "print started -- sleep forever", "healthCheck": check("exists /testbox"), "hooked": true, "dependsOn": after("init", "SUCCESS")},
		container{"name": "app", "command": "print started -- wait /tmp/go -- exit 3", "portMappings": []any{map[string]any{"containerPort": 8080, "hostPort": port}}, "healthCheck": check("write /tmp/go"), "dependsOn": after("db", "HEALTHY", "init", "START")})
}

const shopCodes = "init=0 db=143 app=3: 3"

// checkShop compares the stopped task with what its definition says.
func (w *world) checkShop(s lifecycle.State) {
	w.t.Helper()
	if got := codes(s); got != shopCodes || s.Stop.Code != lifecycle.StopEssentialContainerExited {
		w.t.Errorf("exit codes %s, %s; want %s", got, s.Stop.Code, shopCodes)
	}
	w.checkEvents(s)
	events := published(w.t, w.host, w.id)
	for _, name := range []string{"init", "db", "app"} {
		for _, status := range []string{"MANIFEST_PULLED", "PULLED", "CREATED", "RUNNING", "STOPPED"} {
			if !slices.Contains(events, name+" "+status) {
				w.t.Errorf("the events lack %s %s", name, status)
			}
		}
	}
	for _, want := range []string{"~infra RESOURCES_PROVISIONED", "db HEALTHY", "~infra STOPPED", "STOPPED"} {
		if !slices.Contains(events, want) {
			w.t.Errorf("the events lack %s", want)
		}
	}
	w.checkObjects(s)
	w.checkStartedOnce(s)
	if w.t.Failed() {
		w.dump(s)
	}
}

// atRemoval are the fail points that are visited only while a task is removed.
func atRemoval(point string) bool {
	return strings.HasSuffix(point, "RemoveSandbox") || strings.HasSuffix(point, "-erase")
}

// visits is how many visits of a fail point are tried. Those of the sandbox, of
// the share of the host, of the one stop and of the one pull come once in a task.
func visits(point string) int {
	for _, once := range []string{"Sandbox", "AdmitTask", "ReleaseTask", "StopContainer", "mid-effect", "-erase"} {
		if strings.Contains(point, once) {
			return 1
		}
	}
	return 2
}

// TestKilledOwnerLosesNothing kills the owner at every fail point. A run that
// does not reach the point fails, so all are visited.
func TestKilledOwnerLosesNothing(t *testing.T) {
	needBed(t)
	t.Parallel()
	var mu sync.Mutex
	var table []string
	t.Cleanup(func() {
		slices.Sort(table)
		t.Logf("killed at                            the next owner's operations\n%s", strings.Join(table, "\n"))
	})
	for _, point := range failpoint.Points() {
		if strings.HasSuffix(point, "InspectSandbox") {
			continue // TestKilledOwnersAndALostNetwork
		}
		for n := range visits(point) {
			at := fmt.Sprintf("%s:%d", point, n+1)
			t.Run(at, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, nil)
				if strings.HasSuffix(point, "PullImage") {
					w.fresh()
				}
				shopIn(w, strings.HasSuffix(point, "RunSandbox"))
				if atRemoval(point) {
					w.checkShop(w.run(w.own()))
					w.ops = newOpLog()
					w.host = w.open()
					w.killedOwner("remove", at)
					if at != failpoint.AfterErase+":1" { // after which no record names the task
						w.remove()
					}
				} else {
					w.killedOwner("run", at)
					w.checkShop(w.run(w.own()))
				}
				if t.Failed() {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				table = append(table, fmt.Sprintf("%-36s %s", at, w.ops.summary()))
			})
		}
	}
}

// TestKilledOwnersInARow kills one owner after the other, each at its first
// visit, until the task is through.
func TestKilledOwnersInARow(t *testing.T) {
	needBed(t)
	t.Parallel()
	w := newWorld(t, nil)
	w.fresh()
	w.shop()
	for _, point := range []string{
		"after-effect/ResolveImage", "mid-effect/PullImage", "mid-effect/CreateSandbox", "after-effect/CreateSandbox", "after-effect/CreateContainer",
		"before-effect/StartContainer", "after-effect/StartContainer", "before-effect/CheckHealth", "after-effect/CheckHealth",
		"before-effect/StopContainer", "after-effect/StopContainer", "after-effect/StopSandbox",
	} {
		w.killedOwner("run", point)
	}
	w.checkShop(w.run(w.own()))
}

// TestKilledOwnersAndALostNetwork kills owners around the look at the infra container,
// which has ended while the task had no owner: the one that lives stops it.
func TestKilledOwnersAndALostNetwork(t *testing.T) {
	needBed(t)
	t.Parallel()
	w := newWorld(t, nil)
	createJoined(w, true, "cutoff", container{"name": "app", "command": "sleep forever"}, container{"name": "side", "command": "sleep forever", "essential": false})
	w.killedOwner("run", "after-effect/RunSandbox")
	o := w.own()
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	if err := o.Watch(ctx, func(s lifecycle.State) bool { return s.Status() != lifecycle.StatusRunning }); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-ended
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	podman, err := conn.As[effects.Containers](w.host.Podman)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := podman.StopContainer(t.Context(), libpod.InfraName(taskspec.PodName(o.State())), 0); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"before-effect/InspectSandbox", "after-effect/InspectSandbox"} {
		w.killedOwner("run", at)
	}
	s := w.run(w.own())
	if got := codes(s); s.Status() != lifecycle.StatusStopped || s.Stop.Code != lifecycle.StopInfrastructureHealth || got != "app=143 side=143: 143" {
		t.Errorf("%s, %s: %s", s.Status(), s.Stop.Code, got)
	}
}
