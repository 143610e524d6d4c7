package wire

// Task is a task of a Payload. Unknown members are ignored.
type Task struct {
	ARN                  string           `json:"arn"`
	ClusterARN           string           `json:"taskClusterArn,omitempty"`
	Family               string           `json:"family"`
	Version              string           `json:"version"`
	Account              string           `json:"taskDefinitionAccountId,omitempty"`
	DesiredStatus        string           `json:"desiredStatus"`
	Containers           []Container      `json:"containers"`
	Volumes              []Volume         `json:"volumes,omitempty"`
	CPU                  float64          `json:"cpu"`    // vCPU
	Memory               int64            `json:"memory"` // MiB
	Role                 *RoleCredentials `json:"roleCredentials,omitempty"`
	ExecutionRole        *RoleCredentials `json:"executionRoleCredentials,omitempty"`
	NetworkMode          string           `json:"networkMode,omitempty"`
	PIDMode              string           `json:"pidMode,omitempty"`
	IPCMode              string           `json:"ipcMode,omitempty"`
	LaunchType           string           `json:"launchType,omitempty"`
	ServiceName          string           `json:"serviceName,omitempty"`
	Group                string           `json:"group,omitempty"`
	Associations         []Association    `json:"associations,omitempty"`
	NetworkInterfaces    []any            `json:"elasticNetworkInterfaces,omitempty"`
	Attachments          []any            `json:"attachments,omitempty"`
	ProxyConfiguration   any              `json:"proxyConfiguration,omitempty"`
	TrustedExecution     any              `json:"trustedExecutionConfiguration,omitempty"`
	EnableFaultInjection bool             `json:"enableFaultInjection,omitempty"`
}

// Association gives containers a device of the host. Of type "gpu", its name is that of the device.
type Association struct {
	Name       string   `json:"name"`
	Type       string   `json:"type"`
	Containers []string `json:"containers"`
}

// Volume is a volume of a task.
type Volume struct {
	Name   string        `json:"name"`
	Type   string        `json:"type,omitempty"`
	Host   *HostVolume   `json:"host,omitempty"`
	Docker *DockerVolume `json:"dockerVolumeConfiguration,omitempty"`
	EFS    *EFSVolume    `json:"efsVolumeConfiguration,omitempty"`
	FSx    any           `json:"fsxWindowsFileServerVolumeConfiguration,omitempty"`
}

// HostVolume is a directory of the host, or one of the task if the path is empty.
type HostVolume struct {
	SourcePath string `json:"sourcePath"`
}

// DockerVolume is a volume of the container engine.
type DockerVolume struct {
	Scope         string            `json:"scope,omitempty"`
	Autoprovision *bool             `json:"autoprovision,omitempty"`
	Driver        string            `json:"driver,omitempty"`
	DriverOpts    map[string]string `json:"driverOpts,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
}

// EFSVolume is a file system of EFS.
type EFSVolume struct {
	FileSystemID  string `json:"fileSystemId,omitempty"`
	RootDirectory string `json:"rootDirectory,omitempty"`
}

// Container is a container of a Task. Most of its settings are in Docker's structures, as JSON in
// text.
type Container struct {
	Name             string            `json:"name"`
	Image            string            `json:"image"`
	Command          []string          `json:"command,omitempty"`
	EntryPoint       *[]string         `json:"entryPoint,omitempty"`
	Environment      map[string]string `json:"environment,omitempty"`
	EnvironmentFiles []EnvironmentFile `json:"environmentFiles,omitempty"`
	CPU              int64             `json:"cpu"`
	Memory           int64             `json:"memory"` // MiB
	Essential        *bool             `json:"essential,omitempty"`
	Links            []string          `json:"links,omitempty"`
	PortMappings     []PortMapping     `json:"portMappings,omitempty"`
	MountPoints      []MountPoint      `json:"mountPoints,omitempty"`
	VolumesFrom      []VolumeFrom      `json:"volumesFrom,omitempty"`
	DependsOn        []Dependency      `json:"dependsOn,omitempty"`
	StartTimeout     int64             `json:"startTimeout,omitempty"` // seconds
	StopTimeout      int64             `json:"stopTimeout,omitempty"`  // seconds
	RestartPolicy    *RestartPolicy    `json:"restartPolicy,omitempty"`
	HealthCheckType  string            `json:"healthCheckType,omitempty"`
	Secrets          []Secret          `json:"secrets,omitempty"`
	RegistryAuth     *RegistryAuth     `json:"registryAuthentication,omitempty"`
	LogsAuthStrategy string            `json:"logsAuthStrategy,omitempty"`
	Firelens         *Firelens         `json:"firelensConfiguration,omitempty"`
	ManagedAgents    []ManagedAgent    `json:"managedAgents,omitempty"`
	LinuxParameters  any               `json:"linuxParameters,omitempty"`
	Privileged       bool              `json:"privileged,omitempty"`
	CredentialSpecs  []string          `json:"credentialSpecs,omitempty"`
	ContainerARN     string            `json:"containerArn,omitempty"`
	Docker           DockerConfig      `json:"dockerConfig"`
	// Overrides is JSON in text with the key command alone.
	Overrides string `json:"overrides,omitempty"`
}

// EnvironmentFile is an object of S3 with variables.
type EnvironmentFile struct {
	Value string `json:"value"`
	Type  string `json:"type"`
}

// PortMapping publishes a port, or a range of them.
type PortMapping struct {
	ContainerPort      uint16 `json:"containerPort,omitempty"`
	HostPort           uint16 `json:"hostPort,omitempty"`
	Protocol           string `json:"protocol,omitempty"`
	ContainerPortRange string `json:"containerPortRange,omitempty"`
}

// MountPoint mounts a volume of the task.
type MountPoint struct {
	SourceVolume  string `json:"sourceVolume"`
	ContainerPath string `json:"containerPath"`
	ReadOnly      bool   `json:"readOnly,omitempty"`
}

// VolumeFrom mounts the volumes of another container.
type VolumeFrom struct {
	SourceContainer string `json:"sourceContainer"`
	ReadOnly        bool   `json:"readOnly,omitempty"`
}

// Dependency makes a container wait for another one.
type Dependency struct {
	ContainerName string `json:"containerName"`
	Condition     string `json:"condition"`
}

// RestartPolicy is that of a container.
type RestartPolicy struct {
	Enabled              bool    `json:"enabled"`
	IgnoredExitCodes     []int64 `json:"ignoredExitCodes,omitempty"`
	RestartAttemptPeriod int64   `json:"restartAttemptPeriod,omitempty"` // seconds
}

// Secret is a value that the execution role may read.
type Secret struct {
	Name          string `json:"name"`
	ValueFrom     string `json:"valueFrom"`
	Region        string `json:"region,omitempty"`
	Provider      string `json:"provider,omitempty"` // ssm or asm
	Type          string `json:"type,omitempty"`     // ENVIRONMENT_VARIABLE, MOUNT_POINT or BOOTSTRAP
	Target        string `json:"target,omitempty"`   // CONTAINER or LOG_DRIVER
	ContainerPath string `json:"containerPath,omitempty"`
}

// RegistryAuth says how the image is pulled.
type RegistryAuth struct {
	Type string   `json:"type"` // ecr or asm
	ECR  *ECRAuth `json:"ecrAuthData,omitempty"`
	ASM  *ASMAuth `json:"asmAuthData,omitempty"`
}

// ECRAuth is a registry of ECR.
type ECRAuth struct {
	RegistryID       string `json:"registryId,omitempty"`
	Region           string `json:"region,omitempty"`
	EndpointOverride string `json:"endpointOverride,omitempty"`
	UseExecutionRole bool   `json:"useExecutionRole,omitempty"`
}

// ASMAuth is a secret of Secrets Manager with a user and a password.
type ASMAuth struct {
	CredentialsParameter string `json:"credentialsParameter,omitempty"`
	Region               string `json:"region,omitempty"`
}

// Firelens makes a container the log router of its task.
type Firelens struct {
	Type    string            `json:"type"`
	Options map[string]string `json:"options,omitempty"`
}

// ManagedAgent is a program that the agent is to put into a container.
type ManagedAgent struct {
	Name       string         `json:"name"`
	Properties map[string]any `json:"properties,omitempty"`
}

// DockerConfig has Docker's structures as JSON in text.
type DockerConfig struct {
	Config     string `json:"config,omitempty"`
	HostConfig string `json:"hostConfig,omitempty"`
	Version    string `json:"version,omitempty"`
}
