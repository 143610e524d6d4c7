package lifecycle

import (
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/fault"
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
	// Stop is the reason for which the goal is no longer Up. Set once.
	Stop StopReason `json:"stop,omitzero"`
	// ProtectedUntil is the end of the protection from requests that spare protected tasks (StopRequested.Spare); zero
	// for none.
	ProtectedUntil time.Time `json:"protectedUntil,omitzero"`
	// Faults lists the faults that the network of the task has, and those that it is about to have, whose Since is zero.
	// The owner keeps the network so. A fault does not outlive its owner.
	Faults []fault.Fault `json:"faults,omitempty"`

	Sandbox    Sandbox     `json:"sandbox"`
	Containers []Container `json:"containers"` // parallel to Task.Containers

	// OutageSince is the beginning of an outage of Podman; zero once it has answered. It is not saved.
	OutageSince time.Time `json:"outageSince,omitzero"`

	// Resizes counts how often the resources of the containers were changed. The containers that
	// were created before have others in Podman, so the owner sets theirs after each start.
	Resizes int `json:"resizes,omitempty"`

	// NextOp is the ID of the next effect.
	NextOp OpID `json:"nextOp"`
	// Reported is the last task status in History.
	Reported Status       `json:"reported"`
	History  []Transition `json:"history,omitempty"`
}

// New returns the state of a task nothing has happened to yet. id is 32 hex
// digits. A reference with a digest needs no resolution (ECS: decision 2 of
// pullContainerManifest).
func New(id, name string, t taskdef.Task, o Options, at time.Time) State {
	if o.Pull == PullDefault && t.Extensions.Pull != "" {
		_ = o.Pull.UnmarshalText([]byte(t.Extensions.Pull)) // another word leaves the default
	}
	s := State{ID: id, Name: name, Task: t, Options: o, CreatedAt: at, NextOp: 1, Containers: make([]Container, len(t.Containers))}
	s.Sandbox.NoInfra = !needsInfra(t, o)
	if !s.Need().IsZero() {
		s.Sandbox.Reservation = ReservationNeeded
	}
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
	s = clone(s)
	s.NextOp, s.OutageSince = 1, time.Time{}
	s.Sandbox.Op, s.Sandbox.Retry, s.Sandbox.Stale, s.Sandbox.Made, s.Sandbox.Queue = Op{}, Retry{}, false, false, ""
	for i := range s.Containers {
		c := &s.Containers[i]
		c.Op, c.Retry, c.Unconfirmed, c.Stale = Op{}, Retry{}, Unconfirmed{}, false
		c.Abandoned = false // what was seen paused stays, for those who read records
		c.TurnAt, c.Health.Next, c.Startup.Next, c.Liveness.Next = time.Time{}, time.Time{}, time.Time{}, time.Time{}
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
func clone(s State) State {
	s.Containers = append([]Container(nil), s.Containers...)
	return s
}
