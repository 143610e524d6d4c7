package api

import (
	"cmp"
	"strconv"
	"time"

	"github.com/podtask/podtask/pkg/fault"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Task is a task as users and scripts see it. Lists are never null. Times are
// absent until they are known.
type Task struct {
	// ID is 32 lower-case hexadecimal digits.
	ID     string `json:"id"`
	Name   string `json:"name,omitempty"`
	Family string `json:"family"`
	// Revision is 0 for a definition that was never registered.
	Revision int `json:"revision"`
	// Service is the service that the task is a copy for, Deployment which of its
	// deployments made it.
	Service    string `json:"service,omitempty"`
	Deployment string `json:"deployment,omitempty"`
	// Tags are those of the task definition.
	Tags map[string]string `json:"tags,omitempty"`
	// Pod is the Kubernetes Pod that the task was made from.
	Pod *PodRef `json:"pod,omitempty"`
	// Status is an ECS task status: NONE, MANIFEST_PULLED, CREATED, RUNNING, STOPPED.
	Status string `json:"status"`
	// DesiredStatus is RUNNING or STOPPED.
	DesiredStatus string `json:"desiredStatus"`
	// Health is the worst health of the essential containers that have a health
	// check: UNHEALTHY, then UNKNOWN, then HEALTHY. Without any it is UNKNOWN.
	Health string `json:"health"`
	// Goal is UP, DOWN (stopped, containers and logs kept) or GONE (removed).
	Goal string `json:"goal"`
	// Settled: the goal has been reached and nothing more happens without a request.
	Settled   bool      `json:"settled"`
	CreatedAt time.Time `json:"createdAt"`
	// Queue names the resources that the task waits for while the host has no room for it; empty once it is
	// admitted.
	Queue string `json:"queue,omitempty"`
	// ProtectedUntil is the time at which the protection from updates of its service and from a drain
	// ends; absent without one.
	ProtectedUntil time.Time `json:"protectedUntil,omitzero"`
	// Faults are those that were injected into its network.
	Faults    []Fault   `json:"faults,omitempty"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	StoppedAt time.Time `json:"stoppedAt,omitzero"`
	// StopCode is an ECS stop code such as EssentialContainerExited.
	StopCode      string `json:"stopCode,omitempty"`
	StoppedReason string `json:"stoppedReason,omitempty"`
	// FailedStart says in a few words why a task has failed of which an essential container never started, such as
	// "migrate exited 1"; absent if that is not how it ended.
	FailedStart string `json:"failedStart,omitempty"`
	// Why says what the task waits for or how it ended; the first is what the others
	// wait for. There is always one.
	Why []Reason `json:"why"`
	// ExitCode is that of the essential container that ended first, and never 0 if an essential container could
	// not start (docs/exit-codes.md); absent until the task has stopped.
	ExitCode *ExitCode `json:"exitCode,omitempty"`
	Owner    Owner     `json:"owner"`
	// Observed: the task has no owner, and the status of its containers is what Podman says
	// now. Otherwise it is as last recorded.
	Observed bool `json:"observed,omitempty"`

	NetworkMode string `json:"networkMode"`
	// CPU is the task's hard limit in vCPU, Memory in bytes; 0 means none.
	CPU    float64 `json:"cpu"`
	Memory int64   `json:"memory"`
	// TasksMax limits the processes and threads of the whole task, IOWeight is its share of
	// disk I/O (others have 100); absent if not set.
	TasksMax uint64 `json:"tasksMax,omitempty"`
	IOWeight uint64 `json:"ioWeight,omitempty"`
	// Limits is enforce, best-effort or off; UnappliedLimits are the controllers that
	// this host does not provide.
	Limits          string   `json:"limits,omitempty"`
	UnappliedLimits []string `json:"unappliedLimits,omitempty"`
	// PodID is Podman's id of the task's pod.
	PodID string `json:"podId,omitempty"`
	// Slice is the name of the task's slice; empty if it has none.
	Slice string `json:"slice,omitempty"`
	// Ports are as published, chosen ones included.
	Ports      []Port      `json:"ports"`
	Containers []Container `json:"containers"`
	// Logs says how far the output of the containers was sent, of those whose log driver sends;
	// absent in lists of tasks and while a task is watched.
	Logs []LogRoute `json:"logs,omitempty"`
	// Errors are those of the pod and the slice, oldest first.
	Errors  []Error      `json:"errors"`
	History []Transition `json:"history"`
}

// PodRef identifies a Kubernetes Pod.
type PodRef = taskdef.PodRef

// Reason is one thing that a task waits for, or the way it ended.
type Reason = lifecycle.Reason

// LogRoute is the progress of sending the output of a container.
type LogRoute struct {
	Container string `json:"container"`
	// Driver is the log driver, Destination where the output goes, for people.
	Driver      string `json:"driver"`
	Destination string `json:"destination"`
	// Until is the time of the last line that was delivered.
	Until time.Time `json:"deliveredUntil,omitzero"`
	// WaitingBytes of the log files are not sent.
	WaitingBytes int64 `json:"waitingBytes"`
	// LostBytes and LostLines were given up or refused.
	LostBytes int64 `json:"lostBytes,omitempty"`
	LostLines int64 `json:"lostLines,omitempty"`
	// Error explains why nothing was sent since Since; absent: there is no reason.
	Error string    `json:"error,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// Stalled reports whether output waits because it cannot be sent.
func (r LogRoute) Stalled() bool { return r.Error != "" && r.WaitingBytes > 0 }

// WhyUpdateWaits is the code of another image of a tag that is not taken yet. It comes after the other reasons.
const WhyUpdateWaits = "update-waits"

// WhyScalingHeld is the code of a change of the desired count that a target of a service asks for and that is not made.
const WhyScalingHeld = "scaling-held"

// WhyStackOrder is the code of another service of a stack for which the first copy of a service waits.
const WhyStackOrder = "stack-order"

// WhyLogsStalled is the code of output that was not sent for a minute. It comes after the other
// reasons, because the task itself does not wait for it.
const WhyLogsStalled = "logs-stalled"

// WhyNames is the code of names by which the task does not reach a service now. It comes after the other reasons, because the task itself
// does not wait for it.
const WhyNames = "names"

// WhyDiskFull is the code of a task that cannot be saved: until the disk of the state
// directory has space, nothing of it is started, and what is stopped is not recorded.
const WhyDiskFull = "disk-full"

// WhyPodmanNotResponding is the code of a task whose owner waits for an answer of Podman, which is away or
// does not even answer a ping.
const WhyPodmanNotResponding = lifecycle.WhyOutage

// DiskFull reports whether the task cannot be saved because a disk is full.
func (t Task) DiskFull() bool { return len(t.Why) > 0 && t.Why[0].Code == WhyDiskFull }

// ExitCode is an exit code, 0 to 255. A nil pointer is none.
type ExitCode int

// String is the number, and empty for none, so that templates can print a pointer.
func (c *ExitCode) String() string {
	if c == nil {
		return ""
	}
	return strconv.Itoa(int(*c))
}

// Owner is the process that runs a task.
type Owner struct {
	// PID is 0 when it is not known.
	PID int `json:"pid"`
	// Alive: a process owns the task now.
	Alive bool `json:"alive"`
}

// Port is a published port.
type Port struct {
	ContainerPort uint16 `json:"containerPort"`
	HostPort      uint16 `json:"hostPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP,omitempty"`
}

// Container is one container of a Task.
type Container struct {
	Name  string `json:"name"`
	Image string `json:"image"` // as in the definition
	// ImageDigest is the digest the registry gave, or that of the reference itself.
	ImageDigest string `json:"imageDigest,omitempty"`
	// ImageID is the image in local storage.
	ImageID string `json:"imageId,omitempty"`
	// ImageSource is registry or cache.
	ImageSource string `json:"imageSource,omitempty"`
	// RuntimeID is Podman's id of the container.
	RuntimeID string `json:"runtimeId,omitempty"`
	// Ports, as published, and Addresses are those of a container with a network
	// namespace of its own in networkMode bridge; else the task has them.
	Ports     []Port   `json:"ports,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	// GPUIDs are the GPUs that the container has, or had, for itself: qualified names of CDI
	// devices.
	GPUIDs []string `json:"gpuIds,omitempty"`
	// Status is an ECS container status, NONE to STOPPED.
	Status string `json:"status"`
	// Health is absent without a health check.
	Health    *Health   `json:"health,omitempty"`
	Essential bool      `json:"essential"`
	ExitCode  *ExitCode `json:"exitCode,omitempty"`
	// Reason is the error that ended the container, or why its restart policy did not
	// restart it.
	Reason string `json:"reason,omitempty"`
	// Errors is everything that went wrong, oldest first, tolerated errors too.
	Errors []Error `json:"errors"`
	// Retry is absent while nothing fails.
	Retry *Retry `json:"retry,omitempty"`
	// Paused: it runs, but its processes are frozen.
	Paused bool `json:"paused,omitempty"`
	// RestartCount is the number of times that it was started again. RestartAt is absent unless it
	// has exited and is to be started again; Status stays RUNNING meanwhile.
	RestartCount int       `json:"restartCount"`
	RestartAt    time.Time `json:"restartAt,omitzero"`
	// Runs are up to ten runs before the latest, oldest first.
	Runs []Run `json:"runs"`
	// StartedAt, FinishedAt and ExitCode are of the latest run.
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	// WaitingFor are the dependencies that are not met yet; empty once the
	// container has started or will never start.
	WaitingFor []Dependency `json:"waitingFor"`
	DependsOn  []Dependency `json:"dependsOn"`

	EntryPoint  []string `json:"entryPoint,omitempty"`
	Command     []string `json:"command,omitempty"`
	Environment []EnvVar `json:"environment"`
	// CPU is in ECS cpu units (1024 = 1 vCPU), Memory in bytes; 0 means unset.
	CPU    int64 `json:"cpu"`
	Memory int64 `json:"memory"`
}

// Run is an earlier run of a container that was restarted.
type Run struct {
	StartedAt  time.Time `json:"startedAt"`
	FinishedAt time.Time `json:"finishedAt"`
	ExitCode   ExitCode  `json:"exitCode"`
	OOMKilled  bool      `json:"oomKilled,omitempty"`
}

// EnvVar is one environment variable of a container.
type EnvVar = taskdef.EnvVar

// Dependency is what a container waits for: START, COMPLETE, SUCCESS or HEALTHY
// of another one.
type Dependency struct {
	ContainerName string `json:"containerName"`
	Condition     string `json:"condition"`
}

// Health is the state of a container's health check.
type Health struct {
	// Status is UNKNOWN, HEALTHY or UNHEALTHY.
	Status string `json:"status"`
	// Output (at most 1024 bytes) and ExitCode are those of the latest check.
	Output   string `json:"output,omitempty"`
	ExitCode int    `json:"exitCode"`
	// FailingStreak counts failures in a row.
	FailingStreak int `json:"failingStreak"`
}

// Retry reports an operation that is tried again.
type Retry struct {
	// Attempts counts the failures so far.
	Attempts int `json:"attempts"`
	// Next is the time at which it is tried again.
	Next time.Time `json:"next,omitzero"`
	// Error is the error of the latest attempt.
	Error string `json:"error"`
}

// Error is something that went wrong with a task.
type Error struct {
	// Name is an ECS error name such as CannotPullContainerError.
	Name    string    `json:"name,omitempty"`
	Message string    `json:"message"`
	At      time.Time `json:"at,omitzero"`
	// Tolerated: it did not stop anything.
	Tolerated bool `json:"tolerated,omitempty"`
}

// Transition is one line of a task's history.
type Transition struct {
	// Seq counts from 1 within the task.
	Seq uint64    `json:"seq"`
	At  time.Time `json:"at"`
	// Container is empty for the task itself and "~infra" for the pod's infra container.
	Container string `json:"container,omitempty"`
	// Status is an ECS status; UNKNOWN, HEALTHY or UNHEALTHY, when the health has
	// changed; RESTARTING: the container has exited and is to be started again; FAULT_STARTED or
	// FAULT_STOPPED, for a fault in the network of the task, which Reason describes.
	Status   string    `json:"status"`
	Digest   string    `json:"digest,omitempty"`
	ExitCode *ExitCode `json:"exitCode,omitempty"`
	Reason   string    `json:"reason,omitempty"`
}

// FromState returns the wire form of s. The owner is not in a state:
// Owner is left zero.
func FromState(s lifecycle.State) Task {
	t := Task{
		ID: s.ID, Name: s.Name, Family: s.Task.Family, Revision: s.Task.Revision,
		Service: s.Options.Service, Deployment: s.Options.Deployment, Tags: s.Task.Identity.Tags,
		Status: s.Status().String(), DesiredStatus: lifecycle.StatusRunning.String(),
		Health: s.Health().String(), Goal: s.Goal.String(), Settled: s.Settled(),
		CreatedAt: s.CreatedAt, Why: s.Explain(), Queue: s.Sandbox.Queue, ProtectedUntil: s.ProtectedUntil, Faults: fault.Active(s.Faults),
		StopCode: s.Stop.Code, StoppedReason: s.Stop.Reason, FailedStart: s.FailedStart(),
		NetworkMode: string(s.Task.Network), CPU: s.Quota().CPU, Memory: s.Quota().Memory,
		TasksMax: s.Quota().TasksMax, IOWeight: s.Quota().IOWeight,
		Limits: s.Options.Limits, UnappliedLimits: s.Options.Unapplied,
		PodID: s.Sandbox.PodID, Slice: s.Sandbox.Slice,
		Ports:  append([]Port{}, fromPorts(s.Ports())...),
		Errors: errorsOf(s.Sandbox.Failures),
	}
	if p := taskdef.PodRefOf(s.Task); p.Name != "" {
		t.Pod = &p
	}
	if s.Goal != lifecycle.Up {
		t.DesiredStatus = lifecycle.StatusStopped.String()
	}
	if s.Status() == lifecycle.StatusStopped {
		code := ExitCode(s.ExitCode())
		t.ExitCode = &code
	}
	t.Containers = make([]Container, len(s.Containers))
	for i := range s.Containers {
		t.Containers[i] = fromContainer(s, i)
	}
	t.History = make([]Transition, len(s.History))
	for i, h := range s.History {
		t.History[i] = Transition{Seq: h.Seq, At: h.At, Container: h.Container, Status: h.Status, Digest: h.Digest, ExitCode: (*ExitCode)(h.ExitCode), Reason: h.Reason}
		if h.Container == "" {
			switch h.Status {
			case lifecycle.StatusRunning.String():
				t.StartedAt = h.At
			case lifecycle.StatusStopped.String():
				t.StoppedAt = h.At
			}
		}
	}
	return t
}

func fromPorts(ports []taskdef.Port) (out []Port) {
	for _, p := range ports {
		out = append(out, Port{ContainerPort: p.ContainerPort, HostPort: p.HostPort, Protocol: p.Protocol, HostIP: p.HostIP})
	}
	return out
}

func fromContainer(s lifecycle.State, i int) Container {
	c, def := s.Containers[i], s.Task.Containers[i]
	w := Container{
		Name: def.Name, Image: def.Image, ImageDigest: c.Digest, ImageID: c.ImageID, ImageSource: c.Source,
		RuntimeID: c.ID, Status: c.Status().String(), Essential: def.Essential,
		Reason: cmp.Or(c.Fatal(), c.NotRestarted), Errors: errorsOf(c.Failures), StartedAt: c.StartedAt, FinishedAt: c.FinishedAt,
		WaitingFor: dependencies(s, s.Unsatisfied(i)), DependsOn: dependencies(s, def.DependsOn),
		EntryPoint: def.EntryPoint, Command: def.Command, Environment: append([]EnvVar{}, def.Environment...),
		CPU: def.CPU, Memory: def.Memory, Ports: fromPorts(c.Ports),
		Paused: c.Paused, RestartCount: c.Restarts, RestartAt: c.RestartAt, Runs: make([]Run, len(c.Runs)),
	}
	w.GPUIDs = s.GPUs(i)
	for _, a := range c.Addresses {
		w.Addresses = append(w.Addresses, a.String())
	}
	for k, r := range c.Runs {
		w.Runs[k] = Run{StartedAt: r.StartedAt, FinishedAt: r.FinishedAt, ExitCode: ExitCode(r.ExitCode), OOMKilled: r.OOMKilled}
	}
	if c.HasExit {
		code := ExitCode(c.ExitCode)
		w.ExitCode = &code
	}
	if def.HasHealth() {
		h := c.HealthCheck()
		w.Health = &Health{Status: h.Status.String(), Output: h.Output, ExitCode: h.ExitCode, FailingStreak: h.Streak}
	}
	if n := c.Retry.Attempts + c.Retry.Persist; n > 0 && !c.Ended {
		w.Retry = &Retry{Attempts: n, Next: c.Retry.NotUntil, Error: c.Retry.Last}
	}
	return w
}

func dependencies(s lifecycle.State, on []taskdef.Dependency) []Dependency {
	out := make([]Dependency, len(on))
	for k, d := range on {
		out[k] = Dependency{ContainerName: s.Task.Containers[d.Container].Name, Condition: string(d.Condition)}
	}
	return out
}

func errorsOf(failures []lifecycle.Failure) []Error {
	out := make([]Error, len(failures))
	for i, f := range failures {
		out[i] = Error{Name: f.Name, Message: f.Message, At: f.At, Tolerated: f.Tolerated}
	}
	return out
}
