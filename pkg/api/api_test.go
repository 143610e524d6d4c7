package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// backend is a Backend of one task that notes what it was asked for.
type backend struct {
	mu     sync.Mutex
	state  lifecycle.State
	asked  []string
	watch  chan lifecycle.State // what Watch tells after the present state
	broken error                // what Watch ends with
}

func (b *backend) note(what, id, by string, force bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if force {
		what += " by force"
	}
	b.asked = append(b.asked, what+" "+id+" for "+by)
}

func (b *backend) Tasks(context.Context) ([]Task, error) {
	return []Task{owned(b.state)}, nil
}

// owned is the wire form of a state with process 42 as the owner.
func owned(s lifecycle.State) Task {
	t := FromState(s)
	t.Owner = Owner{PID: 42, Alive: true}
	return t
}

func (b *backend) Task(_ context.Context, ref string) (Task, error) {
	switch ref {
	case b.state.ID, b.state.Name:
		return owned(b.state), nil
	case "two":
		return Task{}, Failed(Ambiguous, "%q fits 2 tasks", ref)
	case "bad":
		return Task{}, errors.New("disk on fire")
	}
	return Task{}, Failed(NotFound, "no task %q", ref)
}

func (b *backend) Stop(_ context.Context, id, by string, force bool) error {
	b.note("stop", id, by, force)
	return nil
}

func (b *backend) Remove(_ context.Context, id, by string, force bool) error {
	if !force {
		return Failed(Conflict, "it has not stopped")
	}
	b.note("remove", id, by, force)
	return nil
}

func (b *backend) Update(_ context.Context, id string, q lifecycle.Quota) error {
	if b.state.Goal != lifecycle.Up {
		return Failed(Conflict, "it has stopped")
	}
	b.note(fmt.Sprintf("update to %v vCPU and %d bytes", q.CPU, q.Memory), id, "", false)
	return nil
}

func (b *backend) Resize(_ context.Context, id string, r PodResources) error {
	if r.Containers["none"] != nil {
		return Failed(BadRequest, "no such container")
	}
	b.note(fmt.Sprintf("resize to %s and %s", r.Containers["app"], r.Pod), id, "", false)
	return nil
}

func (b *backend) SetNodeNames(_ context.Context, node string, n NodeNames) error {
	if node == "none" {
		return Failed(BadRequest, "no such node")
	}
	b.note(fmt.Sprintf("%d names", len(n.Names)), node, "", false)
	return nil
}

func (b *backend) Pause(_ context.Context, id string, pause bool) error {
	b.note(map[bool]string{true: "pause", false: "unpause"}[pause], id, "", false)
	return nil
}

func (b *backend) RestartContainer(_ context.Context, id, container string) error {
	if container == "none" {
		return Failed(NotFound, "no such container")
	}
	b.note("restart "+container, id, "", false)
	return nil
}

func (b *backend) Watch(ctx context.Context, _ string, fn func(Task) bool) error {
	for s := b.state; fn(owned(s)); {
		select {
		case next, ok := <-b.watch:
			if !ok {
				return b.broken
			}
			s = next
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

const taskID = "0123456789abcdef0123456789abcdef"

func someState() lifecycle.State {
	t := taskdef.Task{Family: "web", Network: taskdef.NetworkBridge, Containers: []taskdef.Container{{Name: "app", Image: "app:1", Essential: true, StopTimeout: time.Second}}}
	return lifecycle.New(taskID, "mine", t, lifecycle.Options{Limits: "off"}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
}

// serve serves b and returns a client and what ends the server.
func serve(t *testing.T, b Backend) (*Client, func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tasks", "t.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	v := ThisVersion("1.2.3")
	v.PID = 42
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := NewServer(b, v).Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	end := func() { cancel(); wg.Wait() }
	t.Cleanup(end)
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, end
}

func TestTasksCrossTheWire(t *testing.T) {
	t.Parallel()
	b := &backend{state: someState()}
	c, _ := serve(t, b)
	want := FromState(b.state)
	want.Owner = Owner{PID: 42, Alive: true}

	got, err := c.Task(t.Context(), "mine")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Task: %s", diff)
	}
	all, err := c.Tasks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Task{want}, all); diff != "" {
		t.Errorf("Tasks: %s", diff)
	}
	if v, err := c.Version(t.Context()); err != nil || v.Version != "1.2.3" || v.PID != 42 || v.APIVersion != "v1" {
		t.Errorf("Version: %+v, %v", v, err)
	}
}

func TestRequestsReachTheBackendWithTheFullID(t *testing.T) {
	t.Parallel()
	b := &backend{state: someState()}
	c, _ := serve(t, b)
	for _, err := range []error{
		c.Stop(t.Context(), "mine", "a & b", false),
		c.Stop(t.Context(), taskID, "me", true),
		c.Remove(t.Context(), "mine", "a & b", true),
		c.Update(t.Context(), "mine", lifecycle.Quota{CPU: 0.5, Memory: 64}),
		Resize(t.Context(), c, "mine", PodResources{Containers: map[string]json.RawMessage{"app": json.RawMessage(`{}`)}}),
		c.Pause(t.Context(), "mine", true),
		c.Pause(t.Context(), "mine", false),
		c.RestartContainer(t.Context(), "mine", "app"),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	want := []string{"stop " + taskID + " for a & b", "stop by force " + taskID + " for me", "remove by force " + taskID + " for a & b", "update to 0.5 vCPU and 64 bytes " + taskID + " for ", "resize to {} and  " + taskID + " for ", "pause " + taskID + " for ", "unpause " + taskID + " for ", "restart app " + taskID + " for "}
	if diff := cmp.Diff(want, b.asked); diff != "" {
		t.Error(diff)
	}
}

func TestFailuresKeepTheirCode(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, &backend{state: someState()})
	task := func(ref string) error { _, err := c.Task(t.Context(), ref); return err }
	tests := []struct {
		name    string
		err     error
		code    Code
		message string
	}{
		{"no such task", task("none"), NotFound, `no task "none"`},
		{"an odd name stays one path element", task("a/b?c#d"), NotFound, `no task "a/b?c#d"`},
		{"several tasks", task("two"), Ambiguous, `"two" fits 2 tasks`},
		{"any other error", task("bad"), Internal, "disk on fire"},
		{"the wrong state", c.Remove(t.Context(), "mine", "me", false), Conflict, "it has not stopped"},
		{"no such task to stop", c.Stop(t.Context(), "none", "me", false), NotFound, `no task "none"`},
		{"no such task to watch", c.Watch(t.Context(), "none", nil), NotFound, `no task "none"`},
		{"no such path", c.call(t.Context(), http.MethodGet, "nonsense", nil, nil), NotFound, "there is no GET /v1/nonsense in this API"},
		{"a body that is no request", c.call(t.Context(), http.MethodPost, "tasks/mine/stop", []byte(`{"froce":true}`), nil), BadRequest, ""},
		{"a quota that is none", c.call(t.Context(), http.MethodPut, "tasks/mine/quota", []byte(`{"cpus":1}`), nil), BadRequest, ""},
		{"force that is no boolean", c.call(t.Context(), http.MethodDelete, "tasks/mine?force=perhaps", nil, nil), BadRequest, ""},
	}
	for _, tt := range tests {
		if !Is(tt.err, tt.code) || !strings.Contains(tt.err.Error(), tt.message) {
			t.Errorf("%s: %v, want %s %q", tt.name, tt.err, tt.code, tt.message)
		}
	}
}

func TestWatchTellsEachChangeUntilTheEnd(t *testing.T) {
	t.Parallel()
	b := &backend{state: someState(), watch: make(chan lifecycle.State)}
	c, _ := serve(t, b)
	var seen []string
	err := c.Watch(t.Context(), "mine", func(task Task) bool {
		seen = append(seen, task.Goal)
		if next := b.state; len(seen) == 1 { // only now: each is flushed when it comes
			next.Goal = lifecycle.Down
			go func() { b.watch <- next; close(b.watch) }()
		}
		return true
	})
	if diff := cmp.Diff([]string{"UP", "DOWN"}, seen); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestWatchTellsABreakFromTheEnd(t *testing.T) {
	t.Parallel()
	b := &backend{state: someState(), watch: make(chan lifecycle.State), broken: errors.New("no more")}
	c, _ := serve(t, b)
	close(b.watch)
	err := c.Watch(t.Context(), "mine", func(Task) bool { return true })
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v, want an unexpected end", err)
	}
}

func TestWatchEndsWithItsReader(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, &backend{state: someState(), watch: make(chan lifecycle.State)})
	if err := c.Watch(t.Context(), "mine", func(Task) bool { return false }); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := c.Watch(ctx, "mine", func(Task) bool { cancel(); return true })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want canceled", err)
	}
}

func TestServeCutsOffWatchesThatDoNotEnd(t *testing.T) {
	t.Parallel()
	c, end := serve(t, &backend{state: someState(), watch: make(chan lifecycle.State)})
	var once sync.Once
	if err := c.Watch(t.Context(), "mine", func(Task) bool { once.Do(func() { go end() }); return true }); err == nil {
		t.Error("a watch that was cut off looks like the end")
	}
	if _, err := Dial(t.Context(), c.socket); !errors.Is(err, ErrNoServer) {
		t.Errorf("after the end: %v, want ErrNoServer", err)
	}
}

func TestListenMakesTheSocketPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{dir: 0o700, path: 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want mode %o", name, info.Mode(), err, want)
		}
	}
	if _, err := Listen(path); !errors.Is(err, ErrInUse) {
		t.Errorf("a second Listen: %v, want ErrInUse", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close: %v, want that nothing is left", err)
	}
}

func TestListenReplacesAStaleSocketOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "s.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	if _, err := Dial(t.Context(), path); !errors.Is(err, ErrNoServer) {
		t.Errorf("Dial of a stale socket: %v, want ErrNoServer", err)
	}
	l, err := Listen(path)
	if err != nil {
		t.Fatalf("a stale socket is in the way: %v", err)
	}
	l.Close()

	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := Listen(file); err == nil {
		l.Close()
		t.Error("a file that is no socket was replaced")
	}
}

func TestSocketPathsMayBeLong(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), strings.Repeat("d", 100), "s.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = NewServer(&backend{}, Version{}).Serve(ctx, l) })
	defer wg.Wait()
	defer cancel()
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := Listen(filepath.Join(t.TempDir(), strings.Repeat("s", 120))); err == nil {
		t.Error("a name that fits no address was accepted")
	}
}

func TestOtherUsersAreNotLetIn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ours := l.(*listener)
	var mu sync.Mutex
	uid, asked := ours.uid+1, error(nil)
	ours.peer = func(*net.UnixConn) (int, error) { mu.Lock(); defer mu.Unlock(); return uid, asked }
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = NewServer(&backend{}, Version{}).Serve(ctx, l) })
	defer wg.Wait()
	defer cancel()

	if _, err := Dial(t.Context(), path); err == nil || errors.Is(err, ErrNoServer) {
		t.Errorf("another user: %v, want to be turned away", err)
	}
	mu.Lock()
	uid, asked = ours.uid, errors.New("cannot tell")
	mu.Unlock()
	if _, err := Dial(t.Context(), path); err == nil {
		t.Error("a user who cannot be told is let in")
	}
	mu.Lock()
	asked = nil
	mu.Unlock()
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatalf("our own user: %v", err)
	}
	c.Close()
}

func TestPeerUIDIsOurs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := dialUnix(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if uid, err := peerUID(c.(*net.UnixConn)); err != nil || uid != os.Getuid() {
		t.Errorf("uid %d, %v; want %d", uid, err, os.Getuid())
	}
}

func TestRepliesThatAreNoFailuresAreErrors(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "<html>", "{}", `{"error":{}}`} {
		err := readFailure(&http.Response{Status: "502 Bad Gateway", Body: io.NopCloser(strings.NewReader(body))})
		if err == nil || !strings.Contains(err.Error(), "502") {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// The keys are a promise: this list may grow, nothing in it may change.
func TestKeysAreStable(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	def := taskdef.Task{
		Family: "web", Revision: 7, Network: taskdef.NetworkAWSVPC, CPU: 0.5, Memory: 1 << 20,
		Containers: []taskdef.Container{
			{Name: "db", Image: "db:1", Essential: true, HealthCheck: &taskdef.HealthCheck{}, StopTimeout: time.Second, Command: []string{"serve"}, Environment: []taskdef.EnvVar{{Name: "A", Value: "1"}}},
			{Name: "app", Image: "app:1", StopTimeout: time.Second, DependsOn: []taskdef.Dependency{{Container: 0, Condition: taskdef.Healthy}}},
		},
	}
	s := lifecycle.New(taskID, "mine", def, lifecycle.Options{Limits: "best-effort", Unapplied: []string{"cpu"}}, at)
	s.Sandbox = lifecycle.Sandbox{Dirty: true, Phase: lifecycle.SandboxReady, PodID: "pod", Slice: "podtask" + taskID + ".slice",
		Ports: []taskdef.Port{{ContainerPort: 80, HostPort: 8080, Protocol: "tcp", HostIP: "127.0.0.1"}}}
	zero := 0
	s.History = []lifecycle.Transition{{Seq: 1, At: at, Status: "RUNNING"}, {Seq: 2, At: at, Container: "db", Status: "STOPPED", ExitCode: &zero, Digest: "sha256:1", Reason: "why"}}
	db := &s.Containers[0]
	db.Resolved, db.Digest, db.Pulled, db.ImageID, db.Source = true, "sha256:1", true, "img", "registry"
	db.Presence, db.ID, db.StartedAt, db.FinishedAt = lifecycle.Running, "ctr", at, at
	db.Health = lifecycle.HealthState{Status: lifecycle.HealthUnhealthy, Streak: 3, ExitCode: 1, Output: "no"}
	db.HasExit = true
	app := &s.Containers[1]
	app.Retry = lifecycle.Retry{Attempts: 2, NotUntil: at, Last: "refused"}
	app.Failures = []lifecycle.Failure{{Name: "CannotPullContainerError", Message: "no", At: at}, {Message: "meh", At: at, Tolerated: true}}

	task := FromState(s)
	task.Owner = Owner{PID: 1, Alive: true}
	got, err := json.MarshalIndent(task, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "task.json")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("UPDATE_GOLDEN=1 accepts this:\n%s", diff)
	}
}

func TestTaskHealthIsTheWorstOfTheEssential(t *testing.T) {
	t.Parallel()
	type one struct {
		essential, check bool
		health           lifecycle.Health
	}
	const healthy, unhealthy, unknown = lifecycle.HealthHealthy, lifecycle.HealthUnhealthy, lifecycle.HealthUnknown
	tests := []struct {
		name string
		in   []one
		want lifecycle.Health
	}{
		{"no checks", []one{{true, false, unknown}}, unknown},
		{"all healthy", []one{{true, true, healthy}, {true, false, unknown}}, healthy},
		{"one not known yet", []one{{true, true, healthy}, {true, true, unknown}}, unknown},
		{"unhealthy beats unknown", []one{{true, true, unknown}, {true, true, unhealthy}}, unhealthy},
		{"the others do not count", []one{{true, true, healthy}, {false, true, unhealthy}}, healthy},
	}
	for _, tt := range tests {
		var s lifecycle.State
		for _, c := range tt.in {
			def := taskdef.Container{Essential: c.essential}
			if c.check {
				def.HealthCheck = &taskdef.HealthCheck{}
			}
			s.Task.Containers = append(s.Task.Containers, def)
			s.Containers = append(s.Containers, lifecycle.Container{Health: lifecycle.HealthState{Status: c.health}})
		}
		if got := s.Health(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestPullsAreToldAsTheyStandAndOnwards(t *testing.T) {
	t.Parallel()
	c, end := serve(t, full{&backend{state: someState()}})
	var got []Pull
	if err := c.Pulls(t.Context(), "mine", false, func(p Pull) error { got = append(got, p); return nil }); err != nil || len(got) != 1 || got[0] != aPull {
		t.Errorf("%+v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := c.Pulls(ctx, "mine", true, func(Pull) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a stream that was left ended with %v", err)
	}
	if err := c.Pulls(t.Context(), "mine", true, func(Pull) error { go end(); return nil }); err == nil {
		t.Error("a stream that was cut off looks like the end")
	}
}

func TestWhoTellsOfNoPullsSaysSo(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, &backend{state: someState()})
	var f *Failure
	if err := c.Pulls(t.Context(), "mine", false, nil); !errors.As(err, &f) || f.Code != Unsupported {
		t.Errorf("%v", err)
	}
}
