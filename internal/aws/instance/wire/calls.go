package wire

// Register is the body of RegisterContainerInstance. The members clientToken is not in the public
// model; the agent of AWS sends it.
type Register struct {
	Attributes        []Attribute `json:"attributes"`
	ClientToken       string      `json:"clientToken,omitempty"`
	Cluster           string      `json:"cluster"`
	InstanceARN       string      `json:"containerInstanceArn,omitempty"`
	IdentityDocument  string      `json:"instanceIdentityDocument"`
	IdentitySignature string      `json:"instanceIdentityDocumentSignature"`
	PlatformDevices   []Device    `json:"platformDevices,omitempty"`
	Tags              []Tag       `json:"tags,omitempty"`
	TotalResources    []Resource  `json:"totalResources"`
}

// Attribute is what an instance can do, or a fact about it.
type Attribute struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// Tag is a tag of an instance.
type Tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Device is a device of the host, such as a GPU.
type Device struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// Resource is what an instance has for tasks.
type Resource struct {
	Integer *int64    `json:"integerValue,omitempty"`
	Name    string    `json:"name"`
	Strings *[]string `json:"stringSetValue,omitempty"`
	Type    string    `json:"type"`
}

// Integer returns a resource that is a number.
func Integer(name string, n int64) Resource {
	return Resource{Name: name, Type: "INTEGER", Integer: &n}
}

// StringSet returns a resource that is a set of strings.
func StringSet(name string, values []string) Resource {
	values = append([]string{}, values...)
	return Resource{Name: name, Type: "STRINGSET", Strings: &values}
}

// Registered is the answer to Register and to Deregister.
type Registered struct {
	Instance Instance `json:"containerInstance"`
}

// Instance is a container instance as ECS has it.
type Instance struct {
	ARN            string      `json:"containerInstanceArn"`
	Attributes     []Attribute `json:"attributes,omitempty"`
	Status         string      `json:"status,omitempty"`
	AgentConnected bool        `json:"agentConnected,omitempty"`
	Running        int         `json:"runningTasksCount,omitempty"`
	Pending        int         `json:"pendingTasksCount,omitempty"`
}

// Discover is the body of DiscoverPollEndpoint. The member zoneId is not in the public model.
type Discover struct {
	Cluster     string `json:"cluster"`
	InstanceARN string `json:"containerInstance,omitempty"`
	ZoneID      string `json:"zoneId"`
}

// Endpoints is the answer to Discover.
type Endpoints struct {
	ACS string `json:"endpoint"`
	TCS string `json:"telemetryEndpoint"`
}

// StateChange is the body of SubmitTaskStateChange.
type StateChange struct {
	Cluster            string              `json:"cluster"`
	Containers         []ContainerState    `json:"containers,omitempty"`
	ExecutionStoppedAt *Time               `json:"executionStoppedAt,omitempty"`
	ManagedAgents      []ManagedAgentState `json:"managedAgents,omitempty"`
	PullStartedAt      *Time               `json:"pullStartedAt,omitempty"`
	PullStoppedAt      *Time               `json:"pullStoppedAt,omitempty"`
	Reason             string              `json:"reason"`
	Status             string              `json:"status"`
	Task               string              `json:"task"`
}

// ContainerState is the state of a container in a StateChange.
type ContainerState struct {
	ContainerName   string    `json:"containerName"`
	ExitCode        *int      `json:"exitCode,omitempty"`
	ImageDigest     string    `json:"imageDigest,omitempty"`
	NetworkBindings []Binding `json:"networkBindings,omitempty"`
	Reason          string    `json:"reason,omitempty"`
	RuntimeID       string    `json:"runtimeId,omitempty"`
	Status          string    `json:"status"`
}

// Binding is a published port.
type Binding struct {
	BindIP        string `json:"bindIP"`
	ContainerPort uint16 `json:"containerPort,omitempty"`
	HostPort      uint16 `json:"hostPort,omitempty"`
	Protocol      string `json:"protocol"`
}

// ManagedAgentState is the state of a managed agent in a StateChange.
type ManagedAgentState struct {
	ContainerName string `json:"containerName"`
	Name          string `json:"managedAgentName"`
	Reason        string `json:"reason,omitempty"`
	Status        string `json:"status"`
}

// UpdateState is the body of UpdateContainerInstancesState.
type UpdateState struct {
	Cluster   string   `json:"cluster"`
	Instances []string `json:"containerInstances"`
	Status    string   `json:"status"`
}

// UpdatedState is the answer to UpdateState and to DescribeInstances.
type UpdatedState struct {
	Instances []Instance `json:"containerInstances"`
	Failures  []Failure  `json:"failures"`
}

// Failure explains why a call did not do what it was asked for one of several things.
type Failure struct {
	ARN    string `json:"arn"`
	Reason string `json:"reason"`
}

// DescribeInstances is the body of DescribeContainerInstances.
type DescribeInstances struct {
	Cluster   string   `json:"cluster"`
	Instances []string `json:"containerInstances"`
}

// Deregister is the body of DeregisterContainerInstance.
type Deregister struct {
	Cluster  string `json:"cluster"`
	Instance string `json:"containerInstance"`
	Force    bool   `json:"force"`
}
