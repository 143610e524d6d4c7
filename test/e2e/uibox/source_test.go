package uibox

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/cli/timeline"
	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/internal/cli/webui"
	"github.com/podtask/podtask/pkg/api"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

// host has a task that runs, one that waits and one that failed, and a service.
type host struct {
	mu    sync.Mutex
	tasks []top.Task
	done  []string
}

func id(digit string) string { return strings.Repeat(digit, 32) }

func newHost() *host {
	code := api.ExitCode(3)
	digest := "sha256:" + strings.Repeat("5a1c8e2f", 8)
	web := api.Task{
		ID: id("a"), Name: "web", Family: "web", Status: "RUNNING", Health: "UNHEALTHY", CreatedAt: noon, Ports: []api.Port{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}},
		Containers: []api.Container{
			{Name: "server", Image: "registry.example.com/shop/storefront-with-a-long-name:2026-01-02", Status: "RUNNING", Health: &api.Health{Status: "UNHEALTHY", Output: "no", ExitCode: 1, FailingStreak: 3}, RestartCount: 2},
			{Name: "db", Image: "docker.io/library/postgres:17", Status: "RUNNING", Health: &api.Health{Status: "HEALTHY"}},
			{Name: "migrate", Image: "registry.example.com/shop/migrate:4", Status: "STOPPED", ExitCode: new(api.ExitCode)},
		},
		History: []api.Transition{
			{Seq: 1, At: at(0.4), Container: "server", Status: "MANIFEST_PULLED", Digest: digest}, {Seq: 2, At: at(0.9), Container: "~infra", Status: "RESOURCES_PROVISIONED"},
			{Seq: 3, At: at(2), Container: "server", Status: "RUNNING"}, {Seq: 4, At: at(40), Container: "server", Status: "UNHEALTHY", Reason: "the check ended with exit code 1: curl: (7) Failed to connect to localhost port 80 after 0 ms: Couldn't connect to server"},
			{Seq: 5, At: at(41), Container: "migrate", Status: "STOPPED", ExitCode: new(api.ExitCode)},
		},
	}
	waits := api.Task{ID: id("b"), Name: "nightly-report", Family: "report", Status: "NONE", Health: "UNKNOWN", Queue: "2 GiB of memory, of which 1.2 GiB are free", CreatedAt: noon}
	failed := api.Task{
		ID: id("c"), Family: "import", Status: "STOPPED", Health: "UNKNOWN", CreatedAt: noon, ExitCode: &code,
		Containers: []api.Container{{Name: "import", Image: "registry.example.com/shop/import:1", Status: "STOPPED", ExitCode: &code, Reason: "OutOfMemoryError: container killed due to memory usage"}},
	}
	return &host{tasks: []top.Task{{Task: web, Use: &top.Use{CPUPercent: 112.4, Memory: 64 << 20, MemoryLimit: 128 << 20}}, {Task: waits}, {Task: failed}}}
}

// change changes a task as if it happened on the host.
func (h *host) change(fn func(*api.Task)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fn(&h.tasks[0].Task)
}

// Tasks implements webui.Source.
func (h *host) Tasks(context.Context) ([]top.Task, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.tasks), nil
}

// Explain implements webui.Source.
func (h *host) Explain(_ context.Context, id string) (top.Detail, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.tasks, func(t top.Task) bool { return t.ID == id })
	if i < 0 {
		return top.Detail{}, webui.ErrNotFound
	}
	lane := func(name, note string, failed bool, spans ...timeline.Span) timeline.Lane {
		return timeline.Lane{Name: name, Note: note, Failed: failed, Spans: spans}
	}
	chart := timeline.Chart{Title: "web", From: at(0), To: at(60), Lanes: []timeline.Lane{
		lane("server", "UNHEALTHY", true, timeline.Span{State: "NONE", Activity: "resolve", From: at(0), To: at(4)}, timeline.Span{State: "MANIFEST_PULLED", Activity: "pull", From: at(4), To: at(20)},
			timeline.Span{State: "CREATED", Activity: "wait for db", From: at(20), To: at(26)}, timeline.Span{State: "RUNNING", Activity: "run", From: at(26), To: at(50)}, timeline.Span{State: "RUNNING", Activity: "unhealthy", From: at(50), To: at(60)}),
		lane("db", "", false, timeline.Span{State: "PULLED", Activity: "create", From: at(5), To: at(9)}, timeline.Span{State: "RUNNING", Activity: "healthy", From: at(9), To: at(60)}),
	}}
	return top.Detail{Task: h.tasks[i].Task, Why: "It runs, and its container server is unhealthy: three checks in a row have failed.", Chart: chart}, nil
}

// Lines implements webui.Source.
func (h *host) Lines(context.Context, string) (lines []top.Line, err error) {
	for i := range 60 {
		lines = append(lines, top.Line{Container: []string{"server", "db"}[i%2], Text: fmt.Sprintf("2026-01-02T12:00:%02dZ level=info msg=\"request %d was answered\" path=/articles/%d status=200 duration=12ms", i, i, i)})
	}
	return lines, nil
}

// Services implements webui.Source.
func (h *host) Services(context.Context) ([]api.Service, error) {
	return []api.Service{{
		ServiceName: "shop", Status: "ACTIVE", TaskDefinition: "shop:3", DesiredCount: 2, RunningCount: 2, HealthyCount: 1,
		Deployments: []api.Deployment{
			{ID: "ecs-svc/0000000000000000003", Status: "PRIMARY", TaskDefinition: "shop:3", RolloutState: "IN_PROGRESS", RolloutStateReason: "one of two copies is new", RunningCount: 1, DesiredCount: 2},
			{ID: "ecs-svc/0000000000000000002", Status: "ACTIVE", TaskDefinition: "shop:2", RolloutState: "COMPLETED", RunningCount: 1, DesiredCount: 2},
		},
		Tasks:  []api.ServiceTask{{ID: id("a"), Name: "shop-1", Phase: "LIVE", Health: "HEALTHY"}, {ID: id("b"), Name: "shop-2", Phase: "STARTING", Health: "UNKNOWN", Reason: "it waits for its health check"}},
		Events: []api.ServiceEvent{{ID: 1, CreatedAt: noon, Message: "the deployment of shop:3 has begun"}, {ID: 2, CreatedAt: at(30), Message: "shop-1 is live"}},
	}}, nil
}

// Stop implements webui.Actions.
func (h *host) Stop(_ context.Context, id string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = append(h.done, "stop "+id)
	for i := range h.tasks {
		if h.tasks[i].ID == id {
			h.tasks[i].Status = "STOPPED"
		}
	}
	return nil
}

// Restart implements webui.Actions.
func (h *host) Restart(_ context.Context, id string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = append(h.done, "restart "+id)
	return nil
}

// serve returns the one-time link to the page of a host.
func serve(t *testing.T, h *host, write bool) (link string) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	var actions webui.Actions
	if write {
		actions = h
	}
	page := webui.New(server.Listener.Addr().(*net.TCPAddr).Port, h, actions, func() time.Time { return noon })
	server.Config.Handler = page
	server.Start()
	t.Cleanup(server.Close)
	return page.Link()
}
