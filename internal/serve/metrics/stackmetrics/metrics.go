// Package stackmetrics provides the metrics of stacks.
package stackmetrics

import (
	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/prometheus/client_golang/prometheus"
)

// New returns the metrics of the stacks that states lists, of which waiting counts the copies that wait since the agent started.
func New(states func() []stack.State, waiting func() int) prometheus.Collector {
	return collector{states, waiting}
}

// collector reads the records at the time of the request. The names of stacks are few and chosen by users.
type collector struct {
	states  func() []stack.State
	waiting func() int
}

var (
	membersDesc    = prometheus.NewDesc("podtask_stack_members", "The services and jobs of a stack.", []string{"stack"}, nil)
	unfinishedDesc = prometheus.NewDesc("podtask_stack_unfinished", "Whether a change of a stack has not ended: 1 or 0.", []string{"stack"}, nil)
	changesDesc    = prometheus.NewDesc("podtask_stack_changes", "The latest twenty changes of a stack, by their result: done, put back, abandoned or failed.", []string{"stack", "result"}, nil)
	waitingDesc    = prometheus.NewDesc("podtask_stack_boot_waiting", "Copies of services of stacks that wait, since the agent has started, for other services to be started or healthy.", nil, nil)
	endsDesc       = prometheus.NewDesc("podtask_stack_preview_end_timestamp_seconds", "When a preview is removed, in seconds since 1970.", []string{"stack"}, nil)
)

// Describe implements prometheus.Collector.
func (collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{membersDesc, unfinishedDesc, changesDesc, waitingDesc, endsDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(c.waiting()))
	for _, s := range c.states() {
		gauge := func(d *prometheus.Desc, v float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{s.Name}, labels...)...)
		}
		unfinished := 0.0
		if s.Change != nil {
			unfinished = 1
		}
		gauge(membersDesc, float64(len(s.Have)))
		gauge(unfinishedDesc, unfinished)
		results := map[stack.Result]int{stack.Done: 0, stack.PutBack: 0, stack.Abandoned: 0, stack.Kept: 0}
		for _, h := range s.History {
			results[h.Result]++
		}
		for result, n := range results {
			gauge(changesDesc, float64(n), string(result))
		}
		if s.Preview != nil {
			gauge(endsDesc, float64(s.Preview.Until.Unix()))
		}
	}
}
