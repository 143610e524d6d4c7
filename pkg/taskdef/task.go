// Package taskdef turns a task definition as a user wrote it into a Task.
//
// Parse is the only maker of a Task, so a Task is valid by construction: names
// are unique and well formed, every dependency exists, the dependency graph has
// no cycle, and numbers lie in the ranges of the ECS model. All problems of a
// document are reported at once, each with its place.
//
// The package is pure: it reads no clock, no file and no environment. Values
// are safe to share between goroutines as long as no goroutine writes to them.
package taskdef

import (
	"fmt"
	"time"
)

// Task is a validated task definition. It is treated as immutable.
type Task struct {
	// Family is the task definition's family (1 to 255 letters, digits, - and _).
	Family string `json:"family"`
	// Revision is 0 for a definition that was never registered.
	Revision int `json:"revision,omitempty"`
	// Network is the task's network mode; never empty.
	Network NetworkMode `json:"networkMode"`
	// Published: host ports were given beside the definition, which in network mode
	// awsvpc lets them differ from the containers'.
	Published bool `json:"published,omitempty"`
	// CPU is the hard limit of the whole task in vCPU; 0 means none.
	CPU float64 `json:"cpu,omitempty"`
	// Memory is the hard limit of the whole task in bytes; 0 means none.
	Memory int64 `json:"memory,omitempty"`
	// EphemeralStorage is the disk space that was asked for, in GiB; 0 if none was. Nothing sets
	// it aside: clients of ECS are told what they asked for.
	EphemeralStorage int64 `json:"ephemeralStorage,omitempty"`
	// PIDMode and IPCMode say with whom the containers share these namespaces;
	// empty means that each has its own.
	PIDMode PIDMode `json:"pidMode,omitempty"`
	IPCMode IPCMode `json:"ipcMode,omitempty"`
	// FaultInjection: faults may be injected into the network of the task.
	FaultInjection bool `json:"enableFaultInjection,omitempty"`
	// Platform is the platform of the images.
	Platform Platform `json:"platform,omitzero"`
	// Volumes are in the order of the document; names are unique.
	Volumes []Volume `json:"volumes,omitempty"`
	// Identity holds the roles of the task on AWS.
	Identity Identity `json:"identity,omitzero"`
	// Extensions hold the settings of the task beyond the ECS model (x-podtask).
	Extensions TaskExtensions `json:"extensions,omitzero"`
	// Containers are in the order of the document, 1 to 10 of them.
	Containers []Container `json:"containers"`
}

// Identity are the roles and tags of a task.
type Identity struct {
	// TaskRoleARN is the role whose credentials the containers get, ExecutionRoleARN the one
	// for what happens before they run; empty for none.
	TaskRoleARN string `json:"taskRoleArn,omitempty"`
	// TaskRoleSource is the place of these credentials on this host, if a reference leads to one.
	TaskRoleSource   string `json:"taskRoleSource,omitempty"`
	ExecutionRoleARN string `json:"executionRoleArn,omitempty"`
	// ExecutionRoleSource is the same for the execution role. Lines for CloudWatch Logs are sent with it.
	ExecutionRoleSource string            `json:"executionRoleSource,omitempty"`
	Tags                map[string]string `json:"tags,omitempty"`
}

// NetworkMode is the ECS network mode.
type NetworkMode string

// The network modes of the ECS model. A definition without one gets Bridge.
const (
	NetworkBridge NetworkMode = "bridge"
	NetworkAWSVPC NetworkMode = "awsvpc"
	NetworkHost   NetworkMode = "host"
	NetworkNone   NetworkMode = "none"
)

// PIDMode is the ECS pidMode of a task.
type PIDMode string

// The PID modes of the ECS model.
const (
	PIDPrivate PIDMode = ""
	PIDTask    PIDMode = "task" // all containers of the task share one namespace
	PIDHost    PIDMode = "host" // rootless: the processes of the user are visible
)

// IPCMode is the ECS ipcMode of a task.
type IPCMode string

// The IPC modes of the ECS model.
const (
	IPCDefault IPCMode = ""     // the engine's default: each container has its own
	IPCTask    IPCMode = "task" // all containers of the task share one namespace
	IPCHost    IPCMode = "host"
	IPCNone    IPCMode = "none" // each container has its own, without shared memory of others
)

// Platform is a platform of images, in the words of image indexes.
type Platform struct {
	// OS is "linux", or empty where the document does not say.
	OS string `json:"os,omitempty"`
	// Architecture is "amd64" or "arm64"; empty means that of the host.
	Architecture string `json:"architecture,omitempty"`
}

// Container is one container of a task.
type Container struct {
	Name  string `json:"name"`
	Image string `json:"image"` // as the user wrote it
	// EntryPoint and Command replace the image's own; nil keeps them.
	EntryPoint []string `json:"entryPoint,omitempty"`
	Command    []string `json:"command,omitempty"`
	// RepositoryCredentials is the source of the credentials for the image's registry; nil means those of the host.
	RepositoryCredentials *SecretValue `json:"repositoryCredentials,omitempty"`
	// Unpinned: the container may run what its tag points to when it is pulled;
	// its digest is not looked up first (versionConsistency "disabled").
	Unpinned bool `json:"unpinned,omitempty"`
	// Environment is in the order of the document; names are unique.
	Environment []EnvVar `json:"environment,omitempty"`
	// EnvironmentFiles come below Environment: a variable that is set there, or in
	// an earlier file, is not taken from a later one.
	EnvironmentFiles []EnvironmentFile `json:"environmentFiles,omitempty"`
	// Secrets become variables; no name is that of a variable of Environment.
	Secrets          []Secret          `json:"secrets,omitempty"`
	WorkingDirectory string            `json:"workingDirectory,omitempty"`
	User             string            `json:"user,omitempty"`
	Labels           map[string]string `json:"labels,omitempty"`
	ReadonlyRootFS   bool              `json:"readonlyRootFilesystem,omitempty"`
	Init             bool              `json:"initProcessEnabled,omitempty"`
	Interactive      bool              `json:"interactive,omitempty"`
	PseudoTerminal   bool              `json:"pseudoTerminal,omitempty"`
	// Privileged gives all that the user has; rootless it is never more.
	Privileged bool     `json:"privileged,omitempty"`
	Security   Security `json:"security,omitzero"`
	// Linux has the requests of the document to the kernel for this container.
	Linux Linux `json:"linux,omitzero"`
	// Mounts are the container's own; Task.Mounts adds those of VolumesFrom.
	Mounts      []Mount       `json:"mounts,omitempty"`
	VolumesFrom []VolumesFrom `json:"volumesFrom,omitempty"`
	// Net has the requests of the container to its network besides ports.
	Net ContainerNetwork `json:"net,omitzero"`
	// Log is the destination of the container's output; nil means the default.
	Log *LogConfiguration `json:"log,omitempty"`
	// FireLens makes the container a log router; nil: it is none.
	FireLens *FireLens `json:"firelens,omitempty"`
	// Restart is nil where the container is not restarted when it exits.
	Restart *RestartPolicy `json:"restart,omitempty"`
	// Extensions are the requests of the container beyond the ECS model (x-podtask).
	Extensions ContainerExtensions `json:"extensions,omitzero"`
	// Essential: the task stops when this container stops. True unless the
	// document says otherwise.
	Essential bool `json:"essential"`
	// DependsOn lists at most one condition per other container.
	DependsOn   []Dependency `json:"dependsOn,omitempty"`
	HealthCheck *HealthCheck `json:"healthCheck,omitempty"`
	Ports       []Port       `json:"ports,omitempty"`
	// CPU is in ECS cpu units (1024 = 1 vCPU) and is a share, not a limit; 0 means unset.
	CPU int64 `json:"cpu,omitempty"`
	// Memory (hard) and MemoryReservation (soft) are in bytes; 0 means unset.
	Memory            int64 `json:"memory,omitempty"`
	MemoryReservation int64 `json:"memoryReservation,omitempty"`
	// StartTimeout bounds how long dependants wait for this container to satisfy
	// a COMPLETE, SUCCESS or HEALTHY condition, counted from its start; 0 means no limit.
	StartTimeout time.Duration `json:"startTimeout,omitempty"`
	// StopTimeout is the grace between SIGTERM and SIGKILL; never 0 (ECS default 30 s).
	StopTimeout time.Duration `json:"stopTimeout"`
}

// EnvVar is one environment variable.
type EnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Condition is the event that a dependant waits for.
type Condition string

// The conditions of the ECS model (ContainerDependency).
const (
	Start    Condition = "START"
	Complete Condition = "COMPLETE"
	Success  Condition = "SUCCESS"
	Healthy  Condition = "HEALTHY"
)

// Words returns what the other container is to do, to follow "waits for db": "to be healthy".
func (c Condition) Words() string {
	switch c {
	case Complete:
		return "to exit"
	case Success:
		return "to exit with code 0"
	case Healthy:
		return "to be healthy"
	case Start:
	}
	return "to start"
}

// Dependency says that a container waits until another one meets a condition.
type Dependency struct {
	// Container is the index of the other container in Task.Containers.
	Container int       `json:"container"`
	Condition Condition `json:"condition"`
}

// HealthCheck is a command run in the container from time to time.
type HealthCheck struct {
	// Command is ["CMD", arg...] or ["CMD-SHELL", command].
	Command     []string      `json:"command"`
	Interval    time.Duration `json:"interval"`              // 5 s to 300 s, default 30 s
	Timeout     time.Duration `json:"timeout"`               // 2 s to 60 s, default 5 s
	Retries     int           `json:"retries"`               // 1 to 10, default 3
	StartPeriod time.Duration `json:"startPeriod,omitempty"` // 0 to 300 s, default 0
	// Action (x-podtask) is what becomes of a container that is UNHEALTHY: nothing, as in
	// ECS, or ActionRestart.
	Action HealthAction `json:"action,omitempty"`
}

// HasHealth reports whether the container has a check by which it can be HEALTHY.
func (c Container) HasHealth() bool { return c.HealthCheck != nil || c.Extensions.Probes.Any() }

// HealthAction is the fate of an unhealthy container.
type HealthAction string

// ActionRestart stops an unhealthy container; its restart policy then starts it again,
// whatever its exit code.
const ActionRestart HealthAction = "restart"

// Port is one port, or one range of ports, published by the task.
type Port struct {
	ContainerPort uint16 `json:"containerPort"`
	// ContainerPortEnd is the last port of a range; 0 for a single port.
	ContainerPortEnd uint16 `json:"containerPortEnd,omitempty"`
	// HostPort is the first of as many ports of the host; 0 means that they are
	// chosen when the task starts, one behind the other.
	HostPort uint16 `json:"hostPort"`
	// AWSVPCHostPort is the host port of network mode awsvpc: the container port. With a
	// HostPort of 0 it is published if it is free and the user may publish it; otherwise a
	// free port is chosen. It is 0 in other modes.
	AWSVPCHostPort uint16 `json:"preferredHostPort,omitempty"`
	// AnyOf are host ports of which a free one is chosen when the task starts. HostPort and
	// AWSVPCHostPort are 0 then. The zero value is any port.
	AnyOf    PortSpan `json:"anyOf,omitzero"`
	Protocol string   `json:"protocol"` // tcp or udp
	HostIP   string   `json:"hostIP,omitempty"`
	Name     string   `json:"name,omitempty"`
}

// PortSpan is a range of ports, its ends included.
type PortSpan struct {
	First uint16 `json:"first"`
	Last  uint16 `json:"last"`
}

// Given reports whether s is a range, and not the zero value.
func (s PortSpan) Given() bool { return s != PortSpan{} }

// String returns FIRST-LAST.
func (s PortSpan) String() string { return fmt.Sprintf("%d-%d", s.First, s.Last) }

// Count returns how many ports p stands for; 1 for a single port.
func (p Port) Count() int {
	if p.ContainerPortEnd == 0 {
		return 1
	}
	return int(p.ContainerPortEnd) - int(p.ContainerPort) + 1
}

// DefaultStopTimeout is the grace of a container that sets none (ECS agent,
// ECS_CONTAINER_STOP_TIMEOUT).
const DefaultStopTimeout = 30 * time.Second
