package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config is what podtask is configured to do. The zero value is of no use: Load makes
// a whole one.
type Config struct {
	// LogLevel is debug, info, warn or error.
	LogLevel string
	// LogFormat is auto, text, json or journald.
	LogFormat string
	// StateDir is an absolute path; empty: $XDG_STATE_HOME/podtask.
	StateDir string
	// Socket is the absolute path of the agent's socket; empty:
	// $XDG_RUNTIME_DIR/podtask/podtask.sock.
	Socket string
	// StopTasks is shutdown, always or never: when an agent that ends stops its tasks.
	StopTasks string
	// MetricsListen is the loopback address, HOST:PORT, on which the agent serves
	// metrics besides its socket; empty: none.
	MetricsListen string
	// Pull is default, always, once, prefer-cached or never.
	Pull string
	// Limits is enforce, best-effort or off.
	Limits string
	// PIDsLimit is how many processes and threads a task may have, 0 for any number;
	// empty: as many as fit most tasks, where the host can limit them.
	PIDsLimit string
	// CPUPeriod is the time in which a task's cpu limit is counted.
	CPUPeriod string
	// TaskCleanupWait is never or a duration: how long a task is kept after it has stopped.
	TaskCleanupWait string

	// MapSecretFile is the absolute path of a file that says where secrets of AWS are
	// kept on this host; empty: none.
	MapSecretFile string

	// What all tasks of the user share: see internal/agent, which reads these through
	// Settings.Getenv.
	BudgetCPU, BudgetMemory, ReservedMemory, ReservedPorts, QueueOvertake string
	// How images are pulled and cleaned up: ReadImages reads them, through
	// Settings.Getenv as well.
	PullsAtOnce, PullFirstByte, PullIdle, PullTimeout        string
	ImageCleanup, ImageCleanupInterval, ImageCleanupPerRound string
	ImageMinAge, ImageExclude, ImageMinFree                  string
	// Whether tasks get networks with IPv6, likewise.
	BridgeIPv6 string
	// The endpoint of task metadata and credentials, likewise.
	Metadata, MetadataFile, CredentialsHelper string
}

// CleanupWait is TaskCleanupWait; false for never.
func (c Config) CleanupWait() (time.Duration, bool) {
	d, err := time.ParseDuration(c.TaskCleanupWait)
	return d, err == nil
}

// Key is one thing that can be configured.
type Key struct {
	// Name is in lower case with dashes.
	Name string
	// Help is a sentence without a full stop; Default is what applies where nothing
	// is said.
	Help, Default string
	// Values are all that are allowed; none: see Help.
	Values []string
	// Verb has the flag of this name; empty: every verb has.
	Verb string
	// Path: the value is an absolute path. What a command line has should be made one.
	Path bool
	// Rare: the flag need not be in the help of every command.
	Rare bool

	check func(value string) error
	field func(*Config) *string
}

// keys are all there are, in the order of their names.
var keys = []Key{
	{
		Name: "bridge-ipv6", Default: "on", Values: []string{"on", "off"}, Rare: true,
		Help:  "give the network of a task in mode bridge IPv6 addresses too, where the host has some",
		field: func(c *Config) *string { return &c.BridgeIPv6 },
	},
	{
		Name: "budget-cpu", Rare: true,
		Help:  "what all tasks together may have, in vCPU, or none for no bound; unless given, what the host or the user's slice has",
		field: func(c *Config) *string { return &c.BudgetCPU },
	},
	{
		Name: "budget-memory", Rare: true,
		Help:  "what all tasks together may have, such as 4g, or none for no bound; unless given, what the host or the user's slice has",
		field: func(c *Config) *string { return &c.BudgetMemory },
	},
	{
		Name: "cpu-period", Default: "100ms", Verb: "run", check: period,
		Help:  "the time in which a task's cpu limit is counted, 8ms to 1s: a short one makes pauses short and costs more",
		field: func(c *Config) *string { return &c.CPUPeriod },
	},
	{
		Name: "credentials-helper", Rare: true,
		Help:  "a program with arguments that prints AWS credentials as a credential_process does, for tasks",
		field: func(c *Config) *string { return &c.CredentialsHelper },
	},
	{
		Name: "image-cleanup", Default: "true", Values: []string{"true", "false"}, Rare: true,
		Help:  "remove images that podtask pulled and nobody uses",
		field: func(c *Config) *string { return &c.ImageCleanup },
	},
	{
		Name: "image-cleanup-interval", Default: "30m", check: duration, Rare: true,
		Help:  "the time between two rounds of clean-up",
		field: func(c *Config) *string { return &c.ImageCleanupInterval },
	},
	{
		Name: "image-cleanup-per-round", Default: "5", check: number, Rare: true,
		Help:  "how many images a round removes at most",
		field: func(c *Config) *string { return &c.ImageCleanupPerRound },
	},
	{
		Name: "image-exclude", check: patterns, Rare: true,
		Help:  "patterns of names that no clean-up removes, with commas between",
		field: func(c *Config) *string { return &c.ImageExclude },
	},
	{
		Name: "image-min-age", Default: "168h", check: duration, Rare: true,
		Help:  "how long an image must not have been used before it is removed",
		field: func(c *Config) *string { return &c.ImageMinAge },
	},
	{
		Name: "image-min-free", Default: "2g", check: size, Rare: true,
		Help:  "the free space below which images are removed before a pull, whatever their age",
		field: func(c *Config) *string { return &c.ImageMinFree },
	},
	{
		Name: "limits", Default: "enforce", Values: []string{"enforce", "best-effort", "off"}, Verb: "run",
		Help:  "what to do with a task whose cpu and memory limits this host cannot apply: refuse it, apply those it can, or apply none",
		field: func(c *Config) *string { return &c.Limits },
	},
	{
		Name: "log-format", Default: "auto", Values: []string{"auto", "text", "json", "journald"},
		Help:  "how log lines on stderr look; journald has a priority before each, auto is that in a service and else text",
		field: func(c *Config) *string { return &c.LogFormat },
	},
	{
		Name: "log-level", Default: "warn", Values: []string{"debug", "info", "warn", "error"},
		Help:  "how much to say on stderr; an agent says info unless told otherwise",
		field: func(c *Config) *string { return &c.LogLevel },
	},
	{
		Name: "map-secret-file", Path: true, Rare: true,
		Help:  "a file of lines ARN=SOURCE that say where secrets of AWS are kept here, as --map-secret does for one task",
		field: func(c *Config) *string { return &c.MapSecretFile },
	},
	{
		Name: "metadata", Default: "on", Values: []string{"on", "off"}, Rare: true,
		Help:  "give containers the ECS task metadata endpoint",
		field: func(c *Config) *string { return &c.Metadata },
	},
	{
		Name: "metadata-file", Default: "off", Values: []string{"on", "off"}, Rare: true,
		Help:  "give each container a file with its metadata, which ECS_CONTAINER_METADATA_FILE names",
		field: func(c *Config) *string { return &c.MetadataFile },
	},
	{
		Name: "metrics-listen", Verb: "agent", check: loopback,
		Help:  "serve metrics on this loopback address too, such as 127.0.0.1:9464",
		field: func(c *Config) *string { return &c.MetricsListen },
	},
	{
		Name: "pids-limit", Verb: "run", check: count,
		Help:  "how many processes and threads a task may have, 0 for any number; without it 4096, where the host can limit them",
		field: func(c *Config) *string { return &c.PIDsLimit },
	},
	{
		Name: "pull", Default: "default", Values: []string{"default", "always", "once", "prefer-cached", "never"}, Verb: "run",
		Help:  "when to pull images; default: always, and a local copy will do if that fails",
		field: func(c *Config) *string { return &c.Pull },
	},
	{
		Name: "pull-first-byte", Default: "5m", check: duration, Rare: true,
		Help:  "how long a registry may take to begin with a layer",
		field: func(c *Config) *string { return &c.PullFirstByte },
	},
	{
		Name: "pull-idle", Default: "1m", check: duration, Rare: true,
		Help:  "how long a pull may stand still",
		field: func(c *Config) *string { return &c.PullIdle },
	},
	{
		Name: "pull-timeout", Default: "2h", check: duration, Rare: true,
		Help:  "how long a pull may take",
		field: func(c *Config) *string { return &c.PullTimeout },
	},
	{
		Name: "pulls-at-once", Default: "3", check: number, Rare: true,
		Help:  "how many images are pulled at the same time, by all processes of the user",
		field: func(c *Config) *string { return &c.PullsAtOnce },
	},
	{
		Name: "queue-overtake", Default: "0", check: overtake, Rare: true,
		Help:  "how many later tasks may pass one that waits for its share",
		field: func(c *Config) *string { return &c.QueueOvertake },
	},
	{
		Name: "reserved-memory", Rare: true,
		Help:  "memory that no task gets, such as 512m, taken off what was found",
		field: func(c *Config) *string { return &c.ReservedMemory },
	},
	{
		Name: "reserved-ports", Rare: true,
		Help:  "host ports that no task gets, such as 22,8000-8080",
		field: func(c *Config) *string { return &c.ReservedPorts },
	},
	{
		Name: "socket", Path: true,
		Help:  "where the agent listens; without it, $XDG_RUNTIME_DIR/podtask/podtask.sock",
		field: func(c *Config) *string { return &c.Socket },
	},
	{
		Name: "state-dir", Path: true,
		Help:  "where records are kept; without it, $XDG_STATE_HOME/podtask",
		field: func(c *Config) *string { return &c.StateDir },
	},
	{
		Name: "stop-tasks", Default: "shutdown", Values: []string{"shutdown", "always", "never"}, Verb: "agent",
		Help:  "when an agent that ends stops its tasks in order: at the shutdown of the host or the end of the user's session, always, or never",
		field: func(c *Config) *string { return &c.StopTasks },
	},
	{
		Name: "task-cleanup-wait", Default: "3h", check: cleanupWait,
		Help:  "how long a task is kept after it has stopped, with its logs and exit codes, such as 90m or 24h; never keeps it until it is removed",
		field: func(c *Config) *string { return &c.TaskCleanupWait },
	},
}

// Keys returns all keys in the order of their names. The caller may change what it gets.
func Keys() []Key {
	all := slices.Clone(keys)
	for i := range all {
		all[i].Values = slices.Clone(all[i].Values)
	}
	return all
}

// Env is the environment variable of the key.
func (k Key) Env() string {
	return "PODTASK_" + strings.ToUpper(strings.ReplaceAll(k.Name, "-", "_"))
}

// Of returns the key's value in c.
func (k Key) Of(c Config) string { return *k.field(&c) }

// Set checks a value and puts it into c. The error does not name the key.
func (k Key) Set(c *Config, value string) error {
	if len(k.Values) > 0 && !slices.Contains(k.Values, value) {
		last := len(k.Values) - 1
		return fmt.Errorf("it is %s or %s, not %q", strings.Join(k.Values[:last], ", "), k.Values[last], value)
	}
	if k.Path && value != "" && !filepath.IsAbs(value) {
		return fmt.Errorf("%q is no absolute path", value)
	}
	if k.check != nil && value != "" {
		if err := k.check(value); err != nil {
			return err
		}
	}
	*k.field(c) = value
	return nil
}

// find returns the key of a name, else the name of one that it may be meant for.
func find(name string) (k Key, found bool, like string) {
	var names []string
	for _, k := range keys {
		if k.Name == name {
			return k, true, ""
		}
		names = append(names, k.Name)
	}
	return Key{}, false, closest(name, names)
}

func duration(value string) error {
	if d, err := time.ParseDuration(value); err != nil || d <= 0 {
		return fmt.Errorf("%q is no time: give one such as 90s, 30m or 168h", value)
	}
	return nil
}

func number(value string) error {
	if n, err := strconv.ParseUint(value, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q is no number from 1 on", value)
	}
	return nil
}

func overtake(value string) error {
	if _, err := strconv.ParseUint(value, 10, 16); err != nil {
		return fmt.Errorf("%q is no number of tasks from 0 to 65535", value)
	}
	return nil
}

var errLoopback = errors.New("metrics tell what runs here, so only a loopback address with a port will do, such as 127.0.0.1:9464")

// period checks a time in which CPU is counted. ECS's agent has the same least one.
func period(value string) error {
	if d, err := time.ParseDuration(value); err != nil || d < 8*time.Millisecond || d > time.Second || d%time.Microsecond != 0 {
		return fmt.Errorf("%q is no time from 8ms to 1s", value)
	}
	return nil
}

// count checks a number of processes.
func count(value string) error {
	if _, err := strconv.ParseUint(value, 10, 31); err != nil {
		return fmt.Errorf("%q is no number of processes", value)
	}
	return nil
}

// cleanupWait: the ECS agent asks for a second at least.
func cleanupWait(value string) error {
	if value == "never" {
		return nil
	}
	if d, err := time.ParseDuration(value); err != nil || d < time.Second {
		return fmt.Errorf("it is never, or a time of at least 1s such as 90m, not %q", value)
	}
	return nil
}
