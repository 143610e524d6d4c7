package awsapi

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/aws/awsapi/resource"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// tasks are the operations on tasks.
type tasks struct {
	clusters    *clusters
	definitions *definitions
	tags        *resource.TagStore
	tasks       Tasks
	host        Host
	log         *slog.Logger
	// service reports whether there is a service of that name in a cluster, or was within
	// the hour.
	service func(cluster, name string) bool
	// executes reports whether a service lets clients run programs in its tasks.
	executes func(service string) bool

	// running is held while tasks are made with a token, so that a request and its
	// repetition make them once.
	running sync.Mutex
}

func (t *tasks) operations() []protocol.Operation {
	return []protocol.Operation{
		protocol.Define("RunTask", protocol.Members(
			protocol.Honor("taskDefinition!", "cluster", "clientToken", "count", "overrides", "startedBy", "group", "tags", "tags[].key", "tags[].value", "propagateTags=TASK_DEFINITION|NONE", "enableExecuteCommand"),
			placed, protocol.Keep[string](theHostsNetwork, launchTypeMember, "referenceId"),
			protocol.Refuse("podtask has no managed volumes: name a volume of the host in the definition", "volumeConfigurations"),
		), t.run),
		protocol.Define("StartTask", protocol.Members(
			protocol.Honor("taskDefinition!", "containerInstances!", "cluster", "overrides", "startedBy", "group", "tags", "tags[].key", "tags[].value", "propagateTags=TASK_DEFINITION|NONE", "enableExecuteCommand"),
			protocol.Keep[networkIn](theHostsNetwork, "networkConfiguration"), protocol.Keep[bool](theHostsNetwork, "enableECSManagedTags"), protocol.Keep[string](theHostsNetwork, "referenceId"),
			protocol.Refuse("podtask has no managed volumes: name a volume of the host in the definition", "volumeConfigurations"),
		), t.startTask),
		protocol.Define("StopTask", protocol.Honor("task!", "cluster", "reason"), t.stop),
		protocol.Define("DescribeTasks", protocol.Honor("tasks!", "cluster", "include=TAGS"), t.describe),
		protocol.Define("ListTasks", protocol.Members(
			protocol.Honor("cluster", "family", "serviceName", "startedBy", "desiredStatus=RUNNING|PENDING|STOPPED", "containerInstance", launchTypeMember, "maxResults", "nextToken"),
			protocol.Refuse("podtask has no daemons of ECS", "daemonName"),
		), t.list),
	}
}

// client is what the client of a task sent that is only returned: lifecycle.Options.Client.
type client struct {
	StartedBy string         `json:"startedBy,omitempty"`
	Group     string         `json:"group,omitempty"`
	Tags      []resource.Tag `json:"tags,omitempty"`
	Exec      bool           `json:"enableExecuteCommand,omitempty"`
	// Overrides are as sent.
	Overrides json.RawMessage `json:"overrides,omitempty"`
	Kept      protocol.Fields `json:"kept,omitempty"`
	// Request is the digest of a request with a token.
	Request string `json:"request,omitempty"`
}

// clientOf reads what is kept of a task's client.
func clientOf(s lifecycle.State) (c client) {
	_ = json.Unmarshal(s.Options.Client, &c) // another version's is as good as none
	if s.Options.Service != "" && c.StartedBy == "" {
		c.StartedBy = deploymentID(s.Options.Deployment)
	}
	if c.Group == "" && s.Options.Service != "" {
		c.Group = "service:" + s.Options.Service
	} else if c.Group == "" {
		c.Group = "family:" + s.Task.Family
	}
	return c
}

type runTaskIn struct {
	TaskDefinition string          `json:"taskDefinition"`
	Cluster        string          `json:"cluster"`
	ClientToken    string          `json:"clientToken"`
	Count          *int            `json:"count"`
	Overrides      json.RawMessage `json:"overrides"`
	StartedBy      string          `json:"startedBy"`
	Group          string          `json:"group"`
	Tags           []resource.Tag  `json:"tags"`
	PropagateTags  string          `json:"propagateTags"`
	Exec           bool            `json:"enableExecuteCommand"`
}

// check checks the members that need nothing else.
func (in runTaskIn) check() error {
	if len(in.StartedBy) > 128 || len(in.ClientToken) > 64 || len(in.Group) > 255 {
		return protocol.Invalidf("startedBy, clientToken and group have at most 128, 64 and 255 characters")
	}
	if strings.HasPrefix(in.Group, "family:") || strings.HasPrefix(in.Group, "service:") {
		return protocol.Invalidf("group: names that begin with family: or service: are given by ECS")
	}
	return errors.Join(protocol.Within("count", in.Count, 1, 10), resource.CheckTags("tags", in.Tags))
}

// tasksAnswer is the answer of RunTask and DescribeTasks.
type tasksAnswer struct {
	Tasks    []any              `json:"tasks"`
	Failures []protocol.Problem `json:"failures"`
}

func (t *tasks) run(ctx context.Context, in runTaskIn, kept protocol.Fields) (any, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	if err := checkKept(kept); err != nil {
		return nil, err
	}
	cluster, err := t.clusters.active(in.Cluster)
	if err != nil {
		return nil, err
	}
	r, source, err := t.definitions.findToRun(in.TaskDefinition)
	if err != nil {
		return nil, err
	}
	sent := kept
	if kept, err = t.clusters.withDefaultStrategy(cluster, kept); err != nil {
		return nil, err
	}
	c := client{StartedBy: in.StartedBy, Group: in.Group, Tags: in.Tags, Exec: in.Exec, Overrides: in.Overrides, Kept: kept}
	if in.PropagateTags == "TASK_DEFINITION" {
		if c.Tags, err = t.propagated(r, source, in.Tags); err != nil {
			return nil, err
		}
	}
	n := NewTask{Definition: Document{Name: fmt.Sprintf("%s:%d", r.Family, r.Revision), Dir: r.Dir, Revision: r.Revision, Source: source}, Overrides: in.Overrides, Cluster: cluster, Once: in.ClientToken != ""}
	if in.ClientToken != "" {
		t.running.Lock()
		defer t.running.Unlock()
		if c.Request, err = protocol.DigestOf(in, sent); err != nil {
			return nil, err
		}
	}
	if n.Client, err = json.Marshal(c); err != nil {
		return nil, err
	}
	return t.runAll(ctx, n, in, c.Request)
}

type startTaskIn struct {
	runTaskIn
	ContainerInstances []string `json:"containerInstances"`
}

// startTask runs a task on each container instance that is named: this host is the only one.
func (t *tasks) startTask(ctx context.Context, in startTaskIn, kept protocol.Fields) (any, error) {
	if n := len(in.ContainerInstances); n < 1 || n > 10 {
		return nil, protocol.Invalidf("containerInstances: %d is not 1 to 10", n)
	}
	cluster, err := t.clusters.active(in.Cluster)
	if err != nil {
		return nil, err
	}
	host := t.host.ID()
	// As on ECS, an instance that is placed on by name has no capacity provider.
	kept["launchType"] = json.RawMessage(`"EC2"`)
	answer := tasksAnswer{[]any{}, []protocol.Problem{}}
	for _, text := range in.ContainerInstances {
		id, err := inCluster("containerInstances", "container-instance", cluster, text)
		if err != nil {
			return nil, err
		}
		if id != host {
			answer.Failures = append(answer.Failures, protocol.Problem{ARN: arn.Instance(cluster, protocol.Shortened(id)), Reason: protocol.MissingReason})
			continue
		}
		more, err := t.run(ctx, in.runTaskIn, kept)
		if err != nil {
			return nil, err
		}
		one, _ := more.(tasksAnswer)
		answer.Tasks, answer.Failures = append(answer.Tasks, one.Tasks...), append(answer.Failures, one.Failures...)
	}
	return answer, nil
}

// executable reports whether clients may run programs in a task: as it was asked for, in a
// task of a service as the service has it now.
func (t *tasks) executable(s lifecycle.State) bool {
	return clientOf(s).Exec || s.Options.Service != "" && t.executes(s.Options.Service)
}

// propagated are the tags of the definition with those of the request over them.
func (t *tasks) propagated(r catalog.Revision, source []byte, own []resource.Tag) ([]resource.Tag, error) {
	a, err := t.definitions.answer(r, source, true)
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(a.Tags, func(d resource.Tag) bool {
		return slices.ContainsFunc(own, func(o resource.Tag) bool { return o.Key == d.Key })
	})
	return append(all, own...), nil
}

// runAll records the tasks of a request. Those that the host cannot run are failures.
func (t *tasks) runAll(ctx context.Context, n NewTask, in runTaskIn, request string) (any, error) {
	count := 1
	if in.Count != nil {
		count = *in.Count
	}
	answer := tasksAnswer{[]any{}, []protocol.Problem{}}
	for i := range count {
		n.ID = newID(t.host.ID()+"/"+n.Cluster, in.ClientToken, i)
		s, err := t.tasks.Run(ctx, n)
		var refused *RefusedError
		switch {
		case errors.As(err, &refused):
			answer.Failures = append(answer.Failures, t.refusal(n.Cluster, refused))
			continue
		case err != nil:
			return nil, err
		case clientOf(s).Request != request:
			return nil, protocol.Failf("ConflictException", "clientToken: another request had this token")
		}
		doc, err := t.document(s, true)
		if err != nil {
			return nil, err
		}
		answer.Tasks = append(answer.Tasks, doc)
	}
	return answer, nil
}

// newID is the id of a task: random, or, with a token, the same for the same request in one
// place.
func newID(place, token string, i int) string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	if token != "" {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d", place, token, i))
		copy(b[:], sum[:])
	}
	return hex.EncodeToString(b[:])
}

// refusal returns the reason for which the host does not run a task.
func (t *tasks) refusal(cluster string, e *RefusedError) protocol.Problem {
	p := protocol.Problem{Reason: "RESOURCE", Detail: e.Error()}
	if errors.Is(e, ErrDraining) {
		p.Reason = "DRAINING"
	}
	p.ARN = arn.Instance(cluster, t.host.ID())
	return p
}

// checkKept refuses kept members that exclude each other.
func checkKept(kept protocol.Fields) error {
	if launch := string(kept["launchType"]); launch != "" && launch != `""` && protocol.Given(kept, strategyMember) {
		return protocol.Invalidf("Specifying both a launch type and capacity provider strategy is not supported. Remove one and try again.")
	}
	return nil
}

type stopTaskIn struct {
	Task    string `json:"task"`
	Cluster string `json:"cluster"`
	Reason  string `json:"reason"`
}

// taskNotFound is ECS' sentence.
func taskNotFound() error { return protocol.Invalidf("The referenced task was not found.") }

func (t *tasks) stop(ctx context.Context, in stopTaskIn, _ protocol.Fields) (any, error) {
	if len(in.Reason) > 1024 {
		return nil, protocol.Invalidf("reason: it has more than 1024 characters")
	}
	cluster, err := t.clusters.active(in.Cluster)
	if err != nil {
		return nil, err
	}
	s, ok, err := t.find(ctx, "task", cluster, in.Task)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, taskNotFound()
	}
	if err := t.tasks.Stop(ctx, s.ID, in.Reason); err != nil {
		return nil, err
	}
	if now, ok, err := t.find(ctx, "task", cluster, in.Task); err == nil && ok {
		s = now
	}
	doc, err := t.document(s, false)
	return struct {
		Task any `json:"task"`
	}{doc}, err
}

// find returns the task of a full id or an ARN in a cluster.
func (t *tasks) find(ctx context.Context, path, cluster, text string) (s lifecycle.State, ok bool, err error) {
	id, err := inCluster(path, "task", cluster, text)
	if err != nil {
		return s, false, err
	}
	if !idPattern.MatchString(id) {
		return s, false, protocol.Invalidf("%s: %q is not the id or the ARN of a task", path, protocol.Shortened(text))
	}
	s, ok = t.tasks.State(ctx, id)
	return s, ok && clusterOf(s) == cluster, nil
}

type describeTasksIn struct {
	Tasks   []string `json:"tasks"`
	Cluster string   `json:"cluster"`
	Include []string `json:"include"`
}

func (t *tasks) describe(ctx context.Context, in describeTasksIn, _ protocol.Fields) (any, error) {
	cluster, err := t.clusters.active(in.Cluster)
	if err != nil {
		return nil, err
	}
	if err := protocol.SomeNamed("tasks", "Tasks", len(in.Tasks), protocol.MaxPage); err != nil {
		return nil, err
	}
	answer := tasksAnswer{[]any{}, []protocol.Problem{}}
	for _, text := range in.Tasks {
		s, ok, err := t.find(ctx, "tasks", cluster, text)
		if err != nil {
			return nil, err
		}
		if !ok {
			id, _ := inCluster("tasks", "task", cluster, text)
			answer.Failures = append(answer.Failures, protocol.Problem{ARN: arn.Task(cluster, id), Reason: protocol.MissingReason})
			continue
		}
		doc, err := t.document(s, slices.Contains(in.Include, "TAGS"))
		if err != nil {
			return nil, err
		}
		answer.Tasks = append(answer.Tasks, doc)
	}
	return answer, nil
}

type listTasksIn struct {
	protocol.Paging
	Cluster           string `json:"cluster"`
	Family            string `json:"family"`
	ServiceName       string `json:"serviceName"`
	StartedBy         string `json:"startedBy"`
	DesiredStatus     string `json:"desiredStatus"`
	ContainerInstance string `json:"containerInstance"`
	LaunchType        string `json:"launchType"`
}

// check checks the filters.
func (t *tasks) checkList(in listTasksIn, cluster string) error {
	if in.StartedBy != "" && (in.Family != "" || in.ServiceName != "" || in.ContainerInstance != "") {
		return protocol.Invalidf("startedBy: it must be the only filter")
	}
	if in.ServiceName != "" && !t.service(cluster, in.ServiceName) {
		return protocol.Failf("ServiceNotFoundException", "Service not found.")
	}
	return nil
}

func (t *tasks) list(ctx context.Context, in listTasksIn, _ protocol.Fields) (any, error) {
	cluster, err := t.clusters.active(in.Cluster)
	if err != nil {
		return nil, err
	}
	if in.ServiceName, err = inCluster("serviceName", "service", cluster, in.ServiceName); err != nil {
		return nil, err
	}
	if err := t.checkList(in, cluster); err != nil {
		return nil, err
	}
	host := t.host.ID()
	var keys []string
	for _, s := range t.tasks.States(ctx) {
		if clusterOf(s) == cluster && in.fits(s, host) {
			keys = append(keys, s.ID)
		}
	}
	slices.Sort(keys)
	filters, err := json.Marshal([]string{cluster, in.Family, in.ServiceName, in.StartedBy, in.DesiredStatus, in.LaunchType})
	if err != nil {
		return nil, err
	}
	some, next, err := protocol.Page("ListTasks "+string(filters), in.Paging, protocol.MaxPage, keys, strings.Compare)
	for i, id := range some {
		some[i] = arn.Task(cluster, id)
	}
	return struct {
		ARNs []string `json:"taskArns"`
		Next string   `json:"nextToken,omitempty"`
	}{some, next}, err
}

// fits reports whether a task is in the list. None is ever meant to be PENDING.
func (in listTasksIn) fits(s lifecycle.State, host string) bool {
	desired := in.DesiredStatus
	if desired == "" {
		desired = "RUNNING"
	}
	return desiredOf(s) == desired &&
		(in.Family == "" || s.Task.Family == in.Family) &&
		(in.StartedBy == "" || clientOf(s).StartedBy == in.StartedBy) &&
		(in.ServiceName == "" || s.Options.Service == in.ServiceName) &&
		(in.LaunchType == "" || launchTypeOfTask(clientOf(s)) == in.LaunchType) &&
		(in.ContainerInstance == "" || in.ContainerInstance == host || strings.HasSuffix(in.ContainerInstance, "/"+host))
}

// tagged implements tagging for tasks.
func (t *tasks) tagged(ctx context.Context, text string) (string, []resource.Tag, error) {
	rest, _, err := cut("resourceArn", "task", text)
	if err != nil {
		return "", nil, err
	}
	cluster, id, two := strings.Cut(rest, "/")
	if !two {
		cluster, id = arn.DefaultCluster, rest
	}
	s, ok, err := t.find(ctx, "resourceArn", cluster, id)
	if err == nil && !ok {
		err = taskNotFound()
	}
	return arn.Task(cluster, id), clientOf(s).Tags, err
}
