package supervise

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/pkg/api"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestPhase(t *testing.T) {
	t.Parallel()
	with := func(goal, status, health string, started bool) api.Task {
		task := api.Task{Goal: goal, Status: status, Containers: []api.Container{{Name: "app", Essential: true, Status: status}}}
		if health != "" {
			task.Health, task.Containers[0].Health = health, &api.Health{Status: health}
		}
		if started {
			task.StartedAt = noon
		}
		return task
	}
	tests := []struct {
		name  string
		ready connect.Condition
		task  api.Task
		want  phase
	}{
		{"pulling", connect.UntilHealthy, with("UP", "NONE", "", false), starting},
		{"running, not yet healthy", connect.UntilHealthy, with("UP", "RUNNING", "UNKNOWN", true), starting},
		{"running is enough", connect.UntilRunning, with("UP", "RUNNING", "UNKNOWN", true), ready},
		{"healthy", connect.UntilHealthy, with("UP", "RUNNING", "HEALTHY", true), ready},
		{"healthy without a check", connect.UntilHealthy, with("UP", "RUNNING", "", true), ready},
		{"a check fails before it is ready", connect.UntilHealthy, with("UP", "RUNNING", "UNHEALTHY", true), unhealthy},
		{"the unit does not wait", ReadyNo, with("UP", "RUNNING", "UNKNOWN", true), ready},
		{"stopping", connect.UntilRunning, with("DOWN", "RUNNING", "HEALTHY", true), stopping},
	}
	for _, tt := range tests {
		if got := phaseOf(tt.task, tt.ready); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestTrialOfNewImages(t *testing.T) {
	t.Parallel()
	type check struct {
		after    time.Duration // since noon
		phase    phase
		restarts int
		want     phase
		wait     time.Duration
	}
	const s = time.Second
	tests := map[string][]check{
		"stays ready":         {{0, starting, 0, starting, 0}, {5 * s, ready, 0, starting, 10 * s}, {9 * s, ready, 0, starting, 6 * s}, {15 * s, ready, 0, ready, 0}},
		"never becomes ready": {{0, starting, 0, starting, 0}, {90 * s, unhealthy, 0, unhealthy, 0}},
		"becomes unhealthy":   {{0, ready, 0, starting, 10 * s}, {4 * s, unhealthy, 0, unhealthy, 0}},
		"restarts":            {{0, ready, 2, starting, 10 * s}, {4 * s, ready, 3, unhealthy, 0}},
		"is no longer ready":  {{0, ready, 0, starting, 10 * s}, {10 * s, starting, 0, unhealthy, 0}},
	}
	for name, checks := range tests {
		var on trial
		for _, c := range checks {
			if p, wait := on.judge(c.phase, c.restarts, noon.Add(c.after), 10*s); p != c.want || wait != c.wait {
				t.Errorf("a task that %s: after %v phase %d, wait %v; want %d, %v", name, c.after, p, wait, c.want, c.wait)
			}
		}
	}
	if p, wait := new(trial).judge(ready, 0, noon, 0); p != ready || wait != 0 {
		t.Error("without a settle time the service is not ready")
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
		{task("UNKNOWN", is("db", "PULLED"), is("app", "MANIFEST_PULLED")), "pulling images: 1 of 2 done"},
		{task("UNKNOWN", is("db", "RUNNING"), waits), "app waits for db to be healthy"},
		{task("UNKNOWN", is("db", "RUNNING"), retries), "app: podtask tries again after an error: registry says 503"},
		{task("UNKNOWN", is("db", "STOPPED"), is("app", "RUNNING")), "1 of 2 containers up"},
		{task("HEALTHY", is("db", "RUNNING"), is("app", "RUNNING")), "2 of 2 containers up, healthy"},
		{api.Task{Goal: "DOWN", StoppedReason: "SIGTERM"}, "stopping: SIGTERM"},
	}
	for _, tt := range tests {
		if got := statusLine(tt.task); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func TestTimeoutsExtendedOnlyWhileStartingOrStopping(t *testing.T) {
	t.Parallel()
	extends := func(h *heartbeat, at time.Time) bool {
		return strings.Contains(strings.Join(h.messages(at), "\n"), "EXTEND_TIMEOUT_USEC=30000000")
	}
	for p, want := range map[phase]bool{starting: true, stopping: true, ready: false, unhealthy: false} {
		h := newHeartbeat(nil)
		h.enter(p, nil, noon, time.Hour)
		if got := extends(h, noon); got != want {
			t.Errorf("phase %d: extended: %v", p, got)
		}
	}
	h := newHeartbeat(nil)
	h.enter(stopping, nil, noon, time.Hour)
	h.enter(stopping, nil, noon.Add(time.Hour), time.Hour) // further changes do not extend it
	if last := noon.Add(time.Hour + cleanUp); !extends(h, last.Add(-1)) || extends(h, last) {
		t.Error("the time for a stop is not limited by the containers' stop timeouts")
	}
}

// The manager is notified of a new phase immediately.
func TestNewPhaseIsReportedImmediately(t *testing.T) {
	t.Parallel()
	h := newHeartbeat(nil)
	notified := func() bool {
		select {
		case <-h.entered:
			return true
		default:
			return false
		}
	}
	for i, step := range []struct {
		phase phase
		want  bool
	}{{starting, false}, {ready, true}, {ready, false}, {stopping, true}, {stopping, false}, {starting, true}} {
		h.enter(step.phase, nil, noon, time.Hour)
		if got := notified(); got != step.want {
			t.Errorf("step %d: notified %v", i, got)
		}
	}
	h.enter(ready, nil, noon, time.Hour)
	h.enter(stopping, nil, noon, time.Hour) // must not block although the channel is full
}

// The lines reach a manager that listens as systemd does.
func TestNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	Notify(nil, "READY=1", "STATUS=ready")
	buf := make([]byte, 256)
	n, err := l.Read(buf)
	if got := string(buf[:n]); err != nil || got != "READY=1\nSTATUS=ready" {
		t.Errorf("%q, %v", got, err)
	}
}
