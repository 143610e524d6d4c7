package top

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/pkg/api"
)

// busy is a host with fifty tasks, ten services of which three sleep, a stack, and schedules.
type busy struct{ host }

func (*busy) Tasks(context.Context) (tasks []Task, _ error) {
	owner := api.Owner{PID: 7, Alive: true}
	images := []string{"docker.io/library/postgres:17", "registry.example.com/shop/storefront-with-a-long-name:2026-01-02", "docker.io/valkey/valkey:8", "registry.example.com/team/api:3"}
	for i := range 50 {
		t := Task{Task: api.Task{
			ID: fmt.Sprintf("%032x", i+1), Name: fmt.Sprintf("%s-%d", []string{"api", "storefront", "cache", "recommendations-engine"}[i%4], i+1), Family: "api", Status: "RUNNING", Health: "HEALTHY", Owner: owner,
			CreatedAt: noon.Add(-time.Duration(i*i) * time.Minute), Memory: 512 << 20, Ports: []api.Port{{HostPort: uint16(8000 + i), ContainerPort: 80, Protocol: "tcp", HostIP: "127.0.0.1"}},
			Containers: []api.Container{{Name: "app", Image: images[i%4], Status: "RUNNING", Essential: true, Health: &api.Health{Status: "HEALTHY"}}},
		}, Use: &Use{CPUPercent: float64(i * 3 % 140), Memory: uint64(i*11+20) << 20, MemoryLimit: 640 << 20}}
		switch {
		case i < 3:
			t.Service = "shop-web"
		case i == 3:
			t.Name, t.Health = "shop-migrate-1", "UNKNOWN"
		case i == 5:
			t.Status, t.Health, t.Use, t.ExitCode, t.StoppedAt, t.StopCode = "STOPPED", "UNKNOWN", nil, code(3), noon.Add(-4*time.Minute), "EssentialContainerExited"
			t.Containers[0].Status, t.Containers[0].ExitCode = "STOPPED", code(3)
		case i == 6:
			t.Status, t.Health, t.Use, t.ExitCode, t.StoppedAt, t.StopCode = "STOPPED", "UNKNOWN", nil, code(3), noon.Add(-2*time.Hour), "EssentialContainerExited"
		case i == 8:
			t.Status, t.Health, t.Use, t.Queue, t.QueuedFor, t.Place = "NONE", "UNKNOWN", nil, "memory", "memory", 1
			t.Containers[0].Status = "NONE"
		case i == 9:
			t.Health, t.Containers[0].Health.Status = "UNHEALTHY", "UNHEALTHY"
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}

func (*busy) Services(context.Context) (all []api.Service, _ error) {
	for i, name := range []string{"blog", "dev-one", "dev-two", "docs", "front", "payments", "shop-db", "shop-web", "shop-worker", "wiki"} {
		s := api.Service{
			ServiceName: name, Status: "ACTIVE", Steady: true, DesiredCount: 2, RunningCount: 2, HealthyCount: 2, TaskDefinition: fmt.Sprintf("%s:%d", name, i+1), CreatedAt: noon.Add(-time.Duration(i+1) * time.Hour),
			Listeners:   []api.Listener{{Address: fmt.Sprintf("127.0.0.1:%d", 9000+i)}},
			Deployments: []api.Deployment{{Status: "PRIMARY", RolloutState: "COMPLETED", DesiredCount: 2, RunningCount: 2, HealthyCount: 2}}, Why: []api.Reason{{Code: "steady", Text: "all 2 copies are healthy"}},
		}
		switch name {
		case "dev-one", "dev-two", "wiki":
			s.Sleep, s.RunningCount, s.HealthyCount = api.SleepAsleep, 0, 0
			s.Why = []api.Reason{{Code: "asleep", Text: "it is asleep: the next connection starts a copy"}}
		case "front":
			s.Ingress = []api.Ingress{{URL: "https://front.example.org", Down: true, Problem: "certificate: the authority refuses it"}}
			s.Why = []api.Reason{{Code: "ingress", Text: "https://front.example.org is not served: certificate: the authority refuses it"}}
		}
		all = append(all, s)
	}
	return all, nil
}

func (*busy) Beside(context.Context) (console.Beside, error) {
	next, failed, none := noon.Add(15*time.Hour), 1, 0
	return console.Beside{
		Schedules: []console.Schedule{
			{Name: "backup", State: "active", At: "Mon..Fri 03:00", Family: "backup", Next: &next, Last: &console.ScheduleRun{Due: noon.Add(-9 * time.Hour), Status: "ended", ExitCode: &none, Task: id("e")}},
			{Name: "report", State: "active", At: "*:0/5", Family: "report", Next: &next, Last: &console.ScheduleRun{Due: noon.Add(-2 * time.Minute), Status: "ended", ExitCode: &failed, Task: id("a"), Missed: 3}},
			{Name: "tidy", State: "paused", At: "daily", Family: "tidy"},
		},
		Stacks: []console.Stack{{Name: "shop", Status: "complete", Change: 4, Services: []string{"shop-db", "shop-web", "shop-worker"}, Tasks: []string{"shop-migrate-1"}}},
	}, nil
}

// What is on a busy host fits the screens that people have.
func TestABusyHostOnThreeScreens(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{80, 24}, {120, 40}, {160, 48}} {
		s := newScreen(t, false)
		s.Model.source = &busy{}
		s.width, s.height = size[0], size[1]
		s.Update(s.sample(false)())
		name := fmt.Sprintf("busy-%d", size[0])
		s.golden(name)
		s.press("o", "o", "o", "o", "o")
		s.golden(name + "-stacks")
		s.press("tab")
		s.golden(name + "-services")
		s.press("tab")
		s.golden(name + "-schedules")
		s.press("down", "enter")
		if s.page == nil || s.page.id != id("a") {
			t.Errorf("enter does not open the latest run: %+v", s.page)
		}
		for text := range strings.Lines(s.text()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(text, "\n")); n > size[0] {
				t.Errorf("a line of %d columns on a screen of %d: %s", n, size[0], text)
			}
		}
	}
}

func TestWhoIsInAStack(t *testing.T) {
	t.Parallel()
	s := NewStacks([]console.Stack{{Name: "shop", Services: []string{"web"}, Tasks: []string{"job-1", id("a")}}, {Name: "shop@box", Services: []string{"web@box"}}})
	for want, task := range map[string]Task{
		"shop": {Task: api.Task{Service: "web"}}, "shop@box": {Task: api.Task{Service: "web"}, Host: "box"}, "": {Task: api.Task{Name: "other", ID: id("b")}},
	} {
		if got := s.OfTask(task); got != want {
			t.Errorf("%+v is in %q, want %q", task, got, want)
		}
	}
	if a, b := s.OfTask(Task{Task: api.Task{Name: "job-1", ID: id("c")}}), s.OfTask(Task{Task: api.Task{ID: id("a")}}); a != "shop" || b != "shop" {
		t.Errorf("jobs are in %q and %q", a, b)
	}
}
