package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/parts"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// world is a user's state and sockets, without Podman.
type world struct {
	t   testing.TB
	dir string
	env map[string]string // more variables
	// patience is Patience of the program: a minute, in which an owner answers on a busy machine too.
	patience time.Duration
}

func newWorld(t testing.TB) *world { return &world{t: t, dir: t.TempDir(), patience: time.Minute} }

func (w *world) getenv(name string) string {
	switch name {
	case "HOME":
		return w.dir
	case "XDG_RUNTIME_DIR":
		return filepath.Join(w.dir, "run")
	}
	return w.env[name]
}

// podtask runs one command line.
func (w *world) podtask(args ...string) (stdout, stderr string, code int) {
	var out, err bytes.Buffer
	p := &command.Program{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &err, Getenv: w.getenv, Environ: func() []string { return nil }, Patience: w.patience, Notify: func(chan<- os.Signal, ...os.Signal) {}}
	code = runLine(w.t.Context(), p, parts.Build(), append([]string{"podtask"}, args...))
	return out.String(), err.String(), code
}

func (w *world) host() *engine.Engine {
	w.t.Helper()
	stateDir, runtimeDir, err := command.Dirs(w.getenv, "")
	if err != nil {
		w.t.Fatal(err)
	}
	h, err := engine.Open(engine.Config{StateDir: stateDir, RuntimeDir: runtimeDir, Getenv: w.getenv})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { h.Close() })
	return h
}

// create makes the record of a task.
func (w *world) create(name string) lifecycle.State {
	w.t.Helper()
	def := taskdef.Task{Family: "web", Network: taskdef.NetworkBridge, Containers: []taskdef.Container{
		{Name: "app", Image: "app:1", Essential: true, StopTimeout: time.Second, Environment: []taskdef.EnvVar{{Name: "A", Value: "<1>"}}},
	}}
	s, err := enginehost.Record(w.t.Context(), w.host().Creator, def, name, lifecycle.Options{Limits: limits.Off})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// lock takes the lock of a task as its owner would.
func (w *world) lock(id string) *owner.Owner {
	w.t.Helper()
	o, err := w.host().Owners.Own(id)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { o.Close() })
	return o
}

// standIn is the owner of a task in another process, as far as its socket shows. It
// does what it is asked at once and keeps no record.
type standIn struct {
	mu      sync.Mutex
	st      lifecycle.State
	events  []lifecycle.Event
	changed chan struct{}
	unsaved bool
}

func (o *standIn) Unsaved() bool { return o.unsaved }

func (o *standIn) State() lifecycle.State {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.st
}

func (o *standIn) Send(ev lifecycle.Event) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, ev)
	o.st, _ = lifecycle.Step(o.st, time.Unix(1_800_000_000, 0), ev)
	close(o.changed)
	o.changed = make(chan struct{})
	return true
}

func (o *standIn) Watch(ctx context.Context, fn func(lifecycle.State) bool) error {
	for {
		o.mu.Lock()
		s, changed := o.st, o.changed
		o.mu.Unlock()
		if !fn(s) || s.Settled() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// owned lets a stand-in own the task, lock included.
func (w *world) owned(s lifecycle.State) *standIn {
	w.t.Helper()
	w.lock(s.ID)
	o := &standIn{st: s, changed: make(chan struct{})}
	l, err := api.Listen(filepath.Join(w.getenv("XDG_RUNTIME_DIR"), "podtask", "tasks", s.ID+".sock"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.serve(o, l)
	return o
}

func (w *world) serve(o ownerapi.Owner, l net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = api.NewServer(ownerapi.Backend{Owner: o, History: ownerapi.NewHistory(&engine.Engine{Podman: &conn.Lazy{}}), Pid: 4711}, api.Version{PID: 4711}).Serve(ctx, l)
	})
	w.t.Cleanup(func() { cancel(); wg.Wait() })
}

func TestStopAsksTheOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.create("web")
	o := w.owned(s)
	out, errs, code := w.podtask("stop", "web")
	if code != 0 || out != s.ID+"\n" {
		t.Errorf("code %d, %q\n%s", code, out, errs)
	}
	if want := []lifecycle.Event{lifecycle.StopRequested{By: "podtask stop"}}; !cmp.Equal(want, o.events) {
		t.Errorf("the owner was sent %v, want %v", o.events, want)
	}
	if !strings.Contains(errs, "(task)  STOPPED") {
		t.Errorf("no progress: %s", errs)
	}
}

func TestStopWithNoTimeKills(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.create("web")
	o := w.owned(s)
	if _, errs, code := w.podtask("stop", s.ID[:10], "-t", "0"); code != 0 {
		t.Errorf("code %d: %s", code, errs)
	}
	if want := []lifecycle.Event{lifecycle.StopRequested{By: "podtask stop", Force: true}}; !cmp.Equal(want, o.events) {
		t.Errorf("the owner was sent %v, want %v", o.events, want)
	}
}

func TestRmNeedsForceForATaskThatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.owned(w.create("web"))
	_, errs, code := w.podtask("rm", "web")
	if code != 125 || !strings.Contains(errs, "has not stopped") || !strings.Contains(errs, "podtask rm -f web") {
		t.Errorf("code %d: %s", code, errs)
	}
	if len(o.events) > 0 {
		t.Errorf("the owner was sent %v", o.events)
	}
	if err := (ownerapi.Backend{Owner: o, History: ownerapi.NewHistory(&engine.Engine{Podman: &conn.Lazy{}})}).Remove(t.Context(), "", "me", false); !api.Is(err, api.Conflict) {
		t.Errorf("the owner itself says %v, want a conflict", err)
	}
}

// Nothing was made for this task yet, so it can be carried to its end without
// Podman: by the command itself, because it has no owner.
func TestCommandsTakeOverATaskWithoutOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.create("web")
	if out, _, _ := w.podtask("ps"); !strings.Contains(out, "no owner") {
		t.Errorf("before: %s", out)
	}
	out, errs, code := w.podtask("stop", "web")
	if code != 0 || out != s.ID+"\n" {
		t.Fatalf("stop: code %d, %q\n%s", code, out, errs)
	}
	if out, errs, code := w.podtask("wait", "web"); code != 0 || out != "125\n" {
		t.Errorf("wait: code %d, %q\n%s", code, out, errs)
	}
	out, _, _ = w.podtask("inspect", "web", "--format", "{{.Status}} {{.StoppedReason}} {{.Owner.Alive}}")
	if out != "STOPPED stopped by podtask stop false\n" {
		t.Errorf("inspect: %q", out)
	}
	if out, errs, code := w.podtask("rm", "web"); code != 0 || out != s.ID+"\n" {
		t.Errorf("rm: code %d, %q\n%s", code, out, errs)
	}
	if out, _, _ := w.podtask("ps", "-aq"); out != "" {
		t.Errorf("after: %q", out)
	}
	sockets, _ := filepath.Glob(filepath.Join(w.getenv("XDG_RUNTIME_DIR"), "podtask", "tasks", "*"))
	if len(sockets) > 0 {
		t.Errorf("left behind: %q", sockets)
	}
}

func TestAnOwnerThatDoesNotAnswerIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.patience = 200 * time.Millisecond
	s := w.create("web")
	w.lock(s.ID)
	_, errs, code := w.podtask("stop", "web")
	if code != 125 || !strings.Contains(errs, "is owned by process") || !strings.Contains(errs, "kill -9") {
		t.Errorf("code %d: %s", code, errs)
	}
}

func TestAnOwnerMayBeLateWithItsSocket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.create("web")
	lock := w.lock(s.ID)
	c := make(chan struct{})
	go func() {
		defer close(c)
		lock.Close() // it ends while another process tries to reach it
	}()
	if _, errs, code := w.podtask("stop", "web"); code != 0 {
		t.Errorf("code %d: %s", code, errs)
	}
	<-c
}

func TestWaitMissesWhatCannotComeAnyMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("web")
	w.podtask("stop", "web")
	out, errs, code := w.podtask("wait", "--condition", "healthy", "web")
	if code != 125 || out != "" || !strings.Contains(errs, "stopped before it was healthy: stopped by podtask stop") {
		t.Errorf("code %d, %q: %s", code, out, errs)
	}
}

func TestListsOfTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.create("one"), w.create("two")
	w.podtask("stop", "one")
	w.owned(second)
	ids := func(args ...string) string {
		t.Helper()
		out, errs, code := w.podtask(append([]string{"ps", "-q", "--no-trunc"}, args...)...)
		if code != 0 {
			t.Errorf("%q: code %d: %s", args, code, errs)
		}
		return strings.Join(strings.Fields(out), " ")
	}
	for _, tt := range []struct{ args, want string }{
		{"", second.ID},
		{"-a", second.ID + " " + first.ID},
		{"--filter status=stopped", first.ID},
		{"-a --filter name=one --filter name=two", second.ID + " " + first.ID},
		{"-a --filter name=one --filter status=NONE", ""},
		{"-a --filter id=" + first.ID[:8], first.ID},
		{"-a --filter id=" + first.ID, first.ID},
	} {
		if got := ids(strings.Fields(tt.args)...); got != tt.want {
			t.Errorf("ps %s: %q, want %q", tt.args, got, tt.want)
		}
	}
	if out, _, _ := w.podtask("ps", "-a", "--filter", "id="+first.ID, "--format", "{{.Name}}"); out != "one\n" {
		t.Errorf("by the full id there is %q", out)
	}
	out, _, _ := w.podtask("ps", "--format", "json")
	var rows []struct {
		ID       string
		OwnerPID int
		Status   string
	}
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 1 || rows[0].ID != second.ID || rows[0].OwnerPID != os.Getpid() || rows[0].Status != "NONE" {
		t.Errorf("json: %v\n%s", err, out)
	}
	out, _, _ = w.podtask("inspect", "two")
	var tasks []api.Task
	if err := json.Unmarshal([]byte(out), &tasks); err != nil || len(tasks) != 1 || tasks[0].Owner.PID != 4711 || !strings.Contains(out, `"<1>"`) {
		t.Errorf("inspect does not ask the owner: %v\n%s", err, out)
	}
}

func TestEventsArePrinted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.create("web")
	w.podtask("stop", "web")
	out, errs, code := w.podtask("events", "--stream=false", "--format", "json", "--filter", "status=STOPPED", "--filter", "container=")
	var e struct {
		Seq                        uint64
		Task, Name, Status, Reason string
		ExitCode                   *int
	}
	if err := json.Unmarshal([]byte(out), &e); code != 0 || err != nil || e.Task != s.ID || e.Name != "web" || e.Status != "STOPPED" || e.ExitCode == nil || e.Seq == 0 {
		t.Errorf("code %d, %v: %s%s", code, err, out, errs)
	}
	out, _, _ = w.podtask("events", "--stream=false", "--since", "1000")
	if out != "" {
		t.Errorf("after the last: %q", out)
	}
	out, _, _ = w.podtask("events", "--stream=false")
	if !strings.Contains(out, s.ID[:12]+" web (task) STOPPED exitCode=125 ") {
		t.Errorf("text: %q", out)
	}
}

func TestOwnedTaskKnowsItsTaskOnly(t *testing.T) {
	t.Parallel()
	s := lifecycle.State{ID: strings.Repeat("ab", 16), Name: "web"}
	b := ownerapi.Backend{Owner: &standIn{st: s}, History: ownerapi.NewHistory(&engine.Engine{Podman: &conn.Lazy{}})}
	for ref, known := range map[string]bool{s.ID: true, "abab": true, "web": true, "": false, "we": false, "cd": false} {
		if _, err := b.Task(t.Context(), ref); (err == nil) != known || err != nil && !api.Is(err, api.NotFound) {
			t.Errorf("%q: %v, want known: %v", ref, err, known)
		}
	}
}

func TestAFullDiskIsNamed(t *testing.T) {
	t.Parallel()
	s := lifecycle.State{ID: strings.Repeat("ab", 16), Name: "web"}
	for _, full := range []bool{true, false} {
		task, err := ownerapi.Backend{Owner: &standIn{st: s, unsaved: full}, History: ownerapi.NewHistory(&engine.Engine{Podman: &conn.Lazy{}})}.Task(t.Context(), "web")
		if err != nil {
			t.Fatal(err)
		}
		if got := len(task.Why) > 0 && task.Why[0].Code == api.WhyDiskFull; got != full {
			t.Errorf("disk full %t: why is %+v", full, task.Why)
		}
	}
}

func TestDirsWithoutRuntimeDir(t *testing.T) {
	t.Parallel()
	env := func(name string) string { return map[string]string{"HOME": "/h"}[name] }
	stateDir, runtimeDir, err := command.Dirs(env, "")
	if err != nil || stateDir != "/h/.local/state/podtask" || runtimeDir != "/h/.local/state/podtask/run" {
		t.Errorf("%q, %q, %v", stateDir, runtimeDir, err)
	}
	if stateDir, _, err = command.Dirs(env, "/s"); err != nil || stateDir != "/s" {
		t.Errorf("with --state-dir: %q, %v", stateDir, err)
	}
	if _, _, err := command.Dirs(func(string) string { return "" }, ""); err == nil {
		t.Error("no home, no error")
	}
}

func TestErrorsOfALockNameNobodyUnknown(t *testing.T) {
	t.Parallel()
	err := ownerapi.Unreachable(strings.Repeat("a", 32), &state.LockedError{Key: "k"})
	if err == nil || strings.Contains(err.Error(), "process 0") {
		t.Error(err)
	}
}

func TestEventsOfATaskAndTheLastOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("web")
	w.create("db")
	for _, name := range []string{"web", "db"} {
		if _, errs, code := w.podtask("stop", name); code != 0 {
			t.Fatalf("stop %s: %s", name, errs)
		}
	}
	all, _, _ := w.podtask("events", "--stream=false")
	web, _, _ := w.podtask("events", "web", "--stream=false")
	if n, of := strings.Count(web, "\n"), strings.Count(all, "\n"); n == 0 || n >= of || strings.Contains(web, " db ") {
		t.Errorf("%d events of web, %d in all:\n%s", n, of, web)
	}
	last, _, _ := w.podtask("events", "--tail", "1", "--stream=false")
	if lines := strings.SplitAfter(strings.TrimSuffix(all, "\n"), "\n"); strings.TrimSpace(last) != lines[len(lines)-1] {
		t.Errorf("the last event is %q, of\n%s", last, all)
	}
	if _, errs, code := w.podtask("events", "--tail", "-1"); code == 0 || !strings.Contains(errs, "--tail") {
		t.Errorf("--tail -1: %d, %s", code, errs)
	}
}
