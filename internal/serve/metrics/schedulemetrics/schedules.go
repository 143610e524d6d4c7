// Package schedulemetrics provides the metrics of schedules.
package schedulemetrics

import (
	"time"

	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/prometheus/client_golang/prometheus"
)

// New returns the runs of the schedules that states lists.
func New(states func() []schedule.State) prometheus.Collector { return schedules{states} }

// schedules counts the runs of each schedule at the time of the request. Their names are few and chosen by users.
type schedules struct{ states func() []schedule.State }

var (
	scheduleRunsDesc    = prometheus.NewDesc("podtask_schedule_runs", "The latest hundred runs of a schedule, by what became of them: starting, running, success, failure (another exit code, or the task could not be created), skipped or missed.", []string{"schedule", "outcome"}, nil)
	scheduleLastDesc    = prometheus.NewDesc("podtask_schedule_last_due_timestamp_seconds", "When the latest run of a schedule was due, in seconds since 1970.", []string{"schedule"}, nil)
	scheduleSuccessDesc = prometheus.NewDesc("podtask_schedule_last_success_timestamp_seconds", "When the latest run of a schedule with exit code 0 ended, in seconds since 1970.", []string{"schedule"}, nil)
	schedulePausedDesc  = prometheus.NewDesc("podtask_schedule_paused", "Whether a schedule is paused: 1 or 0.", []string{"schedule"}, nil)
)

// Describe implements prometheus.Collector.
func (schedules) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{scheduleRunsDesc, scheduleLastDesc, scheduleSuccessDesc, schedulePausedDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c schedules) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.states() {
		gauge := func(d *prometheus.Desc, v float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{s.Name}, labels...)...)
		}
		outcomes := map[string]int{"starting": 0, "running": 0, "success": 0, "failure": 0, "skipped": 0, "missed": 0}
		var success time.Time
		for _, r := range s.Runs {
			well := r.Status == schedule.Ended && r.ExitCode != nil && *r.ExitCode == 0
			switch {
			case well:
				outcomes["success"]++
				if r.Ended.After(success) {
					success = r.Ended
				}
			case r.Status == schedule.Ended, r.Status == schedule.Failed:
				outcomes["failure"]++
			default:
				outcomes[string(r.Status)]++
			}
		}
		for outcome, n := range outcomes {
			gauge(scheduleRunsDesc, float64(n), outcome)
		}
		if n := len(s.Runs); n > 0 {
			gauge(scheduleLastDesc, float64(s.Runs[n-1].Due.Unix()))
		}
		if !success.IsZero() {
			gauge(scheduleSuccessDesc, float64(success.Unix()))
		}
		paused := 0.0
		if s.Paused {
			paused = 1
		}
		gauge(schedulePausedDesc, paused)
	}
}
