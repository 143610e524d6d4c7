package lifecycle

import (
	"net/netip"
	"slices"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

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
	// Stale: Presence is unconfirmed until the next inspection.
	Stale bool `json:"stale,omitempty"`
	// Paused: it runs, but its processes are frozen. Part of what was observed.
	Paused bool `json:"paused,omitempty"`
	// Unmonitored counts towards the conclusion that Podman cannot notice its end. See
	// unmonitored.go.
	Unmonitored Unmonitored `json:"unmonitored,omitempty"`
	// ID is Podman's.
	ID string `json:"id,omitempty"`
	// Ports lists the ports that the container publishes itself, as bound, and Addresses its own addresses while it runs
	// in a bridged task. Part of what was observed.
	Ports     []taskdef.Port `json:"ports,omitempty"`
	Addresses []netip.Addr   `json:"addresses,omitempty"`
	// TurnAt is the time from which nothing but its own image kept the container from starting. Only a container with a
	// startTimeout that has not started has one.
	TurnAt time.Time `json:"turnAt,omitzero"`
	// FirstStartedAt belongs to the first run, StartedAt and FinishedAt to the latest.
	FirstStartedAt time.Time `json:"firstStartedAt,omitzero"`
	StartedAt      time.Time `json:"startedAt,omitzero"`
	FinishedAt     time.Time `json:"finishedAt,omitzero"`

	// Restarts counts how often the container was started again.
	Restarts int `json:"restarts,omitempty"`
	// RestartAt is the time of the next start; zero unless the container has exited and its restart policy wants it
	// back.
	RestartAt time.Time `json:"restartAt,omitzero"`
	// QuickExits counts runs in a row that were shorter than the policy's attempt period.
	QuickExits int `json:"quickExits,omitempty"`
	// Runs are the runs before the latest that ended by themselves, oldest first, at
	// most keptRuns.
	Runs []Run `json:"runs,omitempty"`
	// Resizing: it is to be stopped, and then restarted, to have other resources.
	Resizing bool `json:"resizing,omitempty"`
	// RestartRequested: it is to be stopped, and then restarted, because a user asked for it.
	RestartRequested bool `json:"restartRequested,omitempty"`
	// NotRestarted is the reason for which the policy did not want it back.
	NotRestarted string `json:"notRestarted,omitempty"`
	// RestartsTold counts lines about restarts in History.
	RestartsTold int `json:"restartsTold,omitempty"`

	// Ended: stopped for good, whether or not it ever ran. Absorbing.
	Ended   bool      `json:"ended,omitempty"`
	EndedAt time.Time `json:"endedAt,omitzero"`
	// Abandoned: in the course of a removal podtask has stopped asking Podman to stop
	// or inspect it, and leaves it to the removal of the pod.
	Abandoned bool `json:"abandoned,omitempty"`
	// ExitCode belongs to the latest run and is meaningful when HasExit is set.
	HasExit  bool `json:"hasExit,omitempty"`
	ExitCode int  `json:"exitCode,omitempty"`

	// Health is the account of the readiness check, Startup and Liveness are those of the
	// others. HealthStatus is what follows from them.
	Health   HealthState `json:"health,omitzero"`
	Startup  HealthState `json:"startup,omitzero"`
	Liveness HealthState `json:"liveness,omitzero"`
	Hooks    HookState   `json:"hooks,omitzero"`
	Op       Op          `json:"op,omitzero"`
	Retry    Retry       `json:"retry,omitzero"`
	// Doubt is the failure of a create or start whose outcome the next
	// inspection decides.
	Unconfirmed Unconfirmed `json:"doubt,omitzero"`
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

// every reports whether something is so of every container.
func every(s *State, is func(*Container) bool) bool {
	return !some(s, func(c *Container) bool { return !is(c) })
}

// some reports whether something is so of a container at least.
func some(s *State, is func(*Container) bool) bool {
	for i := range s.Containers {
		if is(&s.Containers[i]) {
			return true
		}
	}
	return false
}

func allEnded(s *State) bool {
	return every(s, func(c *Container) bool { return c.Ended })
}

// allLetGo reports whether all containers have ended or are given up.
func allLetGo(s *State) bool {
	return every(s, func(c *Container) bool { return c.Ended || c.Abandoned })
}

// allResolved: every digest question is settled.
func allResolved(s *State) bool {
	return every(s, func(c *Container) bool { return c.Resolved })
}

// everRan: one of them ran once, at least.
func everRan(s *State) bool {
	return some(s, func(c *Container) bool { return !c.StartedAt.IsZero() })
}

func anyRuns(s *State) bool {
	return some(s, func(c *Container) bool { return c.Presence == Running })
}

func anyStale(s *State) bool {
	return some(s, func(c *Container) bool { return c.Stale })
}

// anyDigestReported: a registry was asked for one and had it.
func anyDigestReported(s *State) bool {
	return some(s, func(c *Container) bool { return c.Resolved && !c.Pinned && c.Digest != "" })
}

// MayRun returns the containers that run as far as is known, those that are being
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
// with Hinted, InfraIndex among them if WatchesInfra. There are none while all are removed: the
// removal ends them. It changes only when a state changes, so a driver that compares it after each
// step never misses one.
func (s State) Watches() []int {
	if s.Sandbox.Op.Kind == Remove {
		return nil
	}
	w := s.Running()
	if s.WatchesInfra() {
		w = append(w, InfraIndex)
	}
	return w
}
