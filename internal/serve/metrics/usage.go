package metrics

import (
	"slices"

	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/prometheus/client_golang/prometheus"
)

// maxUsageTasks is the number of tasks that have metrics of their own.
const maxUsageTasks = 500

// Usage adds what the slice of each task has used. Read returns false for a task without a
// slice. It is called once, before Handler.
func (m *Metrics) Usage(states func() []lifecycle.State, read func(lifecycle.State) (cgroups.Usage, bool)) {
	m.registry.MustRegister(usage{states, read})
}

// usage reads the slices of the running tasks at the time of the request. The number of
// series is bounded: only running tasks have them, the oldest ones first, and a task with a
// name keeps its series when it runs again.
type usage struct {
	states func() []lifecycle.State
	read   func(lifecycle.State) (cgroups.Usage, bool)
}

func usageDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("podtask_task_"+name, help, []string{"task", "family"}, nil)
}

var (
	cpuDesc              = usageDesc("cpu_seconds_total", "CPU time that the containers of a running task have used. The label task is its name, or its ID if it has none.")
	cpuLimitDesc         = usageDesc("cpu_limit_cores", "CPU limit of a running task in cores; there is no series without a limit.")
	periodsDesc          = usageDesc("cpu_periods_total", "Periods of the CPU limit in which a task ran.")
	throttledPeriodsDesc = usageDesc("cpu_throttled_periods_total", "Periods in which a task reached its CPU limit.")
	throttledDesc        = usageDesc("cpu_throttled_seconds_total", "Time for which the CPU limit has stopped processes of a task.")
	memoryDesc           = usageDesc("memory_used_bytes", "Memory of a running task, without the page cache that the kernel frees first.")
	memoryLimitDesc      = usageDesc("memory_limit_bytes", "Memory limit of a running task; there is no series without a limit.")
	killsDesc            = usageDesc("oom_kills_total", "Processes of a task that were killed because memory was short.")
	processesDesc        = usageDesc("processes", "Processes and threads of a running task.")
	omittedDesc          = prometheus.NewDesc("podtask_tasks_without_usage", "Running tasks without metrics of their own: they have no slice, or more than 500 tasks run.", nil, nil)
)

// Describe implements prometheus.Collector.
func (usage) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		cpuDesc, cpuLimitDesc, periodsDesc, throttledPeriodsDesc, throttledDesc,
		memoryDesc, memoryLimitDesc, killsDesc, processesDesc, omittedDesc,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c usage) Collect(out chan<- prometheus.Metric) {
	running := slices.DeleteFunc(c.states(), func(s lifecycle.State) bool { return len(s.Running()) == 0 })
	slices.SortStableFunc(running, func(a, b lifecycle.State) int { return a.CreatedAt.Compare(b.CreatedAt) })
	labels := make(map[string]bool)
	for _, s := range running {
		if len(labels) == maxUsageTasks {
			break
		}
		u, ok := c.read(s)
		if !ok {
			continue
		}
		label := s.Name
		if label == "" || labels[label] { // the same labels twice would fail the whole request
			label = s.ID
		}
		labels[label] = true
		sendUsage(out, u, label, s.Task.Family)
	}
	out <- prometheus.MustNewConstMetric(omittedDesc, prometheus.GaugeValue, float64(len(running)-len(labels)))
}

// sendUsage sends what the host counts; a limit that is not set has no series.
func sendUsage(out chan<- prometheus.Metric, u cgroups.Usage, labels ...string) {
	gauge := func(d *prometheus.Desc, v float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	counter(cpuDesc, float64(u.CPUUsec)/1e6)
	if t := u.Throttling; t != nil {
		counter(periodsDesc, float64(t.Periods))
		counter(throttledPeriodsDesc, float64(t.Throttled))
		counter(throttledDesc, float64(t.Usec)/1e6)
		if t.Limit > 0 {
			gauge(cpuLimitDesc, float64(t.Limit)/1024)
		}
	}
	if m := u.Memory; m != nil {
		gauge(memoryDesc, float64(m.Used))
		counter(killsDesc, float64(m.Kills))
		if m.Limit > 0 {
			gauge(memoryLimitDesc, float64(m.Limit))
		}
	}
	if u.PIDs != nil {
		gauge(processesDesc, float64(u.PIDs.Current))
	}
}
