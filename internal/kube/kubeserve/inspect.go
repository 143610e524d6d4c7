package kubeserve

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// servePods answers with the Pods of the node as a v1 PodList.
func (s *Server) servePods(w http.ResponseWriter, _ *http.Request) {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{}}
	for _, p := range s.cfg.Bound() {
		p.TypeMeta = metav1.TypeMeta{}
		list.Items = append(list.Items, *p)
	}
	writeJSON(w, list)
}

// serveConfig answers with the configuration of the node, in the words of a kubelet's.
func (s *Server) serveConfig(w http.ResponseWriter, _ *http.Request) {
	out := map[string]any{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
	maps.Copy(out, s.cfg.Settings)
	writeJSON(w, map[string]any{"kubeletconfig": out})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// serveMetrics answers with the metrics of this process, and those of a kubelet that alerts commonly use.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), nodeCollector{s.cfg.Node, s.cfg.Bound()})
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// nodeCollector exports how many Pods and containers a node has.
type nodeCollector struct {
	node string
	pods []*corev1.Pod
}

var (
	nodeName          = prometheus.NewDesc("kubelet_node_name", "The node's name. The count is always 1.", []string{"node"}, nil)
	runningPods       = prometheus.NewDesc("kubelet_running_pods", "Number of pods that have a running pod sandbox", nil, nil)
	runningContainers = prometheus.NewDesc("kubelet_running_containers", "Number of containers currently running", []string{"container_state"}, nil)
	pendingResizes    = prometheus.NewDesc("kubelet_pod_pending_resizes", "Number of pending resizes for pods. Label 'reason' describes the state (deferred, infeasible).", []string{"reason"}, nil)
	resizesInProgress = prometheus.NewDesc("kubelet_pod_in_progress_resizes", "Number of in-progress resizes for pods.", nil, nil)
)

// Describe describes no metrics in advance.
func (nodeCollector) Describe(to chan<- *prometheus.Desc) {
	to <- nodeName
	to <- runningPods
	to <- runningContainers
	to <- pendingResizes
	to <- resizesInProgress
}

// Collect sends all metrics.
func (c nodeCollector) Collect(to chan<- prometheus.Metric) {
	pods, containers := 0, map[string]int{"created": 0, "exited": 0, "running": 0}
	resizing, pending := 0, map[string]int{"deferred": 0, "infeasible": 0}
	for _, p := range c.pods {
		for _, o := range p.Status.Conditions {
			switch o.Type {
			case corev1.PodResizePending:
				pending[strings.ToLower(o.Reason)]++
			case corev1.PodResizeInProgress:
				resizing++
			}
		}
		if p.Status.Phase == corev1.PodRunning {
			pods++
		}
		for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
			for _, s := range list {
				switch {
				case s.State.Running != nil:
					containers["running"]++
				case s.State.Terminated != nil:
					containers["exited"]++
				case s.ContainerID != "":
					containers["created"]++
				}
			}
		}
	}
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	gauge(nodeName, 1, c.node)
	gauge(runningPods, pods)
	for state, n := range containers {
		gauge(runningContainers, n, state)
	}
	for reason, n := range pending {
		gauge(pendingResizes, n, reason)
	}
	gauge(resizesInProgress, resizing)
}
