package task

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/reason"
	"github.com/podtask/podtask/pkg/api"
)

func TestWhyIsSentencesWithTimes(t *testing.T) {
	t.Parallel()
	now := after(time.Minute)
	owned := api.Owner{PID: 1, Alive: true}
	tests := []struct {
		name string
		task api.Task
		want string
	}{
		{"queued", api.Task{Name: "web", Status: "NONE", Owner: owned, Why: []api.Reason{{Code: "queued", Text: "it waits for port 80/tcp, used by db"}}},
			"web (0123456789ab) is starting: it waits for port 80/tcp, used by db. It starts by itself when that is free."},
		{"a retry", api.Task{Status: "NONE", Owner: owned, Why: []api.Reason{{Code: "retry", Text: "pulling failed once, error: re\nfused", Until: now.Add(1240 * time.Millisecond), Then: "podtask tries again"}}},
			"0123456789ab is starting: pulling failed once, error: re fused. podtask tries again in 1.2s."},
		{"a fault", api.Task{Status: "RUNNING", Owner: owned, Why: []api.Reason{{Code: "running", Text: "its container is up", Since: now.Add(-2300 * time.Millisecond)}, {Code: "fault", Text: "a fault was injected into its network: 5% of the packets to ::/0 are lost", Since: now.Add(-time.Second), Until: now.Add(time.Minute), Then: "the fault ends"}}},
			"0123456789ab has been running for 2.3s: its container is up. A fault was injected into its network: 5% of the packets to ::/0 are lost (1s so far). The fault ends in 1m."},
		{"a time limit", api.Task{Status: "CREATED", Owner: owned, Why: []api.Reason{{Code: "dependency", Text: "web waits", Since: now.Add(-12 * time.Second), Until: now.Add(48 * time.Second), Then: "podtask gives up on web"}}},
			"0123456789ab is starting: web waits (12s so far). podtask gives up on web in 48s."},
		{"overdue", api.Task{Status: "RUNNING", Owner: owned, Why: []api.Reason{{Code: "health", Text: "web is up", Until: now.Add(-time.Second), Then: "podtask checks again"}}},
			"0123456789ab is running: web is up. podtask checks again now."},
		{"ended before anything ran", api.Task{Status: "STOPPED", Settled: true, Why: []api.Reason{{Code: "ended", Text: "stopped by you", Since: noon}}},
			"0123456789ab stopped 1 minute ago: stopped by you."},
		{"ended", api.Task{Name: "web", Status: "STOPPED", Settled: true, Containers: []api.Container{{StartedAt: noon}}, Why: []api.Reason{{Code: "ended", Text: "stopped by you; app exited with code 143", Since: noon}}},
			"web (0123456789ab) stopped 1 minute ago: stopped by you; app exited with code 143. See `podtask logs web`."},
		{"out of memory", api.Task{Name: "web", Status: "STOPPED", Settled: true, Containers: []api.Container{{StartedAt: noon}}, Why: []api.Reason{{Code: "ended", Text: "essential container app exited with code 137; app: OutOfMemoryError: the container was killed because it used all of its memory limit of 64 MiB", Since: noon}}},
			"web (0123456789ab) stopped 1 minute ago: essential container app exited with code 137; app: OutOfMemoryError: the container was killed because it used all of its memory limit of 64 MiB. Give it more `memory` in its definition, or with `podtask run --memory`."},
		{"paused", api.Task{Name: "web", Status: "RUNNING", Owner: owned, Why: []api.Reason{{Code: "paused", Text: "the processes of app are frozen"}}},
			"web (0123456789ab) is running: the processes of app are frozen. Resume it with `podtask unpause web`."},
		{"logs", api.Task{Name: "web", Status: "RUNNING", Owner: owned, Why: []api.Reason{
			{Code: "running", Text: "its container is up"}, {Code: "logs-stalled", Text: "3KiB of the output of app wait to be sent to Splunk: it\nis down", Since: noon.Add(-time.Minute)},
		}},
			"web (0123456789ab) is running: its container is up. 3KiB of the output of app wait to be sent to Splunk: it is down (2m so far)."},
		{"no owner", api.Task{Name: "web", Status: "RUNNING", Why: []api.Reason{{Code: "running", Text: "its container is up"}}},
			"web (0123456789ab) is running: the podtask process that ran it has died. Take it over with `podtask wait web`, or stop it with `podtask stop web`. Last known: its container is up."},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.task.ID = shopTask().ID
			if got := reason.Task(c.task, now).Sentence; got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	if a := reason.Task(api.Task{Why: []api.Reason{{Code: "running"}}}, now); len(a.Why) != 2 || a.Why[0].Code != reason.NoOwner {
		t.Errorf("without an owner: %+v", a.Why)
	}
}

func TestQueuedTaskInTheTable(t *testing.T) {
	t.Parallel()
	queued := api.Task{ID: strings.Repeat("a", 32), Family: "web", Status: "NONE", Health: "UNKNOWN", Owner: api.Owner{PID: 1, Alive: true}, Queue: "1 vCPU (0 of 1 vCPU free), used by db"}
	r := newRow(queued, "cpu", false, noon)
	if r.Status != "NONE (queued: cpu)" || r.Queue != queued.Queue || r.filterValues["status"] != "NONE" {
		t.Errorf("%+v", r)
	}
}

func TestProgressNamesAFullDiskOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := console.NewProgress(&out, false, noon, 0)
	for _, code := range []string{"stop-order", api.WhyDiskFull, api.WhyDiskFull, "stop-order", api.WhyDiskFull} {
		p.Show(api.Task{Why: []api.Reason{{Code: code, Text: "the disk is full"}}})
	}
	if n := strings.Count(out.String(), "waiting"); n != 2 {
		t.Errorf("a full disk is named %d times, want once for each of two periods:\n%s", n, &out)
	}
}

func TestPausedTaskInTheTable(t *testing.T) {
	t.Parallel()
	task := api.Task{ID: strings.Repeat("a", 32), Status: "RUNNING", Owner: api.Owner{PID: 1, Alive: true}, Containers: []api.Container{{Status: "RUNNING", Paused: true}, {Status: "RUNNING"}, {Status: "STOPPED"}}}
	if r := newRow(task, "", false, noon); r.Status != "RUNNING (1 of 2 paused)" || r.Running != 2 {
		t.Errorf("%+v", r)
	}
	task.Containers[1].Paused = true
	if r := newRow(task, "", false, noon); r.Status != "RUNNING (paused)" {
		t.Errorf("%+v", r)
	}
}

func TestProgressShowsWhatAQueuedTaskWaitsFor(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := console.NewProgress(&out, false, noon, 0)
	for _, queue := range []string{"", "port 80/tcp", "port 80/tcp", "its turn", ""} {
		p.Show(api.Task{Queue: queue})
	}
	const want = `
          (task)  queued                 waits for port 80/tcp
          (task)  queued                 waits for its turn
`
	if diff := cmp.Diff(want[1:], out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestColumnsAreThoseAskedFor(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int{"": console.DefaultColumns, "72": 72, "x": console.DefaultColumns, "-1": console.DefaultColumns} {
		if got := console.Columns(&bytes.Buffer{}, func(string) string { return value }); got != want {
			t.Errorf("COLUMNS=%s: %d, want %d", value, got, want)
		}
	}
}
