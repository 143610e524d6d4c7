package awsapi

import (
	"context"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// instances are the operations on container instances: the host is the only one.
type instances struct {
	clusters *clusters
	tasks    Tasks
	host     Host
}

func (i *instances) operations() []operation {
	return []operation{
		define("ListContainerInstances", members(
			honor("cluster", "status", "maxResults", "nextToken"),
			refuse("podtask does not read the cluster query language: there is one host", "filter"),
		), i.list),
		define("DescribeContainerInstances", honor("containerInstances!", "cluster", "include"), i.describe),
		define("UpdateContainerInstancesState", honor("containerInstances!", "cluster", "status!"), i.updateState),
	}
}

type listInstancesIn struct {
	paging
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

func (i *instances) list(_ context.Context, in listInstancesIn, _ fields) (any, error) {
	if err := oneOf("status", in.Status, "ACTIVE", "DRAINING", "REGISTERING", "DEREGISTERING", "REGISTRATION_FAILED"); err != nil {
		return nil, err
	}
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
	some, next, err := page("ListContainerInstances "+cluster, in.paging, maxPage, keys, strings.Compare)
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
	AgentConnected bool              `json:"agentConnected"`
	Attachments    []struct{}        `json:"attachments"`
	Attributes     []nameValue       `json:"attributes"`
	ARN            string            `json:"containerInstanceArn"`
	PendingTasks   int               `json:"pendingTasksCount"`
	RegisteredAt   moment            `json:"registeredAt,omitzero"`
	Registered     []resource        `json:"registeredResources"`
	Remaining      []resource        `json:"remainingResources"`
	RunningTasks   int               `json:"runningTasksCount"`
	Status         string            `json:"status"`
	Tags           []tag             `json:"tags"`
	VersionInfo    map[string]string `json:"versionInfo"`
}

// resource is one kind of what a host has.
type resource struct {
	Name    string    `json:"name"`
	Type    string    `json:"type"`
	Integer *int64    `json:"integerValue,omitempty"`
	Set     *[]string `json:"stringSetValue,omitempty"`
}

func integer(name string, n int64) resource {
	return resource{Name: name, Type: "INTEGER", Integer: &n}
}

func set(name string, values []string) resource {
	values = append([]string{}, values...)
	return resource{Name: name, Type: "STRINGSET", Set: &values}
}

// registered and remaining are the resources of a host. As in ECS, the ports are those that
// are taken.
func (h Instance) registered() []resource {
	return []resource{integer("CPU", h.All.CPU), integer("MEMORY", h.All.Memory/mib), set("PORTS", h.All.Ports), set("PORTS_UDP", h.All.UDP)}
}

func (h Instance) remaining() []resource {
	return []resource{
		integer("CPU", max(0, h.All.CPU-h.Taken.CPU)), integer("MEMORY", max(0, h.All.Memory-h.Taken.Memory)/mib),
		set("PORTS", slices.Concat(h.All.Ports, h.Taken.Ports)), set("PORTS_UDP", slices.Concat(h.All.UDP, h.Taken.UDP)),
	}
}

type describeInstancesIn struct {
	ContainerInstances []string `json:"containerInstances"`
	Cluster            string   `json:"cluster"`
	Include            []string `json:"include"`
}

func (i *instances) describe(ctx context.Context, in describeInstancesIn, _ fields) (any, error) {
	cluster, err := i.clusters.active(in.Cluster)
	if err != nil {
		return nil, err
	}
	if err := someNamed("containerInstances", "Container Instances", len(in.ContainerInstances), maxPage); err != nil {
		return nil, err
	}
	host, err := i.host.Instance()
	if err != nil {
		return nil, err
	}
	answer := struct {
		Instances []instanceDoc `json:"containerInstances"`
		Failures  []problem     `json:"failures"`
	}{[]instanceDoc{}, []problem{}}
	for _, text := range in.ContainerInstances {
		id, err := inCluster("containerInstances", "container-instance", cluster, text)
		if err != nil {
			return nil, err
		}
		if id != host.ID {
			answer.Failures = append(answer.Failures, problem{ARN: arn.Instance(cluster, shortened(id)), Reason: missingReason})
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
func (i *instances) updateState(ctx context.Context, in updateInstancesIn, _ fields) (any, error) {
	if n := len(in.ContainerInstances); n < 1 || n > 10 {
		return nil, invalidf("containerInstances: %d is not 1 to 10", n)
	}
	if err := oneOf("status", in.Status, "ACTIVE", "DRAINING"); err != nil || in.Status == "" {
		return nil, invalidf("status: %q is none of ACTIVE, DRAINING", shortened(in.Status))
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
		AgentConnected: true, Attachments: []struct{}{}, Attributes: []nameValue{}, ARN: arn.Instance(cluster, h.ID), RegisteredAt: moment(h.RegisteredAt),
		Registered: h.registered(), Remaining: h.remaining(), Status: instanceStatus(h), Tags: []tag{},
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
