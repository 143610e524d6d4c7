package limits_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

const slice = "podtask.slice"

// containerID is the ID of the container in the tests.
var containerID = strings.Repeat("ab", 32)

// limited is a running task of one container with limits, in a slice.
func limited() lifecycle.State {
	swap := int64(0)
	app := taskdef.Container{Name: "app", Memory: 64 << 20, Linux: taskdef.Linux{MaxSwap: &swap}}
	return lifecycle.State{
		ID: strings.Repeat("cd", 16), Task: taskdef.Task{Containers: []taskdef.Container{app}}, Goal: lifecycle.Up,
		Containers: []lifecycle.Container{{ID: containerID}}, Sandbox: lifecycle.Sandbox{Slice: slice},
		Options: lifecycle.Options{Limits: limits.Enforce},
	}
}

// kernel is a cgroup tree with these files in the task's slice, by their path below it.
func kernel(files map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for name, text := range files {
		root[path.Join("sys/fs/cgroup", cgroups.Path(os.Getuid(), slice), name)] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	return root
}

// scope is the directory of the container in the slice.
func scope(file string) string { return path.Join(cgroups.ScopeName(containerID), file) }

// noManager has no systemd user manager.
func noManager(root fstest.MapFS) (*limits.Slices, *bytes.Buffer) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	getenv := func(string) string { return "" }
	return &limits.Slices{
		Log: logger, Root: root, Getenv: getenv, User: &conn.UserManager{Log: logger, Getenv: getenv},
		Facts: &conn.Facts{Podman: func(context.Context) (conn.HostReader, error) { return host{}, nil }},
	}, &log
}

// host is a Podman that uses systemd.
type host struct{}

func (host) Host(context.Context) (libpod.Host, error) {
	return libpod.Host{Version: "5.4.2", CgroupManager: "systemd", Runtime: "crun"}, nil
}

// A limit that the kernel does not have is an error of the task. What is not known is none.
func TestLimitsOfAContainerAreReadBack(t *testing.T) {
	t.Parallel()
	const process = "77"
	for _, c := range []struct {
		name  string
		files map[string]string
		spoil func(*lifecycle.State)
		wrong bool
	}{
		{"applied", map[string]string{scope("memory.max"): "67108864", scope("cgroup.procs"): process}, nil, false},
		{"another number", map[string]string{scope("memory.max"): "134217728", scope("cgroup.procs"): process}, nil, true},
		{"none at all", map[string]string{scope("memory.max"): "max", scope("cgroup.procs"): process}, nil, true},
		{"the container has ended", map[string]string{scope("memory.max"): "max", scope("cgroup.procs"): ""}, nil, false},
		{"the container has no cgroup", nil, nil, false},
		{"another task's container", map[string]string{"libpod-" + strings.Repeat("ef", 32) + ".scope/memory.max": "max"}, nil, false},
		{"limits are off", map[string]string{scope("memory.max"): "max", scope("cgroup.procs"): process}, func(s *lifecycle.State) { s.Options.Limits = limits.Off }, false},
		{"no slice", map[string]string{scope("memory.max"): "max", scope("cgroup.procs"): process}, func(s *lifecycle.State) { s.Sandbox.Slice = "" }, false},
	} {
		s := limited()
		if c.spoil != nil {
			c.spoil(&s)
		}
		slices, _ := noManager(kernel(c.files))
		f := slices.NotApplied(s, 0, containerID)
		if (f.Class != lifecycle.OK) != c.wrong {
			t.Errorf("%s: %+v", c.name, f)
		}
		if c.wrong && (f.Name != lifecycle.ErrLimitsNotApplied || !strings.Contains(f.Message, "container app") || !strings.Contains(f.Message, "memory.max")) {
			t.Errorf("%s: %+v does not say what is wrong", c.name, f)
		}
	}
}

// Less memory than is in use is refused; more is not, whatever is in use.
func TestMemoryInUseIsNotTakenAway(t *testing.T) {
	t.Parallel()
	used := func(bytes string) map[string]string {
		return map[string]string{
			scope("cpu.stat"): "usage_usec 5", scope("memory.current"): bytes, scope("memory.stat"): "inactive_file 4096", scope("memory.events"): "oom_kill 0", scope("memory.events.local"): "oom 0", scope("memory.max"): "67108864",
			"cpu.stat": "usage_usec 5", "memory.current": "4096", "memory.stat": "inactive_file 0", "memory.events": "oom_kill 0", "memory.events.local": "oom 0", "memory.max": "max",
		}
	}
	for _, c := range []struct {
		used  string
		to    int64
		wrong bool
	}{
		{"33558528", 32 << 20, false}, // the cache goes first
		{"33558529", 32 << 20, true},
		{"67108864", 128 << 20, false},
		{"67108864", 0, false},
	} {
		slices, _ := noManager(kernel(used(c.used)))
		r := lifecycle.ResourcesOf(limited().Task)
		r.Containers[0].Memory = c.to
		restarted := r
		if restarted.Restart = []int{0}; slices.CheckMemory(limited(), restarted) != nil {
			t.Errorf("from %s to %d, with a restart, is refused", c.used, c.to)
		}
		err := slices.CheckMemory(limited(), r)
		if (err != nil) != c.wrong || err != nil && !strings.Contains(err.Error(), "container app uses 33554433 bytes") {
			t.Errorf("from %s to %d: %v", c.used, c.to, err)
		}
	}
}

func TestMemoryUseIsThatOfTheSlice(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"cpu.stat": "usage_usec 5", "memory.current": "4096", "memory.peak": "8192", "memory.max": "1048576", "memory.stat": "anon 4096",
		"memory.events": "oom_kill 1", "memory.events.local": "oom 2",
	}
	slices, log := noManager(kernel(files))
	if use := slices.MemoryUse(limited()); use.Peak != 8192 || use.Limit != 1048576 || use.Kills != 1 || use.Full != 2 {
		t.Errorf("%+v", use)
	}
	s := limited()
	s.Sandbox.Slice = ""
	if use := slices.MemoryUse(s); use != (lifecycle.MemoryUse{}) {
		t.Errorf("without a slice: %+v", use)
	}
	slices, log2 := noManager(kernel(nil))
	if use := slices.MemoryUse(limited()); use != (lifecycle.MemoryUse{}) || log2.Len() > 0 {
		t.Errorf("of a slice that was removed: %+v, log %s", use, log2)
	}
	if log.Len() > 0 {
		t.Errorf("log: %s", log)
	}
}

// A task runs on a host without a user manager, without a slice.
func TestTaskHasNoSliceWithoutAUserManager(t *testing.T) {
	t.Parallel()
	slices, log := noManager(kernel(nil))
	if name, err := slices.Ensure(t.Context(), limited()); err != nil || name != "" {
		t.Errorf("slice %q, %v", name, err)
	}
	if !strings.Contains(log.String(), "no slice for the task") {
		t.Errorf("the log does not say so: %s", log)
	}
	if err := slices.Remove(t.Context(), limited().ID); err != nil {
		t.Errorf("Remove: %v", err)
	}
}

// New limits are for a slice that exists. Others get them when it is made, or have ended.
func TestChangeNeedsASliceThatIsInUse(t *testing.T) {
	t.Parallel()
	slices, _ := noManager(kernel(nil))
	for name, c := range map[string]struct {
		spoil func(*lifecycle.State)
		fails bool
	}{
		"the user manager is away": {func(*lifecycle.State) {}, true},
		"no slice yet":             {func(s *lifecycle.State) { s.Sandbox.Slice = "" }, false},
		"the task stops":           {func(s *lifecycle.State) { s.Goal = lifecycle.Down }, false},
	} {
		s := limited()
		c.spoil(&s)
		if err := slices.Change(t.Context(), s); (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A container with more swap than its definition says is named in the log.
func TestSwapThatCannotBeCorrectedIsLogged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, have, process string
		told                bool
	}{
		{"as defined", "0", "77", false},
		{"more", "67108864", "77", true},
		{"more, and it has ended", "67108864", "", false},
	} {
		slices, log := noManager(kernel(map[string]string{scope("memory.swap.max"): c.have, scope("cgroup.procs"): c.process}))
		slices.CorrectSwap(t.Context(), limited(), 0, containerID)
		if told := strings.Contains(log.String(), "more swap than its maxSwap"); told != c.told {
			t.Errorf("%s: %s", c.name, log)
		}
	}
}

// A failed unit of an earlier run is only looked for if there was one.
func TestResetOfAScopeNeedsAnEarlierRun(t *testing.T) {
	t.Parallel()
	slices, log := noManager(kernel(nil))
	s := limited()
	s.Containers[0].ID = ""
	slices.ResetScope(t.Context(), s, 0)
	if log.Len() > 0 {
		t.Errorf("of a container that never ran: %s", log)
	}
	slices.ResetScope(t.Context(), limited(), 0)
	if !strings.Contains(log.String(), "a failed unit may be left") {
		t.Errorf("of a container that ran: %s", log)
	}
}
