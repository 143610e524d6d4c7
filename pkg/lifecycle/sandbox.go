package lifecycle

import (
	"net/netip"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// Sandbox is the task's pod with its infra container and slice: made first,
// removed last.
type Sandbox struct {
	// NoInfra: the pod has no infra container, because its containers share nothing that
	// one would hold. The pod is ready when it exists. It is decided once, by New: an
	// older podtask gave each pod an infra container.
	NoInfra bool `json:"noInfra,omitempty"`
	// Share is the task's part of what all tasks have to share. Without it nothing is
	// pulled and no pod is made; digests are looked up meanwhile.
	Reservation Reservation `json:"share,omitempty"`
	// Queue is the last reported position in the queue, in words that follow "waits for".
	Queue string `json:"queue,omitempty"`
	// AdmittedAt is the time at which the task first got its share; zero before, and for a task that needs none.
	AdmittedAt time.Time `json:"admittedAt,omitzero"`
	// GPUs are the qualified names of the CDI devices that the task was granted, in the order
	// of its containers. They stay the same for the life of the task.
	GPUs  []string     `json:"gpus,omitempty"`
	Phase SandboxPhase `json:"phase"`
	// Dirty: something may exist in Podman or systemd, because an attempt to make it was begun.
	Dirty bool `json:"dirty,omitempty"`
	// Stale: the phase is hearsay. Ready must be prepared again before it is relied upon.
	Stale bool `json:"stale,omitempty"`
	// Made: the pod exists, so that containers can be created in it. They are created
	// while its infra container starts.
	Made  bool   `json:"made,omitempty"`
	PodID string `json:"podId,omitempty"`
	// Storage is the directory in which the Podman that has the pod keeps containers; empty for not known, as in
	// older records. Another Podman knows nothing of the task.
	Storage string `json:"storage,omitempty"`
	// InfraStartedAt is the start of the infra container, by Podman's clock; zero if it does not run, or was not
	// inspected yet.
	InfraStartedAt time.Time `json:"run,omitzero"`
	// Lost: while containers ran, the infra container was seen not to run, or to have
	// been started again. What that means for them is being looked into.
	Lost bool `json:"lost,omitempty"`
	// Unmonitored is the infra container's, as in Container.
	Unmonitored Unmonitored `json:"unmonitored,omitempty"`
	// Slice is the systemd slice of the task; empty where the host has none.
	Slice string `json:"slice,omitempty"`
	// Ports are as bound, dynamic ones included.
	Ports []taskdef.Port `json:"ports,omitempty"`
	// Addresses lists the addresses of the network that the containers share, if the task is a Kubernetes Pod.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Metadata is the address of the task metadata endpoint for containers, host:port; empty if there is none.
	Metadata string `json:"metadata,omitempty"`
	// Memory is the part of the slice's memory use that a container's end was explained by.
	Memory MemoryUse `json:"memory,omitzero"`
	Op     Op        `json:"op,omitzero"`
	Retry  Retry     `json:"retry,omitzero"`
	// Reported is the last infra status in History.
	Reported Status    `json:"reported,omitempty"`
	Failures []Failure `json:"failures,omitempty"`
}

// Queued reports whether the task has asked for its share and waits. The driver
// then watches what tasks share and delivers QueueMoved.
func (s State) Queued() bool {
	return s.Goal == Up && s.Sandbox.Reservation == ReservationRequested && s.Sandbox.Queue != ""
}

// admitted reports whether the task may take what it needs.
func admitted(s *State) bool {
	return s.Sandbox.Reservation == ReservationNone || s.Sandbox.Reservation == ReservationGranted
}

func foldSandbox(s *State, at time.Time, op Op, ev OpFinished) {
	if ev.Failure.Class != OK {
		foldSandboxFailure(s, at, op, ev.Failure.named(op.Kind))
		return
	}
	b := &s.Sandbox
	if op.Kind != Prepare { // its attempts count until the infra container runs
		b.Retry = Retry{}
	}
	b.Stale = b.Stale && (op.Kind == Admit || op.Kind == Release || op.Kind == Prepare) // those say nothing of the infra container
	switch op.Kind {
	case Prepare:
		b.Made, b.PodID, b.Storage, b.Slice, b.Metadata = true, ev.Result.PodID, ev.Result.Storage, ev.Result.Slice, ev.Result.Metadata
		b.tolerate(at, ev.Result.Tolerated)
		if b.NoInfra {
			b.Phase, b.Stale, b.Retry = SandboxReady, false, Retry{}
		}
	case Launch:
		b.Phase, b.Ports, b.Addresses = SandboxReady, ev.Result.Ports, ev.Result.Seen.Addresses
		foldInfra(s, at, Observed{Presence: Running, StartedAt: ev.Result.Seen.StartedAt})
		b.tolerate(at, ev.Result.Tolerated)
	case Inspect:
		foldInfra(s, at, ev.Result.Seen)
	case Halt:
		b.Phase = SandboxStopped
	case Remove:
		b.Phase, b.Dirty = SandboxRemoved, false
		endAbandoned(s, at)
	case Admit:
		if !op.Canceled {
			foldVerdict(s, at, ev.Result)
		}
	case Release:
		b.Reservation = ReservationNone
	default:
		panic("lifecycle: sandbox finished a " + op.Kind.String())
	}
}

func foldSandboxFailure(s *State, at time.Time, op Op, f Failure) {
	b := &s.Sandbox
	making, again := op.Kind == Prepare || op.Kind == Launch, false
	if making {
		b.Made = false // it is made sure of
	}
	switch {
	case f.Class == Canceled:
	case b.Retry.excuse(s, at, f, -1):
		again = true
	case op.Kind == Admit && f.Class == Permanent:
		b.fail(f)
		lowerGoal(s, at, Down, StopReason{Code: StopTaskFailedToStart, Reason: f.String()})
	case making && f.mayPass() && b.Retry.Attempts+1 < attemptLimit(s, op.Kind, f):
		b.Retry.postpone(at, f, b.Retry.tried(), jitter(s, -1))
		again = true
	case making:
		b.fail(f)
		code := StopTaskFailedToStart
		if everRan(s) {
			code = StopInfrastructureHealth
		}
		lowerGoal(s, at, Down, StopReason{Code: code, Reason: f.String()})
	case op.Kind == Remove && (f.Class == Permanent || b.Retry.Persist+1 >= removalAttempts):
		// Something that is not ours stands in the way, or Podman cannot. Trying
		// again is up to the user, and to the clean-up of stopped tasks.
		b.fail(f)
		b.Retry = Retry{}
		s.Goal = Down
		resumeAbandoned(s)
	case op.Kind == Release && s.Goal == Gone && b.Retry.Persist+1 >= releaseAttempts:
		// The disk is full. The next task that asks for a share takes back that of a
		// task without a record.
		b.Reservation, b.Retry = ReservationNone, Retry{}
	default:
		b.Retry.postpone(at, f, b.Retry.persisted(), jitter(s, -1))
	}
	if making && again {
		doubtCreated(s)
	}
}

// doubtCreated distrusts containers that were created in a pod that may have been discarded,
// and with it the containers.
func doubtCreated(s *State) {
	for i := range s.Containers {
		c := &s.Containers[i]
		if creating := c.Op.Kind == Create; creating || c.Presence == Created && !c.Ended {
			c.Op.Outdated = creating || c.Op.Kind == Inspect
			c.Stale = c.Stale || !creating
		}
	}
}

// tolerate notes what went wrong and stops nothing.
func (b *Sandbox) tolerate(at time.Time, f Failure) {
	if f.Class != OK {
		f.At, f.Tolerated = at, true
		b.fail(f)
	}
}

func (b *Sandbox) fail(f Failure) {
	b.Failures = append(b.Failures[:len(b.Failures):len(b.Failures)], f)
}

// queuePace is the time for which the first task in the queue waits before it asks again unprompted: the bound on
// a wake-up that was lost, and on noticing that an owner has died, or that others than tasks need less. Each
// task behind it waits that much longer, up to maxQueuePace, so that a long queue costs little.
const (
	queuePace    = 2 * time.Second
	maxQueuePace = 30 * time.Second
)

// foldVerdict takes over whether the task is in.
func foldVerdict(s *State, at time.Time, r Result) {
	b := &s.Sandbox
	if r.Admitted {
		b.Reservation, b.Queue = ReservationGranted, ""
		if b.GPUs == nil {
			b.GPUs = r.GPUs
		}
		if b.AdmittedAt.IsZero() {
			b.AdmittedAt = at
		}
		return
	}
	if s.Goal == Up && s.Options.GiveUp && r.Queue.Kept != "" {
		f := Failure{Class: Permanent, Name: ErrCannotStart, Message: r.Queue.Kept, At: at}
		b.fail(f)
		lowerGoal(s, at, Down, StopReason{Code: StopTaskFailedToStart, Reason: f.String()})
		return
	}
	if s.Goal == Up {
		b.Queue = r.Queue.For
		b.Retry.NotUntil = at.Add(min(time.Duration(1+r.Queue.Ahead)*queuePace, maxQueuePace))
	}
}

// settleSandbox skips the take-down of a sandbox that was never begun, and gives up
// a share that was never asked for.
func settleSandbox(s *State) (changed bool) {
	if s.Goal != Up && s.Sandbox.Reservation == ReservationNeeded {
		s.Sandbox.Reservation, changed = ReservationNone, true
	}
	if s.Goal == Up || s.Sandbox.Dirty || !allEnded(s) {
		return changed
	}
	want := SandboxStopped
	if s.Goal == Gone {
		want = SandboxRemoved
	}
	changed = changed || s.Sandbox.Phase != want
	s.Sandbox.Phase = want
	return changed
}

func planSandbox(s *State, at time.Time) Effect {
	b := &s.Sandbox
	if b.Op.Busy() {
		if (b.Op.Kind == Prepare || b.Op.Kind == Launch || b.Op.Kind == Admit || b.Op.Kind == Inspect) && s.Goal != Up && !b.Op.Canceled {
			b.Op.Canceled = true
			return CancelOp{ID: b.Op.ID}
		}
		return nil
	}
	next := nextSandbox(s)
	if next == Idle || at.Before(b.Retry.NotUntil) {
		return nil
	}
	id := begin(s, at, &b.Op, next)
	switch next {
	case Admit:
		b.Reservation = ReservationRequested
		return AdmitTask{ID: id, Begun: b.Dirty}
	case Prepare:
		b.Dirty = true
		return CreateSandbox{ID: id}
	case Launch:
		return RunSandbox{ID: id}
	case Inspect:
		return InspectSandbox{ID: id}
	case Halt:
		return StopSandbox{ID: id}
	case Remove:
		return RemoveSandbox{ID: id}
	default:
		return ReleaseTask{ID: id}
	}
}

// nextSandbox returns the operation that the sandbox needs next; Idle for none. It leaves
// out pauses before a retry.
func nextSandbox(s *State) Kind {
	b := &s.Sandbox
	switch {
	case s.Goal == Up && !admitted(s):
		return Admit
	case s.Goal == Up && wantsSandbox(s) && b.Made:
		return Launch
	case s.Goal == Up && wantsSandbox(s):
		return Prepare
	case s.Goal == Up && doubtsInfra(s):
		return Inspect
	case s.Goal == Up, !allLetGo(s):
		return Idle
	case s.Goal == Gone && b.Phase != SandboxRemoved:
		return Remove
	case s.Goal == Down && b.Phase < SandboxStopped:
		return Halt
	case b.Reservation != ReservationNone:
		return Release
	}
	return Idle
}

// wantsSandbox reports whether a container is to be created or started and the
// sandbox is not known to be ready for it.
func wantsSandbox(s *State) bool {
	if !allResolved(s) || s.Sandbox.Phase == SandboxReady && !s.Sandbox.Stale {
		return false
	}
	wanted := false
	for _, c := range s.Containers {
		if c.Stale {
			return false
		}
		wanted = wanted || !c.Ended && c.Presence != Running
	}
	return wanted
}
