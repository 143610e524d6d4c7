//go:build e2e

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/podtask/podtask/internal/engine/facts/failpoint"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/engine/run/owner"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/testing/faults"
	"github.com/podtask/podtask/internal/testing/registrytest"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/test/testbed"
)

// The tests of this tag run in a test bed, against a Podman service and a
// registry of their own. PODTASK_BED is the bed's name and PODTASK_TESTBOX the
// path of the program in the tests' images.

// bed is what all tests share.
var bed struct {
	dir     string
	testbox []byte
	reg     *registrytest.Registry
	service *testbed.Podman
	podman  *libpod.Client // past all proxies
	image   string         // for tests that do not care whether it is pulled
}

func TestMain(m *testing.M) {
	if os.Getenv(ownerEnv) != "" && len(os.Args) == 1 {
		os.Exit(ownerMain())
	}
	if len(os.Args) == 3 && os.Args[1] == listenArg {
		os.Exit(listenMain(os.Args[2]))
	}
	os.Exit(testbed.Main(m, func(dir string) (func() error, error) {
		bed.dir = dir
		return func() error { return errors.Join(testbed.CheckLeftovers(), closeBed()) }, openBed()
	}))
}

// listenArg makes the test binary the helper that listens in a namespace.
const listenArg = "listen"

func listenMain(addr string) int {
	if err := netns.Help(addr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func netnsHelper() []string {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{self, listenArg}
}

// needBed skips a test outside of a bed.
func needBed(t *testing.T) {
	t.Helper()
	if testbed.Name() == "" {
		t.Skip("no test bed: run it with hack/e2e")
	}
}

func openBed() (err error) {
	if bed.testbox, err = testbed.Testbox(); err != nil {
		return err
	}
	if bed.reg, err = registrytest.New(registrytest.Options{Auth: registrytest.Basic, User: "u", Password: "p"}); err != nil {
		return err
	}
	if bed.image, err = pushImage(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(bed.dir, "auth.json"), bed.reg.AuthJSON(), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(bed.dir, "registries.conf"), bed.reg.RegistriesConf(), 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), testbed.Patience)
	defer cancel()
	if bed.service, err = startPodman(ctx, filepath.Join(bed.dir, "podman.sock")); err != nil {
		return err
	}
	bed.podman, err = libpod.Dial(ctx, libpod.Options{URI: bed.service.URI()})
	return err
}

// startPodman starts a service that knows the registry.
func startPodman(ctx context.Context, socket string) (*testbed.Podman, error) {
	p := testbed.NewPodman(socket, "CONTAINERS_REGISTRIES_CONF="+filepath.Join(bed.dir, "registries.conf"))
	return p, p.Start(ctx)
}

func closeBed() error {
	var err error
	if bed.service != nil {
		err = testbed.RemoveImages(bed.reg.Addr() + "/*") // no later run has this registry's port
		bed.service.Kill()
	}
	if bed.podman != nil {
		err = errors.Join(err, bed.podman.Close())
	}
	if bed.reg != nil {
		bed.reg.Close()
	}
	return err
}

// environment is what a Host in a bed reads of the environment.
func environment(containerHost string) map[string]string {
	return map[string]string{
		"CONTAINER_HOST":             containerHost,
		"CONTAINERS_REGISTRIES_CONF": filepath.Join(bed.dir, "registries.conf"),
		"REGISTRY_AUTH_FILE":         filepath.Join(bed.dir, "auth.json"),
	}
}

// world is one test's podtask: a host with its records, and a task.
type world struct {
	t     *testing.T
	dir   string
	proxy *faults.Proxy // nil: straight to the service
	fs    state.FS      // nil: the real one
	host  *Engine
	ops   *opLog
	image string
	id    string
}

// newWorld returns a world whose task is gone at the end of the test.
func newWorld(t *testing.T, proxy *faults.Proxy) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), proxy: proxy, ops: newOpLog(), image: bed.image}
	w.host = w.open()
	t.Cleanup(w.checkNothingLeft)
	return w
}

// pushedImages numbers the images.
var pushedImages atomic.Int32

// fresh gives the task an image that was not pulled yet.
func (w *world) fresh() {
	w.t.Helper()
	var err error
	if w.image, err = pushImage(); err != nil {
		w.t.Fatal(err)
	}
}

// pushImage pushes an image that differs from all before. They have their one
// layer in common.
func pushImage() (ref string, err error) {
	name := "box" + strconv.Itoa(int(pushedImages.Add(1)))
	config := v1.Config{Entrypoint: []string{"/testbox"}, Labels: map[string]string{"test": name}}
	image, err := registrytest.Image(config, registrytest.File{Path: "/testbox", Data: bed.testbox}, registrytest.File{Path: "/tmp/", Mode: 0o1777})
	if err != nil {
		return "", err
	}
	_, err = bed.reg.Push(name+":1", image)
	return bed.reg.Ref(name + ":1"), err
}

func (w *world) env() map[string]string {
	if w.proxy == nil {
		return environment(bed.service.URI())
	}
	return environment(w.proxy.URI())
}

func (w *world) open() *Engine {
	w.t.Helper()
	env := w.env()
	getenv := func(k string) string {
		if v, ok := env[k]; ok {
			return v
		}
		return os.Getenv(k)
	}
	settings, err := config.FromEnvironment(getenv)
	if err != nil {
		w.t.Fatal(err)
	}
	h, err := Open(Config{
		StateDir: filepath.Join(w.dir, "state"), RuntimeDir: filepath.Join(w.dir, "run"), Log: slog.New(w.ops), FS: w.fs, NetnsHelper: netnsHelper(),
		Settings: settings, Getenv: getenv, FailPoint: getenv(failpoint.Env),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := h.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return h
}

// container is one of a test's task, in the words of a task definition.
type container map[string]any

// after is a dependsOn of pairs of name and condition.
func after(pairs ...string) (deps []map[string]string) {
	for p := range slices.Chunk(pairs, 2) {
		deps = append(deps, map[string]string{"containerName": p[0], "condition": p[1]})
	}
	return deps
}

// check is a health check that runs the testbox.
func check(steps string) map[string]any {
	return map[string]any{"command": append([]string{"CMD", "/testbox"}, strings.Fields(steps)...), "interval": 30}
}

// create makes the record of a task of those containers.
func (w *world) create(family string, containers ...container) {
	w.t.Helper()
	createJoined(w, false, family, containers...)
}

// createJoined creates a task. If shared, its containers share a network, which an infra
// container holds.
func createJoined(w *world, shared bool, family string, containers ...container) {
	w.t.Helper()
	hooked := make(map[int]bool)
	for i, c := range containers {
		hooked[i] = c["hooked"] != nil // which no definition of ECS can say
		delete(c, "hooked")
		c["image"], c["command"] = w.image, strings.Fields(c["command"].(string))
	}
	definition := map[string]any{"family": family, "containerDefinitions": containers}
	if shared {
		definition["x-podtask"] = map[string]string{"network": "shared"}
	}
	src, err := json.Marshal(definition)
	if err != nil {
		w.t.Fatal(err)
	}
	task, _, err := taskdef.Parse("task.json", src)
	if err != nil {
		w.t.Fatal(err)
	}
	hook := &taskdef.Action{Exec: []string{"/testbox", "exists", "/testbox"}}
	for i := range task.Containers {
		if hooked[i] {
			task.Containers[i].Extensions.Hooks = taskdef.Hooks{PostStart: hook, PreStop: hook}
		}
	}
	o, err := w.host.Creator.Record(w.t.Context(), owner.Launch{Task: task, Options: lifecycle.Options{Limits: limits.Enforce}})
	if err == nil {
		err = o.Close()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.id = o.ID()
}

// own takes the task.
func (w *world) own() *owner.Owner {
	w.t.Helper()
	o, err := w.host.Owners.Own(w.id)
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// run drives the task as its owner until it has settled, and releases it.
func (w *world) run(o *owner.Owner, events ...lifecycle.Event) lifecycle.State {
	w.t.Helper()
	for _, ev := range events {
		o.Send(ev) // the mailbox holds them until Run
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), testbed.Patience)
	defer cancel()
	err := o.Run(ctx)
	s := o.State()
	if err != nil {
		w.t.Errorf("the task does not settle: %v", err)
		w.dump(s)
		w.t.FailNow()
	}
	if err := errors.Join(lifecycle.Check(s), o.Close()); err != nil {
		w.t.Error(err)
	}
	return s
}

func (w *world) dump(s lifecycle.State) {
	w.t.Helper()
	for _, tr := range s.History {
		w.t.Logf("%s %-8s %s %s", tr.At.Format("05.000"), tr.Container, tr.Status, tr.Reason)
	}
	w.ops.mu.Lock()
	defer w.ops.mu.Unlock()
	for _, line := range w.ops.lines {
		w.t.Log(line)
	}
}

func (w *world) remove() {
	w.t.Helper()
	w.run(w.own(), lifecycle.RemoveRequested{By: "test"})
}

// checkNothingLeft removes the task if need be and compares Podman, systemd and
// the state directory with nothing.
func (w *world) checkNothingLeft() {
	if _, err := w.host.Tasks.Find(w.id); err == nil && w.id != "" {
		ctx, cancel := context.WithTimeout(context.Background(), testbed.Patience)
		defer cancel()
		o, err := w.host.Owners.Own(w.id)
		if err != nil {
			w.t.Fatal(err)
		}
		o.Send(lifecycle.RemoveRequested{By: "clean-up", Force: true})
		if err := errors.Join(o.Run(ctx), o.Close()); err != nil {
			w.t.Error(err)
		}
	}
	if found := w.objects(); len(found) > 0 {
		w.t.Errorf("left in Podman: %v", found)
	}
	if states, errs := w.host.Tasks.States(); len(states)+len(errs) > 0 {
		w.t.Errorf("left in the state directory: %v %v", states, errs)
	}
}

// objects lists what Podman has of the task.
func (w *world) objects() (found []libpod.Found) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testbed.Patience)
	defer cancel()
	all, err := bed.podman.List(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(f libpod.Found) bool { return f.TaskID != w.id })
}

// checkObjects compares Podman with the record of a stopped task: what there is
// bears one of the task's names and the id that the record has, what the record
// has is there, and nothing runs. A call that was given up may have made
// something whose id never came back; the record says so with Dirty, and by its
// name it is known.
func (w *world) checkObjects(s lifecycle.State) {
	w.t.Helper()
	known := map[string]string{taskspec.PodName(s): s.Sandbox.PodID, taskspec.PodName(s) + "-infra": ""}
	for i, c := range s.Containers {
		known[taskspec.ContainerName(s, i)] = c.ID
	}
	for _, f := range w.objects() {
		if f.Kind == libpod.KindNetwork { // it has the pod's name, and the record has no id of it
			if f.Name != taskspec.PodName(s) || !s.Task.Bridged() || !s.Sandbox.Dirty {
				w.t.Errorf("Podman has %s %s, which the record does not know", f.Kind, f.Name)
			}
			continue
		}
		if id, ours := known[f.Name]; !ours || id != "" && id != f.ID || !s.Sandbox.Dirty {
			w.t.Errorf("Podman has %s %s %s, which the record does not know", f.Kind, f.Name, f.ID)
		}
		if f.Status == libpod.Running {
			w.t.Errorf("%s still runs", f.Name)
		}
		delete(known, f.Name)
	}
	for name, id := range known {
		if id != "" {
			w.t.Errorf("the record has %s %s, which Podman does not know", name, id)
		}
	}
}

// checkStartedOnce reads the containers' logs: each run prints "started".
func (w *world) checkStartedOnce(s lifecycle.State) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), testbed.Patience)
	defer cancel()
	for i, c := range s.Containers {
		runs := 0
		err := bed.podman.Logs(ctx, taskspec.ContainerName(s, i), libpod.LogOptions{}, func(l libpod.LogLine) {
			if l.Text == "started" {
				runs++
			}
		})
		want := 1
		if c.StartedAt.IsZero() {
			want = 0
		}
		if err != nil && !errors.Is(err, libpod.NotFound) || runs != want {
			w.t.Errorf("%s ran %d times, want %d (%v)", s.Task.Containers[i].Name, runs, want, err)
		}
	}
}

// checkEvents compares the event log with the task's history: each transition is
// there once and in order, no status of anything comes twice, and a container
// only ever moves forwards.
func (w *world) checkEvents(s lifecycle.State) {
	w.t.Helper()
	got := published(w.t, w.host, w.id)
	var want []string
	for _, tr := range s.History {
		want = append(want, strings.TrimSpace(tr.Container+" "+tr.Status))
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("the event log has\n%q, the history\n%q", got, want)
	}
	seen := map[string]bool{}
	order := []string{"MANIFEST_PULLED", "PULLED", "CREATED", "RUNNING", "STOPPED"}
	last := map[string]int{}
	for _, line := range got {
		if seen[line] {
			w.t.Errorf("%s comes twice", line)
		}
		seen[line] = true
		name, status, ok := strings.Cut(line, " ")
		if place := slices.Index(order, status); ok && place >= 0 {
			if place < last[name] {
				w.t.Errorf("%s comes after %s", line, order[last[name]])
			}
			last[name] = place
		}
	}
}

// codes are the exit codes as "name=code", "name" for one without.
func codes(s lifecycle.State) string {
	var words []string
	for i, c := range s.Containers {
		word := s.Task.Containers[i].Name
		if c.HasExit {
			word += "=" + strconv.Itoa(c.ExitCode)
		}
		words = append(words, word)
	}
	return fmt.Sprintf("%s: %d", strings.Join(words, " "), s.ExitCode())
}

// opLog is a log handler that counts the operations of an engine.
type opLog struct {
	mu     sync.Mutex
	count  map[string]int // by effect
	failed int
	lines  []string
	more   chan struct{} // closed and replaced at each failure
}

func newOpLog() *opLog { return &opLog{count: map[string]int{}, more: make(chan struct{})} }

func (*opLog) Enabled(context.Context, slog.Level) bool { return true }
func (l *opLog) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l *opLog) WithGroup(string) slog.Handler          { return l }

func (l *opLog) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := r.Time.Format("05.000 ") + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.Key + "=" + a.Value.String()
		switch {
		case a.Key == "effect":
			name, _, _ := strings.Cut(a.Value.String(), "{")
			l.count[strings.TrimPrefix(name, "lifecycle.")]++
		case a.Key == "failure" && a.Value.String() != "":
			l.failed++
			close(l.more)
			l.more = make(chan struct{})
		}
		return true
	})
	l.lines = append(l.lines, line)
	return nil
}

// awaitFailures returns when n operations have failed.
func (l *opLog) awaitFailures(ctx context.Context, n int) {
	for {
		l.mu.Lock()
		failed, more := l.failed, l.more
		l.mu.Unlock()
		if failed >= n {
			return
		}
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}

// failures is how many operations have failed so far.
func (l *opLog) failures() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// counts are the operations so far by effect.
func (l *opLog) counts() (byEffect map[string]int, total int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	byEffect = make(map[string]int)
	for k, n := range l.count {
		byEffect[k] = n
		total += n
	}
	return byEffect, total
}

// summary is one line of counts.
func (l *opLog) summary() string {
	byEffect, total := l.counts()
	words := make([]string, 0, len(byEffect))
	for _, name := range slices.Sorted(maps.Keys(byEffect)) {
		words = append(words, name+" "+strconv.Itoa(byEffect[name]))
	}
	return fmt.Sprintf("%d: %s", total, strings.Join(words, ", "))
}

// published returns the events of a task in the event log, and checks their order.
func published(t *testing.T, h *Engine, id string) (lines []string) {
	t.Helper()
	last := uint64(0)
	err := h.Events.Read(t.Context(), 0, false, func(e record.Event) error {
		if e.Task == id {
			if e.TaskSeq != last+1 {
				t.Errorf("event %d of the task follows %d", e.TaskSeq, last)
			}
			last = e.TaskSeq
			lines = append(lines, strings.TrimSpace(e.Container+" "+e.Status))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}
