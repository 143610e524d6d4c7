package views

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/cli/timeline"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return noon.Add(d) }

func code(n int) *api.ExitCode { c := api.ExitCode(n); return &c }

func shopTask() api.Task {
	digest := "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	return api.Task{
		ID: strings.Repeat("0123456789abcdef", 2), Name: "shop", Family: "shop", Status: "STOPPED", Health: "HEALTHY", Settled: true,
		CreatedAt: noon, ExitCode: code(3),
		Ports:      []api.Port{{ContainerPort: 80, HostPort: 8080, Protocol: "tcp"}, {ContainerPort: 53, HostPort: 53, Protocol: "udp", HostIP: "::1"}},
		Containers: []api.Container{{Name: "migrate", Status: "STOPPED"}, {Name: "server", Status: "STOPPED"}},
		History: []api.Transition{
			{Seq: 1, At: after(100 * time.Millisecond), Container: "server", Status: "MANIFEST_PULLED", Digest: digest},
			{Seq: 2, At: after(110 * time.Millisecond), Status: "MANIFEST_PULLED"},
			{Seq: 3, At: after(2 * time.Second), Container: "~infra", Status: "RESOURCES_PROVISIONED"},
			{Seq: 4, At: after(3 * time.Second), Container: "migrate", Status: "STOPPED", ExitCode: code(0)},
			{Seq: 5, At: after(4 * time.Second), Container: "server", Status: "UNHEALTHY", Reason: "3 failed checks in a row, last: exit code 1 line\nline\x1b[31m"},
			{Seq: 6, At: after(65 * time.Second), Container: "server", Status: "STOPPED", ExitCode: code(3), Reason: "OutOfMemoryError: killed"},
			{Seq: 7, At: after(66 * time.Second), Status: "STOPPED", ExitCode: code(3), Reason: "EssentialContainerExited: server"},
		},
	}
}

func TestTimelineOfATask(t *testing.T) {
	t.Parallel()
	task := shopTask()
	task.Containers[1].ExitCode = code(3)
	chart := chartOf(task, after(time.Hour))
	want := timeline.Chart{
		Title: "shop (0123456789ab): exited (3), 1m6s", From: noon, To: after(66 * time.Second),
		Lanes: []timeline.Lane{
			{Name: "(task)", Note: "exit code 3", Failed: true, Spans: []timeline.Span{
				{State: "NONE", Activity: "resolve", From: noon, To: after(110 * time.Millisecond)},
				{State: "MANIFEST_PULLED", Activity: "prepare", From: after(110 * time.Millisecond), To: after(66 * time.Second)},
			}},
			{Name: "(pod)", Quiet: true, Spans: []timeline.Span{
				{State: "NONE", Activity: "wait for digests", From: noon, To: after(110 * time.Millisecond)},
				{State: "NONE", Activity: "create", From: after(110 * time.Millisecond), To: after(2 * time.Second)},
				{State: "RESOURCES_PROVISIONED", Activity: "run", From: after(2 * time.Second), To: after(66 * time.Second)},
			}},
			{Name: "migrate", Spans: []timeline.Span{{State: "NONE", Activity: "resolve", From: noon, To: after(3 * time.Second)}}},
			{Name: "server", Note: "exit code 3", Failed: true, Spans: []timeline.Span{
				{State: "NONE", Activity: "resolve", From: noon, To: after(100 * time.Millisecond)},
				{State: "MANIFEST_PULLED", Activity: "pull", From: after(100 * time.Millisecond), To: after(4 * time.Second)},
				{State: "UNHEALTHY", Activity: "unhealthy", From: after(4 * time.Second), To: after(65 * time.Second)},
			}},
		},
	}
	if diff := cmp.Diff(want, chart); diff != "" {
		t.Error(diff)
	}
	doc := wireTimeline(task, chart)
	if l := doc.Lanes[1]; l.Container != "~infra" || l.Spans[1].Seconds < 1.8 || !doc.Lanes[3].Spans[2].Failed || doc.Lanes[0].Container != "" || doc.Lanes[3].Container != "server" {
		t.Errorf("%+v", doc)
	}
}

// What a container waits for is named, in the order in which it was there.
func TestTimelineNamesWhatAContainerWaitsFor(t *testing.T) {
	t.Parallel()
	sec := func(n int) time.Time { return after(time.Duration(n) * time.Second) }
	task := api.Task{CreatedAt: noon, Containers: []api.Container{
		{Name: "app", Status: "CREATED", DependsOn: []api.Dependency{{ContainerName: "db", Condition: "HEALTHY"}, {ContainerName: "init", Condition: "SUCCESS"}}},
		{Name: "db", Status: "RUNNING"}, {Name: "init", Status: "STOPPED", ExitCode: code(0)},
	}}
	add := func(at int, container, status string, exit *api.ExitCode) {
		task.History = append(task.History, api.Transition{At: sec(at), Container: container, Status: status, ExitCode: exit})
	}
	add(1, "app", "MANIFEST_PULLED", nil)
	add(2, "app", "PULLED", nil)
	add(3, "app", "CREATED", nil)
	add(4, "~infra", "RESOURCES_PROVISIONED", nil)
	add(5, "init", "STOPPED", code(1))
	add(6, "init", "STOPPED", code(0))
	add(7, "db", "RESTARTING", code(2))
	add(8, "db", "RUNNING", nil)
	named := func() string {
		var words []string
		for _, s := range chartOf(task, sec(20)).Lanes[2].Spans {
			words = append(words, fmt.Sprintf("%s %g", s.Activity, s.To.Sub(s.From).Seconds()))
		}
		return strings.Join(words, ", ")
	}
	if got, want := named(), "resolve 1, pull 1, create 1, wait for the pod 1, wait for init 2, wait for db 14"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if spans := chartOf(task, sec(20)).Lanes[3].Spans; !spans[1].Failed || spans[1].Activity != "restart" || spans[2].Failed {
		t.Errorf("%+v", spans)
	}
	add(10, "db", "HEALTHY", nil)
	add(12, "app", "RUNNING", nil)
	if got, want := named(), "resolve 1, pull 1, create 1, wait for the pod 1, wait for init 2, wait for db 4, start 2, run 8"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	task.History[3].Container = "another" // no record of the pod: it was there, as the container has started
	if got := named(); strings.Contains(got, "pod") {
		t.Error(got)
	}
}

// A queued task waits: it neither pulls nor prepares anything.
func TestTimelineOfAQueuedTask(t *testing.T) {
	t.Parallel()
	task := api.Task{CreatedAt: noon, Status: "MANIFEST_PULLED", Queue: "it waits for port 80/tcp", Containers: []api.Container{{Name: "app", Status: "MANIFEST_PULLED"}}, History: []api.Transition{
		{At: after(time.Second), Container: "app", Status: "MANIFEST_PULLED"}, {At: after(time.Second), Status: "MANIFEST_PULLED"},
	}}
	lanes := chartOf(task, after(9*time.Second)).Lanes
	for _, i := range []int{0, 2} {
		if spans := lanes[i].Spans; len(spans) != 2 || spans[0].Activity != "resolve" || spans[1].Activity != "wait in the queue" {
			t.Errorf("%+v", lanes[i])
		}
	}
}

func TestAnExitBySignalFailsOnlyIfNoUserStoppedTheTask(t *testing.T) {
	t.Parallel()
	for stop, want := range map[string]bool{"UserInitiated": false, "EssentialContainerExited": true} {
		chart := chartOf(api.Task{CreatedAt: noon, StopCode: stop, ExitCode: code(143), Containers: []api.Container{{Name: "app", Status: "STOPPED", ExitCode: code(143)}}}, after(time.Second))
		if chart.Lanes[0].Failed != want || chart.Lanes[2].Failed != want {
			t.Errorf("%s: %+v", stop, chart)
		}
	}
	chart := chartOf(api.Task{CreatedAt: noon, Containers: []api.Container{{Name: "app", Status: "STOPPED", Errors: []api.Error{{Name: "CannotPullContainerError"}}}}}, after(time.Second))
	if l := chart.Lanes[2]; !l.Failed || l.Note != "CannotPullContainerError" {
		t.Errorf("%+v", l)
	}
}

// While a task has faults, its lane says so, once for those that overlap.
func TestTheTimelineShowsFaults(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Date(2026, 1, 2, 3, 4, s, 0, time.UTC) }
	var history []api.Transition
	for i, status := range []string{"RUNNING", lifecycle.FaultStarted, lifecycle.FaultStarted, lifecycle.FaultStopped, lifecycle.FaultStopped} {
		history = append(history, api.Transition{Seq: uint64(i + 1), At: at(10 * i), Status: status})
	}
	lane := chartOf(api.Task{CreatedAt: at(0), History: history}, at(50)).Lanes[0]
	var got []string
	for _, s := range lane.Spans {
		got = append(got, fmt.Sprintf("%s %s", s.Activity, s.To.Sub(s.From)))
	}
	if want := "run 10s, fault 30s, run 10s"; strings.Join(got, ", ") != want {
		t.Errorf("%s, want %s", got, want)
	}
}
