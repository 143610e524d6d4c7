//go:build e2e && bed_vm

package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/testing/registrytest"
	"github.com/podtask/podtask/test/testbed"
)

// patience bounds every wait. No assertion depends on it.
var patience = testbed.Patience

// registry is where the registry listens. It is the same after every boot, so
// that what starts by itself then finds it.
const registry = "127.0.0.1:5000"

// image is the reference of the image with nothing but testbox in it.
const image = registry + "/testbox:1"

func TestMain(m *testing.M) { os.Exit(testbed.Main(m, serveImage)) }

// serveImage starts the registry and tells podtask and Podman that it has no TLS. What
// the tests leave is checked by each of them, because some leave a task to the next boot.
func serveImage(string) (end func() error, err error) {
	program, err := testbed.Testbox()
	if err != nil {
		return nil, err
	}
	img, err := registrytest.ProgramImage("testbox", program)
	if err != nil {
		return nil, err
	}
	if _, err := testbed.Configure("registries.conf.d/podtask-vm.conf", []byte("[[registry]]\nlocation = \""+registry+"\"\ninsecure = true\n")); err != nil {
		return nil, err
	}
	reg, err := registrytest.New(registrytest.Options{})
	if err != nil {
		return nil, err
	}
	if _, err := reg.Push("testbox:1", img); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", registry)
	if err != nil {
		return nil, err
	}
	front := &http.Server{Handler: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: reg.Addr()})}
	go front.Serve(listener)
	return func() error { reg.Close(); return front.Close() }, nil
}

// command runs a program and returns its output and exit code.
func command(t *testing.T, name string, args ...string) (out, errs string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		t.Fatalf("%v: %v, %v; it printed\n%s%s", cmd.Args, err, ctx.Err(), &stdout, &stderr)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// must runs a program that has to succeed and returns its trimmed output.
func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, errs, code := command(t, name, args...)
	if code != 0 {
		t.Fatalf("%s %s: code %d\n%s%s", name, strings.Join(args, " "), code, out, errs)
	}
	return strings.TrimSpace(out)
}

// bin is the program under test.
func bin() string { return os.Getenv("PODTASK_BIN") }

// podtask runs podtask, which has to succeed, and returns its trimmed output.
func podtask(t *testing.T, args ...string) string {
	t.Helper()
	return must(t, bin(), args...)
}

// task is what inspect says.
type task struct {
	ID, Name, Status, StopCode, StoppedReason, PodID string
	ExitCode                                         *int
	Owner                                            struct {
		PID   int
		Alive bool
	}
	Containers []struct {
		Name, RuntimeID, Status, Reason string
		ExitCode                        *int
		FinishedAt                      time.Time
		RestartCount                    int
		Ports                           []struct{ HostPort int }
		Errors                          []struct{ Name, Message string }
	}
}

func inspect(t *testing.T, ref string) task {
	t.Helper()
	var tasks []task
	out := podtask(t, "inspect", ref)
	if err := json.Unmarshal([]byte(out), &tasks); err != nil || len(tasks) != 1 {
		t.Fatalf("inspect: %v in %s", err, out)
	}
	return tasks[0]
}

// container is one container of a definition. Memory and Reservation are in MiB,
// 0 for none; CPU is in ECS's units.
type container struct {
	Name        string   `json:"name"`
	Image       string   `json:"image"`
	Command     []string `json:"command"`
	Memory      int      `json:"memory,omitempty"`
	Reservation int      `json:"memoryReservation,omitempty"`
	CPU         int      `json:"cpu,omitempty"`
	Restart     any      `json:"restartPolicy,omitempty"`
	Beyond      any      `json:"x-podtask,omitempty"`
	Linux       any      `json:"linuxParameters,omitempty"`
	User        string   `json:"user,omitempty"`
	Ports       any      `json:"portMappings,omitempty"`
	StopTimeout int      `json:"stopTimeout,omitempty"` // seconds

	DependsOn []dependency `json:"dependsOn,omitempty"`
}

type dependency struct {
	Container string `json:"containerName"`
	Condition string `json:"condition"`
}

// box is a container of testbox.
func box(name, steps string, memory int) container {
	return container{Name: name, Image: image, Command: strings.Fields(steps), Memory: memory}
}

// define writes a definition with limits of the whole task, in ECS's units
// (1024 to the vCPU, MiB), and returns its path. After the test nothing of its tasks
// may be left.
func define(t *testing.T, family, cpu, memory string, containers ...container) (path string) {
	t.Helper()
	leavesNothing(t)
	return defineLasting(t, family, cpu, memory, containers...)
}

// leavesNothing checks at the end of the test that nothing of any task is left. It is
// called before the test runs one, so that its clean-up is the last.
func leavesNothing(t *testing.T) {
	t.Cleanup(func() {
		for _, l := range leftovers(t) {
			t.Errorf("left behind: %s", l)
		}
	})
}

// defineLasting is define for tasks that the test leaves to the one after the next boot.
func defineLasting(t *testing.T, family, cpu, memory string, containers ...container) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), family+".json")
	def := map[string]any{"family": family, "cpu": cpu, "memory": memory, "containerDefinitions": containers}
	data, err := json.Marshal(def)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// detach starts a task, waits until it runs and returns its id. The task is
// gone after the test.
func detach(t *testing.T, path string, flags ...string) (id string) {
	t.Helper()
	id = podtask(t, append([]string{"run", "-d", "--wait=running", path}, flags...)...)
	t.Cleanup(func() { podtask(t, "rm", "--force", "--ignore", id) })
	return id
}

// killOwner kills the process that owns a task, which has one.
func killOwner(t *testing.T, ref string) {
	t.Helper()
	owner := inspect(t, ref).Owner
	if owner.PID <= 1 || !owner.Alive {
		t.Fatalf("task %s has no living owner: %+v", ref, owner)
	}
	if err := syscall.Kill(owner.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for what no event reports.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !testbed.Until(holds) {
		t.Fatalf("never: %s", what)
	}
}
