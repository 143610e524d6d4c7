package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// wholeUsage is that of a host that counts everything.
var wholeUsage = cgroups.Usage{
	CPUUsec:    2_500_000,
	Throttling: &cgroups.Throttling{Periods: 10, Throttled: 4, Usec: 300_000, Limit: 512},
	Memory:     &cgroups.Memory{Current: 1000, Used: 400, Limit: 2000, Kills: 2},
	PIDs:       &cgroups.PIDs{Current: 12},
}

func runningTask(digit, name string) lifecycle.State {
	def := taskdef.Task{Family: "shop", Network: taskdef.NetworkBridge, Containers: []taskdef.Container{{Name: "app", Image: "app:1", Essential: true}}}
	s := lifecycle.New(strings.Repeat(digit, 32), name, def, lifecycle.Options{}, time.Unix(int64(digit[0]), 0))
	s.Containers = []lifecycle.Container{{Presence: lifecycle.Running, StartedAt: time.Unix(1, 0)}}
	return s
}

func TestUsageOfTasksIsMeasured(t *testing.T) {
	t.Parallel()
	ended := runningTask("d", "ended")
	ended.Containers = []lifecycle.Container{{Presence: lifecycle.Exited}}
	tasks := []lifecycle.State{
		runningTask("a", "web"), runningTask("b", ""), runningTask("c", "web"), ended, runningTask("e", "no-slice"), runningTask("f", "plain"),
	}
	m := New("1", func() []lifecycle.State { return nil }, func() int { return 0 })
	m.Usage(func() []lifecycle.State { return append([]lifecycle.State(nil), tasks...) }, func(s lifecycle.State) (cgroups.Usage, bool) {
		if s.Name == "plain" { // nothing delegated, no limits
			return cgroups.Usage{CPUUsec: 1}, true
		}
		return wholeUsage, s.Name != "no-slice"
	})
	got := scrape(t, m)
	for _, want := range []string{
		`podtask_task_cpu_seconds_total{family="shop",task="web"} 2.5`,
		`podtask_task_cpu_seconds_total{family="shop",task="` + strings.Repeat("b", 32) + `"} 2.5`,
		`podtask_task_cpu_seconds_total{family="shop",task="` + strings.Repeat("c", 32) + `"} 2.5`,
		`podtask_task_cpu_limit_cores{family="shop",task="web"} 0.5`,
		`podtask_task_cpu_periods_total{family="shop",task="web"} 10`,
		`podtask_task_cpu_throttled_periods_total{family="shop",task="web"} 4`,
		`podtask_task_cpu_throttled_seconds_total{family="shop",task="web"} 0.3`,
		`podtask_task_memory_used_bytes{family="shop",task="web"} 400`,
		`podtask_task_memory_limit_bytes{family="shop",task="web"} 2000`,
		`podtask_task_oom_kills_total{family="shop",task="web"} 2`,
		`podtask_task_processes{family="shop",task="web"} 12`,
		`podtask_task_cpu_seconds_total{family="shop",task="plain"} 1e-06`,
		`podtask_tasks_without_usage 1`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	for _, bad := range []string{`task="ended"`, `limit_cores{family="shop",task="plain"}`, `memory_used_bytes{family="shop",task="plain"}`, `task="no-slice"`} {
		if strings.Contains(got, bad) {
			t.Errorf("%s is measured", bad)
		}
	}
	problems, err := promlint.New(strings.NewReader(got)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "podtask_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// However many tasks run, an answer has a bounded number of series, of the oldest tasks.
func TestUsageOfManyTasksIsBounded(t *testing.T) {
	t.Parallel()
	var tasks []lifecycle.State
	for i := range maxUsageTasks + 20 {
		s := runningTask("a", fmt.Sprintf("task-%03d", i))
		s.CreatedAt = time.Unix(int64(-i), 0)
		tasks = append(tasks, s)
	}
	m := New("1", func() []lifecycle.State { return nil }, func() int { return 0 })
	m.Usage(func() []lifecycle.State { return tasks }, func(lifecycle.State) (cgroups.Usage, bool) { return wholeUsage, true })
	got := scrape(t, m)
	if n := strings.Count(got, "\npodtask_task_processes{"); n != maxUsageTasks {
		t.Errorf("%d tasks are measured", n)
	}
	if !strings.Contains(got, "podtask_tasks_without_usage 20\n") || strings.Contains(got, `"task-000"`) {
		t.Error("not the newest 20 tasks are left out")
	}
}
