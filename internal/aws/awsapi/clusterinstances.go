package awsapi

import (
	"context"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/aws/awsapi/resource"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// instances are the operations on container instances: the host is the only one.
type instances struct {
	clusters *clusters
	tasks    Tasks
	host     Host
}

func (i *instances) operations() []protocol.Operation {
	return []protocol.Operation{
		protocol.Define("ListContainerInstances", protocol.Members(
			protocol.Honor("cluster", "status=ACTIVE|DRAINING|REGISTERING|DEREGISTERING|REGISTRATION_FAILED", "maxResults", "nextToken"),
			protocol.Refuse("podtask does not read the cluster query language: there is one host", "filter"),
		), i.list),
		protocol.Define("DescribeContainerInstances", protocol.Honor("containerInstances!", "cluster", "include=TAGS|CONTAINER_INSTANCE_HEALTH"), i.describe),
		protocol.Define("UpdateContainerInstancesState", protocol.Honor("containerInstances!", "cluster", "status!"), i.updateState),
	}
}

type listInstancesIn struct {
	protocol.Paging
	Cluster string `json:"cluster"`
	Status  string `json:"status"`
}

// instanceStatus is the status of the host.
func instanceStatus(host Instance) string {
	if host.Draining {
		return "DRAINING"
	}
	return "ACTIVE"
}

func (i *instances) list(_ context.Context, in listInstancesIn, _ protocol.Fields) (any, error) {
	cluster, err := i.clusters.active(in.Cluster)
	if err != nil {
		return nil, err
	}
	host, err := i.host.Instance()
	if err != nil {
		return nil, err
	}
	var keys []string
	if in.Status == "" || in.Status == instanceStatus(host) {
		keys = []string{host.ID}
	}
	some, next, err := protocol.Page("ListContainerInstances "+cluster, in.Paging, protocol.MaxPage, keys, strings.Compare)
	for k, id := range some {
		some[k] = arn.Instance(cluster, id)
	}
	return struct {
		ARNs []string `json:"containerInstanceArns"`
		Next string   `json:"nextToken,omitempty"`
	}{some, next}, err
}

// instanceDoc is the host in answers.
type instanceDoc struct {
	AgentConnected bool                 `json:"agentConnected"`
	Attachments    []struct{}           `json:"attachments"`
	Attributes     []protocol.NameValue `json:"attributes"`
	ARN            string               `json:"containerInstanceArn"`
	PendingTasks   int                  `json:"pendingTasksCount"`
	RegisteredAt   protocol.Moment      `json:"registeredAt,omitzero"`
	Registered     []instanceResource   `json:"registeredResources"`
	Remaining      []instanceResource   `json:"remainingResources"`
	RunningTasks   int                  `json:"runningTasksCount"`
	Status         string               `json:"status"`
	Tags           []resource.Tag       `json:"tags"`
	VersionInfo    map[string]string    `json:"versionInfo"`
}

// instanceResource is one kind of what a host has.
type instanceResource struct {
	Name    string    `json:"name"`
	Type    string    `json:"type"`
	Integer *int64    `json:"integerValue,omitempty"`
	Set     *[]string `json:"stringSetValue,omitempty"`
}

func integer(name string, n int64) instanceResource {
	return instanceResource{Name: name, Type: "INTEGER", Integer: &n}
}

func set(name string, values []string) instanceResource {
	values = append([]string{}, values...)
	return instanceResource{Name: name, Type: "STRINGSET", Set: &values}
}

// registered and remaining are the resources of a host. As in ECS, the ports are those that
// are taken.
func (h Instance) registered() []instanceResource {
	return []instanceResource{integer("CPU", h.All.CPU), integer("MEMORY", h.All.Memory/mib), set("PORTS", h.All.Ports), set("PORTS_UDP", h.All.UDP)}
}

func (h Instance) remaining() []instanceResource {
	return []instanceResource{
		integer("CPU", max(0, h.All.CPU-h.Taken.CPU)), integer("MEMORY", max(0, h.All.Memory-h.Taken.Memory)/mib),
		set("PORTS", slices.Concat(h.All.Ports, h.Taken.Ports)), set("PORTS_UDP", slices.Concat(h.All.UDP, h.Taken.UDP)),
	}
}

type describeInstancesIn struct {
	ContainerInstances []string `json:"containerInstances"`
	Cluster            string   `json:"cluster"`
	Include            []string `json:"include"`
}

func (i *instances) describe(ctx context.Context, in describeInstancesIn, _ protocol.Fields) (any, error) {
	cluster, err := i.clusters.active(in.Cluster)
	if err != nil {
		return nil, err
	}
	if err := protocol.SomeNamed("containerInstances", "Container Instances", len(in.ContainerInstances), protocol.MaxPage); err != nil {
		return nil, err
	}
	host, err := i.host.Instance()
	if err != nil {
		return nil, err
	}
	answer := struct {
		Instances []instanceDoc      `json:"containerInstances"`
		Failures  []protocol.Problem `json:"failures"`
	}{[]instanceDoc{}, []protocol.Problem{}}
	for _, text := range in.ContainerInstances {
		id, err := inCluster("containerInstances", "container-instance", cluster, text)
		if err != nil {
			return nil, err
		}
		if id != host.ID {
			answer.Failures = append(answer.Failures, protocol.Problem{ARN: arn.Instance(cluster, protocol.Shortened(id)), Reason: protocol.MissingReason})
			continue
		}
		answer.Instances = append(answer.Instances, host.document(cluster, i.tasks.States(ctx)))
	}
	return answer, nil
}

type updateInstancesIn struct {
	ContainerInstances []string `json:"containerInstances"`
	Cluster            string   `json:"cluster"`
	Status             string   `json:"status"`
}

// updateState has the host take no new tasks, or take them again, as `podtask drain` does.
func (i *instances) updateState(ctx context.Context, in updateInstancesIn, _ protocol.Fields) (any, error) {
	if n := len(in.ContainerInstances); n < 1 || n > 10 {
		return nil, protocol.Invalidf("containerInstances: %d is not 1 to 10", n)
	}
	if err := protocol.OneOf("status", in.Status, "ACTIVE", "DRAINING"); err != nil || in.Status == "" {
		return nil, protocol.Invalidf("status: %q is none of ACTIVE, DRAINING", protocol.Shortened(in.Status))
	}
	cluster, err := i.clusters.active(in.Cluster)
	if err != nil {
		return nil, err
	}
	host, err := i.host.Instance()
	if err != nil {
		return nil, err
	}
	named := false
	for _, text := range in.ContainerInstances {
		id, err := inCluster("containerInstances", "container-instance", cluster, text)
		if err != nil {
			return nil, err
		}
		named = named || id == host.ID // another one is a failure in the answer
	}
	if named {
		if err := i.host.SetDraining(ctx, in.Status == "DRAINING"); err != nil {
			return nil, err
		}
	}
	return i.describe(ctx, describeInstancesIn{ContainerInstances: in.ContainerInstances, Cluster: in.Cluster}, nil)
}

// document describes the host in a cluster.
func (h Instance) document(cluster string, states []lifecycle.State) instanceDoc {
	doc := instanceDoc{
		AgentConnected: true, Attachments: []struct{}{}, Attributes: []protocol.NameValue{}, ARN: arn.Instance(cluster, h.ID), RegisteredAt: protocol.Moment(h.RegisteredAt),
		Registered: h.registered(), Remaining: h.remaining(), Status: instanceStatus(h), Tags: []resource.Tag{},
		VersionInfo: map[string]string{"agentVersion": h.Version},
	}
	for _, s := range states {
		switch statusOf(s) {
		case "RUNNING":
			doc.RunningTasks++
		case "PENDING", "PROVISIONING":
			doc.PendingTasks++
		}
	}
	return doc
}
