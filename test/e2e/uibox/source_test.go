package uibox

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/timeline"
	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/internal/cli/webui"
	"github.com/podtask/podtask/pkg/api"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

// host has tasks in all kinds of states, and services.
type host struct {
	mu    sync.Mutex
	tasks []top.Task
	done  []string
	// begun is the time at which the test began: the clock of the page goes on from noon.
	begun time.Time
	// lines are the ones of the log that came later; more is closed when there are new ones.
	lines []webui.Line
	more  chan struct{}
	agent string
	// gone: the program does not answer.
	gone atomic.Bool
	// several: the tasks are on two of three hosts. busy: there are many.
	several, busy atomic.Bool
}

// severalHosts is a host, and others if it says so.
type severalHosts struct{ *host }

// Hosts are those that the page shows.
func (h severalHosts) Hosts() []top.HostState {
	if !h.several.Load() {
		return nil
	}
	return []top.HostState{{Name: "atlas"}, {Name: "box1"}, {Name: "box2", Why: "ssh cannot connect to box2: Connection refused"}}
}

func (h *host) now() time.Time { return noon.Add(time.Since(h.begun)) }

func id(digit string) string { return strings.Repeat(digit, 32) }

func newHost() *host {
	code := api.ExitCode(3)
	digest := "sha256:" + strings.Repeat("5a1c8e2f", 8)
	owned := api.Owner{PID: 1, Alive: true}
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	web := api.Task{
		ID: id("a"), Name: "web", Family: "web", Revision: 4, Status: "RUNNING", DesiredStatus: "RUNNING", Health: "UNHEALTHY", CreatedAt: ago(3 * time.Hour), Owner: owned, NetworkMode: "bridge", CPU: 2, Memory: 128 << 20,
		Ports: []api.Port{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}, {HostPort: 8443, ContainerPort: 443, Protocol: "tcp", HostIP: "127.0.0.1"}, {HostPort: 5353, ContainerPort: 53, Protocol: "udp"}},
		Why:   []api.Reason{{Code: "unhealthy", Container: "server", Text: "server is unhealthy: 3 health checks in a row failed; the last one failed with exit code 1: curl: (7) Failed to connect to localhost port 80", Until: at(5), Then: "podtask checks again"}},
		Containers: []api.Container{
			{Name: "server", Image: "registry.example.com/shop/storefront-with-a-long-name:2026-01-02", Status: "RUNNING", Essential: true, Health: &api.Health{Status: "UNHEALTHY", Output: "curl: (7) Failed to connect to localhost port 80", ExitCode: 1, FailingStreak: 3}, RestartCount: 2},
			{Name: "db", Image: "docker.io/library/postgres:17", Status: "RUNNING", Health: &api.Health{Status: "HEALTHY"}},
			{Name: "migrate", Image: "registry.example.com/shop/migrate:4", Status: "STOPPED", ExitCode: new(api.ExitCode)},
		},
		History: []api.Transition{
			{Seq: 1, At: at(0.4), Container: "server", Status: "MANIFEST_PULLED", Digest: digest}, {Seq: 2, At: at(0.9), Container: "~infra", Status: "RESOURCES_PROVISIONED"},
			{Seq: 3, At: at(2), Container: "server", Status: "RUNNING"}, {Seq: 4, At: at(40), Container: "server", Status: "UNHEALTHY", Reason: "the check ended with exit code 1: curl: (7) Failed to connect to localhost port 80 after 0 ms: Couldn't connect to server"},
			{Seq: 5, At: at(41), Container: "migrate", Status: "STOPPED", ExitCode: new(api.ExitCode)},
		},
	}
	waits := api.Task{
		ID: id("b"), Name: "nightly-report", Family: "report", Status: "NONE", DesiredStatus: "RUNNING", Health: "UNKNOWN", Owner: owned, Queue: "2 GiB of memory, of which 1.2 GiB are free", CreatedAt: ago(51 * time.Second), Memory: 2 << 30,
		Why: []api.Reason{{Code: "queued", Text: "it waits for port 8080/tcp, used by web", Since: ago(51 * time.Second)}}, Containers: []api.Container{{Name: "report", Image: "registry.example.com/report:12", Status: "NONE"}},
	}
	failed := api.Task{
		ID: id("c"), Family: "import", Status: "STOPPED", Health: "UNKNOWN", CreatedAt: ago(12 * time.Minute), StoppedAt: ago(10 * time.Minute), StopCode: "EssentialContainerExited", ExitCode: &code, Settled: true,
		Why:        []api.Reason{{Code: "ended", Text: "essential container import exited with code 3"}},
		Containers: []api.Container{{Name: "import", Image: "registry.example.com/shop/import:1", Status: "STOPPED", ExitCode: &code, Reason: "OutOfMemoryError: container killed due to memory usage"}},
	}
	starts := api.Task{
		ID: id("d"), Name: "search", Family: "search", Status: "MANIFEST_PULLED", DesiredStatus: "RUNNING", Health: "UNKNOWN", Owner: owned, CreatedAt: ago(8 * time.Second),
		Why:        []api.Reason{{Code: "operation", Text: "podtask is pulling docker.io/opensearchproject/opensearch:2.19 for search", Since: ago(7 * time.Second)}},
		Containers: []api.Container{{Name: "search", Image: "docker.io/opensearchproject/opensearch:2.19", Status: "NONE"}},
	}
	return &host{begun: time.Now(), more: make(chan struct{}), agent: "0.1.0", tasks: append([]top.Task{
		{Task: web, Use: &top.Use{CPUPercent: 112.4, Memory: 118 << 20, MemoryLimit: 128 << 20}, ContainerUse: map[string]top.Use{"server": {CPUPercent: 101, Memory: 70 << 20}, "db": {CPUPercent: 11.4, Memory: 48 << 20}}},
		{Task: waits, QueuedFor: "port 8080", Place: 1}, {Task: failed}, {Task: starts},
	}, quietTasks()...)}
}

// quietTasks are tasks of which there is little to say.
func quietTasks() []top.Task {
	owned, killed := api.Owner{PID: 1, Alive: true}, api.ExitCode(137)
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	one := func(image string) []api.Container {
		return []api.Container{{Name: "app", Image: image, Status: "RUNNING"}}
	}
	runs := []api.Reason{{Code: "running", Text: "its container is up"}}
	long := api.Task{
		ID: id("e"), Name: "customer-facing-recommendation-engine-with-a-very-long-name-that-goes-on", Family: "recommend", Status: "RUNNING", DesiredStatus: "RUNNING", Health: "UNKNOWN", Owner: owned, CreatedAt: ago(9 * 24 * time.Hour), Why: runs,
		Containers: one("registry.internal.example.com:5000/data-science/team-recommendations/engine@sha256:" + strings.Repeat("5a1c8e2f", 8)),
	}
	cache := api.Task{
		ID: id("f"), Name: "cache", Family: "cache", Status: "RUNNING", DesiredStatus: "RUNNING", Health: "HEALTHY", Owner: owned, CreatedAt: ago(26 * time.Hour), Why: runs, Memory: 256 << 20,
		Ports: []api.Port{{HostPort: 6379, ContainerPort: 6379, Protocol: "tcp", HostIP: "127.0.0.1"}}, Containers: one("docker.io/valkey/valkey:8"),
	}
	copyOf := func(digit, name string) api.Task {
		return api.Task{ID: id(digit), Name: name, Family: "shop", Revision: 3, Service: "shop", Status: "RUNNING", DesiredStatus: "RUNNING", Health: "HEALTHY", Owner: owned, CreatedAt: ago(40 * time.Minute), Why: runs, Containers: one("registry.example.com/shop/api:3"), CPU: 1, Memory: 512 << 20}
	}
	stopped := api.Task{
		ID: id("9"), Name: "old", Family: "old", Status: "STOPPED", Health: "UNKNOWN", CreatedAt: ago(30 * time.Hour), StoppedAt: ago(29 * time.Hour), StopCode: "UserInitiated", ExitCode: &killed, Settled: true,
		Why: []api.Reason{{Code: "ended", Text: "stopped by podtask stop"}}, Containers: []api.Container{{Name: "app", Image: "old:1", Status: "STOPPED", ExitCode: &killed}},
	}
	return []top.Task{
		{Task: long, Use: &top.Use{CPUPercent: 3.2}},
		{Task: cache, Use: &top.Use{CPUPercent: 1.1, Memory: 41 << 20, MemoryLimit: 256 << 20}},
		{Task: copyOf("1", "shop-1"), Use: &top.Use{CPUPercent: 34, Memory: 210 << 20, MemoryLimit: 512 << 20}},
		{Task: copyOf("2", "shop-2"), Use: &top.Use{CPUPercent: 29, Memory: 198 << 20, MemoryLimit: 512 << 20}},
		{Task: stopped},
	}
}

// write adds a line to the log.
func (h *host) write(l webui.Line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, l)
	close(h.more)
	h.more = make(chan struct{})
}

// change changes a task as if it happened on the host.
func (h *host) change(fn func(*api.Task)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fn(&h.tasks[0].Task)
}

// Tasks implements webui.Source. What tasks use goes up and down.
func (h *host) Tasks(context.Context) ([]top.Task, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	tasks := slices.Clone(h.tasks)
	if h.busy.Load() {
		tasks = busyTasks()
	}
	wave := float64(h.now().Unix())
	for i, t := range tasks {
		if h.several.Load() {
			tasks[i].Host = []string{"atlas", "box1"}[i%2]
		}
		if t.Use != nil {
			use := *t.Use
			use.CPUPercent *= 0.8 + 0.25*math.Sin(wave/7+float64(i)) + 0.1*math.Sin(wave*1.3)
			use.Memory = uint64(float64(use.Memory) * (0.96 + 0.05*math.Sin(wave/40+float64(i))))
			tasks[i].Use = &use
		}
	}
	return tasks, nil
}

// Host implements webui.Source.
func (h *host) Host(context.Context) webui.Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	return webui.Host{Name: "atlas", Version: "0.1.0", Podman: "5.4.2", Agent: h.agent, Local: true}
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
	return top.Detail{Task: h.tasks[i].Task, Why: "web (aaaaaaaaaaaa) is running: server is unhealthy: 3 health checks in a row failed; the last one failed with exit code 1: curl: (7) Failed to connect to localhost port 80. See `podtask logs web`.", Chart: chart}, nil
}

// Lines implements webui.Source.
func (h *host) Lines(ctx context.Context, _ string, which webui.Lines, fn func(webui.Line) error) error {
	for i := range 60 {
		text := fmt.Sprintf("level=info msg=\"request %d was answered\" path=/articles/%d status=200 duration=12ms", i, i)
		if i%17 == 11 {
			text = fmt.Sprintf("level=error msg=\"cannot reach the database\" error=\"dial tcp 10.89.0.4:5432: connect: connection refused; is the server running on that host and accepting TCP/IP connections?\" attempt=%d", i)
		}
		if err := fn(webui.Line{Container: []string{"server", "db"}[i%2], Stderr: i%17 == 11, Time: at(float64(i)), Text: text}); err != nil {
			return err
		}
	}
	for n := 0; ; {
		h.mu.Lock()
		lines, more := slices.Clone(h.lines[n:]), h.more
		h.mu.Unlock()
		for _, l := range lines {
			if err := fn(l); err != nil {
				return err
			}
		}
		n += len(lines)
		if !which.Follow {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Beside implements webui.Source.
func (h *host) Beside(context.Context) (console.Beside, error) {
	if h.busy.Load() {
		return busyBeside(), nil
	}
	return console.Beside{}, nil
}

// Services implements webui.Source.
func (h *host) Services(context.Context) ([]api.Service, error) {
	if h.busy.Load() {
		return busyServices(), nil
	}
	listen := func(address string) []api.Listener {
		return []api.Listener{{Address: address, ContainerName: "api", ContainerPort: 80}}
	}
	shop := api.Service{
		ServiceName: "shop", Status: "ACTIVE", TaskDefinition: "shop:3", DesiredCount: 4, RunningCount: 5, HealthyCount: 3, CreatedAt: noon.Add(-50 * time.Hour), Listeners: listen(":8000"),
		Why: []api.Reason{{Code: "updating", Text: "deployment shop/3 (shop:3) is in progress: 2 of 4 copies are healthy", Since: noon.Add(-33 * time.Second)}},
		Deployments: []api.Deployment{
			{ID: "ecs-svc/0000000000000000003", Status: "PRIMARY", TaskDefinition: "shop:3", RolloutState: "IN_PROGRESS", RolloutStateReason: "two of four copies are new", RunningCount: 3, DesiredCount: 4, HealthyCount: 2},
			{ID: "ecs-svc/0000000000000000002", Status: "ACTIVE", TaskDefinition: "shop:2", RolloutState: "COMPLETED", RunningCount: 2, DesiredCount: 0, HealthyCount: 1},
		},
		History: []api.PastDeployment{
			{Number: 1, Status: "SUCCESSFUL", TaskDefinition: "shop:1", CreatedAt: noon.Add(-50 * time.Hour), FinishedAt: noon.Add(-49 * time.Hour)},
			{Number: 2, Status: "ROLLBACK_SUCCESSFUL", TaskDefinition: "shop:2", Reason: "3 tasks failed: api exited with code 1", CreatedAt: noon.Add(-3 * time.Hour), FinishedAt: noon.Add(-3 * time.Hour)},
			{Number: 3, Status: "IN_PROGRESS", TaskDefinition: "shop:3", CreatedAt: noon.Add(-40 * time.Second)},
		},
		Tasks: []api.ServiceTask{
			{ID: id("1"), Name: "shop-1", Deployment: "ecs-svc/0000000000000000003", Phase: "LIVE", Health: "HEALTHY", Healthy: true}, {ID: id("2"), Name: "shop-2", Deployment: "ecs-svc/0000000000000000003", Phase: "LIVE", Health: "HEALTHY", Healthy: true},
			{ID: id("3"), Name: "shop-3", Deployment: "ecs-svc/0000000000000000003", Phase: "WANTED", Health: "UNKNOWN", Reason: "it waits for its health check"},
			{ID: id("4"), Name: "shop-4", Deployment: "ecs-svc/0000000000000000002", Phase: "STOPPING", Health: "HEALTHY"}, {ID: id("5"), Name: "shop-5", Deployment: "ecs-svc/0000000000000000002", Phase: "LIVE", Health: "HEALTHY", Healthy: true},
		},
		Events: []api.ServiceEvent{{ID: 1, CreatedAt: noon, Message: "the deployment of shop:3 has begun"}, {ID: 2, CreatedAt: at(30), Message: "shop-1 is live"}},
	}
	blog := api.Service{
		ServiceName: "blog", Status: "ACTIVE", TaskDefinition: "blog:12", DesiredCount: 3, RunningCount: 3, HealthyCount: 3, Steady: true, CreatedAt: noon.Add(-500 * time.Hour), Listeners: listen("127.0.0.1:8090"),
		Deployments: []api.Deployment{{ID: "ecs-svc/0000000000000000012", Status: "PRIMARY", TaskDefinition: "blog:12", RolloutState: "COMPLETED", RunningCount: 3, DesiredCount: 3, HealthyCount: 3}},
		Why:         []api.Reason{{Code: "steady", Text: "all 3 copies of blog:12 are healthy"}},
	}
	for i := range 3 {
		blog.Tasks = append(blog.Tasks, api.ServiceTask{ID: id("7"), Name: fmt.Sprintf("blog-%d", i), Deployment: "ecs-svc/0000000000000000012", Phase: "LIVE", Health: "HEALTHY", Healthy: true})
	}
	pay := api.Service{
		ServiceName: "payments", Status: "ACTIVE", TaskDefinition: "payments:8", DesiredCount: 2, RunningCount: 4, HealthyCount: 4, CreatedAt: noon.Add(-90 * time.Hour), Ingress: []api.Ingress{{URL: "https://pay.example.com"}},
		DeploymentConfiguration: api.DeploymentConfiguration{DeploymentMethod: api.DeploymentMethod{Strategy: "CANARY"}},
		Deployments: []api.Deployment{
			{ID: "ecs-svc/0000000000000000008", Status: "PRIMARY", TaskDefinition: "payments:8", RolloutState: "IN_PROGRESS", RunningCount: 2, DesiredCount: 2, HealthyCount: 2},
			{ID: "ecs-svc/0000000000000000007", Status: "ACTIVE", TaskDefinition: "payments:7", RolloutState: "COMPLETED", RunningCount: 2, DesiredCount: 2, HealthyCount: 2},
		},
		Why: []api.Reason{{Code: "stage", Text: "deployment payments/8 (stage PRODUCTION_TRAFFIC_SHIFT) is paused by approve (1m10s of 5m); continue with `podtask service continue payments`, roll back with `podtask service continue --rollback payments`", Since: noon.Add(-70 * time.Second)}},
		History: []api.PastDeployment{{Number: 8, Status: "IN_PROGRESS", TaskDefinition: "payments:8", CreatedAt: noon, Progress: &api.DeploymentProgress{
			Stage: "PRODUCTION_TRAFFIC_SHIFT", Since: noon.Add(-70 * time.Second), Until: noon.Add(4 * time.Minute), Green: "ecs-svc/0000000000000000008", Blue: "ecs-svc/0000000000000000007", Percent: 12.5,
			Hooks: []api.HookCall{{Hook: "smoke", Stage: "POST_TEST_TRAFFIC_SHIFT", Status: "SUCCEEDED"}, {Hook: "approve", Stage: "PRODUCTION_TRAFFIC_SHIFT", Status: "AWAITING_ACTION"}},
		}}},
	}
	for i := range 4 {
		pay.Tasks = append(pay.Tasks, api.ServiceTask{ID: id("8"), Name: fmt.Sprintf("payments-%d", i), Deployment: fmt.Sprintf("ecs-svc/000000000000000000%d", 7+i/2), Phase: "LIVE", Health: "HEALTHY", Healthy: true})
	}
	return []api.Service{shop, blog, pay}, nil
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

// Continue implements webui.Actions.
func (h *host) Continue(_ context.Context, service string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = append(h.done, "continue "+service)
	return nil
}

// Rollback implements webui.Actions.
func (h *host) Rollback(_ context.Context, service string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = append(h.done, "rollback "+service)
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
	page := webui.New(server.Listener.Addr().(*net.TCPAddr).Port, severalHosts{h}, actions, h.now)
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.gone.Load() {
			panic(http.ErrAbortHandler)
		}
		page.ServeHTTP(w, r)
	})
	server.Start()
	tick := time.NewTicker(webui.Pace)
	t.Cleanup(tick.Stop)
	go page.Watch(t.Context(), tick.C)
	t.Cleanup(server.Close)
	return page.Link()
}
