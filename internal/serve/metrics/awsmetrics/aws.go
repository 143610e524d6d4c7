// Package awsmetrics provides the metrics of the API that clients of AWS use.
package awsmetrics

import "github.com/prometheus/client_golang/prometheus"

// Count is a number of requests of an operation with the same outcome.
type Count struct {
	Operation, Outcome string
	N                  uint64
}

// New returns the metrics of what counted returns.
func New(counted func() []Count) prometheus.Collector { return requests{counted} }

type requests struct{ counted func() []Count }

var requestsDesc = prometheus.NewDesc("podtask_aws_requests_total",
	"Requests of AWS clients since the agent began, by operation and outcome: answered, refused, throttled (more than Amazon ECS allows in that time) or failed (a fault of this side).", []string{"operation", "outcome"}, nil)

// Describe implements prometheus.Collector.
func (requests) Describe(out chan<- *prometheus.Desc) { out <- requestsDesc }

// Collect implements prometheus.Collector.
func (r requests) Collect(out chan<- prometheus.Metric) {
	for _, c := range r.counted() {
		out <- prometheus.MustNewConstMetric(requestsDesc, prometheus.CounterValue, float64(c.N), c.Operation, c.Outcome)
	}
}
