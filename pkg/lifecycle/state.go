package lifecycle

import (
	"strings"
	"time"

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
	// Limits is enforce, best-effort or off.
	Limits string `json:"limits,omitempty"`
	// Unapplied names the cgroup controllers (cpu, memory, pids) whose limits this
	// host cannot apply and that the user chose to do without.
	Unapplied []string `json:"unapplied,omitempty"`
	// Remove: the owner removes the task as soon as it has stopped (run -d --rm).
	Remove bool `json:"remove,omitempty"`
}

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
	StopTaskFailedToStart        = "TaskFailedToStart"
	StopEssentialContainerExited = "EssentialContainerExited"
	StopUserInitiated            = "UserInitiated"
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
	// Last is what the latest attempt died of, for people who ask why it takes so long.
	Last string `json:"last,omitempty"`
}

// Sandbox is the task's pod with its infra container and slice: made first,
// removed last.
type Sandbox struct {
	Phase SandboxPhase `json:"phase"`
	// Dirty: something may exist in Podman or systemd, because an attempt to make it was begun.
	Dirty bool `json:"dirty,omitempty"`
	// Stale: the phase is hearsay. Ready must be prepared again before it is relied upon.
	Stale bool   `json:"stale,omitempty"`
	PodID string `json:"podId,omitempty"`
	// Slice is the systemd slice of the task; empty where the host has none.
	Slice string `json:"slice,omitempty"`
	// Ports are as bound, dynamic ones included.
	Ports []taskdef.Port `json:"ports,omitempty"`
	Op    Op             `json:"op,omitzero"`
	Retry Retry          `json:"retry,omitzero"`
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
	// ID is Podman's.
	ID         string    `json:"id,omitempty"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`

	// Ended: stopped for good, whether or not it ever ran. Absorbing.
	Ended   bool      `json:"ended,omitempty"`
	EndedAt time.Time `json:"endedAt,omitzero"`
	// ExitCode is meaningful when HasExit.
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
	for i, c := range t.Containers {
		if _, digest, ok := strings.Cut(c.Image, "@"); ok {
			s.Containers[i].Resolved, s.Containers[i].Pinned, s.Containers[i].Digest = true, true, digest
		}
	}
	return s
}

// Durable is the part of the state that must survive its owner: all but what was
// in flight, the pace of retries and timers, and doubts. Restarted starts from
// just this, so a driver saves it and may skip a save when it has not changed.
func (s State) Durable() State {
	s = s.clone()
	s.NextOp = 1
	s.Sandbox.Op, s.Sandbox.Retry, s.Sandbox.Stale = Op{}, Retry{}, false
	for i := range s.Containers {
		c := &s.Containers[i]
		c.Op, c.Retry, c.Doubt, c.Stale = Op{}, Retry{}, Doubt{}, false
		c.Health.Next = time.Time{}
	}
	return s
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

// allResolved reports whether every digest question is settled.
func (s State) allResolved() bool {
	for i := range s.Containers {
		if !s.Containers[i].Resolved {
			return false
		}
	}
	return true
}

// Watches returns the containers whose end the driver should wait for and then
// report with Hinted. It changes only when a state changes, so a driver that
// compares it after each step never misses one.
func (s State) Watches() []int {
	var w []int
	for i, c := range s.Containers {
		if c.Presence == Running && !c.Ended && !c.Stale {
			w = append(w, i)
		}
	}
	return w
}

// Settled reports whether the task has reached its goal for good: stopped with
// nothing running when the goal is Down, removed when it is Gone.
func (s State) Settled() bool {
	switch s.Goal {
	case Down:
		return s.allEnded() && s.Sandbox.Phase == SandboxStopped
	case Gone:
		return s.Sandbox.Phase == SandboxRemoved
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
