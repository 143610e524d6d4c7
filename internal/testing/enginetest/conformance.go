package enginetest

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/test/testbed"
)

// Subject is an engine to be held to the rules, and what a test does behind its
// back.
type Subject struct {
	Podman
	Control
	// Real: what takes time takes time, and other programs run on the machine.
	Real bool
}

// Control is what other users and programs of the machine do. A method that
// cannot do what it says fails the test.
type Control interface {
	// Local returns the reference of an image in local storage. It has Program as
	// its entrypoint and NotExecutable, FROM_IMAGE=yes in its environment, the
	// command "exit 0", an anonymous volume, and a health check of its own that
	// always fails.
	Local(t *testing.T) string
	// Publish returns the reference, with a tag, and the digest of an image that is
	// in a registry and not in local storage.
	Publish(t *testing.T) (ref, digest string)
	// Foreign creates a container as another tool would, in pod if not empty.
	Foreign(t *testing.T, name, pod string)
	// Kill sends SIGKILL to a container; Remove removes it whatever its state.
	Kill(t *testing.T, name string)
	Remove(t *testing.T, name string)
	// TakePort listens on a TCP port of 127.0.0.1 until the test ends.
	TakePort(t *testing.T) uint16
	// FreePort returns a TCP port of 127.0.0.1 that is free.
	FreePort(t *testing.T) uint16
	// Disconnect disconnects a container that does not run from a network.
	Disconnect(t *testing.T, name, network string)
	// Volume is a container's anonymous volume.
	Volume(t *testing.T, name string) string
}

// fewestRules is the number of rules that there are at least.
const fewestRules = 100

// Conformance holds an engine to every rule, each in a parallel test of its name.
// run makes a Subject for one rule and calls check with it.
func Conformance(t *testing.T, run func(t *testing.T, check func(*testing.T, Subject))) {
	seen := map[string]bool{}
	for _, r := range slices.Concat(podRules, networkRules, containerRules, stopRules, probeRules, logRules, imageRules, storeRules) {
		if seen[r.name] {
			t.Errorf("two rules are called %q", r.name)
		}
		seen[r.name] = true
		t.Run(strings.ReplaceAll(r.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			run(t, func(t *testing.T, s Subject) { r.check(newTask(t, s)) })
		})
	}
	if t.Logf("%d rules", len(seen)); len(seen) < fewestRules {
		t.Errorf("only %d rules are tried: the suite has become blind", len(seen))
	}
}

// rule is one behavior, named after what it says. Most are traps.
type rule struct {
	name  string
	check func(k *task)
}

// patience bounds every call; it says nothing about how fast it must be.
var patience = testbed.Patience

// task is one task's pod in a test, removed at its end.
type task struct {
	Subject
	t   *testing.T
	id  string
	pod libpod.PodSpec
}

func newTask(t *testing.T, s Subject) *task {
	t.Helper()
	id := strings.ToLower(rand.Text())
	k := &task{Subject: s, t: t, id: id, pod: libpod.PodSpec{Name: "pt-" + id, TaskID: id, Network: "none"}}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := k.RemovePod(ctx, k.pod.Name, k.id); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return k
}

// ctx returns a context that ends with patience or the test.
func (k *task) ctx() context.Context {
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	k.t.Cleanup(cancel)
	return ctx
}

// must fails the test if one of the errors is one.
func (k *task) must(errs ...error) {
	k.t.Helper()
	if err := errors.Join(errs...); err != nil {
		k.t.Fatal(err)
	}
}

// EnsurePod creates or adopts a pod and starts it.
func EnsurePod(ctx context.Context, podman interface {
	CreatePod(ctx context.Context, p libpod.PodSpec) (id string, err error)
	StartPod(ctx context.Context, name, taskID string) (libpod.Pod, error)
}, p libpod.PodSpec) (libpod.Pod, error) {
	if _, err := podman.CreatePod(ctx, p); err != nil {
		return libpod.Pod{}, err
	}
	return podman.StartPod(ctx, p.Name, p.TaskID)
}

// createPod creates or adopts the pod of a task and returns its ID.
func createPod(k *task) (id string) {
	k.t.Helper()
	id, err := k.CreatePod(k.ctx(), k.pod)
	k.must(err)
	return id
}

// up makes the pod.
func (k *task) up() libpod.Pod {
	k.t.Helper()
	p, err := EnsurePod(k.ctx(), k, k.pod)
	k.must(err)
	return p
}

func (k *task) infra() string { return k.pod.Name + "-infra" }

// absent is the name of a container that does not exist.
func (k *task) absent() string { return "absent-" + k.id }

// spec is a container of the task whose program does the steps.
func (k *task) spec(name, steps string) libpod.ContainerSpec {
	return libpod.ContainerSpec{Name: k.pod.Name + "-" + name, Pod: k.pod.Name, TaskID: k.id, Image: k.Local(k.t), Command: strings.Fields(steps)}
}

// probed is a container that continues, with a probe.
func (k *task) probed(name string, command ...string) libpod.ContainerSpec {
	s := k.spec(name, "sleep forever")
	s.Health = &libpod.Health{Command: append([]string{"CMD"}, command...), Retries: 3}
	return s
}

// create creates s and returns its name.
func (k *task) create(s libpod.ContainerSpec) string {
	k.t.Helper()
	_, err := k.CreateContainer(k.ctx(), s)
	k.must(err)
	return s.Name
}

// run creates and starts s and returns its name.
func (k *task) run(s libpod.ContainerSpec) string {
	k.t.Helper()
	k.create(s)
	k.must(k.StartContainer(k.ctx(), s.Name))
	return s.Name
}

// ended waits for the container's end.
func (k *task) ended(name string) libpod.Observed {
	k.t.Helper()
	k.must(k.WaitContainer(k.ctx(), name))
	return k.see(name)
}

func (k *task) see(name string) libpod.Observed {
	k.t.Helper()
	o, err := k.InspectContainer(k.ctx(), name)
	k.must(err)
	return o
}

// wantStatus fails the test unless the container has the status.
func (k *task) wantStatus(name string, s libpod.Status) libpod.Observed {
	k.t.Helper()
	o := k.see(name)
	if o.Status != s {
		k.t.Fatalf("%s is %v, want %v: %+v", name, o.Status, s, o)
	}
	return o
}

// wantExit waits for the container's end and fails the test at another code.
func (k *task) wantExit(name string, code int) libpod.Observed {
	k.t.Helper()
	o := k.ended(name)
	if o.Status != libpod.Exited || o.ExitCode != code {
		k.t.Fatalf("%s: want exit code %d, got %+v", name, code, o)
	}
	return o
}

// ready waits until a container has printed "ready".
func (k *task) ready(name string) string {
	k.t.Helper()
	ctx, cancel := context.WithCancel(k.ctx())
	defer cancel()
	err := k.Logs(ctx, name, libpod.LogOptions{Follow: true}, func(l libpod.LogLine) {
		if l.Text == "ready" {
			cancel()
		}
	})
	if !errors.Is(err, libpod.Canceled) {
		k.t.Fatalf("the container ended before it was ready: %v", err)
	}
	return name
}

// texts collects a container's lines.
func (k *task) texts(name string, o libpod.LogOptions) (texts []string) {
	k.t.Helper()
	k.must(k.Logs(k.ctx(), name, o, func(l libpod.LogLine) { texts = append(texts, string(l.Stream)+": "+l.Text) }))
	return texts
}

// wantTexts waits until the log is as wanted: Podman may know of a container's end before
// the journal has its last line.
func (k *task) wantTexts(name string, o libpod.LogOptions, want ...string) {
	k.t.Helper()
	var got []string
	if !testbed.Until(func() bool { got = k.texts(name, o); return slices.Equal(got, want) }) {
		k.t.Errorf("%+v: got %q, want %q", o, got, want)
	}
}

// wantClass fails the test unless err has the class and can be shown to a user.
func (k *task) wantClass(err error, c libpod.Class) {
	k.t.Helper()
	if !errors.Is(err, c) {
		k.t.Fatalf("got %v, want class %v", err, c)
	}
	var e *libpod.Error
	if !errors.As(err, &e) || e.Op == "" || e.Cause == "" || strings.Contains(e.Cause, "\n") {
		k.t.Errorf("not an error to show a user: %#v", err)
	}
}

// wantNamed fails the test unless the error names what is in the way.
func (k *task) wantNamed(err error, name string) {
	k.t.Helper()
	if !strings.Contains(err.Error(), name) {
		k.t.Errorf("%v does not name %s", err, name)
	}
}

// canceled is a context that has ended.
func (k *task) canceled() context.Context {
	ctx, cancel := context.WithCancel(k.ctx())
	cancel()
	return ctx
}
