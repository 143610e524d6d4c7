package lifecycle

import (
	"net/netip"
	"time"

	"github.com/podtask/podtask/pkg/fault"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Event is a fact that came in. The set is closed; values are comparable but for
// the lists in OpFinished.Result.
type Event interface{ event() }

// Restarted is the first event of every owner: the state was loaded, new or old, and operations that were in flight are
// unknown.
type Restarted struct{}

// StopRequested asks the task to stop. With Force it is killed at once.
type StopRequested struct {
	By    string // who asked, for the reason
	Force bool
	// Spare leaves the task alone while it is protected.
	Spare bool
	// Reason is the stopped reason; empty: "stopped by" By.
	Reason string
}

// ProtectionRequested protects the task until a moment, at most MaxProtection from now; zero
// ends the protection.
type ProtectionRequested struct{ Until time.Time }

// FaultsChanged replaces the faults of the task.
type FaultsChanged struct {
	Faults []fault.Fault
	// Reason is the reason for which faults ended that are no longer there.
	Reason string
}

// MaxProtection is the longest protection of a task (ECS: UpdateTaskProtection).
const MaxProtection = 48 * time.Hour

// RemoveRequested asks for the task to be stopped and all that is left of it to
// be removed. With Force it is killed at once.
type RemoveRequested struct {
	By    string
	Force bool
}

// LimitsRequested changes limits of the whole task, and with them its share of the host.
// The driver applies them to the slice, as does everyone who prepares the sandbox again.
type LimitsRequested struct{ Quota Quota }

// ResourcesRequested changes what the containers of the task and the task itself may use and
// request. The driver applies it to the cgroups of the containers that run; those that start
// later start with it. Resources that do not fit the containers of the task, or that no task
// can have, are ignored.
type ResourcesRequested struct{ Resources Resources }

// RestartRequested stops a container that runs and starts it again, whatever its restart policy. It is ignored for a
// container that does not run.
type RestartRequested struct{ Container int }

// Hinted reports a possible change of a container, or for InfraIndex of the pod's infra container. It proves nothing and
// causes an inspection.
type Hinted struct {
	Index int
	// Early: the waits for its end keep returning early, without a change of its state.
	// The inspection then also decides whether Podman can still notice its end.
	Early bool
}

// QueueMoved reports a possible change of the resources that tasks share. It proves nothing and makes a task that waits
// for its share ask again.
type QueueMoved struct{}

// TimerFired reports that the time Wake has passed.
type TimerFired struct{}

// OpFinished is the answer to an effect.
type OpFinished struct {
	ID      OpID
	Failure Failure // zero: it worked
	Result  Result
}

// Result is the result of an operation; which fields count depends on its kind.
type Result struct {
	Digest  string         // Resolve; Pull, of the local copy when Source is SourceCache
	ImageID string         // Pull
	Source  string         // Pull: SourceRegistry or SourceCache
	PodID   string         // Prepare
	Storage string         // Prepare; empty where it is not known
	Slice   string         // Prepare; empty where there is none
	Ports   []taskdef.Port // Launch
	// HealthCheck is the image's own, where the definition asks for that: Pull.
	HealthCheck *taskdef.HealthCheck
	// Metadata is the address (host:port) of the metadata endpoint; Prepare.
	Metadata string
	// Tolerated is something that went wrong and stops nothing; Prepare, Launch, Start.
	Tolerated Failure
	Seen      Observed    // Create, Start, Stop, Inspect; Launch and Inspect of the sandbox: the infra container
	Probe     ProbeResult // Probe, PostStart, PreStop
	// Admitted and Queue are of Admit: whether the task is in, and if not, what it waits for.
	Admitted bool
	Queue    Queue
	// GPUs are the devices that an admitted task has: Admit.
	GPUs []string
}

// Queue is the position of a task in the queue.
type Queue struct {
	// For follows "waits for".
	For string
	// Kept is the host port that another task has and does not give up by itself, in words; empty for none.
	Kept string
	// Ahead counts the waiting tasks that asked before it.
	Ahead int
}

// Observed is the result of an inspection.
type Observed struct {
	Presence   Presence
	ID         string
	StartedAt  time.Time
	FinishedAt time.Time
	ExitCode   int
	OOMKilled  bool
	Paused     bool
	// Unmonitored: Podman reports that it runs, but its conmon process or its main process
	// no longer exists, so Podman will not notice its end. ProcessGone: the latter.
	Unmonitored, ProcessGone bool
	// Ports lists the ports that the container publishes itself, as bound; Addresses its own addresses, while it has a
	// network of its own.
	Ports     []taskdef.Port
	Addresses []netip.Addr
	// Memory is the slice's at that moment; zero where there is none, and for a
	// container that has not exited.
	Memory MemoryUse
}

// MemoryUse is the kernel's account of the memory of a task's slice (cgroup v2), since the slice was made.
type MemoryUse struct {
	// Kills counts processes killed for memory, whatever limit was reached
	// (memory.events, oom_kill).
	Kills uint64 `json:"kills,omitempty"`
	// Full counts how often it was the limit of the whole task
	// (memory.events.local, oom).
	Full uint64 `json:"full,omitempty"`
	// Peak is the most that was used at once and Limit what may be, in bytes; 0
	// where the kernel does not say (memory.peak: Linux 5.19), or there is no limit.
	Peak  int64 `json:"peak,omitempty"`
	Limit int64 `json:"limit,omitempty"`
}

// ProbeResult is the outcome of a check or a hook.
type ProbeResult struct {
	Healthy  bool
	ExitCode int
	Output   string
}

// Failure describes a failed operation. The zero value is success.
type Failure struct {
	Class Class `json:"class"`
	// Name is an ECS error name such as CannotPullContainerError. An effect may leave it
	// empty; Step then names the failure after the operation.
	Name    string    `json:"name,omitempty"`
	Message string    `json:"message,omitempty"`
	At      time.Time `json:"at,omitzero"`
	// Tolerated: it was recorded but stopped nothing.
	Tolerated bool `json:"tolerated,omitempty"`
	// ExitCode is 126 or 127 when a command could not be invoked or found.
	ExitCode int `json:"exitCode,omitempty"`
	// Dependency names the container that kept this one from its first start: the first in a
	// chain of dependencies that could not be satisfied.
	Dependency string `json:"dependency,omitempty"`
}

func (f Failure) String() string {
	if f.Name == "" {
		return f.Message
	}
	return f.Name + ": " + f.Message
}

func (Restarted) event()           {}
func (StopRequested) event()       {}
func (ProtectionRequested) event() {}
func (FaultsChanged) event()       {}
func (RemoveRequested) event()     {}
func (LimitsRequested) event()     {}
func (ResourcesRequested) event()  {}
func (RestartRequested) event()    {}
func (Hinted) event()              {}
func (QueueMoved) event()          {}
func (TimerFired) event()          {}
func (OpFinished) event()          {}
