// Package ecsmetrics provides the metrics of the instance of an ECS cluster.
package ecsmetrics

import (
	"time"

	"github.com/podtask/podtask/internal/ecsstatus"
	"github.com/prometheus/client_golang/prometheus"
)

// ecsInstance collects what podtask-ecs says about its instance. A user without one has no such metrics.
type ecsInstance struct {
	find func() (s *ecsstatus.Status, running, is bool)
}

// New returns those of the instance that find finds, if the user has one.
func New(find func() (s *ecsstatus.Status, running, is bool)) prometheus.Collector {
	return ecsInstance{find}
}

var (
	ecsUpDesc          = prometheus.NewDesc("podtask_ecs_up", "1 if podtask-ecs runs; there are podtask_ecs metrics only on an instance of an ECS cluster.", nil, nil)
	ecsInactiveDesc    = prometheus.NewDesc("podtask_ecs_inactive", "1 if ECS says that the instance was deregistered.", nil, nil)
	ecsLinkDesc        = prometheus.NewDesc("podtask_ecs_link_connected", "1 if a web socket to ECS is open, by link: acs (what to run) or tcs (telemetry).", []string{"link"}, nil)
	ecsConnectionsDesc = prometheus.NewDesc("podtask_ecs_link_connections_total", "Connections of a web socket to ECS since podtask-ecs began.", []string{"link"}, nil)
	ecsWaitsDesc       = prometheus.NewDesc("podtask_ecs_waits", "What an instance and its tasks wait for: the agent, credentials (of an execution role), disk (a record that can be written), image (a registry), port (a host port), registration, room (a share of the host), state (for ECS to take it) or value (a secret, a file with variables, a password of a registry).", []string{"kind"}, nil)
	ecsWaitDesc        = prometheus.NewDesc("podtask_ecs_wait_seconds", "How long the oldest wait of a kind lasts; 0 without any.", []string{"kind"}, nil)
)

// Describe implements prometheus.Collector.
func (e ecsInstance) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{ecsUpDesc, ecsInactiveDesc, ecsLinkDesc, ecsConnectionsDesc, ecsWaitsDesc, ecsWaitDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (e ecsInstance) Collect(out chan<- prometheus.Metric) {
	s, running, is := e.find()
	if !is {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	yes := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	gauge(ecsUpDesc, yes(running))
	if !running || s == nil {
		return // what it wrote last is no longer true
	}
	gauge(ecsInactiveDesc, yes(s.Inactive))
	for name, link := range map[string]ecsstatus.Link{"acs": s.ACS, "tcs": s.TCS} {
		gauge(ecsLinkDesc, yes(link.Connected), name)
		out <- prometheus.MustNewConstMetric(ecsConnectionsDesc, prometheus.CounterValue, float64(link.Connections), name)
	}
	now := time.Now()
	for _, kind := range ecsstatus.Kinds() {
		count, longest := 0, 0.0
		for _, w := range s.Waits {
			if w.Kind == kind {
				count++
				longest = max(longest, now.Sub(w.Since).Seconds())
			}
		}
		gauge(ecsWaitsDesc, float64(count), string(kind))
		gauge(ecsWaitDesc, longest, string(kind))
	}
}
