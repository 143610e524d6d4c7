package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/pkg/api"
)

func TestServicePhase(t *testing.T) {
	t.Parallel()
	with := func(goal, status, health string, started bool) api.Task {
		task := api.Task{Goal: goal, Status: status, Containers: []api.Container{{Name: "app", Essential: true, Status: status}}}
		if health != "" {
			task.Containers[0].Health = &api.Health{Status: health}
		}
		if started {
			task.StartedAt = noon
		}
		return task
	}
	tests := []struct {
		name   string
		notify connect.Condition
		task   api.Task
		want   phase
	}{
		{"pulling", connect.UntilHealthy, with("UP", "NONE", "", false), starting},
		{"running, not yet healthy", connect.UntilHealthy, with("UP", "RUNNING", "UNKNOWN", true), starting},
		{"running is enough", connect.UntilRunning, with("UP", "RUNNING", "UNKNOWN", true), ready},
		{"healthy", connect.UntilHealthy, with("UP", "RUNNING", "HEALTHY", true), ready},
		{"healthy without a check", connect.UntilHealthy, with("UP", "RUNNING", "", true), ready},
		{"a check fails before it is ready", connect.UntilHealthy, with("UP", "RUNNING", "UNHEALTHY", true), sick},
		{"nobody waits", notifyNo, with("UP", "RUNNING", "UNKNOWN", true), ready},
		{"on its way down", connect.UntilRunning, with("DOWN", "RUNNING", "HEALTHY", true), stopping},
	}
	for _, tt := range tests {
		v := &service{request: request{notify: tt.notify}}
		if got := v.phaseOf(tt.task); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestTrialOfNewImages(t *testing.T) {
	t.Parallel()
	type look struct {
		after    time.Duration // since noon
		phase    phase
		restarts int
		want     phase
		wait     time.Duration
	}
	const s = time.Second
	tests := map[string][]look{
		"does well":          {{0, starting, 0, starting, 0}, {5 * s, ready, 0, starting, 10 * s}, {9 * s, ready, 0, starting, 6 * s}, {15 * s, ready, 0, ready, 0}},
		"never gets ready":   {{0, starting, 0, starting, 0}, {90 * s, sick, 0, sick, 0}},
		"falls ill":          {{0, ready, 0, starting, 10 * s}, {4 * s, sick, 0, sick, 0}},
		"restarts":           {{0, ready, 2, starting, 10 * s}, {4 * s, ready, 3, sick, 0}},
		"is not ready again": {{0, ready, 0, starting, 10 * s}, {10 * s, starting, 0, sick, 0}},
	}
	for name, looks := range tests {
		var on trial
		for _, l := range looks {
			if p, wait := on.judge(l.phase, l.restarts, noon.Add(l.after), 10*s); p != l.want || wait != l.wait {
				t.Errorf("what %s: after %v phase %d, wait %v; want %d, %v", name, l.after, p, wait, l.want, l.wait)
			}
		}
	}
	if p, wait := new(trial).judge(ready, 0, noon, 0); p != ready || wait != 0 {
		t.Error("without a time to settle in, ready is not ready")
	}
}

func TestStatusLine(t *testing.T) {
	t.Parallel()
	task := func(health string, containers ...api.Container) api.Task {
		return api.Task{Goal: "UP", Health: health, Containers: containers}
	}
	is := func(name, status string) api.Container { return api.Container{Name: name, Status: status} }
	waits := is("app", "CREATED")
	waits.WaitingFor = []api.Dependency{{ContainerName: "db", Condition: "HEALTHY"}}
	retries := is("app", "NONE")
	retries.Retry = &api.Retry{Attempts: 2, Error: "registry says\n503"}
	tests := []struct {
		task api.Task
		want string
	}{
		{task("UNKNOWN", is("db", "MANIFEST_PULLED"), is("app", "NONE")), "looking up images: 1 of 2 found"},
		{task("UNKNOWN", is("db", "PULLED"), is("app", "MANIFEST_PULLED")), "pulling images: 1 of 2 are here"},
		{task("UNKNOWN", is("db", "RUNNING"), waits), "app waits for db to be HEALTHY"},
		{task("UNKNOWN", is("db", "RUNNING"), retries), "app: trying again: registry says 503"},
		{task("UNKNOWN", is("db", "STOPPED"), is("app", "RUNNING")), "1 of 2 containers run"},
		{task("HEALTHY", is("db", "RUNNING"), is("app", "RUNNING")), "2 of 2 containers run, healthy"},
		{api.Task{Goal: "DOWN", StoppedReason: "SIGTERM"}, "stopping: SIGTERM"},
	}
	for _, tt := range tests {
		if got := statusLine(tt.task); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func TestServiceExtendsOnlyWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	extends := func(v *service, at time.Time) bool {
		return strings.Contains(strings.Join(v.signs(at), "\n"), "EXTEND_TIMEOUT_USEC=30000000")
	}
	for p, want := range map[phase]bool{starting: true, stopping: true, ready: false, sick: false} {
		v := &service{}
		v.enter(p, nil, noon, time.Hour)
		if got := extends(v, noon); got != want {
			t.Errorf("phase %d: extended: %v", p, got)
		}
	}
	v := &service{}
	v.enter(stopping, nil, noon, time.Hour)
	v.enter(stopping, nil, noon.Add(time.Hour), time.Hour) // news of it change nothing
	if last := noon.Add(time.Hour + cleanUp); !extends(v, last.Add(-1)) || extends(v, last) {
		t.Error("a stop is not bounded by the containers' grace")
	}
}

// The manager hears of a new phase at once.
func TestNewPhaseIsToldAtOnce(t *testing.T) {
	t.Parallel()
	v := &service{entered: make(chan struct{}, 1)}
	told := func() bool {
		select {
		case <-v.entered:
			return true
		default:
			return false
		}
	}
	for i, step := range []struct {
		phase phase
		want  bool
	}{{starting, false}, {ready, true}, {ready, false}, {stopping, true}, {stopping, false}, {starting, true}} {
		v.enter(step.phase, nil, noon, time.Hour)
		if got := told(); got != step.want {
			t.Errorf("step %d: told %v", i, got)
		}
	}
	v.enter(ready, nil, noon, time.Hour)
	v.enter(stopping, nil, noon, time.Hour) // nobody has listened since
}

// The lines reach a manager that listens as systemd does.
func TestTellManager(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	(&session{}).tell("READY=1", "STATUS=all is well")
	buf := make([]byte, 256)
	n, err := l.Read(buf)
	if got := string(buf[:n]); err != nil || got != "READY=1\nSTATUS=all is well" {
		t.Errorf("%q, %v", got, err)
	}
}
