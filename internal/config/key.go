package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/admission"
	"github.com/podtask/podtask/pkg/images/imageage"
)

// Key is one thing that can be configured.
type Key struct {
	// Name is lower-case words joined by dashes.
	Name string
	// Help is a phrase without a full stop; Default is the value where none is given.
	Help, Default string
	// Values are the allowed values; none: any that Help describes.
	Values []string
	// Verb is the command that has the flag of this name; empty: every command has it.
	Verb string
	// Path: the value is an absolute path. Make one from a command line's absolute.
	Path bool
	// Rare: the flag is left out of the help of commands.
	Rare bool

	// set parses a value that is not empty, or the default, into its field.
	set func(s *Settings, value string) error
}

// keys are all keys, in the order of their names.
var keys = []Key{
	{
		Name: "aws-account", Default: "000000000000", Rare: true,
		Help: "account of AWS, 12 digits, in ARNs that podtask makes: of tasks, services and whatever clients of Amazon ECS see",
		set:  setAWSAccount,
	},
	{
		Name: "aws-arn-region", Default: "local", Rare: true,
		Help: "region of AWS in ARNs that podtask makes, and the one that podtask aws env gives clients",
		set:  setARNRegion,
	},
	{
		Name: "aws-credentials-helper", Rare: true,
		Help: "program, with arguments, that prints AWS credentials for the source aws: in the format of credential_process; by default, those of podtask's environment",
		set: func(s *Settings, v string) error {
			s.References.AWSHelper = strings.Fields(v)
			return nil
		},
	},
	{
		Name: "aws-default-cluster", Verb: "agent", Default: "on", Values: []string{"on", "off"}, Rare: true,
		Help: "whether clients of Amazon ECS find the cluster default before they create it",
		set:  boolean("on", func(s *Settings) *bool { return &s.AWS.DefaultCluster }),
	},
	{
		Name: "aws-endpoint", Rare: true,
		Help: "URL that the source aws: calls instead of Amazon's",
		set:  setEndpoint(func(s *Settings) *string { return &s.References.AWSEndpoint }),
	},
	{
		Name: "aws-express-domain", Verb: "agent", Rare: true,
		Help: "domain whose names lead to this host: an Express service of Amazon ECS gets the address https://NAME.DOMAIN; by default, such services are refused",
		set:  setExpressDomain,
	},
	{
		Name: "aws-listen", Verb: "agent",
		Help: "answer clients of Amazon ECS on this loopback address, such as 127.0.0.1:4580; podtask aws env prints their key",
		set:  setAWSListen,
	},
	{
		Name: "aws-region", Rare: true,
		Help: "region of AWS that containers are told in AWS_REGION and AWS_DEFAULT_REGION; by default, that of podtask's own environment",
		set:  text(func(s *Settings) *string { return &s.Metadata.Region }),
	},
	{
		Name: "aws-throttling", Verb: "agent", Default: "on", Values: []string{"on", "off"}, Rare: true,
		Help: "whether requests of clients of Amazon ECS are limited to the rates that Amazon documents",
		set:  boolean("on", func(s *Settings) *bool { return &s.AWS.Throttling }),
	},
	{
		Name: "awslogs-endpoint", Rare: true,
		Help: "URL of the server to which the log driver awslogs sends, instead of Amazon's; awslogs-endpoint in a definition overrides it",
		set:  setEndpoint(func(s *Settings) *string { return &s.Delivery.AWSLogsEndpoint }),
	},
	{
		Name: "bridge-ipv6", Default: "on", Values: []string{"on", "off"}, Rare: true,
		Help: "also give a task in bridge mode IPv6 addresses, if the host has any",
		set:  boolean("on", func(s *Settings) *bool { return &s.Network.BridgeIPv6 }),
	},
	{
		Name: "budget-containers", Rare: true,
		Help: "how many containers all tasks together may have at once; by default, as many as the kernel's quotas allow",
		set:  optional(parseContainers, func(s *Settings) **int64 { return &s.Budget.Containers }),
	},
	{
		Name: "budget-cpu", Rare: true,
		Help: "how many vCPUs all tasks together may use, or none for no limit; by default, what the host or the user's slice has",
		set:  optional(admission.ParseCPU, func(s *Settings) **int64 { return &s.Budget.CPU }),
	},
	{
		Name: "budget-memory", Rare: true,
		Help: "how much memory all tasks together may use, such as 4g, or none for no limit; by default, what the host or the user's slice has",
		set:  optional(admission.ParseMemory, func(s *Settings) **int64 { return &s.Budget.Memory }),
	},
	{
		Name: "clamp-ulimits", Default: "false", Values: []string{"true", "false"}, Verb: "run",
		Help: "lower ulimits of a task definition to the hard limits of this user, instead of refusing the task",
		set:  boolean("true", func(s *Settings) *bool { return &s.Tasks.ClampUlimits }),
	},
	{
		Name: "cpu-period", Default: "100ms", Verb: "run",
		Help: "period of a task's CPU limit, 8ms to 1s: a shorter one makes throttling pauses shorter and costs more CPU time",
		set:  setCPUPeriod,
	},
	{
		Name: "credentials-helper", Rare: true,
		Help: "program, with arguments, that prints AWS credentials for a task in the format of credential_process; PODTASK_TASK_ROLE_ARN, PODTASK_EXECUTION_ROLE_ARN, PODTASK_TASK_ID and PODTASK_TASK_FAMILY tell it which",
		set:  setCredentialsHelper,
	},
	{
		Name: "gpus", Default: "nvidia.com/gpu", Rare: true,
		Help: "comma-separated GPUs that tasks share: kinds of CDI devices, or single ones such as nvidia.com/gpu=0; none for none",
		set:  setGPUs,
	},
	{
		Name: "image-cleanup", Default: "true", Values: []string{"true", "false"}, Rare: true,
		Help: "remove unused images that podtask pulled",
		set:  boolean("true", func(s *Settings) *bool { return &s.Images.Cleanup }),
	},
	{
		Name: "image-cleanup-interval", Default: "30m", Rare: true,
		Help: "time between two image cleanups",
		set:  duration(func(s *Settings) *time.Duration { return &s.Images.Interval }),
	},
	{
		Name: "image-cleanup-per-round", Default: "5", Rare: true,
		Help: "the most images one cleanup removes",
		set:  count(func(s *Settings) *int { return &s.Images.PerRound }),
	},
	{
		Name: "image-exclude", Rare: true,
		Help: "comma-separated patterns of image names that cleanup never removes",
		set:  setImageExclude,
	},
	{
		Name: "image-min-age", Default: "168h", Rare: true,
		Help: "how long an image must have been unused before cleanup removes it",
		set:  duration(func(s *Settings) *time.Duration { return &s.Images.MinAge }),
	},
	{
		Name: "image-min-free", Default: "2g", Rare: true,
		Help: "free disk space below which images are removed before a pull, whatever their age",
		set:  size(func(s *Settings) *int64 { return &s.Images.MinFree }),
	},
	{
		Name: "limits", Default: "best-effort", Values: []string{"enforce", "best-effort", "off"}, Verb: "run",
		Help: "what to do with a task's CPU and memory limits: enforce refuses a task whose limits this host cannot apply, best-effort applies what it can and warns, off applies none",
		set:  text(func(s *Settings) *string { return &s.Tasks.Limits }),
	},
	{
		Name: "log-backlog", Default: "1g", Rare: true,
		Help: "the most disk space that output of a container may take while it waits to be sent, besides log-max-size; beyond, the oldest is lost",
		set:  size(func(s *Settings) *int64 { return &s.Delivery.Backlog }),
	},
	{
		Name: "log-credentials-helper", Rare: true,
		Help: "program, with arguments, that prints AWS credentials for the log driver awslogs in the format of credential_process; credentials-helper is not used for it",
		set: func(s *Settings, v string) error {
			s.Delivery.CredentialsHelper = strings.Fields(v)
			return nil
		},
	},
	{
		Name: "log-drain", Default: "30s", Rare: true,
		Help: "how long the end or the removal of a task waits for output that is still to be sent",
		set:  duration(func(s *Settings) *time.Duration { return &s.Delivery.Drain }),
	},
	{
		Name: "log-format", Default: "auto", Values: []string{"auto", "text", "json", "journald"},
		Help: "format of log lines on stderr; journald adds a priority prefix, auto is journald in a service and text elsewhere",
		set:  text(func(s *Settings) *string { return &s.Logging.Format }),
	},
	{
		Name: "log-level", Default: "warn", Values: []string{"debug", "info", "warn", "error"},
		Help: "lowest level that is logged on stderr; the agent's default is info",
		set:  func(s *Settings, v string) error { return s.Logging.Level.UnmarshalText([]byte(v)) },
	},
	{
		Name: "log-max-size", Default: "100m", Rare: true,
		Help: "the most disk space the log of a container may take, 0 for no limit; at the limit older output is lost; max-size of json-file overrides it, and journald has limits of its own",
		set:  size(func(s *Settings) *int64 { return &s.Tasks.LogSize }),
	},
	{
		Name: "logs", Default: "auto", Values: []string{"auto", "local", "remote"}, Verb: "run",
		Help: "whether log drivers send output to servers: auto sends awslogs only with log-credentials-helper or an endpoint, local sends nothing, remote refuses a task whose output cannot be sent",
		set:  text(func(s *Settings) *string { return &s.Tasks.Logs }),
	},
	{
		Name: "map-secret-file", Path: true, Rare: true,
		Help: "file of ARN=SOURCE lines that say where this host keeps AWS secrets; they are in front of the tables [[reference]]",
		set:  text(func(s *Settings) *string { return &s.Paths.MapSecretFile }),
	},
	{
		Name: "metadata", Default: "on", Values: []string{"on", "off"}, Rare: true,
		Help: "give containers the ECS task metadata endpoint",
		set:  boolean("on", func(s *Settings) *bool { return &s.Metadata.Enabled }),
	},
	{
		Name: "metadata-file", Default: "off", Values: []string{"on", "off"}, Rare: true,
		Help: "give each container a metadata file, named by ECS_CONTAINER_METADATA_FILE",
		set:  boolean("on", func(s *Settings) *bool { return &s.Metadata.File }),
	},
	{
		Name: "metrics-listen", Verb: "agent",
		Help: "also serve metrics on this loopback address, such as 127.0.0.1:9464",
		set:  setMetricsListen,
	},
	{
		Name: "minimum-age", Default: "0", Verb: "run",
		Help: "how long this host must have known an image before an update takes it, such as 3d; 0 for no time",
		set: func(s *Settings, v string) (err error) {
			s.Tasks.MinimumAge, err = imageage.ParseAge(v)
			return err
		},
	},
	{
		Name: "pids-limit", Verb: "run",
		Help: "the most processes and threads a task may have, 0 for no limit; by default 4096, where the host can limit them",
		set:  setPIDsLimit,
	},
	{
		Name: "pull", Default: "default", Values: []string{"default", "always", "once", "prefer-cached", "never"}, Verb: "run",
		Help: "when to pull images; default: always, but use a local copy if the pull fails",
		set:  func(s *Settings, v string) error { return s.Tasks.Pull.UnmarshalText([]byte(v)) },
	},
	{
		Name: "pull-first-byte", Default: "5m", Rare: true,
		Help: "how long a registry may take to send the first byte of a layer",
		set:  duration(func(s *Settings) *time.Duration { return &s.Images.FirstByte }),
	},
	{
		Name: "pull-idle", Default: "1m", Rare: true,
		Help: "how long a pull may make no progress",
		set:  duration(func(s *Settings) *time.Duration { return &s.Images.Idle }),
	},
	{
		Name: "pull-timeout", Default: "2h", Rare: true,
		Help: "how long a pull may take",
		set:  duration(func(s *Settings) *time.Duration { return &s.Images.PullLimit }),
	},
	{
		Name: "pulls-at-once", Default: "3", Rare: true,
		Help: "the most images all processes of the user pull at the same time",
		set:  count(func(s *Settings) *int { return &s.Images.PullsAtOnce }),
	},
	{
		Name: "queue-overtake", Default: "0", Rare: true,
		Help: "how many later tasks may overtake a task that waits for resources",
		set:  setOvertake,
	},
	{
		Name: "reference-timeout", Default: "30s", Rare: true,
		Help: "how long a program may take to print the value of a reference",
		set:  duration(func(s *Settings) *time.Duration { return &s.References.Timeout }),
	},
	{
		Name: "reserved-memory", Rare: true,
		Help: "memory that no task gets, such as 512m, subtracted from the memory that was detected",
		set:  setReservedMemory,
	},
	{
		Name: "reserved-ports", Rare: true,
		Help: "host ports that no task gets, such as 22,8000-8080",
		set:  setReservedPorts,
	},
	{
		Name: "socket", Path: true,
		Help: "the agent's socket; by default $XDG_RUNTIME_DIR/podtask/podtask.sock",
		set:  text(func(s *Settings) *string { return &s.Paths.Socket }),
	},
	{
		Name: "stack-previews", Default: "10", Rare: true,
		Help: "how many previews all stacks together may have",
		set:  setPreviews,
	},
	{
		Name: "state-dir", Path: true,
		Help: "directory for records; by default $XDG_STATE_HOME/podtask",
		set:  text(func(s *Settings) *string { return &s.Paths.StateDir }),
	},
	{
		Name: "stop-tasks", Default: "shutdown", Values: []string{"shutdown", "always", "never"}, Verb: "agent",
		Help: "when an agent that exits stops its tasks: at shutdown of the host or the end of the user's session, always, or never",
		set:  text(func(s *Settings) *StopTasks { return &s.Agent.StopTasks }),
	},
	{
		Name: "task-cleanup-wait", Default: "3h",
		Help: "how long a stopped task is kept, with its logs and exit codes, such as 90m or 24h; never keeps it until it is removed",
		set:  setTaskCleanupWait,
	},
	{
		Name: "unknown-members", Default: "refuse", Values: []string{"refuse", "warn"}, Rare: true,
		Help: "what to do with members of a task definition that neither ECS nor podtask knows; --lenient warns for one command",
		set:  boolean("warn", func(s *Settings) *bool { return &s.Tasks.Lenient }),
	},
	{
		Name: "update-hours", Rare: true,
		Help: "comma-separated parts of a day, such as 02:00-05:00, in which updates of images begin; by default, at any time",
		set:  rules(imageage.ParseHours, func(s *Settings) *[]imageage.Hours { return &s.Updates.Hours }),
	},
	{
		Name: "update-registries", Rare: true,
		Help: "comma-separated registries, HOST or HOST/PATH, of which updates of images are taken; by default, of all",
		set:  rules(imageage.ParseRegistries, func(s *Settings) *[]string { return &s.Updates.Registries }),
	},
	{
		Name: "update-tags", Rare: true,
		Help: "comma-separated patterns of tags, or constraints of versions such as semver: ~1.4, of which updates are taken; by default, of all",
		set:  rules(imageage.ParseTags, func(s *Settings) *[]imageage.TagRule { return &s.Updates.Tags }),
	},
	{
		Name: "without-members", Rare: true,
		Help: "comma-separated members of task definitions that tasks do without, such as credentialSpecs; --without adds one for one command",
		set:  setWithout,
	},
}

// Keys returns all keys, sorted by name. The caller may change the result.
func Keys() []Key {
	all := slices.Clone(keys)
	for i := range all {
		all[i].Values = slices.Clone(all[i].Values)
	}
	return all
}

// Env returns the key's environment variable.
func (k Key) Env() string {
	return "PODTASK_" + strings.ToUpper(strings.ReplaceAll(k.Name, "-", "_"))
}

// apply checks a value and puts it into its field. The empty value is the default. The
// error does not name the key.
func (k Key) apply(s *Settings, value string) error {
	if len(k.Values) > 0 && !slices.Contains(k.Values, value) {
		return fmt.Errorf("must be %s, not %q", list(k.Values), value)
	}
	if k.Path && value != "" && !filepath.IsAbs(value) {
		return fmt.Errorf("must be an absolute path, not %q", value)
	}
	if value == "" {
		value = k.Default
	}
	return k.set(s, value)
}

// find returns the key of a name.
func find(name string) (Key, bool) {
	i := slices.IndexFunc(keys, func(k Key) bool { return k.Name == name })
	if i < 0 {
		return Key{}, false
	}
	return keys[i], true
}

func names() []string {
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = k.Name
	}
	return all
}
