package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Service is a service as users and scripts see it: a number of copies of a task
// definition. Lists are never null.
type Service struct {
	ServiceName string `json:"serviceName"`
	// Status is ACTIVE, or DRAINING while the service is being removed.
	Status    string    `json:"status"`
	CreatedAt time.Time `json:"createdAt"`
	// TaskDefinition is FAMILY:REVISION of the primary deployment.
	TaskDefinition string `json:"taskDefinition"`
	DesiredCount   int    `json:"desiredCount"`
	// Changes are those of the definition in the primary deployment; absent if it was begun by a client of AWS, or by a version
	// that did not record them.
	Changes *TaskChanges `json:"changes,omitempty"`
	// RunningCount, PendingCount and HealthyCount count the tasks that run, do not run yet,
	// and are healthy.
	RunningCount int `json:"runningCount"`
	PendingCount int `json:"pendingCount"`
	HealthyCount int `json:"healthyCount"`
	// Steady: there is nothing left to do.
	Steady                  bool                    `json:"steady"`
	DeploymentConfiguration DeploymentConfiguration `json:"deploymentConfiguration"`
	// HealthCheckGracePeriodSeconds is how long after its start a task may be UNHEALTHY.
	HealthCheckGracePeriodSeconds int `json:"healthCheckGracePeriodSeconds"`
	// Listeners are the addresses of the service.
	Listeners []Listener `json:"listeners"`
	// TestListeners are addresses whose connections go to a new revision before those of Listeners do.
	TestListeners []Listener `json:"testListeners"`
	// Namespace is that of Names; the copies reach the names of all services in it. Empty for none.
	Namespace string `json:"namespace,omitempty"`
	// Names are those by which tasks of the namespace reach the service.
	Names []ServiceName `json:"names"`
	// Ingress are the public addresses of the service.
	Ingress []Ingress `json:"ingress"`
	// DrainSeconds is the time in which a copy that is to stop may finish its connections.
	DrainSeconds int `json:"drainSeconds"`
	// AutoUpdate is registry for a service that auto-update updates; absent for others.
	AutoUpdate string `json:"autoUpdate,omitempty"`
	// Digests are the images that such a service runs for the tags that it follows, by NAME:TAG as the definition has it.
	Digests map[string]string `json:"digests,omitempty"`
	// SleepAfterSeconds is the time without a connection after which the copies of the service stop; absent for never.
	// HoldSeconds bounds the time that a connection is held until a copy is healthy again.
	SleepAfterSeconds int `json:"sleepAfterSeconds,omitempty"`
	HoldSeconds       int `json:"holdSeconds,omitempty"`
	// Sleep is awake, asleep, or waking while the first copy is not healthy yet; absent if the service never sleeps.
	Sleep string `json:"sleep,omitempty"`
	// SleepSince is the time at which it fell asleep, or was woken; absent before the first time. Wakes counts the times
	// that it was woken.
	SleepSince time.Time `json:"sleepSince,omitzero"`
	Wakes      int       `json:"wakes,omitempty"`
	// Deployments are the PRIMARY one, then those that still have tasks.
	Deployments []Deployment `json:"deployments"`
	// History are the latest ten deployments, oldest first. The last one may not have ended.
	History []PastDeployment `json:"history"`
	// RollbackTo is the id of the deployment to which a rollback returns; absent if there is none.
	RollbackTo string `json:"rollbackTo,omitempty"`
	// Tasks are the copies, the latest that have stopped too, oldest first.
	Tasks []ServiceTask `json:"tasks"`
	// Why says what the service waits for; there is always one.
	Why []Reason `json:"why"`
	// Events are the latest, oldest first.
	Events []ServiceEvent `json:"events"`
	// Rollbacks counts automatic returns to an earlier deployment.
	Rollbacks int `json:"rollbacks"`
}

// Listener is an address of a service. TCP connections to it are forwarded to healthy copies.
type Listener struct {
	// Address is IP:PORT of the host; without an IP address, it stands for all.
	Address string `json:"address"`
	// ContainerName and ContainerPort are where in a copy connections go.
	ContainerName string `json:"containerName"`
	ContainerPort uint16 `json:"containerPort"`
	// ProxyProtocol: each connection to a copy begins with a header of the PROXY protocol, version 1, which has the
	// client's address.
	ProxyProtocol bool `json:"proxyProtocol,omitempty"`
	// Problem explains why the address cannot be opened; it is not read in a request.
	Problem string `json:"problem,omitempty"`
}

// ServiceName is a name of a service. TCP connections to it are forwarded to healthy copies.
type ServiceName struct {
	// Name and Port are what clients connect to. In a request, Port may be absent: it is the port of the container then.
	Name string `json:"name"`
	Port uint16 `json:"port,omitempty"`
	// PortName is the name of the port mapping to which connections go.
	PortName string `json:"portName,omitempty"`
	// ContainerName and ContainerPort are where in a copy connections go without PortName. In a request, they may be absent if
	// the definition leaves no choice.
	ContainerName string `json:"containerName,omitempty"`
	ContainerPort uint16 `json:"containerPort,omitempty"`
}

// NoNamespace is the word for no namespace in a request.
const NoNamespace = "none"

// Ingress is a public address of a service. HTTP requests for it are forwarded to healthy copies by the ingress
// proxy.
type Ingress struct {
	// URL is https://HOST[/PATH] or http://HOST[/PATH]. HOST may begin with "*.".
	URL string `json:"url"`
	// ContainerName and ContainerPort are where in a copy requests go.
	ContainerName string `json:"containerName"`
	ContainerPort uint16 `json:"containerPort"`
	// Certificate is acme, internal, or a PEM file whose key is in CertificateKey: both are paths, or both secrets as
	// podman:NAME. It is absent for acme, and for internal with names that no public authority certifies.
	Certificate    string `json:"certificate,omitempty"`
	CertificateKey string `json:"certificateKey,omitempty"`
	// Protocol is the protocol of the copies: http1, or h2c for HTTP/2 without TLS.
	Protocol string `json:"protocol,omitempty"`
	// MaxBodyBytes is the size of the largest request body; absent for any.
	MaxBodyBytes int64 `json:"maxBodyBytes,omitempty"`
	// ReadTimeoutSeconds limits the time in which a client sends nothing of a body that it has begun,
	// IdleTimeoutSeconds the one in which neither side sends anything.
	ReadTimeoutSeconds int `json:"readTimeoutSeconds,omitempty"`
	IdleTimeoutSeconds int `json:"idleTimeoutSeconds,omitempty"`
	// Auth is the source of a secret with a line USER:PASSWORD for each who may send requests.
	Auth string `json:"auth,omitempty"`
	// Problem describes a fault of the address. Down: it is not served for that reason, which does not pass by itself. Both are
	// not read in a request.
	Problem string `json:"problem,omitempty"`
	Down    bool   `json:"down,omitempty"`
}

// FromIngress returns the wire form of an ingress.
func FromIngress(i taskdef.Ingress) Ingress {
	return Ingress{
		URL: i.URL, ContainerName: i.Container, ContainerPort: i.Port, Certificate: i.Certificate, CertificateKey: i.CertificateKey,
		Protocol: i.Protocol, MaxBodyBytes: i.MaxBody, ReadTimeoutSeconds: int(i.ReadTimeout.Seconds()), IdleTimeoutSeconds: int(i.IdleTimeout.Seconds()), Auth: i.Auth,
	}
}

// Ingress is the model's form, which is not checked yet.
func (i Ingress) Ingress() taskdef.Ingress {
	return taskdef.Ingress{
		URL: i.URL, Container: i.ContainerName, Port: i.ContainerPort, Certificate: i.Certificate, CertificateKey: i.CertificateKey,
		Protocol: i.Protocol, MaxBody: i.MaxBodyBytes, ReadTimeout: taskdef.Span(i.ReadTimeoutSeconds, time.Second), IdleTimeout: taskdef.Span(i.IdleTimeoutSeconds, time.Second), Auth: i.Auth,
	}
}

// DeploymentConfiguration is the way in which a service replaces its tasks. Members that are absent in a
// request stay unchanged, or have podtask's defaults.
type DeploymentConfiguration struct {
	// MinimumHealthyPercent and MaximumPercent are as in ECS. Without both, copies are
	// replaced one by one.
	MinimumHealthyPercent    *int                      `json:"minimumHealthyPercent,omitempty"`
	MaximumPercent           *int                      `json:"maximumPercent,omitempty"`
	DeploymentCircuitBreaker *DeploymentCircuitBreaker `json:"deploymentCircuitBreaker,omitempty"`
	DeploymentMethod
}

// DeploymentCircuitBreaker ends a deployment whose tasks keep failing.
type DeploymentCircuitBreaker struct {
	Enable bool `json:"enable"`
	// Rollback returns to the last deployment that was completed.
	Rollback bool `json:"rollback"`
	// Cumulative: failures of a deployment add up, also when a task has become healthy in between.
	Cumulative bool `json:"cumulative,omitempty"`
	// Threshold limits the number of tasks that may fail; absent for half of the desired count, at least 3 and at most 200.
	Threshold *BreakerThreshold `json:"threshold,omitempty"`
}

// BreakerThreshold is a number of tasks that have failed.
type BreakerThreshold struct {
	// Type is COUNT, BOUNDED_PERCENT (of the desired count, at least 3 and at most 200 tasks) or
	// UNBOUNDED_PERCENT.
	Type  string `json:"type"`
	Value int    `json:"value"`
}

// Breaker returns the circuit breaker.
func (b DeploymentCircuitBreaker) Breaker() service.Breaker {
	w := service.Breaker{Enable: b.Enable, Rollback: b.Rollback, Cumulative: b.Cumulative}
	if t := b.Threshold; t != nil {
		w.Threshold = service.Threshold{Type: service.ThresholdType(t.Type), Value: t.Value}
	}
	return w
}

func fromBreaker(b service.Breaker) *DeploymentCircuitBreaker {
	w := &DeploymentCircuitBreaker{Enable: b.Enable, Rollback: b.Rollback, Cumulative: b.Cumulative}
	if t := b.Threshold; t != (service.Threshold{}) {
		w.Threshold = &BreakerThreshold{Type: string(t.Type), Value: t.Value}
	}
	return w
}

// Deployment replaces the copies of a service by ones of a task definition.
type Deployment struct {
	ID string `json:"id"`
	// Status is PRIMARY, or ACTIVE for one that is being replaced.
	Status         string `json:"status"`
	TaskDefinition string `json:"taskDefinition"`
	// RolloutState is IN_PROGRESS, COMPLETED or FAILED.
	RolloutState       string    `json:"rolloutState"`
	RolloutStateReason string    `json:"rolloutStateReason,omitempty"`
	DesiredCount       int       `json:"desiredCount"`
	RunningCount       int       `json:"runningCount"`
	PendingCount       int       `json:"pendingCount"`
	HealthyCount       int       `json:"healthyCount"`
	FailedTasks        int       `json:"failedTasks"`
	CreatedAt          time.Time `json:"createdAt"`
	UpdatedAt          time.Time `json:"updatedAt"`
}

// PastDeployment is an entry of a service's history: what became of the attempt to bring all
// copies to a deployment.
type PastDeployment struct {
	// Number counts the entries, from 1.
	Number int `json:"number"`
	// Status is that of a service deployment of ECS: IN_PROGRESS, SUCCESSFUL, STOPPED,
	// ROLLBACK_IN_PROGRESS, ROLLBACK_SUCCESSFUL or ROLLBACK_FAILED.
	Status string `json:"status"`
	// Reason explains why it was given up.
	Reason string `json:"reason,omitempty"`
	// Deployment is the id of the deployment to which the copies were brought. Several entries
	// may have the same: a rollback returns to it.
	Deployment string `json:"deployment"`
	// TaskDefinition is FAMILY:REVISION.
	TaskDefinition string `json:"taskDefinition"`
	// From are the ids of the deployments that there were copies of before.
	From []string `json:"from"`
	// RolledBackTo is the id of the deployment to which it returned.
	RolledBackTo string `json:"rolledBackTo,omitempty"`
	PastCounts
	CreatedAt time.Time `json:"createdAt"`
	// StoppedAt is the time at which it was given up, FinishedAt when it ended.
	StoppedAt  time.Time `json:"stoppedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	// Strategy is ROLLING, BLUE_GREEN, LINEAR or CANARY. Progress is absent without stages: for ROLLING
	// without hooks, bake time and alarms.
	Strategy string              `json:"strategy"`
	Progress *DeploymentProgress `json:"progress,omitempty"`
	// FailedStage is the stage in which it was given up for another; absent without stages.
	FailedStage string `json:"failedStage,omitempty"`
	// RaisedAlarms are the alarms that ended it, or kept it from being watched.
	RaisedAlarms []string `json:"raisedAlarms,omitempty"`
}

// PastCounts count the copies of an entry of the history, at its end.
type PastCounts struct {
	DesiredCount int `json:"desiredCount"`
	RunningCount int `json:"runningCount"`
	PendingCount int `json:"pendingCount"`
	// FailedTasks are those of the deployment, as the circuit breaker counts them.
	FailedTasks int `json:"failedTasks"`
}

// ServiceTask is one copy.
type ServiceTask struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Deployment is an id.
	Deployment string `json:"deployment"`
	// Phase is WANTED, LIVE, STOPPING, STOPPED or REMOVING: what the service does with it.
	Phase  string `json:"phase"`
	Health string `json:"health,omitempty"`
	// Healthy: it runs and is healthy.
	Healthy bool `json:"healthy"`
	// Failed: it counts as a failure of its deployment.
	Failed    bool      `json:"failed,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	// Reason explains why it does not run yet, is being stopped, or has stopped.
	Reason string `json:"reason,omitempty"`
}

// ServiceEvent is one line of a service's history.
type ServiceEvent struct {
	// ID counts from 1 within the service.
	ID        int       `json:"id"`
	CreatedAt time.Time `json:"createdAt"`
	Message   string    `json:"message"`
}

// NewService is a service that an agent is asked to run: the body of POST /v1/services.
type NewService struct {
	ServiceName string `json:"serviceName"`
	// TaskDefinition is a registered FAMILY or FAMILY:REVISION.
	TaskDefinition string `json:"taskDefinition"`
	DesiredCount   int    `json:"desiredCount"`
	ServiceSettings
}

// ServiceSettings are the settings of a service; members that are absent stay unchanged.
type ServiceSettings struct {
	DeploymentConfiguration       DeploymentConfiguration `json:"deploymentConfiguration,omitzero"`
	HealthCheckGracePeriodSeconds *int                    `json:"healthCheckGracePeriodSeconds,omitempty"`
	// Listeners replace those that there are; an empty list removes them.
	Listeners     *[]Listener `json:"listeners,omitempty"`
	TestListeners *[]Listener `json:"testListeners,omitempty"`
	// Namespace is that of the service and its copies; "none" for none. Absent in a new service, it is "default" if there
	// are names. Another one begins a new deployment.
	Namespace string `json:"namespace,omitempty"`
	// Names replace those that there are; an empty list removes them.
	Names *[]ServiceName `json:"names,omitempty"`
	// Ingress replace the public addresses of the task definition; an empty list removes them.
	Ingress *[]Ingress `json:"ingress,omitempty"`
	// DrainSeconds is 1 to 3600; 30 if absent in a new service.
	DrainSeconds *int `json:"drainSeconds,omitempty"`
	// SleepAfterSeconds has the copies stop when there was no connection for that long, 1 to 2592000, until the next one comes;
	// 0 for never. Absent in a new service, it is as the task definition says.
	SleepAfterSeconds *int `json:"sleepAfterSeconds,omitempty"`
	// HoldSeconds bounds the time that a connection is held while the service wakes, 1 to 3600; 60 if absent in a new
	// service.
	HoldSeconds *int `json:"holdSeconds,omitempty"`
	// AutoUpdate is registry for a service whose tags auto-update follows: its copies run the digests that the tags had at the
	// latest deployment. none ends that.
	AutoUpdate string `json:"autoUpdate,omitempty"`
	// Digests are for a service whose tags are followed: what this deployment runs for a tag, by NAME:TAG as the definition has
	// it, in place of what the registry says. They hold until the next deployment.
	Digests map[string]string `json:"digests,omitempty"`
	TaskSettings
	TaskOptions
}

// NoAutoUpdate ends automatic updates of a service.
const NoAutoUpdate = "none"

// ServiceUpdate changes a service: the body of PATCH /v1/services/SERVICE.
type ServiceUpdate struct {
	DesiredCount *int `json:"desiredCount,omitempty"`
	// TaskDefinition starts a new deployment with the changes given here, unless it and they are as before.
	TaskDefinition string `json:"taskDefinition,omitempty"`
	// KeepChanges adds those changes of the present deployment that are not given here, as without a TaskDefinition.
	KeepChanges bool `json:"keepChanges,omitempty"`
	// ForceNewDeployment starts one with the current definition.
	ForceNewDeployment bool `json:"forceNewDeployment,omitempty"`
	ServiceSettings
}

// ServiceBackend is a Backend with services, such as that of an agent. Its methods are called concurrently.
type ServiceBackend interface {
	Services(ctx context.Context) ([]Service, error)
	Service(ctx context.Context, name string) (Service, error)
	// CreateService, UpdateService, RollbackService and RemoveService return when the
	// request is recorded. The error is BadRequest for invalid input, and Conflict if the
	// state of the service or the host does not allow the request.
	CreateService(ctx context.Context, n NewService) (Service, error)
	UpdateService(ctx context.Context, name string, u ServiceUpdate) (Service, error)
	RollbackService(ctx context.Context, name string, gradual bool) (Service, error)
	RemoveService(ctx context.Context, name string, force bool) error
	// ContinueService decides about the pause of a deployment, likewise.
	ContinueService(ctx context.Context, name string, q ContinueRequest) (Service, error)
	// WakeService wakes a service that sleeps; by names the one who asks.
	WakeService(ctx context.Context, name, by string) (Service, error)
	// WatchService calls fn as Watch of a task does, until the service is removed.
	WatchService(ctx context.Context, name string, fn func(Service) bool) error
}

// digestsOf returns the digests that a service which is updated automatically runs for its tags; nil for another one.
func digestsOf(spec service.Spec) map[string]string {
	if spec.Follows == nil {
		return nil
	}
	all := map[string]string{}
	for container, tag := range spec.Follows {
		_, all[tag], _ = strings.Cut(spec.ImageOf(container), "@")
	}
	return all
}

// FromService returns the wire form of s at a moment.
func FromService(s service.State, at time.Time) Service {
	all := s.Count("")
	w := Service{
		ServiceName: s.Name, Status: string(s.Status), CreatedAt: s.CreatedAt, TaskDefinition: s.Primary().TaskDefinition,
		DesiredCount: s.DesiredCount, RunningCount: all.Running, PendingCount: all.Pending, HealthyCount: all.Healthy,
		Steady: s.Steady, AutoUpdate: s.Config.AutoUpdate, HealthCheckGracePeriodSeconds: int(s.Config.HealthCheckGracePeriod.Seconds()),
		DeploymentConfiguration: DeploymentConfiguration{DeploymentCircuitBreaker: fromBreaker(s.Config.Breaker), DeploymentMethod: fromMethod(s.Config.Method)},
		Listeners:               []Listener{}, TestListeners: []Listener{}, Namespace: s.Config.Names.Namespace, Names: []ServiceName{}, Ingress: []Ingress{}, DrainSeconds: int(s.Config.Drain().Seconds()),
		Digests: digestsOf(s.Primary().Spec), Deployments: []Deployment{}, History: []PastDeployment{}, Tasks: []ServiceTask{}, Events: []ServiceEvent{}, Rollbacks: s.Rollbacks,
	}
	if raw := s.Primary().Spec.Changes; len(raw) > 0 {
		w.Changes = new(TaskChanges)
		if json.Unmarshal(raw, w.Changes) != nil { // of a later version
			w.Changes = nil
		}
	}
	fromSleep(&w, s)
	if b := s.Config.Bounds; b != nil {
		w.DeploymentConfiguration.MinimumHealthyPercent, w.DeploymentConfiguration.MaximumPercent = &b.MinimumHealthyPercent, &b.MaximumPercent
	}
	for _, l := range s.Config.Listeners {
		w.Listeners = append(w.Listeners, fromListener(s, l))
	}
	for _, l := range s.Config.TestListeners {
		w.TestListeners = append(w.TestListeners, fromListener(s, l))
	}
	for _, n := range s.Config.Names.Offered {
		w.Names = append(w.Names, ServiceName{Name: n.Name, Port: n.Port, PortName: n.PortName, ContainerName: n.Container, ContainerPort: n.ContainerPort})
	}
	for _, i := range s.Ingress() {
		public := FromIngress(i)
		u := unheard(s, i.URL)
		public.Problem, public.Down = u.Problem, u.Down()
		w.Ingress = append(w.Ingress, public)
	}
	for _, d := range s.Deployments {
		w.Deployments = append(w.Deployments, fromDeployment(s, d))
	}
	for _, a := range s.History {
		w.History = append(w.History, fromAttempt(s, a))
	}
	if d, ok := s.RollbackTarget(); ok {
		w.RollbackTo = d.ID
	}
	for _, t := range s.Tasks {
		w.Tasks = append(w.Tasks, fromServiceTask(s, t))
	}
	for _, e := range s.Events {
		w.Events = append(w.Events, ServiceEvent(e))
	}
	for _, r := range s.Explain(at) {
		w.Why = append(w.Why, Reason{Code: r.Code, Text: r.Text, Until: r.Until, Then: r.Then})
	}
	return w
}

// The words of Service.Sleep.
const (
	SleepAwake  = "awake"
	SleepAsleep = "asleep"
	SleepWaking = "waking"
)

func fromSleep(w *Service, s service.State) {
	sleep := s.Sleep()
	if !sleep.Sleeps() {
		return
	}
	w.SleepAfterSeconds, w.HoldSeconds = int(sleep.After.Seconds()), int(sleep.Held().Seconds())
	w.Sleep, w.SleepSince, w.Wakes = SleepAwake, s.Rest.Since, s.Rest.Wakes
	switch {
	case s.Rest.Asleep:
		w.Sleep = SleepAsleep
	case s.Rest.Waking:
		w.Sleep = SleepWaking
	}
}

func fromListener(s service.State, l service.Listener) Listener {
	return Listener{Address: l.Address, ContainerName: l.Container, ContainerPort: l.Port, ProxyProtocol: l.ProxyProtocol, Problem: unheard(s, l.Address).Problem}
}

// unheard describes a fault of an address; empty if there is none.
func unheard(s service.State, address string) service.Unheard {
	if i := slices.IndexFunc(s.Unheard, func(u service.Unheard) bool { return u.Address == address }); i >= 0 {
		return s.Unheard[i]
	}
	return service.Unheard{}
}

func fromDeployment(s service.State, d service.Deployment) Deployment {
	c := s.Count(d.ID)
	w := Deployment{
		ID: d.ID, Status: "ACTIVE", TaskDefinition: d.TaskDefinition, RolloutState: string(d.Rollout), RolloutStateReason: d.Reason,
		RunningCount: c.Running, PendingCount: c.Pending, HealthyCount: c.Healthy, FailedTasks: d.FailedTasks, CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
	}
	w.DesiredCount = s.Wanted(d.ID)
	if d.Primary {
		w.Status = "PRIMARY"
	}
	return w
}

func fromAttempt(s service.State, a service.Attempt) PastDeployment {
	w := PastDeployment{
		Number: a.Number, Status: string(a.Status), Reason: a.Reason, Deployment: a.Target.Deployment, From: []string{},
		PastCounts: PastCounts{DesiredCount: a.Target.Requested, RunningCount: a.Target.Running, PendingCount: a.Target.Pending, FailedTasks: a.Breaker.Failures},
		CreatedAt:  a.Times.CreatedAt, StoppedAt: a.Times.StoppedAt, FinishedAt: a.Times.EndedAt,
	}
	for _, r := range s.Revisions {
		if r.Deployment == w.Deployment {
			w.TaskDefinition = r.TaskDefinition
		}
	}
	for _, share := range a.Sources {
		w.From = append(w.From, share.Deployment)
	}
	w.Strategy, w.Progress = string(a.Method.Strategy), fromProgress(a)
	if w.Strategy == "" {
		w.Strategy = string(service.Rolling)
	}
	if a.Alarms != nil {
		w.RaisedAlarms = a.Alarms.Raised
	}
	if a.Return != nil {
		w.RolledBackTo, w.FailedStage = a.Return.Deployment, string(a.Return.Stage)
	}
	return w
}

func fromServiceTask(s service.State, t service.Task) ServiceTask {
	w := ServiceTask{
		ID: t.ID, Name: s.TaskName(t), Deployment: t.Deployment, Phase: string(t.Phase), Health: string(t.Seen.Health),
		Healthy: t.Healthy(), Failed: t.Failed, CreatedAt: t.WantedAt,
	}
	switch t.Phase {
	case service.Wanted:
		w.Reason = t.Refused
	case service.Live:
		w.Reason = cmp.Or(t.Seen.Queue, t.Seen.Failing)
	case service.Stopping:
		w.Reason = t.Cause
	case service.Stopped, service.Removing:
		w.Reason = t.Seen.Reason
	}
	return w
}

// withServices checks that the backend has services.
func (s *Server) withServices(serve func(http.ResponseWriter, *http.Request, ServiceBackend) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		k, err := backendAs[ServiceBackend](s.backend, "this process owns one task and keeps no services: `podtask agent` does")
		if err != nil {
			return err
		}
		return serve(w, r, k)
	}
}

func serveServices(w http.ResponseWriter, r *http.Request, k ServiceBackend) error {
	services, err := k.Services(r.Context())
	return reply(w, services, err)
}

func serveCreateService(w http.ResponseWriter, r *http.Request, k ServiceBackend) error {
	var n NewService
	if err := readBody(w, r, "new service", &n); err != nil {
		return err
	}
	made, err := k.CreateService(r.Context(), n)
	if err == nil {
		w.Header().Set("Location", "/v1/services/"+made.ServiceName)
		writeJSON(w, http.StatusCreated, made)
	}
	return err
}

func serveService(w http.ResponseWriter, r *http.Request, k ServiceBackend) error {
	s, err := k.Service(r.Context(), r.PathValue("service"))
	return reply(w, s, err)
}

func serveUpdateService(w http.ResponseWriter, r *http.Request, k ServiceBackend) error {
	var u ServiceUpdate
	if err := readBody(w, r, "changes", &u); err != nil {
		return err
	}
	s, err := k.UpdateService(r.Context(), r.PathValue("service"), u)
	return reply(w, s, err)
}

// maxBy is the longest name of the one who asks, in bytes.
const maxBy = 100

func serveWakeService(w http.ResponseWriter, r *http.Request, k ServiceBackend) error {
	by := r.URL.Query().Get("by")
	if len(by) > maxBy || strings.ContainsFunc(by, unicode.IsControl) {
		return Failed(BadRequest, "by is up to %d bytes of text", maxBy)
	}
	s, err := k.WakeService(r.Context(), r.PathValue("service"), cmp.Or(by, "a client of the API"))
	return reply(w, s, err)
}

func serveRollbackService(w http.ResponseWriter, r *http.Request, k ServiceBackend) error {
	gradual, err := parseBool(r, "gradual")
	if err != nil {
		return err
	}
	s, err := k.RollbackService(r.Context(), r.PathValue("service"), gradual)
	return reply(w, s, err)
}

func serveRemoveService(w http.ResponseWriter, r *http.Request, k ServiceBackend) error {
	force, err := parseForce(r)
	if err == nil {
		err = k.RemoveService(r.Context(), r.PathValue("service"), force)
	}
	return finish(w, http.StatusAccepted, err)
}

func serveWatchService(w http.ResponseWriter, r *http.Request, k ServiceBackend) error {
	if _, err := k.Service(r.Context(), r.PathValue("service")); err != nil {
		return err
	}
	return serveLines(w, r, func(ctx context.Context, fn func(Service) error) error {
		return k.WatchService(ctx, r.PathValue("service"), func(s Service) bool { return fn(s) == nil })
	})
}

// ServiceClient is the part of a Client that asks an agent for its services.
type ServiceClient struct{ conn *connection }

// Services returns all services of an agent, by name.
func (c *ServiceClient) Services(ctx context.Context) ([]Service, error) {
	var all []Service
	return all, c.conn.call(ctx, http.MethodGet, "services", nil, &all)
}

// Service returns one service.
func (c *ServiceClient) Service(ctx context.Context, name string) (Service, error) {
	var s Service
	return s, c.conn.call(ctx, http.MethodGet, servicePath(name), nil, &s)
}

// CreateService asks an agent to run a service and returns it when it is recorded.
func (c *ServiceClient) CreateService(ctx context.Context, n NewService) (Service, error) {
	return c.callService(ctx, http.MethodPost, "services", n)
}

// UpdateService changes a service and returns it when the change is recorded.
func (c *ServiceClient) UpdateService(ctx context.Context, name string, u ServiceUpdate) (Service, error) {
	return c.callService(ctx, http.MethodPatch, servicePath(name), u)
}

// RollbackService returns a service to the deployment that was completed before. All connections move at once, unless
// gradual: then with the steps, hooks and waits of the service's strategy.
func (c *ServiceClient) RollbackService(ctx context.Context, name string, gradual bool) (Service, error) {
	return c.callService(ctx, http.MethodPost, servicePath(name)+"/rollback?gradual="+strconv.FormatBool(gradual), nil)
}

// ContinueService decides about the pause of a deployment.
func (c *ServiceClient) ContinueService(ctx context.Context, name string, q ContinueRequest) (Service, error) {
	return c.callService(ctx, http.MethodPost, servicePath(name)+"/continue", q)
}

// WakeService wakes a service that sleeps; by names the one who asks. A service that is awake is left as it is.
func (c *ServiceClient) WakeService(ctx context.Context, name, by string) (Service, error) {
	return c.callService(ctx, http.MethodPost, servicePath(name)+"/wake?by="+url.QueryEscape(by), nil)
}

// RemoveService asks for a service to be removed with its tasks. Without force it must be
// scaled to 0.
func (c *ServiceClient) RemoveService(ctx context.Context, name string, force bool) error {
	return c.conn.call(ctx, http.MethodDelete, servicePath(name)+"?force="+strconv.FormatBool(force), nil, nil)
}

// WatchService calls fn with a service as Watch does with a task; it ends when the
// service is gone.
func (c *ServiceClient) WatchService(ctx context.Context, name string, fn func(Service) bool) error {
	err := readLines(ctx, c.conn, servicePath(name)+"/watch", func(s Service) error {
		if !fn(s) {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func (c *ServiceClient) callService(ctx context.Context, method, path string, request any) (Service, error) {
	var body []byte
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return Service{}, err
		}
	}
	var s Service
	return s, c.conn.call(ctx, method, path, body, &s)
}

func servicePath(name string) string { return "services/" + url.PathEscape(name) }
