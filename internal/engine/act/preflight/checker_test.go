package preflight_test

import (
	"context"
	"errors"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/blang/semver/v4"
	"github.com/podtask/podtask/internal/engine/act/admit"
	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/podtask/podtask/internal/engine/act/preflight"
	"github.com/podtask/podtask/internal/host/doctor"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// versioned is a Podman that knows its version and one network.
type versioned struct {
	*enginetest.Fake
	version string
	failure error // of Host
}

func (v versioned) Version() semver.Version { return semver.MustParse(v.version) }

func (v versioned) HasNetwork(_ context.Context, name string) (bool, error) {
	return name == "there", nil
}

// Host is that of a Podman with the systemd cgroup manager.
func (v versioned) Host(ctx context.Context) (libpod.Host, error) {
	if v.failure != nil {
		return libpod.Host{}, v.failure
	}
	h, err := v.Fake.Host(ctx)
	h.CgroupManager = "systemd"
	return h, err
}

// open opens an engine with this Podman and the host's files in root.
func open(host *enginehost.Host, podman versioned, root fstest.MapFS) *enginehost.Engine {
	podman.Fake = host.Podman
	host.Connect(podman)
	e := host.Open()
	e.Preflight.Root = root
	return e
}

// delegating is a host whose user manager has these cgroup controllers.
func delegating(controllers string) fstest.MapFS {
	file := &fstest.MapFile{Data: []byte(controllers + "\n")}
	manager := path.Dir(cgroups.Path(os.Getuid(), "podtask.slice"))
	return fstest.MapFS{
		"sys/fs/cgroup/cgroup.controllers":                            {Data: []byte("cpu io memory pids\n")},
		path.Join("sys/fs/cgroup", manager, "cgroup.controllers"):     file,
		path.Join("sys/fs/cgroup", manager, "io.weight"):              {},
		"run/user/1/systemd/private":                                  {},
		"proc/sys/net/ipv4/ip_unprivileged_port_start":                {Data: []byte("1024\n")},
		path.Join("sys/fs/cgroup", manager, "cgroup.subtree_control"): file,
	}
}

// enforced are options of a task that needs all its limits.
var enforced = lifecycle.Options{Pull: lifecycle.PullNever, Limits: limits.Enforce}

// A task is refused for what this host cannot do for it, with the reason.
func TestCheckSaysWhatThisHostCannotDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		podman string
		host   string // the controllers
		task   func(*taskdef.Task)
		o      lifecycle.Options
		want   string // empty: the task is accepted
	}{
		{"nothing special", "5.4.2", "cpu memory pids", nil, enforced, ""},
		{"an old Podman", "4.2.0", "cpu memory pids", nil, enforced, "Podman 4.2.0 is too old"},
		{"a limit that is not delegated", "5.4.2", "pids", func(t *taskdef.Task) { t.Containers[0].Memory = 64 << 20 }, enforced, "cannot apply the task's memory limits"},
		{"the same, as far as possible", "5.4.2", "pids", func(t *taskdef.Task) { t.Containers[0].Memory = 64 << 20 }, enginehost.Admitted, ""},
		{"less memory than a container may use", "5.4.2", "cpu memory pids", func(t *taskdef.Task) { t.Containers[0].Memory = 64 << 20 },
			lifecycle.Options{Limits: limits.Enforce, Quota: lifecycle.Quota{Memory: 32 << 20}}, "of its container app: give the task more"},
		{"more than the budget", "5.4.2", "cpu memory pids", func(t *taskdef.Task) { t.Containers[0].CPU = 4096 }, enforced, "PODTASK_BUDGET_CPU"},
		{"a network that is missing", "5.4.2", "cpu memory pids", func(t *taskdef.Task) { t.Extensions.Network = "absent" }, enforced, "podman network create absent"},
		{"a network that exists", "5.4.2", "cpu memory pids", func(t *taskdef.Task) { t.Extensions.Network = "there" }, enforced, ""},
		{"a GPU with an old Podman", "4.9.3", "cpu memory pids", func(t *taskdef.Task) { t.Containers[0].Linux.GPUs = 1 }, enforced, "container app: GPUs need Podman 5"},
		{"a device that is missing", "5.4.2", "cpu memory pids", func(t *taskdef.Task) {
			t.Containers[0].Linux.Devices = []taskdef.Device{{HostPath: "/dev/podtask-absent", Permissions: []string{"read"}}}
		}, enforced, "container app: this host has no device /dev/podtask-absent"},
		{"a device that exists", "5.4.2", "cpu memory pids", func(t *taskdef.Task) {
			t.Containers[0].Linux.Devices = []taskdef.Device{{HostPath: "/dev/null", Permissions: []string{"read", "write"}}}
		}, enforced, ""},
		{"no journal", "5.4.2", "cpu memory pids", func(t *taskdef.Task) { t.Containers[0].Log = &taskdef.LogConfiguration{Driver: "journald"} }, enforced, "this host has no journal; use json-file"},
		{"a secret that is missing", "5.4.2", "cpu memory pids", func(t *taskdef.Task) {
			t.Containers[0].Secrets = []taskdef.Secret{{Name: "A", SecretValue: taskdef.SecretValue{Source: "env:PODTASK_TEST_ABSENT"}}}
		}, enforced, "PODTASK_TEST_ABSENT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			host := enginehost.New(t)
			host.Setenv("CONTAINER_HOST", "unix:///fake/podman.sock") // no programs of this host count
			host.Setenv("XDG_RUNTIME_DIR", "/run/user/1")
			e := open(host, versioned{version: c.podman}, delegating(c.host))
			task := host.Box(0, 0, "exit", "0")
			if c.task != nil {
				c.task(&task)
			}
			err := e.Preflight.Check(t.Context(), task, c.o)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// All reasons are in one error.
func TestCheckReportsAllProblems(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	host.Setenv("CONTAINER_HOST", "unix:///fake/podman.sock")
	e := open(host, versioned{version: "4.2.0"}, delegating("pids"))
	if err := e.Ledger.SetDraining(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	task := host.Box(0, 0, "exit", "0")
	task.Containers[0].Memory, task.Containers[0].CPU = 64<<20, 4096
	task.Containers[0].Log = &taskdef.LogConfiguration{Driver: "journald"}
	err := e.Preflight.Check(t.Context(), task, enforced)
	var missing *preflight.LimitsError
	if !errors.Is(err, admit.ErrDraining) || !errors.As(err, &missing) || !slices.Equal(missing.Controllers, []string{"cpu", "memory"}) {
		t.Errorf("%v (%+v)", err, missing)
	}
	for _, want := range []string{"too old", "journal", "PODTASK_BUDGET_CPU", "--limits best-effort"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// A rootless Podman without systemd applies no limits, whatever is delegated.
func TestLimitsNeedTheSystemdCgroupManager(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	host.Setenv("XDG_RUNTIME_DIR", "/run/user/1")
	e := host.Open() // its cgroup manager is cgroupfs
	e.Preflight.Root = delegating("cpu memory pids")
	task := host.Box(0, 0, "exit", "0")
	task.Containers[0].Memory = 64 << 20
	missing, reason, err := e.Preflight.Unsupported(t.Context(), task, enforced)
	if err != nil || !slices.Equal(missing, []string{"memory"}) || !strings.Contains(reason, "containers.conf") {
		t.Errorf("%q, %q, %v", missing, reason, err)
	}
	if missing, _, err := e.Preflight.Unsupported(t.Context(), task, enginehost.Unlimited); err != nil || missing != nil {
		t.Errorf("with limits off: %q, %v", missing, err)
	}
}

// Tasks get the default bound of processes, and shares of the CPU, where they can be applied.
func TestDefaultLimitsAreThoseThatCanBeApplied(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		controllers string
		o           lifecycle.Options
		tasks       uint64
		shares      bool
	}{
		{"cpu memory pids", enforced, preflight.DefaultTasksMax, true},
		{"memory", enforced, 0, false},
		{"cpu", enforced, 0, true},
		{"cpu memory pids", enginehost.Unlimited, 0, false},
		{"cpu memory pids", lifecycle.Options{Limits: limits.Enforce, Quota: lifecycle.Quota{TasksMax: 7}}, 7, true},
	} {
		e := open(enginehost.New(t), versioned{version: "5.4.2"}, delegating(c.controllers))
		if q := e.Preflight.Defaults(t.Context(), c.o).Quota; q.TasksMax != c.tasks || q.ImplicitShares != c.shares || !q.CountContainers {
			t.Errorf("with %q and %+v: %+v", c.controllers, c.o, q)
		}
	}
}

// Only limits that change must be possible here.
func TestNewLimitsOfARunningTaskAreChecked(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	host.Setenv("XDG_RUNTIME_DIR", "/run/user/1")
	e := open(host, versioned{version: "5.4.2"}, delegating("pids"))
	s := lifecycle.State{Task: host.Box(0, 0, "exit", "0"), Options: lifecycle.Options{Limits: limits.BestEffort, Quota: lifecycle.Quota{CPU: 0.5, TasksMax: 100}}}
	s.Task.Containers[0].Memory = 64 << 20
	for _, c := range []struct {
		name string
		q    lifecycle.Quota
		off  bool
		want string
	}{
		{"as before", s.Options.Quota, false, ""},
		{"fewer processes", lifecycle.Quota{CPU: 0.5, TasksMax: 50}, false, ""},
		{"less CPU, which is not delegated", lifecycle.Quota{CPU: 0.25, TasksMax: 100}, false, "cannot apply cpu limits"},
		{"more CPU than the budget", lifecycle.Quota{CPU: 2, TasksMax: 100}, false, "PODTASK_BUDGET_CPU"},
		{"less memory than a container's", lifecycle.Quota{Memory: 1 << 20}, false, "container app"},
		{"limits are off", lifecycle.Quota{TasksMax: 50}, true, "--limits off"},
	} {
		now := s
		if c.off {
			now.Options.Limits = limits.Off
		}
		err := e.Preflight.CheckLimits(now, c.q)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// Resources that need what this host or the task lacks are refused with the reason.
func TestNewResourcesOfARunningTaskAreChecked(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	host.Setenv("XDG_RUNTIME_DIR", "/run/user/1")
	s := lifecycle.State{Task: host.Box(0, 0, "exit", "0"), Options: lifecycle.Options{Limits: limits.BestEffort}}
	s.Task.Containers[0].Memory, s.Sandbox.Slice = 64<<20, "podtask.slice"
	less := lifecycle.ResourcesOf(s.Task)
	less.Containers[0].Memory = 32 << 20
	share := lifecycle.ResourcesOf(s.Task)
	share.Containers[0].CPU = 512
	huge := lifecycle.ResourcesOf(s.Task)
	huge.CPU = 500
	for _, c := range []struct {
		name, controllers string
		r                 lifecycle.Resources
		spoil             func(*lifecycle.State)
		want              string
	}{
		{"less memory", "cpu memory pids", less, nil, ""},
		{"what it has, without controllers", "pids", lifecycle.ResourcesOf(s.Task), nil, ""},
		{"less memory, which is not delegated", "cpu pids", less, nil, "cannot apply memory limits"},
		{"another share, which is not delegated", "memory pids", share, nil, "cannot apply cpu limits"},
		{"less memory, which the task runs without", "cpu memory pids", less, func(s *lifecycle.State) { s.Options.Unapplied = []string{"memory"} }, "cannot apply memory limits: the task was started without"},
		{"more than the host has", "cpu memory pids", huge, nil, "PODTASK_BUDGET_CPU"},
		{"limits are off", "cpu memory pids", less, func(s *lifecycle.State) { s.Options.Limits = limits.Off }, "--limits off"},
		{"no slice", "cpu memory pids", less, func(s *lifecycle.State) { s.Sandbox.Slice = "" }, "no systemd slice"},
	} {
		now := s
		if c.spoil != nil {
			c.spoil(&now)
		}
		err := open(host, versioned{version: "5.4.2"}, delegating(c.controllers)).Preflight.CheckResources(now, c.r)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A Podman that does not answer is a finding, and a reason to refuse a task.
func TestPodmanThatDoesNotAnswerIsReported(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	away := &libpod.Error{Op: "connect", Class: libpod.Unavailable, Cause: "connection refused"}
	e := open(host, versioned{version: "5.4.2", failure: away}, delegating("cpu memory pids"))
	task := host.Box(0, 0, "exit", "0")
	task.Containers[0].Memory = 64 << 20
	if err := e.Preflight.Check(t.Context(), task, enforced); !errors.Is(err, libpod.Unavailable) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v", err)
	}
	findings, facts := e.Preflight.Examine(t.Context())
	failed := slices.ContainsFunc(findings, func(f doctor.Finding) bool {
		return f.Level == doctor.Fail && strings.Contains(f.String(), "connection refused")
	})
	if facts != nil || !failed {
		t.Errorf("%+v, %v", facts, findings)
	}
}
