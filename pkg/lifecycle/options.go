package lifecycle

import (
	"encoding/json"
	"time"

	"github.com/podtask/podtask/pkg/admission"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Options are the choices of one run that the definition does not hold.
type Options struct {
	Pull PullBehavior `json:"pull"`
	// Limits is enforce, best-effort or off (LimitsOff).
	Limits string `json:"limits,omitempty"`
	// Unapplied names the cgroup controllers (cpu, memory, pids) whose limits this
	// host cannot apply and that the user chose to do without.
	Unapplied []string `json:"unapplied,omitempty"`
	// Quota are limits beside those of the definition.
	Quota Quota `json:"quota,omitzero"`
	// Remove: the owner removes the task as soon as it has stopped (run -d --rm).
	Remove bool `json:"remove,omitempty"`
	// Once: the task's ID follows from the request that asked for it. When the task has run and is removed, its ID is
	// remembered for a while, so that the same request does not run it again.
	Once bool `json:"once,omitempty"`
	// Temporary: the task lives no longer than the process that created it. Whoever owns it next
	// kills and removes it.
	Temporary bool `json:"temporary,omitempty"`
	// Unit is the systemd service whose main process owns the task; empty for none.
	Unit string `json:"unit,omitempty"`
	// AutoUpdate is registry for a service that is to follow its tags; empty for none.
	AutoUpdate string `json:"autoUpdate,omitempty"`
	// Persistent: the task keeps trying while a registry cannot be reached, as units, copies of
	// services and tasks that an agent has accepted do. Without it, it fails after a while.
	Persistent bool `json:"persistent,omitempty"`
	// GiveUp: a task that cannot start ends as with AWS's agent, so that whoever has placed it can place it elsewhere: a digest may
	// take a minute, a pull is tried five times, and a host port that another task keeps ends the task instead of queueing it.
	GiveUp bool `json:"giveUp,omitempty"`
	// Service is the service that the task is a copy for, Deployment which of its
	// deployments made it; empty for none.
	Service    string `json:"service,omitempty"`
	Deployment string `json:"deployment,omitempty"`
	// LogSize is the most bytes the log of a container may take, unless its definition says
	// otherwise; 0: no limit.
	LogSize int64 `json:"logSize,omitempty"`
	// Logs says whether log drivers send output to servers: local, auto or remote; empty is
	// local.
	Logs string `json:"logs,omitempty"`
	// Cluster is the ECS cluster that the task is in; empty for the default one.
	Cluster string `json:"cluster,omitempty"`
	// Client holds the members of an ECS API request that the client gets back. No step reads it.
	Client json.RawMessage `json:"client,omitempty"`
	// Namespace is the namespace of the service names that the task reaches; empty for none.
	Namespace string `json:"namespace,omitempty"`
	MetadataOptions
}

// MetadataOptions select the parts of the metadata endpoint that containers see.
type MetadataOptions struct {
	// MetadataKey makes the paths of the task metadata endpoint; empty for none.
	MetadataKey string `json:"metadataKey,omitempty"`
	// Credentials: the endpoint serves credentials for AWS.
	Credentials bool `json:"credentials,omitempty"`
	// Region and ExecutionEnv are AWS_REGION and AWS_EXECUTION_ENV of the containers; empty
	// for none.
	Region       string `json:"awsRegion,omitempty"`
	ExecutionEnv string `json:"awsExecutionEnv,omitempty"`
	// MetadataFile: each container has a metadata file.
	MetadataFile bool `json:"metadataFile,omitempty"`
}

// LimitsOff is the value of Options.Limits with which no limit is applied, and
// neither cpu nor memory is counted.
const LimitsOff = "off"

// Quota are limits of a whole task. In Options a zero field leaves the
// definition's word; of what State.Quota returns, zero means not limited.
type Quota struct {
	// CPU is in vCPU, Memory in bytes.
	CPU    float64 `json:"cpu,omitempty"`
	Memory int64   `json:"memory,omitempty"`
	// TasksMax bounds processes and threads; no definition has it. In Options,
	// Unlimited stands for no bound.
	TasksMax uint64 `json:"tasksMax,omitempty"`
	// IOWeight is 1 to 10000, 100 being what others have; no definition has it.
	IOWeight uint64 `json:"ioWeight,omitempty"`
	// CPUPeriod is the time in which the quota of CPU is counted; 0 means 100 ms.
	CPUPeriod time.Duration `json:"cpuPeriod,omitempty"`
	// ImplicitShares: a container without cpu has the smallest share of the CPU, as on
	// ECS. It is set when the task is created, if the host can apply it; an update of the
	// limits keeps it.
	ImplicitShares bool `json:"implicitShares,omitempty"`
	// CountContainers: the task waits until the host has room for its containers, such as
	// keys of the kernel. It is set when the task is created, and kept as ImplicitShares is.
	CountContainers bool `json:"countContainers,omitempty"`
}

// Unlimited as Options.Quota.TasksMax: not even the default bound.
const Unlimited = 1<<64 - 1

// Quota returns the limits of the whole task as they are wanted now.
func (s State) Quota() Quota { return s.Options.Quota.Over(s.Task) }

// Over returns the quota with the definition's word where it has none itself.
func (q Quota) Over(t taskdef.Task) Quota {
	if q.CPU == 0 {
		q.CPU = t.CPU
	}
	if q.Memory == 0 {
		q.Memory = t.Memory
	}
	if q.TasksMax == Unlimited {
		q.TasksMax = 0
	}
	return q
}

// Need returns the resources of the host that the task uses while it is admitted, with its present limits. Where limits
// are off, its cpu and memory are not counted either.
func (s State) Need() admission.Need { return s.need(s.Options.Limits != LimitsOff) }

// Asked returns the resources that the task requests: its Need, with cpu and memory also where limits are off.
func (s State) Asked() admission.Need { return s.need(true) }

func (s State) need(limited bool) admission.Need {
	t, q := s.Task, s.Quota()
	t.CPU, t.Memory = q.CPU, q.Memory
	n := admission.NeedOf(t, limited)
	if q.CountContainers {
		n.Containers, n.NoInfra = int64(len(t.Containers)), s.Sandbox.NoInfra
	}
	return n
}

// GPUs are the qualified names of the CDI devices that container i has for itself; none before
// the task is admitted.
func (s State) GPUs(i int) []string {
	from := 0
	for _, c := range s.Task.Containers[:i] {
		from += c.Linux.GPUs
	}
	to := from + s.Task.Containers[i].Linux.GPUs
	if to > len(s.Sandbox.GPUs) {
		return nil
	}
	return s.Sandbox.GPUs[from:to]
}
