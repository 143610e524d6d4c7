package lifecycle

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/admission"
	"github.com/podtask/podtask/pkg/taskdef"
)

// State is all podtask knows of one task. What Podman can tell again (presence,
// health, the sandbox's phase) is a cache that Restarted distrusts; what it
// cannot tell (the goal and who set it, digests, attempts, exit codes) is here
// to stay.
type State struct {
	// ID is 32 lower-case hex digits.
	ID string `json:"id"`
	// Name is the user's name for the task; empty for none.
	Name      string       `json:"name,omitempty"`
	Task      taskdef.Task `json:"task"`
	Options   Options      `json:"options"`
	CreatedAt time.Time    `json:"createdAt"`

	Goal Goal `json:"goal"`
	// Force means: kill instead of asking, do not keep the stop order.
	Force bool `json:"force,omitempty"`
	// Stop says why the goal is no longer Up. Set once.
	Stop StopReason `json:"stop,omitzero"`

	Sandbox    Sandbox     `json:"sandbox"`
	Containers []Container `json:"containers"` // parallel to Task.Containers

	// NextOp is the ID of the next effect.
	NextOp OpID `json:"nextOp"`
	// Reported is the last task status in History.
	Reported Status       `json:"reported"`
	History  []Transition `json:"history,omitempty"`
}

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
	// Unit is the systemd service whose main process owns the task; empty for none.
	Unit string `json:"unit,omitempty"`
	// AutoUpdate is registry for a service that is to follow its tags; empty for none.
	AutoUpdate string `json:"autoUpdate,omitempty"`
	// Service is the service that the task is a copy for, Deployment which of its
	// deployments made it; empty for none.
	Service    string `json:"service,omitempty"`
	Deployment string `json:"deployment,omitempty"`
	// MetadataKey makes the paths of the task metadata endpoint; empty for none.
	MetadataKey string `json:"metadataKey,omitempty"`
	// Credentials: the endpoint serves credentials for AWS.
	Credentials bool `json:"credentials,omitempty"`
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
	// Unlimited says that there is to be no bound.
	TasksMax uint64 `json:"tasksMax,omitempty"`
	// IOWeight is 1 to 10000, 100 being what others have; no definition has it.
	IOWeight uint64 `json:"ioWeight,omitempty"`
	// CPUPeriod is the time in which the quota of CPU is counted; 0 means 100 ms.
	CPUPeriod time.Duration `json:"cpuPeriod,omitempty"`
}

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

// Unlimited as Options.Quota.TasksMax: not even the default bound.
const Unlimited = 1<<64 - 1

// StopReason says why and when a task's goal left Up.
type StopReason struct {
	// Code is one of the Stop* codes.
	Code   string    `json:"code,omitempty"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at,omitzero"`
	// Container names the container that decided, if one did.
	Container string `json:"container,omitempty"`
}

// Stop codes of the ECS model (TaskStopCode).
const (
	// StopTaskFailedToStart: an essential container, or one whose image is strictly
	// wanted, never ran.
	StopTaskFailedToStart = "TaskFailedToStart"
	// StopEssentialContainerExited: one ran and ended.
	StopEssentialContainerExited = "EssentialContainerExited"
	StopUserInitiated            = "UserInitiated"
	// StopServiceScheduler: the task asked to be stopped when a container or a
	// dependency is no longer well. On ECS the service's scheduler does that.
	StopServiceScheduler = "ServiceSchedulerInitiated"
	// StopInfrastructureHealth: containers ran, and the pod they need could not be made
	// again, or lost the network they share.
	StopInfrastructureHealth = "InfrastructureHealth"
)

// OpID numbers the operations of a task. 0 is none.
type OpID uint64

// Op is an operation in flight.
type Op struct {
	ID    OpID      `json:"id,omitempty"`
	Kind  Kind      `json:"kind,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Canceled: CancelOp was sent for it.
	Canceled bool `json:"canceled,omitempty"`
	// Gentle: a Stop that leaves the container time to end by itself.
	Gentle bool `json:"gentle,omitempty"`
	// Overdue is when a Probe next counts as failed for taking too long.
	Overdue time.Time `json:"overdue,omitzero"`
	// Overran: it has counted as failed already; its answer does not matter.
	Overran bool `json:"overran,omitempty"`
	// Outdated: something may have happened since an Inspect began that it did not see.
	Outdated bool `json:"outdated,omitempty"`
}

// Busy reports whether there is an operation in flight.
func (o Op) Busy() bool { return o.ID != 0 }

// Retry is the bookkeeping of failed attempts.
type Retry struct {
	// Attempts counts failures of the present move; past a limit the move is given up.
	Attempts int `json:"attempts,omitempty"`
	// Persist counts failures of moves that are never given up: stop, inspect,
	// halt, remove. It only sets the pace.
	Persist  int       `json:"persist,omitempty"`
	NotUntil time.Time `json:"notUntil,omitzero"`
	// Since is when the first of the failed attempts of the present move began, where the
	// move has a limit over all of them (resolve, pull).
	Since time.Time `json:"since,omitzero"`
	// Last is what the latest attempt died of, for people who ask why it takes so long.
	Last string `json:"last,omitempty"`
}

// Sandbox is the task's pod with its infra container and slice: made first,
// removed last.
type Sandbox struct {
	// Share is the task's part of what all tasks have to share. Without it nothing is
	// pulled and no pod is made; digests are looked up meanwhile.
	Share Share `json:"share,omitempty"`
	// Queue is what the task waits for in the queue, as last heard, in words that
	// follow "waits for".
	Queue string       `json:"queue,omitempty"`
	Phase SandboxPhase `json:"phase"`
	// Dirty: something may exist in Podman or systemd, because an attempt to make it was begun.
	Dirty bool `json:"dirty,omitempty"`
	// Stale: the phase is hearsay. Ready must be prepared again before it is relied upon.
	Stale bool   `json:"stale,omitempty"`
	PodID string `json:"podId,omitempty"`
	// Run is when the infra container started, by Podman's clock; zero if it does not
	// run, or nobody has looked.
	Run time.Time `json:"run,omitzero"`
	// Lost: while containers ran, the infra container was seen not to run, or to have
	// been started again. What that means for them is being looked into.
	Lost bool `json:"lost,omitempty"`
	// Slice is the systemd slice of the task; empty where the host has none.
	Slice string `json:"slice,omitempty"`
	// Ports are as bound, dynamic ones included.
	Ports []taskdef.Port `json:"ports,omitempty"`
	// Metadata is where containers find the task metadata endpoint, host:port;
	// empty for nowhere.
	Metadata string `json:"metadata,omitempty"`
	// Memory is what of the slice's memory was accounted for by a container's end.
	Memory MemoryUse `json:"memory,omitzero"`
	Op     Op        `json:"op,omitzero"`
	Retry  Retry     `json:"retry,omitzero"`
	// Reported is the last infra status in History.
	Reported Status    `json:"reported,omitempty"`
	Failures []Failure `json:"failures,omitempty"`
}

// Container is one container of a task.
type Container struct {
	// Resolved: the question of the digest is settled, if only by "there is none".
	Resolved bool `json:"resolved,omitempty"`
	// Pinned: the user's reference already held the digest.
	Pinned bool   `json:"pinned,omitempty"`
	Digest string `json:"digest,omitempty"`
	Pulled bool   `json:"pulled,omitempty"`
	// ImageID is the image in local storage; Source says where its content was
	// compared: SourceRegistry or SourceCache.
	ImageID string `json:"imageId,omitempty"`
	Source  string `json:"imageSource,omitempty"`

	Presence Presence `json:"presence"`
	// Stale: Presence is hearsay until inspected.
	Stale bool `json:"stale,omitempty"`
	// Paused: it runs, but somebody has frozen it. Part of what was observed.
	Paused bool `json:"paused,omitempty"`
	// ID is Podman's.
	ID string `json:"id,omitempty"`
	// Ports are those that the container publishes itself, as bound, and Addresses its
	// own while it runs: in a bridged task. Part of what was observed.
	Ports     []taskdef.Port `json:"ports,omitempty"`
	Addresses []netip.Addr   `json:"addresses,omitempty"`
	// TurnAt is when nothing but its own image kept the container from starting any
	// more. Only a container with a startTimeout that has not started has one.
	TurnAt time.Time `json:"turnAt,omitzero"`
	// FirstStartedAt is of the first run; StartedAt and FinishedAt are of the latest.
	FirstStartedAt time.Time `json:"firstStartedAt,omitzero"`
	StartedAt      time.Time `json:"startedAt,omitzero"`
	FinishedAt     time.Time `json:"finishedAt,omitzero"`

	// Restarts counts how often the container was started again.
	Restarts int `json:"restarts,omitempty"`
	// RestartAt is when it is to be started again; zero unless it has exited and its
	// restart policy wants it back.
	RestartAt time.Time `json:"restartAt,omitzero"`
	// QuickExits counts runs in a row that were shorter than the policy's attempt period.
	QuickExits int `json:"quickExits,omitempty"`
	// Runs are the runs before the latest that ended by themselves, oldest first, at
	// most keptRuns.
	Runs []Run `json:"runs,omitempty"`
	// NotRestarted is why the policy did not want it back.
	NotRestarted string `json:"notRestarted,omitempty"`
	// RestartsTold counts lines about restarts in History.
	RestartsTold int `json:"restartsTold,omitempty"`

	// Ended: stopped for good, whether or not it ever ran. Absorbing.
	Ended   bool      `json:"ended,omitempty"`
	EndedAt time.Time `json:"endedAt,omitzero"`
	// Abandoned: in the course of a removal podtask has stopped asking Podman to stop
	// or inspect it, and leaves it to the removal of the pod.
	Abandoned bool `json:"abandoned,omitempty"`
	// ExitCode is of the latest run and meaningful when HasExit.
	HasExit  bool `json:"hasExit,omitempty"`
	ExitCode int  `json:"exitCode,omitempty"`

	Health Checkup `json:"health,omitzero"`
	Op     Op      `json:"op,omitzero"`
	Retry  Retry   `json:"retry,omitzero"`
	// Doubt is the failure of a create or start whose outcome the next
	// inspection decides.
	Doubt Doubt `json:"doubt,omitzero"`
	// Failures holds everything that went wrong, oldest first; a tolerated one
	// never hides a later one.
	Failures []Failure `json:"failures,omitempty"`
	// Reported is the last status in History.
	Reported Status `json:"reported"`
}

// Run is one run of a container that was started again after it.
type Run struct {
	StartedAt  time.Time `json:"startedAt"`
	FinishedAt time.Time `json:"finishedAt"`
	ExitCode   int       `json:"exitCode"`
	OOMKilled  bool      `json:"oomKilled,omitempty"`
}

// keptRuns bounds Container.Runs; History has every run, as long as it reaches back.
const keptRuns = 10

// The sources of an image.
const (
	SourceRegistry = "registry" // the registry's present digest, pulled or there already
	SourceCache    = "cache"    // a local copy that was not compared with the registry
)

// Doubt is a failed call whose effect is not known yet.
type Doubt struct {
	Kind    Kind    `json:"kind,omitempty"`
	Failure Failure `json:"failure,omitzero"`
}

// Checkup is the running account of a container's health check.
type Checkup struct {
	Status Health `json:"status"`
	// Since is when the container was seen to have started; grace periods count from it.
	Since time.Time `json:"since,omitzero"`
	// Streak counts failures in a row.
	Streak int       `json:"streak,omitempty"`
	Next   time.Time `json:"next,omitzero"`
	// ExitCode and Output (at most 1024 bytes) are the latest probe's.
	ExitCode int    `json:"exitCode,omitempty"`
	Output   string `json:"output,omitempty"`
	Reported Health `json:"reported,omitempty"`
}

// Transition is one line of a task's history. Seq is dense from 1.
type Transition struct {
	Seq uint64    `json:"seq"`
	At  time.Time `json:"at"`
	// Container is empty for the task itself and Infra for the pod's infra container.
	Container string `json:"container,omitempty"`
	Status    string `json:"status"`
	Digest    string `json:"digest,omitempty"`
	ExitCode  *int   `json:"exitCode,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// Infra is the name of the pod's infra container in History. It cannot collide
// with a container of a definition.
const Infra = "~infra"

// New returns the state of a task nothing has happened to yet. id is 32 hex
// digits. A reference with a digest needs no resolution (ECS: decision 2 of
// pullContainerManifest).
func New(id, name string, t taskdef.Task, o Options, at time.Time) State {
	s := State{ID: id, Name: name, Task: t, Options: o, CreatedAt: at, NextOp: 1, Containers: make([]Container, len(t.Containers))}
	if !s.Need().IsZero() {
		s.Sandbox.Share = ShareWanted
	}
	for i, c := range t.Containers {
		if _, digest, ok := strings.Cut(c.Image, "@"); ok {
			s.Containers[i].Resolved, s.Containers[i].Pinned, s.Containers[i].Digest = true, true, digest
		}
	}
	return s
}

// Need is what the task takes of the host while it is in, as its limits are wanted now.
// Where they are off, its cpu and memory are not counted either.
func (s State) Need() admission.Need {
	t, q := s.Task, s.Quota()
	t.CPU, t.Memory = q.CPU, q.Memory
	return admission.NeedOf(t, s.Options.Limits != LimitsOff)
}

// Queued reports whether the task has asked for its share and waits. The driver
// then watches what tasks share and delivers QueueMoved.
func (s State) Queued() bool {
	return s.Goal == Up && s.Sandbox.Share == ShareAsked && s.Sandbox.Queue != ""
}

// admitted reports whether the task may take what it needs.
func (s *State) admitted() bool {
	return s.Sandbox.Share == ShareNone || s.Sandbox.Share == ShareHeld
}

// Durable is the part of the state that must survive its owner: all but what was
// in flight, the pace of retries and timers, and doubts. Restarted starts from
// just this, so a driver saves it and may skip a save when it has not changed.
func (s State) Durable() State {
	s = s.clone()
	s.NextOp = 1
	s.Sandbox.Op, s.Sandbox.Retry, s.Sandbox.Stale, s.Sandbox.Queue = Op{}, Retry{}, false, ""
	for i := range s.Containers {
		c := &s.Containers[i]
		c.Op, c.Retry, c.Doubt, c.Stale = Op{}, Retry{}, Doubt{}, false
		c.Abandoned = false // what was seen paused stays, for those who read records
		c.TurnAt, c.Health.Next = time.Time{}, time.Time{}
	}
	return s
}

// Ports are all that the task publishes, as bound: those of its pod, then those of its
// containers.
func (s State) Ports() []taskdef.Port {
	ports := slices.Clone(s.Sandbox.Ports)
	for _, c := range s.Containers {
		ports = append(ports, c.Ports...)
	}
	return ports
}

// clone copies what a step may change.
func (s State) clone() State {
	s.Containers = append([]Container(nil), s.Containers...)
	return s
}

// allEnded reports whether every container has ended.
func (s State) allEnded() bool {
	for i := range s.Containers {
		if !s.Containers[i].Ended {
			return false
		}
	}
	return true
}

// allLetGo reports whether every container has ended or been abandoned.
func (s State) allLetGo() bool {
	for i := range s.Containers {
		if !s.Containers[i].Ended && !s.Containers[i].Abandoned {
			return false
		}
	}
	return true
}

// everRan reports whether a container of the task ever ran.
func (s State) everRan() bool {
	for i := range s.Containers {
		if !s.Containers[i].StartedAt.IsZero() {
			return true
		}
	}
	return false
}

// allResolved reports whether every digest question is settled.
func (s State) allResolved() bool {
	for i := range s.Containers {
		if !s.Containers[i].Resolved {
			return false
		}
	}
	return true
}

// MayRun returns the containers that run as far as anybody knows, those that are being
// looked at among them.
func (s State) MayRun() []int {
	var r []int
	for i, c := range s.Containers {
		if c.Presence == Running && !c.Ended {
			r = append(r, i)
		}
	}
	return r
}

// Running returns the containers that are known to run.
func (s State) Running() []int {
	return slices.DeleteFunc(s.MayRun(), func(i int) bool { return s.Containers[i].Stale })
}

// Watches returns the containers whose end the driver should wait for and then report
// with Hinted, InfraIndex among them if WatchesInfra. It changes only when a state
// changes, so a driver that compares it after each step never misses one.
func (s State) Watches() []int {
	w := s.Running()
	if s.WatchesInfra() {
		w = append(w, InfraIndex)
	}
	return w
}

// StoppedAt is when the task was reported STOPPED; zero before.
func (s State) StoppedAt() time.Time {
	for k := len(s.History) - 1; k >= 0; k-- {
		if t := s.History[k]; t.Container == "" && t.Status == StatusStopped.String() {
			return t.At
		}
	}
	return time.Time{}
}

// Settled reports whether the task has reached its goal for good: stopped with
// nothing running when the goal is Down, removed when it is Gone, and its share
// given back.
func (s State) Settled() bool {
	switch s.Goal {
	case Down:
		return s.allEnded() && s.Sandbox.Phase == SandboxStopped && s.Sandbox.Share == ShareNone
	case Gone:
		return s.Sandbox.Phase == SandboxRemoved && s.Sandbox.Share == ShareNone
	default:
		return false
	}
}

// ExitCode is the exit code of the task: that of the essential container that ran
// and ended first. A task in which none ever ran gives 126 or 127 when a command
// could not be invoked or found, else 125.
func (s State) ExitCode() int {
	code, best, fallback := 0, time.Time{}, 125
	for i, c := range s.Containers {
		if !s.Task.Containers[i].Essential {
			continue
		}
		for _, f := range c.Failures {
			if f.ExitCode != 0 {
				fallback = f.ExitCode
			}
		}
		end := c.FinishedAt
		if end.IsZero() {
			end = c.EndedAt
		}
		decided := s.Task.Containers[i].Name == s.Stop.Container
		ran := c.HasExit && !c.StartedAt.IsZero()
		if ran && (best.IsZero() || end.Before(best) || end.Equal(best) && decided) {
			code, best = c.ExitCode, end
		}
	}
	if best.IsZero() {
		return fallback
	}
	return code
}
