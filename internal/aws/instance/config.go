package instance

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/awscall"
	"github.com/podtask/podtask/internal/aws/instance/wire"
)

// Config has the settings of an instance, and the clients that it calls ECS and the agent with.
type Config struct {
	// Cluster is the name of the cluster; empty for the cluster "default", which is then created
	// where it is missing.
	Cluster string
	// Attributes and Tags are the user's, set at the first registration.
	Attributes []wire.Attribute
	Tags       []wire.Tag
	Host       Host
	// Dir has the records, Runtime the files with secrets; Runtime is in memory.
	Dir, Runtime string
	// Version is that of the program; Engine that of what runs containers.
	Version, Engine string
	Calls           *awscall.Client
	Agent           Agent
	Usage           UsageReader
	Log             *slog.Logger
	// Cleanup is how long after its end a task is removed.
	Cleanup time.Duration
	Pace    Pace
}

// Pace has the times of an instance.
type Pace struct {
	// Idle limits the time that a web socket may be without a message, and Life how long it is used; up to
	// IdleJitter and LifeJitter are added.
	Idle, IdleJitter, Life, LifeJitter time.Duration
	// Inactive is the pause after ECS has said that the instance is not active.
	Inactive time.Duration
	// Gather is how long changes of single containers wait for others, before they are sent.
	Gather time.Duration
	// Telemetry is the time between two messages with metrics or health.
	Telemetry time.Duration
	// Endpoints is the time for which the addresses of the web sockets are kept.
	Endpoints time.Duration
	// ACS, TCS, Register, Busy and Refused are the pauses after failures: of the web sockets, of the
	// registration, of states when ECS is busy, and when it refuses them.
	ACS, TCS, Register, Busy, Refused, Agent Backoff
}

// DefaultPace is that of the ECS agent, but for Busy: after an outage states are sent within a
// minute, not within five.
var DefaultPace = Pace{
	Idle: time.Minute, IdleJitter: time.Minute, Life: 30 * time.Minute, LifeJitter: 5 * time.Minute,
	Inactive: time.Hour, Gather: 10 * time.Second, Telemetry: 20 * time.Second, Endpoints: 12 * time.Hour,
	ACS:      Backoff{250 * time.Millisecond, 2 * time.Minute, 1.5, 0.2},
	TCS:      Backoff{time.Second, time.Minute, 2, 0.2},
	Register: Backoff{3 * time.Second, 192 * time.Second, 2, 0.2},
	Busy:     Backoff{50 * time.Millisecond, time.Minute, 2, 0.3},
	Refused:  Backoff{time.Second, 30 * time.Second, 1.3, 0.2},
	Agent:    Backoff{time.Second, 30 * time.Second, 2, 0.2},
}

// Backoff makes pauses that become longer: First, each next one Factor times as long, up to Most.
// Jitter is the part that is random.
type Backoff struct {
	First, Most    time.Duration
	Factor, Jitter float64
}

// pause returns the pause after a number of failures, at least one.
func (b Backoff) pause(failures int) time.Duration {
	d := float64(b.First)
	for i := 1; i < failures && d < float64(b.Most); i++ {
		d *= b.Factor
	}
	d = min(d, float64(b.Most))
	return time.Duration(d + d*b.Jitter*rand.Float64())
}

// upTo returns a random time below d.
func upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}

// Host is what the host offers to ECS.
type Host struct {
	// CPU is in cpu units (1024 = 1 vCPU), Memory in MiB.
	CPU, Memory int64
	// Ports and UDPPorts are those that ECS must not give to tasks, at most 100.
	Ports, UDPPorts []string
	// Limits: the limits of tasks are applied.
	Limits bool
	// AWSLogs: the agent sends logs to CloudWatch Logs with the roles of tasks.
	AWSLogs bool
	// Arch is that of Go.
	Arch string
}
