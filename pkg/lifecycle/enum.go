package lifecycle

import "fmt"

// Goal is the state that the task is driven to. It only grows, with one exception: a removal that proves impossible
// falls back to Down.
type Goal uint8

// The goals, in the order in which they can follow each other.
const (
	Up   Goal = iota // run
	Down             // stop, keep containers and logs
	Gone             // stop and remove everything
	numGoal
)

var goalNames = [numGoal]string{"UP", "DOWN", "GONE"}

func (g Goal) String() string { return name(goalNames[:], int(g)) }

// Presence is the state of a container in Podman, as last inspected.
type Presence uint8

// The presences a container can have.
const (
	Absent Presence = iota
	Created
	Running
	Exited
	numPresence
)

var presenceNames = [numPresence]string{"absent", "created", "running", "exited"}

func (p Presence) String() string { return name(presenceNames[:], int(p)) }

// SandboxPhase is the state of the task's pod and slice.
type SandboxPhase uint8

// The phases of a sandbox.
const (
	SandboxAbsent  SandboxPhase = iota
	SandboxReady                // pod exists, infra container runs, ports are bound
	SandboxStopped              // nothing runs, ports are free; containers may still exist
	SandboxRemoved              // nothing of the task is left in Podman or systemd
	numSandboxPhase
)

var sandboxPhaseNames = [numSandboxPhase]string{"absent", "ready", "stopped", "removed"}

func (p SandboxPhase) String() string { return name(sandboxPhaseNames[:], int(p)) }

// Reservation is the state of the task's request for a share of the host's budget.
type Reservation uint8

// The reservations, in the order in which a task passes through them. After its end a
// task has none again.
const (
	ReservationNone      Reservation = iota // nothing is needed, or all has been given back
	ReservationNeeded                       // not requested yet
	ReservationRequested                    // asked for: waiting, or let in without knowing
	ReservationGranted                      // let in
	numReservation
)

var reservationNames = [numReservation]string{"none", "wanted", "asked", "held"}

func (h Reservation) String() string { return name(reservationNames[:], int(h)) }

// Health is the result of a container's health check.
type Health uint8

// The health values of the ECS model.
const (
	HealthUnknown Health = iota
	HealthHealthy
	HealthUnhealthy
	numHealth
)

var healthNames = [numHealth]string{"UNKNOWN", "HEALTHY", "UNHEALTHY"}

func (h Health) String() string { return name(healthNames[:], int(h)) }

// Status is a state of the ECS agent's container and task machines
// (containerstatus.go, taskstatus.go). It is computed, never decided upon.
type Status uint8

// The statuses in their order. Tasks skip Pulled and ResourcesProvisioned.
const (
	StatusNone Status = iota
	StatusManifestPulled
	StatusPulled
	StatusCreated
	StatusRunning
	StatusResourcesProvisioned
	StatusStopped
	numStatus
)

var statusNames = [numStatus]string{
	"NONE", "MANIFEST_PULLED", "PULLED", "CREATED", "RUNNING", "RESOURCES_PROVISIONED", "STOPPED",
}

func (s Status) String() string { return name(statusNames[:], int(s)) }

// Class decides the next move after a failure. It is set where the error is created.
type Class uint8

// The failure classes.
const (
	OK          Class = iota
	Temporary         // may go away by itself: tried again with back-off
	Permanent         // will not go away by itself
	Canceled          // we canceled it ourselves
	Timeout           // no answer within the operation's limit
	NoImage           // the image is not in local storage (any more)
	QuotaUsedUp       // a quota of the host is used up: tried again for longer than Temporary
	Outage            // Podman is away, or ended during the call: no attempt, see OutageLimit
	numClass
)

var classNames = [numClass]string{"ok", "temporary", "permanent", "canceled", "timeout", "no-image", "quota", "outage"}

func (c Class) String() string { return name(classNames[:], int(c)) }

// Kind is the kind of an operation in flight.
type Kind uint8

// The kinds of operations; Idle is none.
const (
	Idle Kind = iota
	Resolve
	Pull
	Create
	Start
	Stop
	Inspect
	Probe
	Prepare // make the pod
	Launch  // start its infra container
	Halt
	Remove
	Admit
	Release
	PostStart // the hook after the start of a container
	PreStop   // the hook before its stop
	Flush     // passing the last lines to a log router, before its stop
	numKind
)

var kindNames = [numKind]string{
	"idle", "resolve", "pull", "create", "start", "stop", "inspect", "probe", "prepare", "launch", "halt", "remove",
	"admit", "release", "post-start", "pre-stop", "flush",
}

func (k Kind) String() string { return name(kindNames[:], int(k)) }

// PullBehavior selects the starts at which an image is pulled (ECS_IMAGE_PULL_BEHAVIOR, plus never).
type PullBehavior uint8

// The pull behaviors.
const (
	PullDefault      PullBehavior = iota // always; a local copy will do when that fails
	PullAlways                           // always; failure stops the task
	PullOnce                             // unless podtask pulled this name before
	PullPreferCached                     // only when there is no local copy
	PullNever                            // local copies only
	numPullBehavior
)

var pullBehaviorNames = [numPullBehavior]string{"default", "always", "once", "prefer-cached", "never"}

// Or is the behavior of an image whose own behavior is the word own: b, unless that is
// the default.
func (b PullBehavior) Or(own string) PullBehavior {
	if b == PullDefault && own != "" {
		_ = b.UnmarshalText([]byte(own)) // another word leaves the default
	}
	return b
}

func (b PullBehavior) String() string { return name(pullBehaviorNames[:], int(b)) }

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("invalid(%d)", i)
}

// text is the shared JSON form of the enums: their name, so that records and
// the wire can be read and outlive a renumbering.
func text[T ~uint8](names []string, v T) ([]byte, error) {
	if int(v) >= len(names) {
		return nil, fmt.Errorf("lifecycle: no name for value %d", v)
	}
	return []byte(names[v]), nil
}

func untext[T ~uint8](names []string, b []byte, v *T) error {
	for i, n := range names {
		if n == string(b) {
			*v = T(i)
			return nil
		}
	}
	return fmt.Errorf("lifecycle: %q is none of %q", b, names)
}

// MarshalText and UnmarshalText give each enum its name in JSON.

func (g Goal) MarshalText() ([]byte, error)            { return text(goalNames[:], g) }
func (p Presence) MarshalText() ([]byte, error)        { return text(presenceNames[:], p) }
func (p SandboxPhase) MarshalText() ([]byte, error)    { return text(sandboxPhaseNames[:], p) }
func (h Reservation) MarshalText() ([]byte, error)     { return text(reservationNames[:], h) }
func (h Health) MarshalText() ([]byte, error)          { return text(healthNames[:], h) }
func (s Status) MarshalText() ([]byte, error)          { return text(statusNames[:], s) }
func (c Class) MarshalText() ([]byte, error)           { return text(classNames[:], c) }
func (k Kind) MarshalText() ([]byte, error)            { return text(kindNames[:], k) }
func (b PullBehavior) MarshalText() ([]byte, error)    { return text(pullBehaviorNames[:], b) }
func (g *Goal) UnmarshalText(b []byte) error           { return untext(goalNames[:], b, g) }
func (p *Presence) UnmarshalText(b []byte) error       { return untext(presenceNames[:], b, p) }
func (p *SandboxPhase) UnmarshalText(b []byte) error   { return untext(sandboxPhaseNames[:], b, p) }
func (h *Reservation) UnmarshalText(b []byte) error    { return untext(reservationNames[:], b, h) }
func (h *Health) UnmarshalText(b []byte) error         { return untext(healthNames[:], b, h) }
func (s *Status) UnmarshalText(b []byte) error         { return untext(statusNames[:], b, s) }
func (c *Class) UnmarshalText(b []byte) error          { return untext(classNames[:], b, c) }
func (k *Kind) UnmarshalText(b []byte) error           { return untext(kindNames[:], b, k) }
func (b *PullBehavior) UnmarshalText(src []byte) error { return untext(pullBehaviorNames[:], src, b) }
