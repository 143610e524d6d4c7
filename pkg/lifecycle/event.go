package lifecycle

import (
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// Event is a fact that came in. The set is closed; values are comparable but for
// OpFinished.Result.Ports.
type Event interface{ event() }

// Restarted says that this state was loaded, new or old: whatever was in flight
// is unknown. It is the first event of every life of an owner.
type Restarted struct{}

// StopRequested asks the task to stop. With Force it is killed at once.
type StopRequested struct {
	By    string // who asked, for the reason
	Force bool
}

// RemoveRequested asks for the task to be stopped and all that is left of it to
// be removed. With Force it is killed at once.
type RemoveRequested struct {
	By    string
	Force bool
}

// Hinted says that something may have happened to a container. It proves
// nothing and causes an inspection.
type Hinted struct{ Index int }

// TimerFired says that Wake has come.
type TimerFired struct{}

// OpFinished is the answer to an effect.
type OpFinished struct {
	ID      OpID
	Failure Failure // zero: it worked
	Result  Result
}

// Result is what an operation found out; which fields count depends on its kind.
type Result struct {
	Digest  string         // Resolve
	ImageID string         // Pull
	Source  string         // Pull: SourceRegistry or SourceCache
	PodID   string         // Prepare
	Slice   string         // Prepare; empty where there is none
	Ports   []taskdef.Port // Prepare
	Seen    Observed       // Create, Start, Stop, Inspect
	Probe   ProbeResult    // Probe
}

// Observed is what an inspection saw.
type Observed struct {
	Presence   Presence
	ID         string
	StartedAt  time.Time
	FinishedAt time.Time
	ExitCode   int
	OOMKilled  bool
}

// ProbeResult is what a health check said.
type ProbeResult struct {
	Healthy  bool
	ExitCode int
	Output   string
}

// Failure says what went wrong. The zero value is success.
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
}

func (f Failure) String() string {
	if f.Name == "" {
		return f.Message
	}
	return f.Name + ": " + f.Message
}

func (Restarted) event()       {}
func (StopRequested) event()   {}
func (RemoveRequested) event() {}
func (Hinted) event()          {}
func (TimerFired) event()      {}
func (OpFinished) event()      {}
