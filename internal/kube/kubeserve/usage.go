package kubeserve

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// serveSummary answers with the document that tools read from kubelets (stats/v1alpha1.Summary).
func (s *Server) serveSummary(w http.ResponseWriter, r *http.Request) {
	u, err := s.cfg.Pods.Usage(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(summary(s.cfg.Node, u))
}

func summary(node string, u Usage) stats.Summary {
	out := stats.Summary{Pods: []stats.PodStats{}, Node: stats.NodeStats{
		NodeName: node, StartTime: metav1.NewTime(u.Node.Started), CPU: cpu(u.At, u.Node), Memory: memory(u.At, u.Node),
	}}
	for _, p := range u.Pods {
		pod := stats.PodStats{
			PodRef:    stats.PodReference{Name: p.Name, Namespace: p.Namespace, UID: p.UID},
			StartTime: metav1.NewTime(p.Total.Started), CPU: cpu(u.At, p.Total), Memory: memory(u.At, p.Total),
			Containers: []stats.ContainerStats{},
		}
		for _, c := range p.Containers {
			pod.Containers = append(pod.Containers, stats.ContainerStats{
				Name: c.Name, StartTime: metav1.NewTime(c.Started), CPU: cpu(u.At, c.Counts), Memory: memory(u.At, c.Counts),
			})
		}
		out.Pods = append(out.Pods, pod)
	}
	return out
}

func cpu(at time.Time, c Counts) *stats.CPUStats {
	nanos := uint64(c.CPU)
	return &stats.CPUStats{Time: metav1.NewTime(at), UsageCoreNanoSeconds: &nanos}
}

func memory(at time.Time, c Counts) *stats.MemoryStats {
	return &stats.MemoryStats{Time: metav1.NewTime(at), WorkingSetBytes: &c.Memory}
}

// serveResource answers with the metrics that metrics-server reads for kubectl top.
func (s *Server) serveResource(w http.ResponseWriter, r *http.Request) {
	u, err := s.cfg.Pods.Usage(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector(u))
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// collector exports a Usage with the names that a kubelet uses.
type collector Usage

// kind is the three metrics of a node, of a Pod or of a container.
type kind struct{ cpu, memory, started *prometheus.Desc }

func newKind(what string, labels ...string) kind {
	return kind{
		prometheus.NewDesc(what+"_cpu_usage_seconds_total", "Cumulative cpu time consumed by the "+what+" in core-seconds", labels, nil),
		prometheus.NewDesc(what+"_memory_working_set_bytes", "Current working set of the "+what+" in bytes", labels, nil),
		prometheus.NewDesc(what+"_start_time_seconds", "Start time of the "+what+" since unix epoch in seconds", labels, nil),
	}
}

var (
	ofNode      = newKind("node")
	ofPod       = newKind("pod", "namespace", "pod")
	ofContainer = newKind("container", "container", "namespace", "pod")
	scrapeError = prometheus.NewDesc("resource_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise", nil, nil)
)

// Describe describes no metrics in advance.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, k := range []kind{ofNode, ofPod, ofContainer} {
		to <- k.cpu
		to <- k.memory
		to <- k.started
	}
	to <- scrapeError
}

// Collect sends all metrics.
func (c collector) Collect(to chan<- prometheus.Metric) {
	send := func(k kind, n Counts, labels ...string) {
		add := func(d *prometheus.Desc, t prometheus.ValueType, v float64) {
			to <- prometheus.NewMetricWithTimestamp(c.At, prometheus.MustNewConstMetric(d, t, v, labels...))
		}
		add(k.cpu, prometheus.CounterValue, n.CPU.Seconds())
		add(k.memory, prometheus.GaugeValue, float64(n.Memory))
		if !n.Started.IsZero() {
			to <- prometheus.MustNewConstMetric(k.started, prometheus.GaugeValue, float64(n.Started.UnixNano())/1e9, labels...)
		}
	}
	send(ofNode, c.Node)
	for _, p := range c.Pods {
		send(ofPod, p.Total, p.Namespace, p.Name)
		for _, one := range p.Containers {
			send(ofContainer, one.Counts, one.Name, p.Namespace, p.Name)
		}
	}
	to <- prometheus.MustNewConstMetric(scrapeError, prometheus.GaugeValue, 0)
}
