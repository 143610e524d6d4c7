package metrics

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/engine/act/logdelivery"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/network/nodenames"
	"github.com/podtask/podtask/internal/engine/run/hooks"
	"github.com/podtask/podtask/internal/engine/run/services"
	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/fault"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are those of one agent. They are safe for concurrent use.
type Metrics struct {
	registry    *prometheus.Registry
	transitions *prometheus.CounterVec
	exits       *prometheus.CounterVec
	errors      *prometheus.CounterVec
	operations  *prometheus.HistogramVec
	logRecords  *prometheus.CounterVec
	logBytes    *prometheus.CounterVec
	logLost     *prometheus.CounterVec
}

// The outcomes of lines.
const (
	delivered = "delivered"
	lost      = "lost"
)

// New returns metrics of the tasks that states lists; version is the program's.
func New(version string, states func() []lifecycle.State, owned func() int) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podtask_transitions_total", Help: "Changes of status since the agent began, of tasks and of containers (kind).",
		}, []string{"kind", "status"}),
		exits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podtask_container_exits_total", Help: "Containers that have stopped since the agent began, by outcome: success (exit code 0), failure, or none (it never ran).",
		}, []string{"outcome"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podtask_errors_total", Help: "Errors that ended a container or a task since the agent began, by their ECS name, such as OutOfMemoryError.",
		}, []string{"error"}),
		operations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "podtask_operation_duration_seconds", Help: "Time that calls to Podman, registries and systemd took, by operation and outcome (ok, retry or error).",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"operation", "outcome"}),
		logRecords: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podtask_log_records_total", Help: "Lines of output since the agent began, by log driver and outcome: delivered, or lost (refused by the server, or damaged in the log file).",
		}, []string{"driver", "outcome"}),
		logBytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podtask_log_bytes_total", Help: "Bytes of output that were delivered since the agent began, by log driver.",
		}, []string{"driver"}),
		logLost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podtask_log_lost_bytes_total", Help: "Bytes of log files that were given up since the agent began, because of log-backlog, a log router that has ended, or a removal, by log driver.",
		}, []string{"driver"}),
	}
	for _, driver := range logdriver.Remote() {
		m.Output(logdelivery.Outcome{Driver: string(driver)})
	}
	// A counter that begins at 1 has not increased, as far as Prometheus can tell.
	for _, outcome := range []string{"success", "failure", "none"} {
		m.exits.WithLabelValues(outcome)
	}
	for _, name := range []string{
		lifecycle.ErrOutOfMemory, lifecycle.ErrContainerVanished, lifecycle.ErrTimeout, lifecycle.ErrLimitsNotApplied,
		lifecycle.ErrCannotPullManifest, lifecycle.ErrCannotPull, lifecycle.ErrCannotCreate, lifecycle.ErrCannotStart,
		lifecycle.ErrResourceInitialization,
	} {
		m.errors.WithLabelValues(name)
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "podtask_build_info", Help: "1; the version is in the label.", ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	ownedTasks := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "podtask_tasks_owned", Help: "Tasks that the agent owns now.",
	}, func() float64 { return float64(owned()) })
	m.registry.MustRegister(m.transitions, m.exits, m.errors, m.operations, build, ownedTasks, tasks{states}, m.logRecords, m.logBytes, m.logLost,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Services adds those of the services that states lists. It is called once, before Handler.
func (m *Metrics) Services(states func() []service.State) {
	m.registry.MustRegister(serviceCopies{states})
}

// Hooks adds the answers of hooks, of the services that states lists. It is called once, before Handler.
func (m *Metrics) Hooks(counted func() []hooks.Count, states func() []service.State) {
	m.registry.MustRegister(hookCalls{counted, states})
}

// Add adds those of a part.
func (m *Metrics) Add(c prometheus.Collector) { m.registry.MustRegister(c) }

// Traffic adds what is counted of connections to services. It is called once, before Handler.
func (m *Metrics) Traffic(counted func() []services.Traffic) {
	m.registry.MustRegister(traffic{counted})
}

// NodeNames adds what is counted of connections to the names of Services of Kubernetes. It is called once, before Handler.
func (m *Metrics) NodeNames(counted func() []nodenames.Traffic) {
	m.registry.MustRegister(nodeNames{counted})
}

// Ingress adds those of the ingress proxy, which ask asks. It is called once, before Handler.
func (m *Metrics) Ingress(ask func(context.Context) (*ingress.Status, error)) {
	m.registry.MustRegister(ingressProxy{ask})
}

// Logs adds those of the output that is sent to servers. Routes lists the containers whose
// output is sent. It is called once, before Handler.
func (m *Metrics) Logs(routes func() []api.LogRoute) { m.registry.MustRegister(logs{routes}) }

// Output counts what has become of output of a container.
func (m *Metrics) Output(o logdelivery.Outcome) {
	m.logRecords.WithLabelValues(o.Driver, delivered).Add(float64(o.Lines))
	m.logRecords.WithLabelValues(o.Driver, lost).Add(float64(o.LostLines))
	m.logBytes.WithLabelValues(o.Driver).Add(float64(o.Bytes))
	m.logLost.WithLabelValues(o.Driver).Add(float64(o.LostBytes))
}

// logs measures the log files at the time of the request.
type logs struct{ routes func() []api.LogRoute }

var (
	backlogDesc = prometheus.NewDesc("podtask_log_backlog_bytes", "Bytes of log files that wait to be sent, by log driver.", []string{"driver"}, nil)
	routesDesc  = prometheus.NewDesc("podtask_log_routes", "Containers whose output is sent to a server, by log driver and state: ok or stalled.", []string{"driver", "state"}, nil)
)

// Describe implements prometheus.Collector.
func (logs) Describe(out chan<- *prometheus.Desc) {
	out <- backlogDesc
	out <- routesDesc
}

// Collect implements prometheus.Collector.
func (l logs) Collect(out chan<- prometheus.Metric) {
	type count struct{ waiting, ok, stalled float64 }
	drivers := make(map[string]count)
	for _, r := range l.routes() {
		c := drivers[r.Driver]
		c.waiting += float64(r.WaitingBytes)
		if r.Stalled() {
			c.stalled++
		} else {
			c.ok++
		}
		drivers[r.Driver] = c
	}
	for driver, c := range drivers {
		out <- prometheus.MustNewConstMetric(backlogDesc, prometheus.GaugeValue, c.waiting, driver)
		out <- prometheus.MustNewConstMetric(routesDesc, prometheus.GaugeValue, c.ok, driver, "ok")
		out <- prometheus.MustNewConstMetric(routesDesc, prometheus.GaugeValue, c.stalled, driver, "stalled")
	}
}

// serviceCopies counts the copies of each service at the time of the request. Their names
// are few and chosen by users.
type serviceCopies struct{ states func() []service.State }

var (
	desiredDesc     = prometheus.NewDesc("podtask_service_desired_tasks", "Desired copies of a service.", []string{"service"}, nil)
	serviceRunDesc  = prometheus.NewDesc("podtask_service_running_tasks", "Copies of a service that run.", []string{"service"}, nil)
	serviceWellDesc = prometheus.NewDesc("podtask_service_healthy_tasks", "Copies of a service that run and are healthy.", []string{"service"}, nil)
	deploymentsDesc = prometheus.NewDesc("podtask_service_deployments", "Deployments of a service; more than one during a rollout.", []string{"service"}, nil)
	rollbacksDesc   = prometheus.NewDesc("podtask_service_rollbacks_total", "Automatic rollbacks of a service since it was created.", []string{"service"}, nil)
)

var (
	asleepDesc = prometheus.NewDesc("podtask_service_asleep", "Whether a service sleeps until the next connection comes: 1 or 0; only for services that may sleep.", []string{"service"}, nil)
	wakesDesc  = prometheus.NewDesc("podtask_service_wakes_total", "How often a service was woken since it was created; only for services that may sleep.", []string{"service"}, nil)
	stageDesc  = prometheus.NewDesc("podtask_service_stage_seconds", "How long the deployment of a service has been in its stage; only for deployments with stages that are under way.", []string{"service", "stage"}, nil)
	weightDesc = prometheus.NewDesc("podtask_service_shifted_percent", "Part of the connections that the new revision of a deployment with stages has, while it is under way.", []string{"service"}, nil)
	waitsDesc  = prometheus.NewDesc("podtask_service_hooks_open", "Hooks for whose answer the deployment of a service waits, by kind: call or pause.", []string{"service", "kind"}, nil)
)

// stages measures the deployment of a service that is under way.
func stages(out chan<- prometheus.Metric, s service.State, at time.Time) {
	a, staged := s.Staged()
	if !staged {
		return
	}
	open := map[string]int{"call": 0, "pause": 0}
	for _, c := range a.Progress.Calls {
		switch c.Status {
		case service.HookInProgress:
			open["call"]++
		case service.HookAwaiting:
			open["pause"]++
		case service.HookSucceeded, service.HookFailed, service.HookTimedOut:
		}
	}
	for kind, n := range open {
		out <- prometheus.MustNewConstMetric(waitsDesc, prometheus.GaugeValue, float64(n), s.Name, kind)
	}
	out <- prometheus.MustNewConstMetric(stageDesc, prometheus.GaugeValue, max(0, at.Sub(a.Progress.Since).Seconds()), s.Name, string(a.Progress.Stage))
	out <- prometheus.MustNewConstMetric(weightDesc, prometheus.GaugeValue, a.Progress.Weight.Percent(), s.Name)
}

// Describe implements prometheus.Collector.
func (serviceCopies) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{desiredDesc, serviceRunDesc, serviceWellDesc, deploymentsDesc, rollbacksDesc, asleepDesc, wakesDesc, stageDesc, weightDesc, waitsDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c serviceCopies) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.states() {
		n := s.Count("")
		for d, value := range map[*prometheus.Desc]int{
			desiredDesc: s.DesiredCount, serviceRunDesc: n.Running, serviceWellDesc: n.Healthy, deploymentsDesc: len(s.Deployments),
		} {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), s.Name)
		}
		out <- prometheus.MustNewConstMetric(rollbacksDesc, prometheus.CounterValue, float64(s.Rollbacks), s.Name)
		rest(out, s)
		stages(out, s, time.Now())
	}
}

// rest is whether a service sleeps.
func rest(out chan<- prometheus.Metric, s service.State) {
	if !s.Sleep().Sleeps() {
		return
	}
	asleep := 0.0
	if s.Rest.Asleep {
		asleep = 1
	}
	out <- prometheus.MustNewConstMetric(asleepDesc, prometheus.GaugeValue, asleep, s.Name)
	out <- prometheus.MustNewConstMetric(wakesDesc, prometheus.CounterValue, float64(s.Rest.Wakes), s.Name)
}

// traffic counts the connections to listeners of services at the time of the request. A series
// ends with its deployment.
type traffic struct{ counted func() []services.Traffic }

var (
	forwardedDesc = prometheus.NewDesc("podtask_service_connections_total", "Connections to a listener or a name (NAME:PORT) of a service that reached a copy, by the copy's deployment.", []string{"service", "listener", "deployment"}, nil)
	closedDesc    = prometheus.NewDesc("podtask_service_connections_closed_total", "Connections to a listener or a name (NAME:PORT) of a service that podtask closed: no copy could be reached (no-copy), the copy left and the time to drain was over (drain), or they were quiet and others waited (quiet).", []string{"service", "listener", "reason"}, nil)
)

// Describe implements prometheus.Collector.
func (traffic) Describe(out chan<- *prometheus.Desc) {
	out <- forwardedDesc
	out <- closedDesc
}

// Collect implements prometheus.Collector.
func (c traffic) Collect(out chan<- prometheus.Metric) {
	for _, t := range c.counted() {
		for deployment, n := range t.Forwarded {
			out <- prometheus.MustNewConstMetric(forwardedDesc, prometheus.CounterValue, float64(n), t.Service, t.Address, deployment)
		}
		for reason, n := range map[string]uint64{"no-copy": t.Refused, "drain": t.Cut, "quiet": t.Quiet} {
			out <- prometheus.MustNewConstMetric(closedDesc, prometheus.CounterValue, float64(n), t.Service, t.Address, reason)
		}
	}
}

// nodeNames counts the connections to the names of Services at the time of the request. A series begins with
// the first connection and ends with the name.
type nodeNames struct{ counted func() []nodenames.Traffic }

var (
	nodeNameLabels     = []string{"node", "namespace", "name", "port"}
	nodeNameOpenDesc   = prometheus.NewDesc("podtask_node_name_connections", "Open connections of Pods of a namespace to a name of a Service of Kubernetes, through podtask-kubelet's node.", nodeNameLabels, nil)
	nodeNameTotalDesc  = prometheus.NewDesc("podtask_node_name_connections_total", "Connections of Pods of a namespace to a name of a Service of Kubernetes that reached a Pod.", nodeNameLabels, nil)
	nodeNameClosedDesc = prometheus.NewDesc("podtask_node_name_connections_closed_total", "Connections of Pods of a namespace to a name of a Service of Kubernetes that podtask closed: no Pod could be reached (no-pod), or they were quiet, and others waited at the limit of connections (quiet).", append(slices.Clip(nodeNameLabels), "reason"), nil)
)

// Describe implements prometheus.Collector.
func (nodeNames) Describe(out chan<- *prometheus.Desc) {
	out <- nodeNameOpenDesc
	out <- nodeNameTotalDesc
	out <- nodeNameClosedDesc
}

// Collect implements prometheus.Collector.
func (c nodeNames) Collect(out chan<- prometheus.Metric) {
	for _, t := range c.counted() {
		labels := []string{t.Node, t.Namespace, t.Name, strconv.Itoa(int(t.Port))}
		out <- prometheus.MustNewConstMetric(nodeNameOpenDesc, prometheus.GaugeValue, float64(t.Open), labels...)
		out <- prometheus.MustNewConstMetric(nodeNameTotalDesc, prometheus.CounterValue, float64(t.Forwarded[t.Node]), labels...)
		for reason, n := range map[string]uint64{"no-pod": t.Refused, "quiet": t.Quiet} {
			out <- prometheus.MustNewConstMetric(nodeNameClosedDesc, prometheus.CounterValue, float64(n), append(slices.Clip(labels), reason)...)
		}
	}
}

// hookCalls counts the answers of hooks at the time of the request, of the services that there are.
type hookCalls struct {
	counted func() []hooks.Count
	states  func() []service.State
}

var hookCallsDesc = prometheus.NewDesc("podtask_service_hook_calls_total", "Answers of the hooks of a service's deployments since the agent began, by status: SUCCEEDED, FAILED or IN_PROGRESS.", []string{"service", "hook", "status"}, nil)

// Describe implements prometheus.Collector.
func (hookCalls) Describe(out chan<- *prometheus.Desc) { out <- hookCallsDesc }

// Collect implements prometheus.Collector.
func (c hookCalls) Collect(out chan<- prometheus.Metric) {
	states := c.states()
	for _, n := range c.counted() {
		if slices.ContainsFunc(states, func(s service.State) bool { return s.Name == n.Service }) {
			out <- prometheus.MustNewConstMetric(hookCallsDesc, prometheus.CounterValue, float64(n.Calls), n.Service, n.Hook, string(n.Status))
		}
	}
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// Operation counts an operation of an owner. It is for agent.Agent.Observe.
func (m *Metrics) Operation(e lifecycle.Effect, took time.Duration, f lifecycle.Failure) {
	outcome := "error"
	switch f.Class {
	case lifecycle.OK:
		outcome = "ok"
	case lifecycle.Canceled:
		return // we gave it up
	case lifecycle.Temporary, lifecycle.QuotaUsedUp, lifecycle.Outage:
		outcome = "retry"
	}
	m.operations.WithLabelValues(reflect.TypeOf(e).Name(), outcome).Observe(took.Seconds())
}

// errorName is the ECS error at the beginning of a reason.
var errorName = lazy.MustCompile(`^[A-Z][A-Za-z]+Error\b`)

// maxErrorName is the length of the longest name that becomes a label.
const maxErrorName = 64

// Event counts a transition.
func (m *Metrics) Event(e record.Event) {
	if strings.HasPrefix(e.Status, "LOGS_") {
		return // no transition
	}
	kind := "container"
	if e.Container == "" {
		kind = "task"
	}
	m.transitions.WithLabelValues(kind, e.Status).Inc()
	if found := errorName.FindString(e.Reason); found != "" && len(found) <= maxErrorName && kind == "container" {
		m.errors.WithLabelValues(found).Inc()
	}
	if kind != "container" || e.Status != lifecycle.StatusStopped.String() || e.Container == lifecycle.Infra {
		return
	}
	outcome := "none"
	if e.ExitCode != nil {
		outcome = "failure"
		if *e.ExitCode == 0 {
			outcome = "success"
		}
	}
	m.exits.WithLabelValues(outcome).Inc()
}

// tasks counts the tasks at the time of the request.
type tasks struct{ states func() []lifecycle.State }

var (
	tasksDesc      = prometheus.NewDesc("podtask_tasks", "Tasks that are recorded, by status.", []string{"status"}, nil)
	healthDesc     = prometheus.NewDesc("podtask_tasks_health", "Tasks that run, by health.", []string{"health"}, nil)
	queuedDesc     = prometheus.NewDesc("podtask_tasks_queued", "Tasks that wait in the queue for resources of this host.", nil, nil)
	containersDesc = prometheus.NewDesc("podtask_containers_running", "Containers of tasks that run, infra containers left out.", nil, nil)
	faultsDesc     = prometheus.NewDesc("podtask_faults", "Faults in the networks of tasks that were injected and have not ended, by kind.", []string{"kind"}, nil)
	restartsDesc   = prometheus.NewDesc("podtask_containers_restarts", "Restarts of the containers of all tasks that are recorded.", nil, nil)
)

// Describe implements prometheus.Collector.
func (tasks) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{tasksDesc, healthDesc, queuedDesc, containersDesc, restartsDesc, faultsDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (t tasks) Collect(out chan<- prometheus.Metric) {
	byStatus, byHealth := map[string]int{}, map[string]int{}
	for s := lifecycle.StatusNone; s <= lifecycle.StatusStopped; s++ {
		if s != lifecycle.StatusPulled && s != lifecycle.StatusResourcesProvisioned {
			byStatus[s.String()] = 0 // a series that comes and goes is hard to alert on
		}
	}
	for _, h := range []lifecycle.Health{lifecycle.HealthUnknown, lifecycle.HealthHealthy, lifecycle.HealthUnhealthy} {
		byHealth[h.String()] = 0
	}
	queued, running, restarts := 0, 0, 0
	faults := map[fault.Kind]int{}
	for _, s := range t.states() {
		byStatus[s.Status().String()]++
		if s.Status() == lifecycle.StatusRunning {
			byHealth[s.Health().String()]++
		}
		if s.Queued() {
			queued++
		}
		for _, f := range fault.Active(s.Faults) {
			faults[f.Kind]++
		}
		for _, c := range s.Containers {
			restarts += c.Restarts
			if c.Status() == lifecycle.StatusRunning {
				running++
			}
		}
	}
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	for status, n := range byStatus {
		gauge(tasksDesc, n, status)
	}
	for health, n := range byHealth {
		gauge(healthDesc, n, health)
	}
	for _, kind := range fault.Kinds() {
		gauge(faultsDesc, faults[kind], kind.Short())
	}
	gauge(queuedDesc, queued)
	gauge(containersDesc, running)
	gauge(restartsDesc, restarts)
}
