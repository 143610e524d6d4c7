// Package noticemetrics has the metrics of notices.
package noticemetrics

import (
	"context"
	"time"

	"github.com/podtask/podtask/internal/notice"
	"github.com/prometheus/client_golang/prometheus"
)

// askTimeout limits a look at the conditions of the host.
const askTimeout = 2 * time.Second

// New returns the metrics of what was told and is to be, and of the conditions that looks returns.
func New(state func() (notice.State, error), looks func(context.Context) []notice.Look) prometheus.Collector {
	return metrics{state, looks}
}

type metrics struct {
	state func() (notice.State, error)
	looks func(context.Context) []notice.Look
}

var (
	conditionDesc = prometheus.NewDesc("podtask_notify_condition", "1 if a condition of the host is not well that can be told: disk or podman-away.", []string{"condition", "subject"}, nil)
	waitingDesc   = prometheus.NewDesc("podtask_notify_waiting", "Notices that wait to be delivered or are held back, by the name of the [[notify]].", []string{"rule"}, nil)
	attemptsDesc  = prometheus.NewDesc("podtask_notify_failed_attempts", "Failures in a row to deliver the oldest notice, by the name of the [[notify]].", []string{"rule"}, nil)
)

// Describe implements prometheus.Collector.
func (m metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{conditionDesc, waitingDesc, attemptsDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m metrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	for _, l := range m.looks(ctx) {
		if l.Condition == notice.Certificate || l.Condition == notice.UpdatePending {
			continue // they have metrics of their own
		}
		for subject := range l.Bad {
			out <- prometheus.MustNewConstMetric(conditionDesc, prometheus.GaugeValue, 1, string(l.Condition), subject)
		}
	}
	s, err := m.state()
	if err != nil {
		return
	}
	waiting := map[string]int{}
	for _, w := range s.Outbox {
		waiting[w.Rule] += w.Count
	}
	for rule, r := range s.Rules {
		out <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(waiting[rule]+r.Held), rule)
		out <- prometheus.MustNewConstMetric(attemptsDesc, prometheus.GaugeValue, float64(r.Attempts), rule)
	}
}
