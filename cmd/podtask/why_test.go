//go:build remote && containers_image_openpgp

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/console"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/timeline"
)

func TestWhyIsOneSentenceWithTimes(t *testing.T) {
	t.Parallel()
	now := after(time.Minute)
	owned := api.Owner{PID: 1, Alive: true}
	tests := []struct {
		name string
		task api.Task
		want string
	}{
		{"queued", api.Task{Name: "web", Status: "NONE", Owner: owned, Why: []api.Reason{{Code: "queued", Text: "it is queued and waits for port 80/tcp, which db has"}}},
			"web (0123456789ab) is NONE: it is queued and waits for port 80/tcp, which db has."},
		{"a retry", api.Task{Status: "NONE", Owner: owned, Why: []api.Reason{{Code: "retry", Text: "pulling failed once, last with: re\nfused", Until: now.Add(1240 * time.Millisecond), Then: "it is tried again"}}},
			"0123456789ab is NONE: pulling failed once, last with: re fused; it is tried again in 1.2s."},
		{"a time limit", api.Task{Status: "CREATED", Owner: owned, Why: []api.Reason{{Code: "dependency", Text: "web waits", Since: now.Add(-12 * time.Second), Until: now.Add(48 * time.Second), Then: "web gives up"}}},
			"0123456789ab is CREATED: web waits, for 12s; web gives up in 48s."},
		{"overdue", api.Task{Status: "RUNNING", Owner: owned, Why: []api.Reason{{Code: "health", Text: "web runs", Until: now.Add(-time.Second), Then: "it is checked again"}}},
			"0123456789ab is RUNNING: web runs; it is checked again now."},
		{"ended before anything ran", api.Task{Status: "STOPPED", Settled: true, Why: []api.Reason{{Code: "ended", Text: "stopped by you", Since: noon}}},
			"0123456789ab is STOPPED: stopped by you, 1 minute ago."},
		{"ended", api.Task{Name: "web", Status: "STOPPED", Settled: true, Containers: []api.Container{{StartedAt: noon}}, Why: []api.Reason{{Code: "ended", Text: "stopped by you; app exited with code 143", Since: noon}}},
			"web (0123456789ab) is STOPPED: stopped by you; app exited with code 143, 1 minute ago; `podtask logs web` shows what it wrote."},
		{"paused", api.Task{Name: "web", Status: "RUNNING", Owner: owned, Why: []api.Reason{{Code: "paused", Text: "app is paused"}}},
			"web (0123456789ab) is RUNNING: app is paused; `podtask unpause web` lets it go on."},
		{"no owner", api.Task{Name: "web", Status: "RUNNING", Why: []api.Reason{{Code: "running", Text: "it waits for nothing"}}},
			"web (0123456789ab) is RUNNING: its owner has died; `podtask wait web` or `podtask stop web` takes it over; when last recorded: it waits for nothing."},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.task.ID = shopTask().ID
			if got := explain(c.task, now).Sentence; got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	if a := explain(api.Task{Why: []api.Reason{{Code: "running"}}}, now); len(a.Why) != 2 || a.Why[0].Code != whyNoOwner {
		t.Errorf("without an owner: %+v", a.Why)
	}
}

func TestQueuedTaskInTheTable(t *testing.T) {
	t.Parallel()
	queued := api.Task{ID: strings.Repeat("a", 32), Family: "web", Status: "NONE", Health: "UNKNOWN", Owner: api.Owner{PID: 1, Alive: true}, Queue: "1 vCPU (0 vCPU of 1 vCPU free), which db has"}
	r := newRow(queued, "cpu", false, noon)
	if r.Status != "NONE (queued: cpu)" || r.Queue != queued.Queue || r.filterable["status"] != "NONE" {
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

func TestTimelineOfATask(t *testing.T) {
	t.Parallel()
	task := shopTask()
	task.Containers[1].ExitCode = code(3)
	chart := chartOf(task, after(time.Hour))
	want := timeline.Chart{
		Title: "shop (0123456789ab) STOPPED, 1m6s", From: noon, To: after(66 * time.Second),
		Lanes: []timeline.Lane{
			{Name: "(task)", Note: "exit code 3", Spans: []timeline.Span{
				{State: "NONE", From: noon, To: after(110 * time.Millisecond)}, {State: "MANIFEST_PULLED", From: after(110 * time.Millisecond), To: after(66 * time.Second)},
			}},
			{Name: "(pod)", Spans: []timeline.Span{
				{State: "NONE", From: noon, To: after(2 * time.Second)}, {State: "RESOURCES_PROVISIONED", From: after(2 * time.Second), To: after(66 * time.Second)},
			}},
			{Name: "migrate", Spans: []timeline.Span{{State: "NONE", From: noon, To: after(3 * time.Second)}}},
			{Name: "server", Note: "exit code 3", Spans: []timeline.Span{
				{State: "NONE", From: noon, To: after(100 * time.Millisecond)},
				{State: "MANIFEST_PULLED", From: after(100 * time.Millisecond), To: after(4 * time.Second)},
				{State: "UNHEALTHY", From: after(4 * time.Second), To: after(65 * time.Second)},
			}},
		},
	}
	if diff := cmp.Diff(want, chart); diff != "" {
		t.Error(diff)
	}
	doc := wireTimeline(task, chart)
	if l := doc.Lanes[1]; l.Container != "~infra" || l.Spans[0].Seconds != 2 || doc.Lanes[0].Container != "" || doc.Lanes[3].Container != "server" {
		t.Errorf("%+v", doc)
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
