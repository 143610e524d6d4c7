package top

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/testing/hostile"
	"github.com/podtask/podtask/pkg/api"
)

// shifting is a service in the middle of a canary, and a steady one.
func shifting() []api.Service {
	return []api.Service{
		{
			ServiceName: "web", Status: "ACTIVE", CreatedAt: noon.Add(-2 * time.Hour), TaskDefinition: "web:4", DesiredCount: 3, RunningCount: 6, HealthyCount: 5,
			DeploymentConfiguration: api.DeploymentConfiguration{DeploymentMethod: api.DeploymentMethod{Strategy: "CANARY"}},
			Listeners:               []api.Listener{{Address: ":8080", ContainerName: "app", ContainerPort: 80}},
			TestListeners:           []api.Listener{{Address: "127.0.0.1:8081", ContainerName: "app", ContainerPort: 80}},
			Ingress:                 []api.Ingress{{URL: "https://web.example.org", ContainerName: "app", ContainerPort: 80, Problem: "no certificate yet"}},
			Namespace:               "default", Names: []api.ServiceName{{Name: "web", Port: 80}},
			Deployments: []api.Deployment{
				{ID: "d4", Status: "PRIMARY", TaskDefinition: "web:4", RolloutState: "IN_PROGRESS", DesiredCount: 3, RunningCount: 3, HealthyCount: 2},
				{ID: "d3", Status: "ACTIVE", TaskDefinition: "web:3", RolloutState: "COMPLETED", DesiredCount: 3, RunningCount: 3, HealthyCount: 3},
			},
			History: []api.PastDeployment{{Progress: &api.DeploymentProgress{
				Stage: "PRODUCTION_TRAFFIC_SHIFT", Since: noon.Add(-12 * time.Second), Until: noon.Add(48 * time.Second), Green: "d4", Blue: "d3", Percent: 20,
				Hooks: []api.HookCall{{Hook: "smoke-test", Stage: "POST_TEST_TRAFFIC_SHIFT", Status: "IN_PROGRESS", StartedAt: noon.Add(-3 * time.Second), ExpiresAt: noon.Add(57 * time.Second)}},
			}}},
			Tasks:  []api.ServiceTask{{Name: "web-1", Phase: "LIVE", Health: "HEALTHY", Healthy: true, CreatedAt: noon.Add(-2 * time.Hour)}, {Name: "web-4", Phase: "WANTED", CreatedAt: noon.Add(-9 * time.Second), Reason: "pulling registry.example/web:4"}},
			Why:    []api.Reason{{Code: "hook", Text: "waits for the hook smoke-test, 3 s of 60 s"}},
			Events: []api.ServiceEvent{{ID: 1, CreatedAt: noon.Add(-time.Minute), Message: "service web has begun deployment d4"}},
		},
		{ServiceName: "orders", Status: "ACTIVE", Steady: true, TaskDefinition: "orders:1", DesiredCount: 2, HealthyCount: 2, CreatedAt: noon.Add(-time.Minute),
			Deployments: []api.Deployment{{Status: "PRIMARY", TaskDefinition: "orders:1", RolloutState: "COMPLETED", DesiredCount: 2, RunningCount: 2, HealthyCount: 2}},
			Why:         []api.Reason{{Text: "steady"}}},
	}
}

func TestServicesOnAScreenOf80x24(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.press("tab")
	s.golden("services")
	s.press("enter")
	s.golden("service")
	s.press("tab")
	s.golden("service-events")
	s.press("esc", "/", "o", "r", "d", "enter")
	s.golden("services-filter")
	s.press("esc", "tab", "tab")
	s.golden("list")
	s.press("?")
	s.golden("help")
}

func TestListOnAWideScreen(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.width, s.height = 140, 12
	s.press("a", "o", "o", "o")
	s.golden("list-wide")
	s.press("tab", "enter")
	s.golden("service-wide")
}

func TestServiceIsContinuedAndRolledBackAfterAQuestion(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.press("tab", "c", "n")
	if s.question != nil || len(s.continued) > 0 {
		t.Errorf("after no: %v %v", s.question, s.continued)
	}
	s.press("c")
	if cmd := s.press("y"); cmd == nil {
		t.Fatal("y does nothing")
	} else {
		cmd()
	}
	s.press("enter", "b")
	s.press("y")()
	if diff := cmp.Diff([]string{"web", "web"}, slices.Concat(s.continued, s.rolledBack)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLogsAreSearched(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.press("l")
	lines := []Line{{"app", "GET /index 200"}, {"app", "GET /missing 404"}}
	s.Update(logMsg{more: s.page.logs.more, lines: lines, ended: true})
	s.press("/", "4", "0", "4", "enter")
	if text := s.text(); strings.Contains(text, "200") || !strings.Contains(text, "missing 404") {
		t.Errorf("searched for 404:\n%s", text)
	}
	s.press("/", "esc")
	if text := s.text(); !strings.Contains(text, "index 200") {
		t.Errorf("after esc:\n%s", text)
	}
}

func TestServicePageOfOneThatIsGone(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.press("tab", "enter")
	s.Update(sampleMsg{at: noon, tasks: fleet()})
	if text := s.text(); !strings.Contains(text, "web  removed") {
		t.Errorf("the page of a removed service:\n%s", text)
	}
}

func TestHostileServicesDoNotSteerTheTerminal(t *testing.T) {
	t.Parallel()
	all := shifting()
	hostile.Fill(&all)
	m := New(t.Context(), &host{}, &host{}, Options{Now: func() time.Time { return noon }, All: true})
	m.services.shown = true
	m.services.set(all)
	screens := map[string]string{"services": m.text()}
	m.services.opened = true
	screens["service"] = m.text()
	m.services.part = events
	screens["events"] = m.text()
	for name, text := range screens {
		if r := hostile.Steers(text); r != 0 {
			t.Errorf("%s has %U:\n%q", name, r, text)
		}
	}
}

// An agent that does not answer hides neither the tasks nor the services that were there.
func TestTasksAreShownWhileTheAgentHangs(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.Update(sampleMsg{at: noon, tasks: fleet()[:1], unseen: context.DeadlineExceeded})
	if text := s.text(); !strings.Contains(text, "1 task,") || !strings.Contains(text, "error: ") {
		t.Errorf("the tasks:\n%s", text)
	}
	s.press("tab")
	if text := s.text(); !strings.Contains(text, "2 services") {
		t.Errorf("the services:\n%s", text)
	}
}
