package engine

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/limits"
	"github.com/podtask/podtask/internal/engine/record"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/testing/registrytest"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// testHost is a Host with a registry that knows no image, so that a task with
// strict pulls ends without Podman being asked for anything.
func testHost(t *testing.T) (*Engine, *registrytest.Registry) {
	t.Helper()
	reg := registrytest.Start(t, registrytest.Options{})
	dir := t.TempDir()
	conf := filepath.Join(dir, "registries.conf")
	if err := os.WriteFile(conf, reg.RegistriesConf(), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"CONTAINERS_REGISTRIES_CONF": conf, "XDG_RUNTIME_DIR": dir, "CONTAINER_HOST": "unix://" + dir + "/none.sock"}
	h, err := Open(Config{StateDir: filepath.Join(dir, "state"), RuntimeDir: filepath.Join(dir, "run"), Getenv: func(k string) string { return env[k] }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		all, errs := h.Tasks.States()
		for _, s := range all {
			errs = append(errs, lifecycle.Check(s))
		}
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	})
	return h, reg
}

func testTask(t *testing.T, image string) taskdef.Task {
	t.Helper()
	src, err := json.Marshal(map[string]any{"family": "web", "containerDefinitions": []any{
		map[string]any{"name": "a", "image": image},
		map[string]any{"name": "b", "image": image, "dependsOn": []any{map[string]any{"containerName": "a", "condition": "START"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	task, _, err := taskdef.Parse("web.json", src)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func createTask(t *testing.T, h *Engine, task taskdef.Task, name string) lifecycle.State {
	t.Helper()
	s, err := h.Creator.Create(t.Context(), task, name, lifecycle.Options{Pull: lifecycle.PullAlways, Limits: limits.Enforce})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// drive owns the task and runs it to its end.
func drive(t *testing.T, h *Engine, id string, events ...lifecycle.Event) lifecycle.State {
	t.Helper()
	o, err := h.Owners.Own(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range events {
		o.Send(ev) // the mailbox holds them until Run
	}
	if err := o.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	return o.State()
}

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

func TestStrictPullFailureStopsTheTaskWithoutPodman(t *testing.T) {
	t.Parallel()
	h, reg := testHost(t)
	s := createTask(t, h, testTask(t, reg.Ref("none:1")), "")
	s = drive(t, h, s.ID)
	if s.Status() != lifecycle.StatusStopped || s.Stop.Code != lifecycle.StopTaskFailedToStart || !strings.Contains(s.Stop.Reason, lifecycle.ErrCannotPullManifest) {
		t.Errorf("status %s, stop %+v", s.Status(), s.Stop)
	}
	if s.ExitCode() != 125 {
		t.Errorf("exit code %d, want 125", s.ExitCode())
	}
	want := []string{"STOPPED", "a STOPPED", "b STOPPED"}
	got := published(t, h, s.ID)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

func TestEventsArePublishedOnceWhoeverOwnsTheTask(t *testing.T) {
	t.Parallel()
	h, reg := testHost(t)
	s := createTask(t, h, testTask(t, reg.Ref("none:1")), "")
	s = drive(t, h, s.ID)
	before := published(t, h, s.ID)
	drive(t, h, s.ID)
	if after := published(t, h, s.ID); !slices.Equal(before, after) {
		t.Errorf("a second owner published again: %q, then %q", before, after)
	}
	// An owner that died between the save and the log is made up for.
	if err := os.Remove(filepath.Join(h.cfg.StateDir, "events.jsonl")); err != nil {
		t.Fatal(err)
	}
	drive(t, h, s.ID)
	if after := published(t, h, s.ID); !slices.Equal(before, after) {
		t.Errorf("events %q are lost, got %q", before, after)
	}
}

// The log drops what is old. Who owns a task later must not tell it again, which
// would be a second time and out of order.
func TestEventsThatTheLogHasDroppedAreNotPublishedAgain(t *testing.T) {
	t.Parallel()
	h, reg := testHost(t)
	var err error
	if h.Events.Store, err = state.OpenLog(h.cfg.StateDir, 400); err != nil {
		t.Fatal(err)
	}
	s := createTask(t, h, testTask(t, reg.Ref("none:1")), "")
	drive(t, h, s.ID)
	other := record.EncodeEvent(s, lifecycle.Transition{Seq: 1, At: time.Now().UTC(), Status: "NONE"})
	other = json.RawMessage(strings.ReplaceAll(string(other), s.ID, strings.Repeat("f", 32)))
	told := func() (lines []string) {
		if err := h.Events.Read(t.Context(), 0, false, func(e record.Event) error {
			if e.Task == s.ID {
				lines = append(lines, e.Container+" "+e.Status)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return lines
	}
	for len(told()) > 0 {
		if _, err := h.Events.Store.Append(t.Context(), other); err != nil {
			t.Fatal(err)
		}
	}
	drive(t, h, s.ID)
	if again := told(); len(again) > 0 {
		t.Errorf("told a second time: %q", again)
	}
}

func TestRemovalForgetsTheTask(t *testing.T) {
	t.Parallel()
	h, reg := testHost(t)
	s := createTask(t, h, testTask(t, reg.Ref("none:1")), "")
	drive(t, h, s.ID, lifecycle.RemoveRequested{By: "test"})
	var missing *record.NotFoundError
	if _, err := h.Tasks.Find(s.ID); !errors.As(err, &missing) {
		t.Errorf("Find after removal: %v", err)
	}
	if _, err := h.Owners.Own(s.ID); !errors.As(err, &missing) {
		t.Errorf("Own after removal: %v", err)
	}
	if locks, err := os.ReadDir(filepath.Join(h.cfg.StateDir, "locks")); err != nil || len(locks) > 1 {
		t.Errorf("locks left: %v %v", locks, err)
	}
}

func TestStoppedTaskCanStillBeRemoved(t *testing.T) {
	t.Parallel()
	h, reg := testHost(t)
	s := createTask(t, h, testTask(t, reg.Ref("none:1")), "")
	drive(t, h, s.ID)
	drive(t, h, s.ID, lifecycle.RemoveRequested{By: "test"})
	var missing *record.NotFoundError
	if _, err := h.Tasks.Find(s.ID); !errors.As(err, &missing) {
		t.Errorf("Find after removal: %v", err)
	}
}

func TestOnlyOneOwner(t *testing.T) {
	t.Parallel()
	h, reg := testHost(t)
	s := createTask(t, h, testTask(t, reg.Ref("none:1")), "")
	o, err := h.Owners.Own(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if _, err := h.Owners.Own(s.ID); !errors.Is(err, state.ErrLocked) {
		t.Errorf("second owner: %v", err)
	}
	if holder, held := h.Tasks.Holder(s.ID); !held || holder.PID != os.Getpid() {
		t.Errorf("holder %+v, held %t", holder, held)
	}
}

func TestWatchSeesTheEnd(t *testing.T) {
	t.Parallel()
	h, reg := testHost(t)
	s := createTask(t, h, testTask(t, reg.Ref("none:1")), "")
	o, err := h.Owners.Own(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	last := make(chan lifecycle.State, 1)
	go func() {
		var seen lifecycle.State
		_ = o.Watch(context.WithoutCancel(t.Context()), func(s lifecycle.State) bool { seen = s; return true })
		last <- seen
	}()
	if err := o.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := <-last; !s.Settled() {
		t.Errorf("the watcher's last state is %s", s.Status())
	}
	o.Send(lifecycle.TimerFired{}) // must not block without a reader
}

func TestNames(t *testing.T) {
	t.Parallel()
	h, reg := testHost(t)
	task := testTask(t, reg.Ref("none:1"))
	first := createTask(t, h, task, "web")
	if _, err := h.Creator.Create(t.Context(), task, "web", lifecycle.Options{}); !errors.Is(err, record.ErrNameTaken) {
		t.Errorf("second task of a living name: %v", err)
	}
	drive(t, h, first.ID)
	second := createTask(t, h, task, "web")
	for _, ref := range []string{"web", second.ID, second.ID[:20]} {
		if s, err := h.Tasks.Find(ref); err != nil || s.ID != second.ID {
			t.Errorf("Find(%q) = %s, %v, want the living task", ref, s.ID, err)
		}
	}
	var missing *record.NotFoundError
	for _, ref := range []string{"", "nobody", "zz"} {
		if _, err := h.Tasks.Find(ref); !errors.As(err, &missing) {
			t.Errorf("Find(%q): %v", ref, err)
		}
	}
	drive(t, h, second.ID)
}

func TestPreflightNamesWhoHasAPort(t *testing.T) {
	t.Parallel()
	h, _ := testHost(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	task := testTask(t, "app:1")
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	task.Containers[0].Ports = []taskdef.Port{{ContainerPort: 80, HostPort: port, Protocol: "tcp", HostIP: "127.0.0.1"}}
	err = h.Preflight.Check(t.Context(), task, lifecycle.Options{Limits: limits.Enforce})
	for _, want := range []int{int(port), os.Getpid()} {
		if err == nil || !strings.Contains(err.Error(), strconv.Itoa(want)) {
			t.Errorf("%v does not name %d", err, want)
		}
	}
}

func TestStateThatCannotBeOpenedSaysWhatToDo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Config{StateDir: filepath.Join(file, "state"), Getenv: os.Getenv})
	if err == nil || !strings.Contains(err.Error(), "XDG_STATE_HOME") {
		t.Errorf("%v", err)
	}
}
