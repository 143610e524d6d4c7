package config

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/admission"
	"github.com/podtask/podtask/pkg/images/imageage"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Settings is the whole configuration as typed values. The zero value is not usable:
// Load, FromEnvironment and Default make one. It is not safe for concurrent use while
// SetFlag runs.
type Settings struct {
	Logging  Logging
	Paths    Paths
	Agent    Agent
	Tasks    Tasks
	Cleanup  Cleanup
	Budget   Budget
	Images   Images
	Network  Network
	Metadata Metadata
	Delivery Delivery
	AWS      AWS
	Stacks   Stacks
	// Updates select the updates of images that are taken.
	Updates imageage.Rules
	// References says where this host keeps what definitions name on AWS.
	References References

	// Files are the files that were read; a later one overrides an earlier one.
	Files []string

	values map[string]value // by key
}

// value is what was configured for a key, as text.
type value struct {
	text   string
	origin string // empty: the default
}

// Logging says what is logged on stderr.
type Logging struct {
	Level slog.Level
	// Format is auto, text, json or journald.
	Format string
}

// Paths are absolute paths of files and directories; an empty one means the default.
type Paths struct {
	// StateDir holds the records; default: $XDG_STATE_HOME/podtask.
	StateDir string
	// Socket is the agent's socket; default: $XDG_RUNTIME_DIR/podtask/podtask.sock.
	Socket string
	// MapSecretFile says where this host keeps secrets that definitions name by ARN;
	// default: none.
	MapSecretFile string
}

// Agent configures the agent's process.
type Agent struct {
	// StopTasks says when an agent that exits stops its tasks.
	StopTasks StopTasks
	// MetricsListen is a loopback address, HOST:PORT, on which the agent serves metrics
	// in addition to its socket; empty: none.
	MetricsListen string
	// AWSListen is a loopback address, HOST:PORT, on which the agent answers clients of ECS;
	// empty: none.
	AWSListen string
}

// Stacks configures stacks of services.
type Stacks struct {
	// Previews limits the previews of all stacks together.
	Previews int
}

// AWS configures what clients of Amazon ECS see.
type AWS struct {
	// Account, 12 digits, and Region are those of ARNs.
	Account, Region string
	// DefaultCluster: the cluster default is there without being created.
	DefaultCluster bool
	// Throttling limits the rate of requests.
	Throttling bool
	// ExpressDomain is the domain of the public addresses of Express services; empty for none.
	ExpressDomain string
}

// StopTasks says when an agent that exits stops its tasks.
type StopTasks string

const (
	// StopAtShutdown stops them when the host shuts down or the user's session ends.
	StopAtShutdown StopTasks = "shutdown"
	// StopAlways stops them always.
	StopAlways StopTasks = "always"
	// StopNever leaves them running.
	StopNever StopTasks = "never"
)

// Tasks are the defaults of a task's options.
type Tasks struct {
	Pull lifecycle.PullBehavior
	// Limits is enforce, best-effort or off.
	Limits string
	Quota  lifecycle.Quota
	// LogSize is the most bytes the log of a container may take; 0: no limit.
	LogSize int64
	// Logs is auto, local or remote.
	Logs string
	// Lenient: unknown members of a definition are warnings.
	Lenient bool
	// Without are members that definitions do without.
	Without []string
	// ClampUlimits lowers limits of processes to those of the user.
	ClampUlimits bool
	// MinimumAge is the time for which this host must have known an image before an update takes it.
	MinimumAge time.Duration
}

// Cleanup configures the removal of stopped tasks.
type Cleanup struct {
	// TaskWait is the time for which a task is kept after it has stopped; 0: until it is removed.
	TaskWait time.Duration
}

// Budget is what all tasks of the user share.
type Budget struct {
	// CPU is in units of 1/1024 vCPU and Memory in bytes; admission.Unlimited for no
	// limit, nil for what the host or the user's slice has.
	CPU, Memory *int64
	// Containers is the most containers of all tasks together; nil for no limit but the
	// host's.
	Containers *int64
	// ReservedMemory, in bytes, is subtracted from the memory that was detected, not from
	// a configured one.
	ReservedMemory int64
	// ReservedPorts are host ports that no task gets.
	ReservedPorts []admission.PortRange
	// GPUs are kinds of CDI devices, and qualified names of single ones.
	GPUs []string
	// Overtake is how many later tasks may overtake one that waits.
	Overtake int
}

// Images configures how images are pulled and removed. The defaults are the ECS agent's
// except for MinAge: a week instead of an hour, because on a laptop a pull costs more
// than disk space.
type Images struct {
	// PullsAtOnce limits the concurrent pulls of all the user's processes.
	PullsAtOnce int
	// FirstByte and Idle limit how long a pull may make no progress, PullLimit its whole
	// duration.
	FirstByte, Idle, PullLimit time.Duration
	// Cleanup turns automatic image cleanup on.
	Cleanup bool
	// Interval is the time between two cleanups, PerRound the most images one removes.
	Interval time.Duration
	PerRound int
	// MinAge is the time for which an image must have been unused.
	MinAge time.Duration
	// Exclude are patterns (path.Match) of names that no cleanup removes.
	Exclude []string
	// MinFree is the free space in bytes below which images are removed before a pull,
	// whatever their age, until half as much again is free.
	MinFree int64
}

// Network configures the networks of tasks.
type Network struct {
	// BridgeIPv6 gives a task in bridge mode IPv6 addresses too, where the host has some.
	BridgeIPv6 bool
}

// Metadata configures the endpoint of task metadata and credentials.
type Metadata struct {
	// Enabled gives containers the endpoint, File a file with their metadata.
	Enabled, File bool
	// CredentialsHelper is a program with arguments; none: no credentials.
	CredentialsHelper []string
	// Region is the region of AWS that containers are told; empty for that of podtask's
	// environment.
	Region string
}

// Delivery configures how the output of containers is sent to log servers.
type Delivery struct {
	// CredentialsHelper is a program with arguments; none: no credentials.
	CredentialsHelper []string
	// AWSLogsEndpoint is a URL; empty: Amazon's.
	AWSLogsEndpoint string
	// Backlog is the most bytes that wait for a container.
	Backlog int64
	// Drain is the time for which the end of a task waits for what is not sent.
	Drain time.Duration
}

// AWSLogs reports whether awslogs sends in mode auto.
func (d Delivery) AWSLogs() bool { return len(d.CredentialsHelper) > 0 || d.AWSLogsEndpoint != "" }

// Default returns the configuration of a host without files, variables and flags.
func Default() *Settings {
	s := &Settings{values: map[string]value{}}
	for _, k := range keys {
		if err := k.set(s, k.Default); err != nil {
			panic(fmt.Sprintf("config: default of %s: %v", k.Name, err))
		}
	}
	return s
}

// Text returns the value of a key as it was configured.
func (s *Settings) Text(key string) string {
	if v, ok := s.values[key]; ok {
		return v.text
	}
	k, _ := find(key)
	return k.Default
}

// Origin returns where the value of a key comes from: default, FILE:LINE, the name of an
// environment variable, or --flag.
func (s *Settings) Origin(key string) string {
	if v, ok := s.values[key]; ok {
		return v.origin
	}
	return "default"
}

// FlagArgs returns the flags that were given on this command line and that every command
// has, for a process that needs the same configuration.
func (s *Settings) FlagArgs() []string {
	var args []string
	for _, k := range keys {
		if flag := "--" + k.Name; k.Verb == "" && s.Origin(k.Name) == flag {
			args = append(args, flag+"="+s.Text(k.Name))
		}
	}
	return args
}

// SetFlag applies a value from the command line. The error names the flag.
func (s *Settings) SetFlag(name, text string) error {
	k, found := find(name)
	if !found {
		return fmt.Errorf("unknown key %q", name)
	}
	if err := s.set(k, text, "--"+name); err != nil {
		return fmt.Errorf("--%s %w", name, err)
	}
	return nil
}

// Override returns the defaults of a task with the given values, by their keys, in place of
// the configured ones. The error names the key.
func (s *Settings) Override(given map[string]string) (Tasks, error) {
	changed := Settings{Tasks: s.Tasks, values: map[string]value{}}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		k, _ := find(key)
		if k.Verb != "run" {
			return Tasks{}, fmt.Errorf("%s is not an option of one task", key)
		}
		if err := changed.set(k, given[key], ""); err != nil {
			return Tasks{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	return changed.Tasks, nil
}

// set applies a value that comes from origin. The error does not name the key.
func (s *Settings) set(k Key, text, origin string) error {
	if err := k.apply(s, text); err != nil {
		return err
	}
	s.values[k.Name] = value{text: text, origin: origin}
	return nil
}

// list is "a, b or c".
func list(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
