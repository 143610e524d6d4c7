package awsapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/aws/awsapi/resource"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/service"
)

const (
	kindService = "service"
	// inactive is the status of a service that was removed.
	inactive service.Status = "INACTIVE"
)

func schedulingOf(c serviceClient) string { return cmp.Or(c.Scheduling, "REPLICA") }

// serviceDoc is a service in answers. What a client sent replaces the empty lists.
type serviceDoc struct {
	ARN               string              `json:"serviceArn"`
	Name              string              `json:"serviceName"`
	ClusterARN        string              `json:"clusterArn"`
	Status            string              `json:"status"`
	DesiredCount      int                 `json:"desiredCount"`
	RunningCount      int                 `json:"runningCount"`
	PendingCount      int                 `json:"pendingCount"`
	LaunchType        string              `json:"launchType,omitempty"`
	Family            string              `json:"platformFamily,omitempty"`
	Platform          string              `json:"platformVersion,omitempty"`
	Definition        string              `json:"taskDefinition"`
	Deployment        deploymentConfigDoc `json:"deploymentConfiguration"`
	Controller        map[string]string   `json:"deploymentController"`
	Deployments       []any               `json:"deployments"`
	Current           string              `json:"currentServiceDeployment,omitempty"`
	Revisions         []shareDoc          `json:"currentServiceRevisions"`
	Events            []eventDoc          `json:"events"`
	CreatedAt         protocol.Moment     `json:"createdAt"`
	CreatedBy         string              `json:"createdBy"`
	GracePeriod       *int                `json:"healthCheckGracePeriodSeconds,omitempty"`
	Scheduling        string              `json:"schedulingStrategy"`
	Exec              bool                `json:"enableExecuteCommand"`
	ManagedTags       bool                `json:"enableECSManagedTags"`
	PropagateTags     string              `json:"propagateTags"`
	Role              string              `json:"roleArn,omitempty"`
	LoadBalancers     []struct{}          `json:"loadBalancers"`
	Registries        []struct{}          `json:"serviceRegistries"`
	Constraints       []struct{}          `json:"placementConstraints"`
	PlacementStrategy []struct{}          `json:"placementStrategy"`
	TaskSets          []struct{}          `json:"taskSets"`
	Tags              *[]resource.Tag     `json:"tags,omitempty"`
}

type eventDoc struct {
	ID        string          `json:"id"`
	CreatedAt protocol.Moment `json:"createdAt"`
	Message   string          `json:"message"`
}

// deploymentDoc is a deployment in answers.
type deploymentDoc struct {
	ID            string          `json:"id"`
	Status        string          `json:"status"`
	Definition    string          `json:"taskDefinition"`
	DesiredCount  int             `json:"desiredCount"`
	PendingCount  int             `json:"pendingCount"`
	RunningCount  int             `json:"runningCount"`
	FailedTasks   int             `json:"failedTasks"`
	CreatedAt     protocol.Moment `json:"createdAt"`
	UpdatedAt     protocol.Moment `json:"updatedAt"`
	LaunchType    string          `json:"launchType,omitempty"`
	Family        string          `json:"platformFamily,omitempty"`
	Platform      string          `json:"platformVersion,omitempty"`
	Rollout       string          `json:"rolloutState"`
	RolloutReason string          `json:"rolloutStateReason"`
}

// notInService are kept members that DescribeServices has elsewhere, or not at all.
var notInService = []string{keptAlarms, "role", "serviceConnectConfiguration", "launchType", "enableECSManagedTags", roleMember}

// document describes a service.
func (o *serviceIndex) document(s service.State, tags bool) (any, error) {
	cluster, c, count, p := clusterOfService(s), serviceClientOf(s.Config), s.Count(""), s.Primary()
	doc := serviceDoc{
		ARN: arn.Service(cluster, s.Name), Name: s.Name, ClusterARN: arn.Cluster(cluster), Status: string(s.Status),
		DesiredCount: s.DesiredCount, RunningCount: count.Running, PendingCount: count.Pending, LaunchType: launchTypeOf(client{Kept: c.Kept}),
		Definition: arn.Make("task-definition", p.TaskDefinition), Controller: map[string]string{"type": "ECS"}, Events: events(s),
		Deployment: configOf(s.Config.Breaker, s.Config.Bounds, s.Config.Method),
		CreatedAt:  protocol.Moment(s.CreatedAt), CreatedBy: caller(), GracePeriod: graceOf(s.Config, c.Kept),
		Scheduling: schedulingOf(c), Exec: c.Exec, ManagedTags: string(c.Kept["enableECSManagedTags"]) == "true", PropagateTags: cmp.Or(c.PropagateTags, "NONE"), Role: roleOf(c.Kept),
		LoadBalancers: []struct{}{}, Registries: []struct{}{}, Constraints: []struct{}{}, PlacementStrategy: []struct{}{}, TaskSets: []struct{}{},
	}
	doc.Family, doc.Platform = platformOf(c.Kept)
	if doc.Deployment.Alarms == nil { // as they were sent, also if they are off
		doc.Deployment.Alarms = c.Kept[keptAlarms]
	}
	if s.Status == service.Draining {
		doc.DesiredCount = 0
	}
	for _, d := range s.Deployments {
		doc.Deployments = append(doc.Deployments, deploymentOf(s, d, c.Kept))
	}
	doc.Revisions = sharesOf(s, service.Shares(s), nil)
	if n := len(s.History); n > 0 {
		doc.Current = serviceDeploymentARN(s, s.History[n-1])
	}
	if s.Status == inactive {
		doc.Deployments, doc.Revisions = []any{}, []shareDoc{}
	}
	if tags {
		all, err := o.tags.Of(doc.ARN, c.Tags)
		if err != nil {
			return nil, err
		}
		doc.Tags = &all
	}
	kept := maps.Clone(c.Kept)
	maps.DeleteFunc(kept, func(name string, _ json.RawMessage) bool { return slices.Contains(notInService, name) })
	return protocol.WithMembers(doc, kept), nil
}

// latest is the platform version of a service of Fargate that names none.
const latest = "LATEST"

// roleOf returns the ARN of the role that a client named for the load balancer of a service, "" if there is none. As on
// ECS, the role may be given by its name or its ARN.
func roleOf(kept protocol.Fields) string {
	var role string
	if json.Unmarshal(kept["role"], &role) != nil || role == "" || strings.HasPrefix(role, "arn:") {
		return role
	}
	return arn.Of("iam", "role/"+strings.TrimPrefix(role, "/"))
}

// platformOf are the operating system and the platform version of a service, which as on ECS only one of
// Fargate has.
func platformOf(kept protocol.Fields) (family, version string) {
	if launchTypeOfTask(client{Kept: kept}) != fargate {
		return "", ""
	}
	return linux, latest
}

// graceOf is the grace period of health checks. As on ECS, a service without load balancers has none
// unless it was given one: ecspresso refuses a definition with 0.
func graceOf(c service.Config, kept protocol.Fields) *int {
	if seconds := int(c.HealthCheckGracePeriod / time.Second); seconds > 0 || protocol.Given(kept, "loadBalancers") {
		return &seconds
	}
	return nil
}

// events are those of a service, the newest first.
func events(s service.State) []eventDoc {
	all := []eventDoc{}
	for _, e := range slices.Backward(s.Events) {
		all = append(all, eventDoc{ID: s.ID + "-" + strconv.Itoa(e.ID), CreatedAt: protocol.Moment(e.CreatedAt), Message: eventMessage(s, e.Message)})
	}
	return all
}

// Clients look in messages for the ids that DescribeTasks and DescribeServices have, and for sentences of ECS.
var (
	taskInMessage       = lazy.MustCompile(`\(task ([^()]*)-([0-9]+)\)`)
	deploymentInMessage = lazy.MustCompile(`\(deployment ([^()]*/[0-9]+)\)`)
	backInMessage       = lazy.MustCompile(`^(\([^()]*\)) rolling back to \(deployment (.*)\)\.$`)
	stoppedInMessage    = lazy.MustCompile(`^(\([^()]*\) has stopped [0-9]+) tasks:`)
	pendingInMessage    = lazy.MustCompile(`^(\([^()]*\) stopped [0-9]+ pending tasks): .*$`)
	unhealthyInMessage  = lazy.MustCompile(`^(\([^()]*\) \(task [^()]*\)) failed: it (failed container health checks\.)$`)
)

// eventMessage returns the message of an event in the words of ECS, as its documentation of service event messages and
// services on it have them.
func eventMessage(s service.State, message string) string {
	message = unhealthyInMessage.ReplaceAllString(message, "$1 $2")
	message = stoppedInMessage.ReplaceAllString(message, "$1 running tasks:")
	message = pendingInMessage.ReplaceAllString(message, "$1.")
	message = backInMessage.ReplaceAllStringFunc(message, func(text string) string {
		m := backInMessage.FindStringSubmatch(text)
		return m[1] + " rolling back to deployment " + deploymentID(m[2]) + "."
	})
	message = deploymentInMessage.ReplaceAllStringFunc(message, func(text string) string {
		return "(deployment " + deploymentID(deploymentInMessage.FindStringSubmatch(text)[1]) + ")"
	})
	return taskInMessage.ReplaceAllStringFunc(message, func(text string) string {
		m := taskInMessage.FindStringSubmatch(text)
		if number, err := strconv.Atoi(m[2]); err == nil && m[1] == s.Name {
			return "(task " + s.TaskID(number) + ")"
		}
		return text
	})
}

// deploymentOf describes a deployment. Its id has the form of ECS'.
func deploymentOf(s service.State, d service.Deployment, sent protocol.Fields) any {
	count := s.Count(d.ID)
	doc := deploymentDoc{
		ID: deploymentID(d.ID), Status: "ACTIVE", Definition: arn.Make("task-definition", d.TaskDefinition), PendingCount: count.Pending, RunningCount: count.Running,
		FailedTasks: d.FailedTasks, CreatedAt: protocol.Moment(d.CreatedAt), UpdatedAt: protocol.Moment(d.UpdatedAt), LaunchType: launchTypeOf(client{Kept: sent}),
		Rollout: string(d.Rollout), RolloutReason: d.Reason,
	}
	doc.Family, doc.Platform = platformOf(sent)
	if doc.RolloutReason != "" && (d.Rollback || d.Rollout == service.Failed) && doc.RolloutReason != service.Aborted {
		doc.RolloutReason = "ECS deployment circuit breaker: " + doc.RolloutReason
	}
	if doc.RolloutReason == "" {
		doc.RolloutReason = fmt.Sprintf("ECS deployment %s %s.", doc.ID, strings.ToLower(strings.ReplaceAll(doc.Rollout, "_", " ")))
	}
	if d.Primary {
		doc.Status, doc.DesiredCount = "PRIMARY", s.DesiredCount
	}
	kept := make(protocol.Fields)
	for _, name := range []string{"networkConfiguration", "platformVersion", "capacityProviderStrategy", "serviceConnectConfiguration"} {
		if v := sent[name]; v != nil && d.Primary {
			kept[name] = v
		}
	}
	return protocol.WithMembers(doc, kept)
}

// deploymentID is the id of a deployment for clients. As on ECS, it ends in the id of the
// deployment's revision: clients find the service deployment with that.
func deploymentID(id string) string { return "ecs-svc/" + revisionID(id) }
