package wire

// Types of the messages of TCS.
const (
	TypeMetrics           = "PublishMetricsRequest"
	TypeHealth            = "PublishHealthRequest"
	TypeInstanceStatus    = "PublishInstanceStatusRequest"
	TypeMetricsAck        = "AckPublishMetric"
	TypeHealthAck         = "AckPublishHealth"
	TypeInstanceStatusAck = "AckPublishInstanceStatus"
)

// MaxTasks is the most tasks that one message of TCS has.
const MaxTasks = 10

// Metrics is the message with what containers use.
type Metrics struct {
	Metadata  MetricsMetadata `json:"metadata"`
	Tasks     []TaskMetrics   `json:"taskMetrics,omitempty"`
	Timestamp Time            `json:"timestamp"`
}

// MetricsMetadata says what a message of Metrics is about. Messages of one round have one ID, and the
// last is final. Idle: there is no task.
type MetricsMetadata struct {
	Cluster   string `json:"cluster"`
	Instance  string `json:"containerInstance"`
	Final     bool   `json:"fin"`
	Idle      bool   `json:"idle"`
	MessageID string `json:"messageId"`
}

// TaskMetrics is what the containers of a task use.
type TaskMetrics struct {
	Containers []ContainerMetrics `json:"containerMetrics"`
	ARN        string             `json:"taskArn"`
	Family     string             `json:"taskDefinitionFamily"`
	Version    string             `json:"taskDefinitionVersion"`
}

// ContainerMetrics is what a container uses.
type ContainerMetrics struct {
	Name     string      `json:"containerName"`
	CPU      *Stats      `json:"cpuStatsSet,omitempty"`    // per cent of all cores of the host
	Memory   *Stats      `json:"memoryStatsSet,omitempty"` // MiB
	Network  *NetworkSet `json:"networkStatsSet,omitempty"`
	Storage  *StorageSet `json:"storageStatsSet,omitempty"`
	Restarts *RestartSet `json:"restartStatsSet,omitempty"`
}

// Stats sums up samples.
type Stats struct {
	Max   float64 `json:"max"`
	Min   float64 `json:"min"`
	Count int64   `json:"sampleCount"`
	Sum   float64 `json:"sum"`
}

// WholeStats sums up samples that are whole numbers. What does not fit in 63 bits is in the
// overflows, which stay zero here.
type WholeStats struct {
	Max         int64 `json:"max"`
	Min         int64 `json:"min"`
	OverflowMax int64 `json:"overflowMax"`
	OverflowMin int64 `json:"overflowMin"`
	OverflowSum int64 `json:"overflowSum"`
	Count       int64 `json:"sampleCount"`
	Sum         int64 `json:"sum"`
}

// NetworkSet is the traffic of a container since it started.
type NetworkSet struct {
	RxBytes          *WholeStats `json:"rxBytes,omitempty"`
	RxBytesPerSecond *Stats      `json:"rxBytesPerSecond,omitempty"`
	RxDropped        *WholeStats `json:"rxDropped,omitempty"`
	RxErrors         *WholeStats `json:"rxErrors,omitempty"`
	RxPackets        *WholeStats `json:"rxPackets,omitempty"`
	TxBytes          *WholeStats `json:"txBytes,omitempty"`
	TxBytesPerSecond *Stats      `json:"txBytesPerSecond,omitempty"`
	TxDropped        *WholeStats `json:"txDropped,omitempty"`
	TxErrors         *WholeStats `json:"txErrors,omitempty"`
	TxPackets        *WholeStats `json:"txPackets,omitempty"`
}

// StorageSet is what a container read and wrote since it started, in bytes.
type StorageSet struct {
	Read  *WholeStats `json:"readSizeBytes,omitempty"`
	Write *WholeStats `json:"writeSizeBytes,omitempty"`
}

// RestartSet is the number of times that a container was started again.
type RestartSet struct {
	Count int64 `json:"restartCount"`
}

// Health is the message with the health of containers.
type Health struct {
	Metadata  HealthMetadata `json:"metadata"`
	Tasks     []TaskHealth   `json:"tasks"`
	Timestamp Time           `json:"timestamp"`
}

// HealthMetadata is as MetricsMetadata.
type HealthMetadata struct {
	Cluster   string `json:"cluster"`
	Instance  string `json:"containerInstance"`
	Final     bool   `json:"fin"`
	MessageID string `json:"messageId"`
}

// TaskHealth is the health of the containers of a task that have a health check.
type TaskHealth struct {
	Containers []ContainerHealth `json:"containers"`
	ARN        string            `json:"taskArn"`
	Family     string            `json:"taskDefinitionFamily"`
	Version    string            `json:"taskDefinitionVersion"`
}

// ContainerHealth is the health of a container: HEALTHY, UNHEALTHY or UNKNOWN.
type ContainerHealth struct {
	Name   string `json:"containerName"`
	Status string `json:"healthStatus"`
	Since  *Time  `json:"statusSince,omitempty"`
}

// InstanceStatus is the message with the health of the instance.
type InstanceStatus struct {
	Metadata  InstanceMetadata `json:"metadata"`
	Statuses  []StatusOf       `json:"statuses"`
	Timestamp Time             `json:"timestamp"`
}

// InstanceMetadata says which instance it is.
type InstanceMetadata struct {
	Cluster   string `json:"cluster"`
	Instance  string `json:"containerInstance"`
	RequestID string `json:"requestId"`
}

// StatusOf is OK or IMPAIRED.
type StatusOf struct {
	LastStatusChange Time   `json:"lastStatusChange"`
	LastUpdated      Time   `json:"lastUpdated"`
	Status           string `json:"status"`
	Type             string `json:"type"`
}
