package uibox

import (
	"fmt"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/pkg/api"
)

// busyTasks are fifty tasks: copies of services, jobs of a stack, and others, some of which have failed.
func busyTasks() (tasks []top.Task) {
	owned, failed := api.Owner{PID: 1, Alive: true}, api.ExitCode(3)
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	for i := range 50 {
		family := []string{"market-web", "market-worker", "blog", "importer", "search", "mailer", "metrics"}[i%7]
		one := api.Task{
			ID: fmt.Sprintf("%032x", i+0x1000), Name: fmt.Sprintf("%s-%d", family, i), Family: family, Revision: i%4 + 1, Status: "RUNNING", DesiredStatus: "RUNNING", Health: "HEALTHY", Owner: owned, CreatedAt: ago(time.Duration(i*i+2) * time.Minute),
			Why: []api.Reason{{Code: "running", Text: "its container is up"}}, Memory: 512 << 20, Containers: []api.Container{{Name: "app", Image: "registry.example.com/team/" + family + ":2026-01-02", Status: "RUNNING", Health: &api.Health{Status: "HEALTHY"}}},
		}
		if strings.HasPrefix(family, "market") || family == "blog" {
			one.Service = family
		} else {
			one.Ports = []api.Port{{HostPort: uint16(9000 + i), ContainerPort: 80, Protocol: "tcp", HostIP: "127.0.0.1"}}
		}
		use := &top.Use{CPUPercent: float64(i * 7 % 90), Memory: uint64(i*9+20) << 20, MemoryLimit: 512 << 20}
		switch i {
		case 3, 10:
			one.Status, one.DesiredStatus, one.Health, one.ExitCode, one.StoppedAt, one.StopCode, one.Settled, use = "STOPPED", "STOPPED", "UNKNOWN", &failed, ago(time.Duration(i)*time.Minute), "EssentialContainerExited", true, nil
			one.Containers[0] = api.Container{Name: "app", Image: one.Containers[0].Image, Status: "STOPPED", ExitCode: &failed}
			one.Why = []api.Reason{{Code: "ended", Text: "essential container app exited with code 3"}}
		case 4:
			one.Health, one.Containers[0].Health = "UNHEALTHY", &api.Health{Status: "UNHEALTHY", FailingStreak: 3}
			one.Why = []api.Reason{{Code: "unhealthy", Text: "app is unhealthy: 3 health checks in a row failed"}}
		case 5:
			one.Status, one.Health, one.Queue, use = "NONE", "UNKNOWN", "2 GiB of memory", nil
			one.Why = []api.Reason{{Code: "queued", Text: "it waits for 2 GiB of memory (1.2 GiB of 8 GiB free)", Since: ago(time.Minute)}}
		}
		tasks = append(tasks, top.Task{Task: one, Use: use, QueuedFor: map[bool]string{true: "memory"}[one.Queue != ""]})
	}
	return tasks
}

// busyServices are ten services: two of a stack, three asleep, one whose address is down, and one that cannot start copies.
func busyServices() (all []api.Service) {
	for i, name := range []string{"market-web", "market-worker", "blog", "front", "broken", "docs", "staging", "preview", "intranet", "wiki"} {
		id := name + "/4"
		s := api.Service{
			ServiceName: name, Status: "ACTIVE", Steady: true, TaskDefinition: name + ":4", DesiredCount: 2, RunningCount: 2, HealthyCount: 2, CreatedAt: noon.Add(-time.Duration(i+3) * time.Hour), RollbackTo: name + "/3",
			Listeners:   []api.Listener{{Address: fmt.Sprintf("127.0.0.1:%d", 8100+i), ContainerName: "app", ContainerPort: 80}},
			Deployments: []api.Deployment{{ID: id, Status: "PRIMARY", TaskDefinition: name + ":4", RolloutState: "COMPLETED", DesiredCount: 2, RunningCount: 2, HealthyCount: 2}},
			Why:         []api.Reason{{Code: "steady", Text: "both copies are healthy"}},
			History: []api.PastDeployment{
				{Number: 1, Deployment: name + "/2", Status: "SUCCESSFUL", TaskDefinition: name + ":2", CreatedAt: noon.Add(-50 * time.Hour), FinishedAt: noon.Add(-49 * time.Hour)},
				{Number: 2, Deployment: name + "/3", Status: "SUCCESSFUL", TaskDefinition: name + ":3", CreatedAt: noon.Add(-30 * time.Hour), FinishedAt: noon.Add(-29 * time.Hour)},
				{Number: 3, Deployment: id, Status: "SUCCESSFUL", TaskDefinition: name + ":4", CreatedAt: noon.Add(-20 * time.Hour), FinishedAt: noon.Add(-19 * time.Hour)},
			},
		}
		for k := range 2 {
			s.Tasks = append(s.Tasks, api.ServiceTask{ID: fmt.Sprintf("%032x", 0x1000+7*k), Name: fmt.Sprintf("%s-%d", name, k+1), Deployment: id, Phase: "LIVE", Health: "HEALTHY", Healthy: true})
		}
		for k := range 47 {
			s.Events = append(s.Events, api.ServiceEvent{ID: k + 1, CreatedAt: noon.Add(time.Duration(k-60) * time.Minute), Message: fmt.Sprintf("(service %s) has started 1 tasks: (task %s-%d).", name, name, k+1)})
		}
		switch name {
		case "staging", "preview", "wiki":
			s.Sleep, s.RunningCount, s.HealthyCount, s.Tasks, s.Deployments[0].RunningCount, s.Deployments[0].HealthyCount = api.SleepAsleep, 0, 0, nil, 0, 0
			s.Why = []api.Reason{{Code: "asleep", Text: "it has had no connection for 15m; the next one starts a copy"}}
		case "front":
			s.Ingress = []api.Ingress{{URL: "https://front.example.org", Down: true, Problem: "certificate: the authority does not reach this host on port 80"}, {URL: "https://new.example.org", Problem: "its certificate is being issued, which usually takes some seconds"}}
			s.Why = []api.Reason{{Code: "ingress", Text: "https://front.example.org is not served: certificate: the authority does not reach this host on port 80; see `podtask ingress status`"}}
			s.Tasks = append(s.Tasks, api.ServiceTask{ID: fmt.Sprintf("%032x", 0x1003), Name: "front-9", Deployment: name + "/3", Phase: "STOPPED", Failed: true, Reason: "CannotPullContainerError: registry.example.com/team/front:5: manifest unknown"})
		case "broken":
			s.Steady, s.RunningCount, s.HealthyCount, s.Deployments[0].RolloutState, s.Deployments[0].RunningCount, s.Deployments[0].HealthyCount, s.Tasks = false, 0, 0, "FAILED", 0, 0, nil
			s.Why = []api.Reason{{Code: "breaker", Text: "deployment broken/4 failed, and podtask starts no more copies of it: 3 tasks failed; go back with `podtask service rollback broken`"}}
		}
		all = append(all, s)
	}
	return all
}

// busyBeside are a stack, a preview of it, and schedules.
func busyBeside() console.Beside {
	next, one, none := noon.Add(15*time.Hour), 1, 0
	return console.Beside{
		Schedules: []console.Schedule{
			{Name: "backup", State: "active", At: "Mon..Fri 03:00", Next: &next, Last: &console.ScheduleRun{Due: noon.Add(-9 * time.Hour), Status: "ended", ExitCode: &none, Task: id("a")}},
			{Name: "nightly-report", State: "active", At: "*:0/5", Next: &next, Last: &console.ScheduleRun{Due: noon.Add(-2 * time.Minute), Status: "ended", ExitCode: &one, Task: id("c"), Reason: "essential container report exited with code 1"}},
			{Name: "tidy", State: "paused", At: "daily"}, {Name: "lost", State: "no-timer", At: "hourly"},
		},
		Stacks: []console.Stack{
			{Name: "market", Status: "complete", Change: 4, Services: []string{"market-web", "market-worker"}, Tasks: []string{"importer-3"}},
			{Name: "market-pr-42", Status: "changing", Services: []string{"preview"}, Ends: noon.Add(70 * time.Hour)},
		},
	}
}
