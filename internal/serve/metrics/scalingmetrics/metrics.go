// Package scalingmetrics provides the metrics of services that scale.
package scalingmetrics

import (
	"github.com/podtask/podtask/pkg/scaling"
	"github.com/prometheus/client_golang/prometheus"
)

// New returns the metrics of the records that all lists; rows has what is measured of a service, by policy.
func New(all func() ([]scaling.State, error), rows func(service string) scaling.Rows) prometheus.Collector {
	return collector{all, rows}
}

type collector struct {
	all  func() ([]scaling.State, error)
	rows func(service string) scaling.Rows
}

var (
	boundDesc  = prometheus.NewDesc("podtask_service_scaling_bound", "The bounds of the desired count of a service that scales: min or max.", []string{"service", "bound"}, nil)
	targetDesc = prometheus.NewDesc("podtask_service_scaling_target", "The target of a policy of a service that scales, in the unit of its metric; absent if the policy has steps.", []string{"service", "policy", "metric"}, nil)
	valueDesc  = prometheus.NewDesc("podtask_service_scaling_value", "The latest value that a policy of a service that scales compares with its target; absent while it is not known.", []string{"service", "policy", "metric"}, nil)
	countDesc  = prometheus.NewDesc("podtask_service_scaling_activities_total", "Changes of the desired count or of the bounds of a service that scales.", []string{"service"}, nil)
	heldDesc   = prometheus.NewDesc("podtask_service_scaling_held", "1 while a change that a policy asks for is not made, by reason.", []string{"service", "reason"}, nil)
)

// Describe implements prometheus.Collector.
func (collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{boundDesc, targetDesc, valueDesc, countDesc, heldDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector. Records that cannot be read have no metrics.
func (c collector) Collect(out chan<- prometheus.Metric) {
	all, _ := c.all()
	for _, s := range all {
		send := func(d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, t, v, append([]string{s.Service}, labels...)...)
		}
		send(boundDesc, prometheus.GaugeValue, float64(s.Config.Min), "min")
		send(boundDesc, prometheus.GaugeValue, float64(s.Config.Max), "max")
		rows := c.rows(s.Service)
		for _, p := range s.Config.Policies {
			if len(p.Steps) == 0 {
				send(targetDesc, prometheus.GaugeValue, p.Target, p.Name, string(p.Metric))
			}
			if r := rows[p.Name]; r.Known {
				send(valueDesc, prometheus.GaugeValue, r.Value, p.Name, string(p.Metric))
			}
		}
		number := 0
		if n := len(s.Activities); n > 0 {
			number = s.Activities[n-1].Number
		}
		send(countDesc, prometheus.CounterValue, float64(number))
		if s.Held.Reason != "" {
			send(heldDesc, prometheus.GaugeValue, 1, string(s.Held.Reason))
		}
	}
}
