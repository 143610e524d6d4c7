package awsapi

import (
	"cmp"
	"encoding/json"
	"runtime"
	"strconv"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/aws/awsapi/resource"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// clusterOf is the cluster that a task is in.
func clusterOf(s lifecycle.State) string { return cmp.Or(s.Options.Cluster, arn.DefaultCluster) }

// statusOf is the lastStatus of a task.
func statusOf(s lifecycle.State) string {
	switch status := s.Status(); {
	case status == lifecycle.StatusStopped:
		return "STOPPED"
	case s.Goal != lifecycle.Up:
		return "STOPPING"
	case status == lifecycle.StatusRunning:
		return "RUNNING"
	case s.Queued():
		return "PROVISIONING"
	}
	return "PENDING"
}

// desiredOf is the desiredStatus of a task.
func desiredOf(s lifecycle.State) string {
	if s.Goal == lifecycle.Up {
		return "RUNNING"
	}
	return "STOPPED"
}

// launchTypeOf is the launch type that was asked for. As on ECS, there is none with a strategy of
// capacity providers.
func launchTypeOf(c client) (launch string) {
	if protocol.Given(c.Kept, strategyMember) {
		return ""
	}
	if v := c.Kept["launchType"]; v != nil {
		_ = json.Unmarshal(v, &launch) // it was checked
	}
	return cmp.Or(launch, "EXTERNAL")
}

// strategyMember names the capacity providers of a task or a service.
const strategyMember = "capacityProviderStrategy"

// providerOf is the capacity provider that a task would run on: the one with a base, else that of the
// largest weight, else the first one.
func providerOf(c client) string {
	var strategy []strategyItem
	if !protocol.Given(c.Kept, strategyMember) || json.Unmarshal(c.Kept[strategyMember], &strategy) != nil || len(strategy) == 0 {
		return ""
	}
	best := strategy[0]
	for _, s := range strategy[1:] {
		if cmp.Or(cmp.Compare(s.Base, best.Base), cmp.Compare(s.Weight, best.Weight)) > 0 {
			best = s
		}
	}
	return best.Provider
}

// launchTypeOfTask is the launch type of a task: with a capacity provider, that of the provider.
func launchTypeOfTask(c client) string {
	switch provider := providerOf(c); provider {
	case "":
		return launchTypeOf(c)
	case fargate, "FARGATE_SPOT":
		return fargate
	}
	return "EC2"
}

// fargate is a launch type, and the capacity provider of the same name.
const fargate = "FARGATE"

// linux is the operating system of a task of Fargate, in ECS's spelling.
const linux = "Linux"

// defaultStorage is the ephemeral storage of a task of Fargate that asks for none, in GiB.
const defaultStorage = 20

// storageDoc is the ephemeral storage of a task in answers.
type storageDoc struct {
	Size int64 `json:"sizeInGiB"`
}

// onFargate returns the operating system and the requested storage of a task, which ECS reports for the
// launch type FARGATE only.
func onFargate(s lifecycle.State, launch string) (platform string, storage *storageDoc) {
	if launch != fargate {
		return "", nil
	}
	return linux, &storageDoc{cmp.Or(s.Task.EphemeralStorage, defaultStorage)}
}

// architecture is the name that ECS gives the processor architecture of this host.
func architecture() string {
	if runtime.GOARCH == "amd64" {
		return "x86_64"
	}
	return runtime.GOARCH
}

// waitsForAttribute is the attribute of a queued task that says what it waits for. ECS has no
// member for that: a reason is read as that of a failure.
const waitsForAttribute = "podtask.waits-for"

func attributesOf(s lifecycle.State) []protocol.NameValue {
	all := []protocol.NameValue{{Name: "ecs.cpu-architecture", Value: architecture()}}
	if s.Queued() {
		all = append(all, protocol.NameValue{Name: waitsForAttribute, Value: s.Sandbox.Queue})
	}
	return all
}

// taskDoc is a task in answers.
type taskDoc struct {
	Attachments   []struct{}           `json:"attachments"`
	Attributes    []protocol.NameValue `json:"attributes"`
	Provider      string               `json:"capacityProviderName,omitempty"`
	ClusterARN    string               `json:"clusterArn"`
	Connectivity  string               `json:"connectivity"`
	ConnectedAt   protocol.Moment      `json:"connectivityAt"`
	InstanceARN   string               `json:"containerInstanceArn,omitempty"`
	Containers    []containerDoc       `json:"containers"`
	CPU           string               `json:"cpu"`
	CreatedAt     protocol.Moment      `json:"createdAt"`
	DesiredStatus string               `json:"desiredStatus"`
	Exec          bool                 `json:"enableExecuteCommand"`
	Storage       *storageDoc          `json:"ephemeralStorage,omitempty"`
	Group         string               `json:"group"`
	HealthStatus  string               `json:"healthStatus"`
	LastStatus    string               `json:"lastStatus"`
	LaunchType    string               `json:"launchType"`
	Memory        string               `json:"memory"`
	Overrides     json.RawMessage      `json:"overrides"`
	Family        string               `json:"platformFamily,omitempty"`
	Platform      json.RawMessage      `json:"platformVersion,omitempty"`
	PullStartedAt protocol.Moment      `json:"pullStartedAt,omitzero"`
	PullStoppedAt protocol.Moment      `json:"pullStoppedAt,omitzero"`
	ExecStoppedAt protocol.Moment      `json:"executionStoppedAt,omitzero"`
	StartedAt     protocol.Moment      `json:"startedAt,omitzero"`
	StartedBy     string               `json:"startedBy,omitempty"`
	StopCode      string               `json:"stopCode,omitempty"`
	StoppingAt    protocol.Moment      `json:"stoppingAt,omitzero"`
	StoppedAt     protocol.Moment      `json:"stoppedAt,omitzero"`
	StoppedReason string               `json:"stoppedReason,omitempty"`
	Tags          []resource.Tag       `json:"tags"`
	TaskARN       string               `json:"taskArn"`
	Definition    string               `json:"taskDefinitionArn"`
	Version       int                  `json:"version"`
}

// containerDoc is a container of a task in answers.
type containerDoc struct {
	ARN               string           `json:"containerArn"`
	TaskARN           string           `json:"taskArn"`
	Name              string           `json:"name"`
	Image             string           `json:"image"`
	ImageDigest       string           `json:"imageDigest,omitempty"`
	RuntimeID         string           `json:"runtimeId,omitempty"`
	LastStatus        string           `json:"lastStatus"`
	ExitCode          *int             `json:"exitCode,omitempty"`
	Reason            string           `json:"reason,omitempty"`
	HealthStatus      string           `json:"healthStatus"`
	CPU               string           `json:"cpu"`
	Memory            string           `json:"memory,omitempty"`
	MemoryReservation string           `json:"memoryReservation,omitempty"`
	NetworkBindings   []networkBinding `json:"networkBindings"`
	NetworkInterfaces []struct{}       `json:"networkInterfaces"`
	Agents            []managedAgent   `json:"managedAgents,omitempty"`
}

// managedAgent is what runs programs of clients in a container. Here that is Podman, which is
// there whenever the container runs; tools wait for it.
type managedAgent struct {
	Name      string          `json:"name"`
	Status    string          `json:"lastStatus"`
	StartedAt protocol.Moment `json:"lastStartedAt,omitzero"`
}

// networkBinding is a published port.
type networkBinding struct {
	BindIP        string `json:"bindIP"`
	ContainerPort int    `json:"containerPort"`
	HostPort      int    `json:"hostPort"`
	Protocol      string `json:"protocol"`
}

const mib = 1 << 20

// document describes a task.
func (t *tasks) document(s lifecycle.State, tags bool) (any, error) {
	cluster, c, asked := clusterOf(s), clientOf(s), s.Asked()
	doc := taskDoc{
		Attachments: []struct{}{}, Attributes: attributesOf(s), ClusterARN: arn.Cluster(cluster), Connectivity: "CONNECTED",
		CPU: strconv.FormatInt(asked.CPU, 10), Memory: strconv.FormatInt(asked.Memory/mib, 10), CreatedAt: protocol.Moment(s.CreatedAt),
		DesiredStatus: desiredOf(s), LastStatus: statusOf(s), HealthStatus: s.Health().String(), LaunchType: launchTypeOfTask(c), Provider: providerOf(c),
		Exec: t.executable(s), Group: c.Group, StartedBy: c.StartedBy, Platform: c.Kept["platformVersion"],
		StopCode: stopCodeOf(s), StoppedReason: stoppedReasonOf(s), ConnectedAt: protocol.Moment(s.CreatedAt), ExecStoppedAt: protocol.Moment(s.Stop.At), StoppingAt: protocol.Moment(s.Stop.At), StoppedAt: protocol.Moment(s.StoppedAt()), StartedAt: protocol.Moment(startedAt(s)),
		Tags: []resource.Tag{}, TaskARN: arn.Task(cluster, s.ID), Definition: arn.Definition(s.Task.Family, s.Task.Revision), Version: len(s.History) + 1,
		Overrides: json.RawMessage(`{"containerOverrides":[],"inferenceAcceleratorOverrides":[]}`),
	}
	if len(c.Overrides) > 0 && string(c.Overrides) != "null" {
		doc.Overrides = c.Overrides
	}
	doc.Family, doc.Storage = onFargate(s, doc.LaunchType)
	pulls := timesOfPulls(s)
	doc.PullStartedAt, doc.PullStoppedAt = protocol.Moment(pulls.started), protocol.Moment(pulls.stopped)
	if doc.LaunchType != fargate { // as on ECS, where Fargate shows no instance
		doc.InstanceARN = arn.Instance(cluster, t.host.ID())
	}
	for i := range s.Containers {
		c := containerOf(s, cluster, i)
		if doc.Exec {
			c.Agents = []managedAgent{{"ExecuteCommandAgent", c.LastStatus, protocol.Moment(s.Containers[i].StartedAt)}}
		}
		doc.Containers = append(doc.Containers, c)
	}
	var err error
	if tags {
		doc.Tags, err = t.tags.Of(doc.TaskARN, c.Tags)
	}
	return doc, err
}

// stopCodeOf is the stop code of a task. That the agent ends, with its host, is ECS's TerminationNotice.
func stopCodeOf(s lifecycle.State) string {
	if s.Stop.Code == lifecycle.StopUserInitiated && s.Stop.Reason == lifecycle.StoppedByAgent {
		return "TerminationNotice"
	}
	return s.Stop.Code
}

// stoppedReasonOf is the stopped reason of a task, with ECS's sentence where scripts compare it: the
// container has the exit code.
func stoppedReasonOf(s lifecycle.State) string {
	if s.Stop.Code == lifecycle.StopEssentialContainerExited {
		return "Essential container in task exited"
	}
	return s.Stop.Reason
}

// pullTimes holds the start of the first and the end of the last pull of a task's images; zero while there is none.
type pullTimes struct{ started, stopped time.Time }

// timesOfPulls reads them from the history: pulls begin when every digest is known.
func timesOfPulls(s lifecycle.State) (t pullTimes) {
	for _, h := range s.History {
		switch {
		case h.Container == "" && h.Status == lifecycle.StatusManifestPulled.String():
			t.started = h.At
		case h.Container != "" && h.Status == lifecycle.StatusPulled.String():
			t.stopped = h.At
		}
	}
	return t
}

// startedAt returns the time at which the task was RUNNING; zero if it was not yet.
func startedAt(s lifecycle.State) (at time.Time) {
	for _, h := range s.History {
		if h.Container == "" && h.Status == lifecycle.StatusRunning.String() {
			return h.At
		}
	}
	return at
}

// containerOf describes a container of a task.
func containerOf(s lifecycle.State, cluster string, i int) containerDoc {
	c, def := s.Containers[i], s.Task.Containers[i]
	doc := containerDoc{
		ARN: arn.Container(cluster, s.ID, i), TaskARN: arn.Task(cluster, s.ID), Name: def.Name, Image: def.Image, ImageDigest: c.Digest, RuntimeID: c.ID,
		LastStatus: "PENDING", Reason: c.Fatal(), HealthStatus: "UNKNOWN", CPU: strconv.FormatInt(def.CPU, 10),
		NetworkBindings: bindings(s, i), NetworkInterfaces: []struct{}{},
	}
	if st := c.Status(); st == lifecycle.StatusRunning || st == lifecycle.StatusStopped {
		doc.LastStatus = st.String()
	}
	if def.Memory > 0 {
		doc.Memory = strconv.FormatInt(def.Memory/mib, 10)
	}
	if def.MemoryReservation > 0 {
		doc.MemoryReservation = strconv.FormatInt(def.MemoryReservation/mib, 10)
	}
	if c.HasExit && c.Status() == lifecycle.StatusStopped {
		doc.ExitCode = &c.ExitCode
	}
	if def.HasHealth() {
		doc.HealthStatus = c.HealthCheck().Status.String()
	}
	return doc
}

// bindings are the ports that a container publishes. Where the containers of a task share a
// network, the ports are the pod's, and belong to the container whose definition has them.
func bindings(s lifecycle.State, i int) []networkBinding {
	all := []networkBinding{}
	add := func(p taskdef.Port) {
		for k := range p.Count() {
			all = append(all, networkBinding{cmp.Or(p.HostIP, "0.0.0.0"), int(p.ContainerPort) + k, int(p.HostPort) + k, p.Protocol})
		}
	}
	for _, p := range s.Containers[i].Ports {
		add(p)
	}
	for _, p := range s.Sandbox.Ports {
		for _, own := range s.Task.Containers[i].Ports {
			if own.Protocol == p.Protocol && own.ContainerPort <= p.ContainerPort && int(p.ContainerPort) < int(own.ContainerPort)+own.Count() {
				add(p)
				break
			}
		}
	}
	return all
}
