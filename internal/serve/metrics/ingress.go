package metrics

import (
	"context"
	"fmt"
	"time"

	"github.com/podtask/podtask/internal/ingress"
	"github.com/prometheus/client_golang/prometheus"
)

// ingressProxy collects what the ingress proxy says about itself.
type ingressProxy struct {
	ask func(context.Context) (*ingress.Status, error)
}

var (
	ingressUpDesc          = prometheus.NewDesc("podtask_ingress_up", "1 if the ingress proxy answers.", nil, nil)
	ingressConnectionsDesc = prometheus.NewDesc("podtask_ingress_connections", "Open connections of clients to the ingress proxy.", nil, nil)
	ingressRequestsDesc    = prometheus.NewDesc("podtask_ingress_requests_total", "Requests that have ended since the ingress proxy started, by service (empty without a route) and class of the status (2xx to 5xx).", []string{"service", "class"}, nil)
	ingressExpiryDesc      = prometheus.NewDesc("podtask_ingress_certificate_expiry_timestamp_seconds", "When the certificate of a public name ends, in seconds since 1970; 0 while there is none.", []string{"name", "issuer"}, nil)
	ingressProblemDesc     = prometheus.NewDesc("podtask_ingress_certificate_problem", "1 if the certificate of a public name has a problem, which `podtask ingress ls` shows.", []string{"name", "issuer"}, nil)
)

// ingressTimeout limits a question to the proxy.
const ingressTimeout = 2 * time.Second

// Describe implements prometheus.Collector.
func (p ingressProxy) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{ingressUpDesc, ingressConnectionsDesc, ingressRequestsDesc, ingressExpiryDesc, ingressProblemDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (p ingressProxy) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), ingressTimeout)
	defer cancel()
	s, err := p.ask(ctx)
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if err != nil || s == nil {
		gauge(ingressUpDesc, 0)
		return
	}
	gauge(ingressUpDesc, 1)
	gauge(ingressConnectionsDesc, float64(s.Connections))
	for _, c := range s.Requests {
		out <- prometheus.MustNewConstMetric(ingressRequestsDesc, prometheus.CounterValue, float64(c.Count), c.Service, fmt.Sprintf("%dxx", c.Class))
	}
	for _, c := range s.Certificates {
		expiry, problem := 0.0, 0.0
		if !c.NotAfter.IsZero() {
			expiry = float64(c.NotAfter.Unix())
		}
		if c.Problem != "" {
			problem = 1
		}
		gauge(ingressExpiryDesc, expiry, c.Name, c.Issuer)
		gauge(ingressProblemDesc, problem, c.Name, c.Issuer)
	}
}
