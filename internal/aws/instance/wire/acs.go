package wire

import "encoding/json"

// Types of the messages of ACS.
const (
	TypePayload              = "PayloadMessage"
	TypeHeartbeat            = "HeartbeatMessage"
	TypeHeartbeatAck         = "HeartbeatAckRequest"
	TypeAck                  = "AckRequest"
	TypeNack                 = "NackRequest"
	TypeCredentials          = "IAMRoleCredentialsMessage"
	TypeCredentialsAck       = "IAMRoleCredentialsAckRequest"
	TypeManifest             = "TaskManifestMessage"
	TypeStopVerification     = "TaskStopVerificationMessage"
	TypeStopVerificationAck  = "TaskStopVerificationAck"
	TypeStageUpdate          = "StageUpdateMessage"
	TypePerformUpdate        = "PerformUpdateMessage"
	TypeError                = "ErrorMessage"
	TypeClose                = "CloseMessage"
	TypeAttachTaskENI        = "AttachTaskNetworkInterfacesMessage"
	TypeAttachInstanceENI    = "AttachInstanceNetworkInterfacesMessage"
	TypeConfirmAttachment    = "ConfirmAttachmentMessage"
	TypeInactiveInstance     = "InactiveInstanceException"
	RoleApplication          = "TaskApplication"
	RoleExecution            = "TaskExecution"
	StatusPending            = "PENDING"
	StatusRunning            = "RUNNING"
	StatusStopped            = "STOPPED"
	ManagedAgentExecCommand  = "ExecuteCommandAgent"
	reasonUpdatesAreDisabled = "Updates are disabled"
)

// Header has the members that most messages of ECS have.
type Header struct {
	MessageID   string `json:"messageId"`
	ClusterARN  string `json:"clusterArn"`
	InstanceARN string `json:"containerInstanceArn"`
}

// Payload says which tasks are to run and to stop. Each task is read by itself, so that one that
// cannot be read does not hold up the others.
type Payload struct {
	Header
	SeqNum int64             `json:"seqNum"`
	Tasks  []json.RawMessage `json:"tasks"`
}

// Heartbeat asks whether the agent is there.
type Heartbeat struct {
	Healthy   bool   `json:"healthy"`
	MessageID string `json:"messageId,omitempty"`
}

// HeartbeatAck answers a Heartbeat.
type HeartbeatAck struct {
	MessageID string `json:"messageId"`
}

// Ack answers a message that was accepted.
type Ack struct {
	Cluster   string `json:"cluster"`
	Instance  string `json:"containerInstance"`
	MessageID string `json:"messageId"`
}

// Nack answers a message that is not followed.
type Nack struct {
	Cluster   string `json:"cluster"`
	Instance  string `json:"containerInstance"`
	MessageID string `json:"messageId"`
	Reason    string `json:"reason"`
}

// AckOf returns the answer to an accepted message.
func AckOf(h Header) Ack { return Ack{h.ClusterARN, h.InstanceARN, h.MessageID} }

// UpdateRefused returns the answer to an update of the agent, which is not this program's.
func UpdateRefused(h Header) Nack {
	return Nack{h.ClusterARN, h.InstanceARN, h.MessageID, reasonUpdatesAreDisabled}
}

// RoleCredentials are temporary credentials of a role. They reach no state, log or error.
type RoleCredentials struct {
	ID              string `json:"credentialsId"`
	RoleARN         string `json:"roleArn"`
	AccessKeyID     string `json:"accessKeyId"`
	SecretAccessKey string `json:"secretAccessKey"`
	SessionToken    string `json:"sessionToken"`
	// Expiration is the text of AWS, which goes back unchanged.
	Expiration string `json:"expiration"`
}

// String keeps secrets out of logs and error texts.
func (RoleCredentials) String() string { return "credentials (hidden)" }

// GoString is String.
func (c RoleCredentials) GoString() string { return c.String() }

// Credentials gives a task new credentials of one of its roles.
type Credentials struct {
	MessageID string          `json:"messageId"`
	TaskARN   string          `json:"taskArn"`
	RoleType  string          `json:"roleType"`
	Role      RoleCredentials `json:"roleCredentials"`
}

// CredentialsAck answers Credentials, and those in a Payload.
type CredentialsAck struct {
	CredentialsID string `json:"credentialsId"`
	Expiration    string `json:"expiration"`
	MessageID     string `json:"messageId"`
}

// TaskRef is a task in a manifest.
type TaskRef struct {
	TaskARN       string `json:"taskArn"`
	ClusterARN    string `json:"taskClusterArn"`
	DesiredStatus string `json:"desiredStatus"`
}

// Manifest lists the tasks that the instance is to have.
type Manifest struct {
	Header
	Timeline int64     `json:"timeline"`
	Tasks    []TaskRef `json:"tasks"`
}

// StopVerification asks whether tasks that a manifest lacks are to stop.
type StopVerification struct {
	MessageID  string    `json:"messageId"`
	Candidates []TaskRef `json:"stopCandidates"`
}

// StopVerificationAck answers a StopVerification with the tasks that are to stop.
type StopVerificationAck struct {
	MessageID string    `json:"messageId"`
	Tasks     []TaskRef `json:"stopTasks"`
}
