package awsapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/aws/awsapi"
	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/aws/sigv4"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

var key = sigv4.Key{ID: "AKIAIOSFODNN7EXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}

// host is what the API asks, without containers. A task stays as it was made until a test
// changes it.
type host struct {
	mu      sync.Mutex
	states  []lifecycle.State
	refuse  error
	drained bool
	keeper  keeper
	book
	terminals terminals
}

// keeper are services that take in requests and do nothing else.
type keeper struct {
	mu     sync.Mutex
	all    []service.State
	passed time.Duration // since the services were made
	refuse error         // why no service can be made
}

func (k *keeper) States() []service.State {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.all)
}

func (k *keeper) State(name string) (service.State, bool) {
	all := k.States()
	i := slices.IndexFunc(all, func(s service.State) bool { return s.Name == name })
	if i < 0 {
		return service.State{}, false
	}
	return all[i], true
}

func spec(definition string) service.Spec {
	return service.Spec{TaskDefinition: definition, Task: taskdef.Task{Family: "web", Containers: []taskdef.Container{
		{Name: "app", Ports: []taskdef.Port{{Name: "web", ContainerPort: 80, Protocol: "tcp"}}}, {Name: "Main", Ports: []taskdef.Port{{ContainerPort: 80, Protocol: "tcp"}, {ContainerPort: 8080, Protocol: "tcp"}}},
	}}}
}

func (k *keeper) Create(_ context.Context, n awsapi.NewService) (service.State, error) {
	if k.refuse != nil {
		return service.State{}, k.refuse
	}
	if err := service.Validate(n.Name, spec(n.Definition), n.Count, n.Config); err != nil {
		return service.State{}, &protocol.Failure{Code: "InvalidParameterException", Message: err.Error()}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, service.New(fmt.Sprintf("%032x", len(k.all)+1), n.Name, spec(n.Definition), n.Count, n.Config, time.Unix(1000, 0).UTC()))
	return k.all[len(k.all)-1], nil
}

// step has a service take something in.
func (k *keeper) step(name string, in service.Input) service.State {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stepLocked(name, in)
}

func (k *keeper) stepLocked(name string, in service.Input) service.State {
	i := slices.IndexFunc(k.all, func(s service.State) bool { return s.Name == name })
	k.all[i], _ = service.Step(k.all[i], time.Unix(1001, 0).UTC().Add(k.passed), in)
	return k.all[i]
}

func (k *keeper) Update(_ context.Context, name string, c awsapi.ServiceChange) (service.State, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.IndexFunc(k.all, func(s service.State) bool { return s.Name == name })
	if c.From != nil && (k.all[i].Primary().ID != c.From.Primary().ID || !reflect.DeepEqual(k.all[i].Config, c.From.Config)) {
		return service.State{}, awsapi.ErrChanged
	}
	in := service.Updated{DesiredCount: c.Count, Notes: c.Notes}
	now := k.all[i].Primary().Spec
	if c.Definition != "" {
		now = spec(c.Definition)
	}
	if c.Definition != "" || c.Force {
		in.Spec = &now
	}
	if c.Config != nil {
		config := c.Config(k.all[i].Config)
		in.Config = &config
	}
	return k.stepLocked(name, in), nil
}

func (k *keeper) Remove(_ context.Context, name string) (service.State, error) {
	return k.step(name, service.DeleteRequested{}), nil
}

func (k *keeper) StopAttempt(_ context.Context, name string, number int, abort bool) error {
	for _, s := range k.States() {
		if s.Name != name {
			continue
		}
		in, err := service.StopAttempt(s, number, abort)
		if err != nil {
			return &protocol.Failure{Code: "ConflictException", Message: err.Error()}
		}
		k.step(name, in)
	}
	return nil
}

func (k *keeper) ContinueAttempt(_ context.Context, name string, number int, pause string, rollback bool) error {
	for _, s := range k.States() {
		if s.Name != name {
			continue
		}
		in, err := service.ContinueAttempt(s, number, pause, rollback)
		if err != nil {
			return &protocol.Failure{Code: "InvalidParameterException", Message: err.Error()}
		}
		k.step(name, in)
	}
	return nil
}

// run has the tasks of a service run, or fail, until it is steady or there is nothing to do.
func (k *keeper) run(name string, fails func(service.Task) bool) service.State {
	s := k.step(name, service.TimerFired{})
	for range 20 {
		for _, t := range s.Tasks {
			seen := service.Observation{Running: true, Since: time.Unix(900, 0)}
			switch {
			case t.Phase == service.Wanted:
				k.step(name, service.Done{ID: t.ID})
			case t.Phase == service.Stopping:
				k.step(name, service.Seen{ID: t.ID, Observation: service.Observation{Stopped: true, ByUser: true}})
				continue
			}
			if fails(t) {
				seen = service.Observation{Stopped: true, Reason: "exit 1"}
			}
			s = k.step(name, service.Seen{ID: t.ID, Observation: seen})
		}
	}
	return s
}

// gone forgets a service, as when its tasks are gone.
func (k *keeper) gone(name string) {
	k.all = slices.DeleteFunc(k.all, func(s service.State) bool { return s.Name == name })
}

func (h *host) States(context.Context) []lifecycle.State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.states)
}

func (h *host) State(ctx context.Context, id string) (lifecycle.State, bool) {
	states := h.States(ctx)
	i := slices.IndexFunc(states, func(s lifecycle.State) bool { return s.ID == id })
	if i < 0 {
		return lifecycle.State{}, false
	}
	return states[i], true
}

func (h *host) ID() string { return strings.Repeat("a", 32) }

func (h *host) Run(_ context.Context, n awsapi.NewTask) (lifecycle.State, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.IndexFunc(h.states, func(s lifecycle.State) bool { return s.ID == n.ID }); i >= 0 {
		return h.states[i], nil
	}
	if h.refuse != nil {
		return lifecycle.State{}, &awsapi.RefusedError{Cause: h.refuse}
	}
	var settings taskdef.Settings
	if len(n.Overrides) > 0 {
		override, _, err := settings.ParseOverride("overrides", n.Overrides)
		if err != nil {
			return lifecycle.State{}, &protocol.Failure{Code: "InvalidParameterException", Message: err.Error()}
		}
		settings.Override = override
	}
	task, _, err := settings.Parse("x", n.Definition.Source)
	if err != nil {
		return lifecycle.State{}, err
	}
	task.Revision = n.Definition.Revision
	s := lifecycle.New(n.ID, "", task, lifecycle.Options{Cluster: n.Cluster, Client: n.Client}, time.Unix(1000, 0).UTC())
	h.states = append(h.states, s)
	return s, nil
}

func (h *host) Stop(_ context.Context, id, reason string) error {
	h.change(id, func(s *lifecycle.State) {
		s.Goal, s.Stop = lifecycle.Down, lifecycle.StopReason{Code: lifecycle.StopUserInitiated, Reason: reason, At: time.Unix(1001, 0)}
	})
	return nil
}

func (h *host) Protect(_ context.Context, id string, until time.Time) error {
	h.change(id, func(s *lifecycle.State) { s.ProtectedUntil = until })
	return nil
}

func (h *host) change(id string, f func(*lifecycle.State)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.states {
		if h.states[i].ID == id {
			f(&h.states[i])
		}
	}
}

// end makes a task STOPPED.
func end(s *lifecycle.State) {
	s.Goal, s.Sandbox.Phase = lifecycle.Down, lifecycle.SandboxStopped
	for i := range s.Containers {
		s.Containers[i].Ended, s.Containers[i].HasExit, s.Containers[i].ExitCode = true, true, 3
	}
}

func (h *host) Check(source []byte) (awsapi.Checked, error) {
	src := taskdef.ReadSource("request", source)
	task, _, err := taskdef.Settings{}.ParseSource(src)
	if err != nil {
		return awsapi.Checked{}, &protocol.Failure{Code: "ClientException", Message: err.Error()}
	}
	digest, err := src.Digest()
	return awsapi.Checked{Family: task.Family, Digest: digest}, err
}

func (h *host) Instance() (awsapi.Instance, error) {
	return awsapi.Instance{
		ID: strings.Repeat("a", 32), Draining: h.drained, Version: "1",
		All: awsapi.Resources{CPU: 2048, Memory: 1 << 30}, Taken: awsapi.Resources{CPU: 512, Memory: 1 << 20, Ports: []string{"80"}},
	}, nil
}

func (h *host) SetDraining(_ context.Context, draining bool) error {
	h.drained = draining
	return nil
}

// world is a server with what it asks.
type world struct {
	t *testing.T
	*host
	dir    string
	now    time.Time
	server *awsapi.Server
	url    string
	client *ecs.Client
	// configure changes the configuration before the server starts; nil: it does not.
	configure func(*awsapi.Config)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, host: &host{}, dir: t.TempDir(), now: time.Now()}
	w.start()
	return w
}

// start starts the server, again with what is on the disk.
func (w *world) start() {
	w.t.Helper()
	locks, err := state.OpenLocks(w.dir, state.Holder{})
	if err != nil {
		w.t.Fatal(err)
	}
	definitions, err := catalog.Open(w.dir, state.OS{}, locks)
	if err != nil {
		w.t.Fatal(err)
	}
	records, err := state.OpenIn(w.dir+"/ecs", state.OS{})
	if err != nil {
		w.t.Fatal(err)
	}
	cfg := awsapi.Config{
		Log: slog.New(slog.DiscardHandler), Key: func() (sigv4.Key, error) { return key, nil }, Definitions: definitions, Records: records,
		Tasks: w.host, Parser: w.host, Host: w.host, Logs: &w.book, Sessions: &w.terminals, Services: &w.host.keeper, Now: func() time.Time { return w.now },
		Scaling: w.scaled(), ExpressDomain: "apps.test",
	}
	if w.configure != nil {
		w.configure(&cfg)
	}
	w.server = awsapi.New(cfg)
	s := httptest.NewServer(w.server.Signed())
	w.t.Cleanup(s.Close)
	w.url, w.client = s.URL, clientOf(s.URL, key)
}

// clientOf is the SDK's client.
func clientOf(url string, k sigv4.Key) *ecs.Client {
	return ecs.New(ecs.Options{
		BaseEndpoint: &url, Region: "local", RetryMaxAttempts: 1, HTTPClient: newWholeBodies(),
		Credentials: credentials(k),
	})
}

// wholeBodies is a client for an SDK that does not try again. smithy-go 1.28.9 closes the body of a request when the answer begins. If
// package http still reads the body then, it closes the connection, and the rest of the answer is lost. So the body is read
// before, and package http reads a copy.
type wholeBodies struct{ *http.Client }

func newWholeBodies() wholeBodies { return wholeBodies{&http.Client{Transport: &http.Transport{}}} }

// Do implements the interface of SDKs.
func (c wholeBodies) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(text))
	}
	return c.Client.Do(r)
}

func credentials(k sigv4.Key) aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: k.ID, SecretAccessKey: k.Secret}, nil
	})
}

// code is the exception of an error.
func code(err error) string {
	var e smithy.APIError
	if errors.As(err, &e) {
		return e.ErrorCode()
	}
	return fmt.Sprint(err)
}

// must is for answers of the SDK's client.
func must[T any](t *testing.T) func(T, error) T {
	return func(answer T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
}

// register registers a definition and returns FAMILY:REVISION.
func (w *world) register(family string) string {
	w.t.Helper()
	out := must[*ecs.RegisterTaskDefinitionOutput](w.t)(w.client.RegisterTaskDefinition(w.t.Context(), &ecs.RegisterTaskDefinitionInput{
		Family: &family, NetworkMode: types.NetworkModeAwsvpc,
		ContainerDefinitions: []types.ContainerDefinition{{Name: aws.String("app"), Image: aws.String("i"), Memory: aws.Int32(64), PortMappings: []types.PortMapping{{ContainerPort: aws.Int32(80)}}}},
		Tags:                 []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}},
	}))
	return fmt.Sprintf("%s:%d", family, out.TaskDefinition.Revision)
}

// post sends a request of ECS, or of the service that target names, without a signature and returns the status and the answer.
func (w *world) post(target, body string) (int, string) {
	r := httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	if !strings.Contains(target, ".") {
		target = "AmazonEC2ContainerServiceV20141113." + target
	}
	r.Header.Set("X-Amz-Target", target)
	rec := httptest.NewRecorder()
	w.server.Trusted().ServeHTTP(rec, r)
	return rec.Code, rec.Body.String()
}

func TestARunFromItsDefinitionToItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if first, second := w.register("web"), w.register("web"); first != "web:1" || second != "web:2" {
		t.Errorf("the revisions are %s and %s: each registration gives a new one", first, second)
	}
	run := must[*ecs.RunTaskOutput](t)(w.client.RunTask(t.Context(), &ecs.RunTaskInput{
		TaskDefinition: aws.String("web:1"), Count: aws.Int32(2), StartedBy: aws.String("ci"), LaunchType: types.LaunchTypeFargate, PropagateTags: types.PropagateTagsTaskDefinition,
		Overrides:            &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{{Name: aws.String("app"), Command: []string{"x"}}}},
		NetworkConfiguration: &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{Subnets: []string{"subnet-1"}}},
	}))
	if len(run.Tasks) != 2 || len(run.Failures) != 0 {
		t.Fatalf("%d tasks, %d failures", len(run.Tasks), len(run.Failures))
	}
	task := run.Tasks[0]
	if *task.LastStatus != "PENDING" || *task.DesiredStatus != "RUNNING" || *task.StartedBy != "ci" || *task.Group != "family:web" || task.LaunchType != types.LaunchTypeFargate ||
		!strings.HasSuffix(*task.TaskDefinitionArn, ":task-definition/web:1") || len(task.Overrides.ContainerOverrides) != 1 {
		t.Errorf("%+v", task)
	}
	list := must[*ecs.ListTasksOutput](t)(w.client.ListTasks(t.Context(), &ecs.ListTasksInput{StartedBy: aws.String("ci")}))
	if len(list.TaskArns) != 2 {
		t.Errorf("ci has started %v", list.TaskArns)
	}
	stopped := must[*ecs.StopTaskOutput](t)(w.client.StopTask(t.Context(), &ecs.StopTaskInput{Task: task.TaskArn, Reason: aws.String("enough")}))
	if *stopped.Task.LastStatus != "STOPPING" || *stopped.Task.StoppedReason != "enough" {
		t.Errorf("%+v", stopped.Task)
	}
	id := (*task.TaskArn)[strings.LastIndexByte(*task.TaskArn, '/')+1:]
	w.change(id, end)
	seen := must[*ecs.DescribeTasksOutput](t)(w.client.DescribeTasks(t.Context(), &ecs.DescribeTasksInput{
		Tasks: []string{id, strings.Repeat("0", 32)}, Include: []types.TaskField{types.TaskFieldTags},
	}))
	if len(seen.Tasks) != 1 || *seen.Tasks[0].LastStatus != "STOPPED" || *seen.Tasks[0].Containers[0].ExitCode != 3 || seen.Tasks[0].Containers[0].Reason != nil ||
		seen.Tasks[0].StopCode != types.TaskStopCodeUserInitiated || len(seen.Tasks[0].Tags) != 1 {
		t.Errorf("%+v", seen.Tasks)
	}
	if len(seen.Failures) != 1 || *seen.Failures[0].Reason != "MISSING" {
		t.Errorf("%+v", seen.Failures)
	}
}

// As on ECS, a client finds no instance behind a task of Fargate, and the cluster is looked for before anything else is
// checked. A file system of EFS has the root directory / if it names none.
func TestSmallAnswersAreThoseOfECS(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	for launch, want := range map[types.LaunchType]bool{types.LaunchTypeFargate: false, types.LaunchTypeEc2: true} {
		run := must[*ecs.RunTaskOutput](t)(w.client.RunTask(t.Context(), &ecs.RunTaskInput{TaskDefinition: aws.String("web"), LaunchType: launch}))
		if task := run.Tasks[0]; (task.ContainerInstanceArn != nil) != want {
			t.Errorf("%s: the container instance is %v", launch, task.ContainerInstanceArn)
		}
	}
	for operation, body := range map[string]string{"DescribeTasks": `"tasks": []`, "DescribeServices": `"services": []`, "DescribeContainerInstances": `"containerInstances": []`} {
		for cluster, want := range map[string]string{"none": "ClusterNotFoundException", "default": "InvalidParameterException"} {
			if _, answer := w.post(operation, `{"cluster": "`+cluster+`", `+body+`}`); !strings.Contains(answer, want) {
				t.Errorf("%s in %s: %s, want %s", operation, cluster, answer, want)
			}
		}
	}
	for operation, want := range map[string]string{"DescribeTasks": "Tasks", "DescribeServices": "Services", "DescribeContainerInstances": "Container Instances"} {
		body := fmt.Sprintf(`{"%s": []}`, strings.ToLower(want[:1])+strings.ReplaceAll(want[1:], " ", ""))
		if _, answer := w.post(operation, body); !strings.Contains(answer, want+" cannot be empty.") {
			t.Errorf("%s %s: %s", operation, body, answer)
		}
	}
	del := must[*ecs.DeleteTaskDefinitionsOutput](t)(w.client.DeleteTaskDefinitions(t.Context(), &ecs.DeleteTaskDefinitionsInput{TaskDefinitions: []string{"web", "web:7", "a b"}}))
	for i, want := range []string{"identifier is invalid", "does not exist", "identifier is invalid"} {
		if f := del.Failures[i]; !strings.Contains(*f.Reason, want) {
			t.Errorf("%s: %s, want %s", *f.Arn, *f.Reason, want)
		}
	}
	for sent, want := range map[string]string{"": "/", `, "rootDirectory": "/data"`: "/data"} {
		w.post("RegisterTaskDefinition", `{"family": "efs", "volumes": [{"name": "v", "efsVolumeConfiguration": {"fileSystemId": "fs-1"`+sent+`}}], "containerDefinitions": [{"name": "app", "image": "i", "memory": 64}]}`)
		out := must[*ecs.DescribeTaskDefinitionOutput](t)(w.client.DescribeTaskDefinition(t.Context(), &ecs.DescribeTaskDefinitionInput{TaskDefinition: aws.String("efs")}))
		if got := aws.ToString(out.TaskDefinition.Volumes[0].EfsVolumeConfiguration.RootDirectory); got != want {
			t.Errorf("the root directory is %q, want %q", got, want)
		}
	}
}

func TestRunTaskGivesTheCapacityProviderBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	for _, c := range []struct {
		strategy []types.CapacityProviderStrategyItem
		provider string
		launch   types.LaunchType
	}{
		{[]types.CapacityProviderStrategyItem{{CapacityProvider: aws.String("FARGATE_SPOT"), Weight: 1}}, "FARGATE_SPOT", types.LaunchTypeFargate},
		{[]types.CapacityProviderStrategyItem{{CapacityProvider: aws.String("mine"), Weight: 1}, {CapacityProvider: aws.String("other"), Weight: 3}}, "other", types.LaunchTypeEc2},
		{[]types.CapacityProviderStrategyItem{{CapacityProvider: aws.String("FARGATE"), Base: 1}, {CapacityProvider: aws.String("other"), Weight: 3}}, "FARGATE", types.LaunchTypeFargate},
	} {
		run := must[*ecs.RunTaskOutput](t)(w.client.RunTask(t.Context(), &ecs.RunTaskInput{TaskDefinition: aws.String("web"), CapacityProviderStrategy: c.strategy}))
		task := run.Tasks[0]
		if task.CapacityProviderName == nil || *task.CapacityProviderName != c.provider || task.LaunchType != c.launch {
			t.Errorf("%v %s, want %s %s", task.CapacityProviderName, task.LaunchType, c.provider, c.launch)
		}
		if len(task.Attributes) != 1 || *task.Attributes[0].Name != "ecs.cpu-architecture" || *task.Attributes[0].Value == "" {
			t.Errorf("%+v", task.Attributes)
		}
	}
}

// As on ECS, a task of Fargate has an operating system and ephemeral storage, which others have not. It is in no
// availability zone. Its size is the one that was asked for, also where the host applies no limits.
func TestTaskHasTheMembersOfItsLaunchType(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const containers = `"containerDefinitions": [{"name": "app", "image": "i", "memory": 64}]`
	for _, definition := range []string{
		`{"family": "plain", "cpu": "256", "memory": "512", ` + containers + `}`,
		`{"family": "large", "cpu": "256", "memory": "512", "ephemeralStorage": {"sizeInGiB": 30}, ` + containers + `}`,
	} {
		if status, answer := w.post("RegisterTaskDefinition", definition); status != http.StatusOK {
			t.Fatal(answer)
		}
	}
	for _, c := range []struct {
		in      ecs.RunTaskInput
		storage int32 // 0 for none
	}{
		{ecs.RunTaskInput{TaskDefinition: aws.String("plain"), LaunchType: types.LaunchTypeFargate}, 20},
		{ecs.RunTaskInput{TaskDefinition: aws.String("plain"), CapacityProviderStrategy: []types.CapacityProviderStrategyItem{{CapacityProvider: aws.String("FARGATE_SPOT"), Weight: 1}}}, 20},
		{ecs.RunTaskInput{TaskDefinition: aws.String("large"), LaunchType: types.LaunchTypeFargate}, 30},
		{ecs.RunTaskInput{TaskDefinition: aws.String("large"), LaunchType: types.LaunchTypeFargate, Overrides: &types.TaskOverride{EphemeralStorage: &types.EphemeralStorage{SizeInGiB: 40}}}, 40},
		{ecs.RunTaskInput{TaskDefinition: aws.String("plain"), LaunchType: types.LaunchTypeExternal}, 0},
		{ecs.RunTaskInput{TaskDefinition: aws.String("large")}, 0},
	} {
		run := must[*ecs.RunTaskOutput](t)(w.client.RunTask(t.Context(), &c.in))
		id := *run.Tasks[0].TaskArn
		w.change(id[strings.LastIndexByte(id, '/')+1:], func(s *lifecycle.State) { s.Options.Limits = lifecycle.LimitsOff })
		task := must[*ecs.DescribeTasksOutput](t)(w.client.DescribeTasks(t.Context(), &ecs.DescribeTasksInput{Tasks: []string{id}})).Tasks[0]
		family, size := "", int32(0)
		if c.storage > 0 {
			family = "Linux"
		}
		if task.EphemeralStorage != nil {
			size = task.EphemeralStorage.SizeInGiB
		}
		if aws.ToString(task.PlatformFamily) != family || size != c.storage || task.AvailabilityZone != nil || *task.Cpu != "256" || *task.Memory != "512" {
			t.Errorf("%s %s: platform %v, storage %d, zone %v, cpu %s, memory %s", *c.in.TaskDefinition, task.LaunchType, aws.ToString(task.PlatformFamily), size, task.AvailabilityZone, *task.Cpu, *task.Memory)
		}
	}
}

func TestTokenGivesTheSameTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	in := &ecs.RunTaskInput{TaskDefinition: aws.String("web"), Count: aws.Int32(2), ClientToken: aws.String("x1")}
	arns := func() (all []string) {
		for _, task := range must[*ecs.RunTaskOutput](t)(w.client.RunTask(t.Context(), in)).Tasks {
			all = append(all, *task.TaskArn)
		}
		return all
	}
	first := arns()
	// The agent is killed after the record of the first task, before its answer.
	w.states = w.states[:1]
	w.start()
	if diff := cmp.Diff(first, arns()); diff != "" || len(w.states) != 2 {
		t.Errorf("%d tasks: %s", len(w.states), diff)
	}
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if diff := cmp.Diff(first, arns()); diff != "" {
				t.Error(diff)
			}
		})
	}
	wg.Wait()
	in.StartedBy = aws.String("another")
	if _, err := w.client.RunTask(t.Context(), in); code(err) != "ConflictException" || len(w.states) != 2 {
		t.Errorf("%d tasks, error %v", len(w.states), err)
	}
}

func TestWhatTheHostRefusesIsAFailure(t *testing.T) {
	t.Parallel()
	for reason, cause := range map[string]error{"RESOURCE": errors.New("no room"), "DRAINING": fmt.Errorf("x: %w", awsapi.ErrDraining)} {
		w := newWorld(t)
		w.register("web")
		w.refuse = cause
		out := must[*ecs.RunTaskOutput](t)(w.client.RunTask(t.Context(), &ecs.RunTaskInput{TaskDefinition: aws.String("web")}))
		if len(out.Tasks) != 0 || len(out.Failures) != 1 || *out.Failures[0].Reason != reason || *out.Failures[0].Detail != cause.Error() || out.Failures[0].Arn == nil {
			t.Errorf("%s: %+v", reason, out)
		}
	}
}

func TestDefinitionsComeBackAsClientsNeedThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.register("web")
	if status, answer := w.post("DescribeTaskDefinition", `{"taskDefinition": "web"}`); status != 200 || !strings.Contains(answer, `"volumes":[]`) || !strings.Contains(answer, `"placementConstraints":[]`) || strings.Contains(answer, `"tags"`) {
		t.Error(status, answer)
	}
	out := must[*ecs.DescribeTaskDefinitionOutput](t)(w.client.DescribeTaskDefinition(ctx, &ecs.DescribeTaskDefinitionInput{TaskDefinition: aws.String("web"), Include: []types.TaskDefinitionField{"TAGS"}}))
	c := out.TaskDefinition.ContainerDefinitions[0]
	if len(out.Tags) != 1 || c.Essential == nil || !*c.Essential || *c.PortMappings[0].HostPort != 80 || c.PortMappings[0].Protocol != "tcp" || out.TaskDefinition.RegisteredAt == nil {
		t.Errorf("%+v %+v", out.Tags, c)
	}
	w.register("web")
	w.register("api")
	if _, err := w.client.DeregisterTaskDefinition(ctx, &ecs.DeregisterTaskDefinitionInput{TaskDefinition: aws.String("web:2")}); err != nil {
		t.Error(err)
	}
	if _, err := w.client.DeregisterTaskDefinition(ctx, &ecs.DeregisterTaskDefinitionInput{TaskDefinition: aws.String("web")}); code(err) != "InvalidParameterException" {
		t.Error(err)
	}
	if list := must[*ecs.ListTaskDefinitionsOutput](t)(w.client.ListTaskDefinitions(ctx, &ecs.ListTaskDefinitionsInput{})); len(list.TaskDefinitionArns) != 2 || !strings.HasSuffix(list.TaskDefinitionArns[1], "web:1") {
		t.Errorf("%v", list.TaskDefinitionArns)
	}
	del := must[*ecs.DeleteTaskDefinitionsOutput](t)(w.client.DeleteTaskDefinitions(ctx, &ecs.DeleteTaskDefinitionsInput{TaskDefinitions: []string{"web:1", "web:2", "web:9"}}))
	if len(del.TaskDefinitions) != 1 || del.TaskDefinitions[0].Status != types.TaskDefinitionStatusDeleteInProgress || len(del.Failures) != 2 {
		t.Errorf("%+v", del)
	}
	if _, err := w.client.DescribeTaskDefinition(ctx, &ecs.DescribeTaskDefinitionInput{TaskDefinition: aws.String("web:2")}); code(err) != "ClientException" {
		t.Errorf("a deleted definition: %v", err)
	}
	if next := w.register("web"); next != "web:3" {
		t.Errorf("the next revision is %s: a number is not used again", next)
	}
}

func TestPagesGoOnAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all []string
	for i := range 12 {
		w.register("f")
		all = append([]string{fmt.Sprintf("f:%d", i+1)}, all...)
	}
	var got []string
	in := &ecs.ListTaskDefinitionsInput{MaxResults: aws.Int32(5), Sort: types.SortOrderDesc}
	for pages := 1; ; pages++ {
		out := must[*ecs.ListTaskDefinitionsOutput](t)(w.client.ListTaskDefinitions(t.Context(), in))
		for _, a := range out.TaskDefinitionArns {
			got = append(got, a[strings.LastIndexByte(a, '/')+1:])
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			break
		}
		w.start()
	}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Error(diff)
	}
	out := must[*ecs.ListTaskDefinitionsOutput](t)(w.client.ListTaskDefinitions(t.Context(), &ecs.ListTaskDefinitionsInput{MaxResults: aws.Int32(1)}))
	for _, token := range []*string{aws.String("x"), aws.String(""), out.NextToken} {
		_, err := w.client.ListClusters(t.Context(), &ecs.ListClustersInput{NextToken: token})
		if good := *token == ""; good != (err == nil) || !good && code(err) != "InvalidParameterException" {
			t.Errorf("token %q: %v", *token, err)
		}
	}
}

func TestClustersAreNamesThatStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.register("web")
	name := aws.String("blue")
	for range 2 {
		c := must[*ecs.CreateClusterOutput](t)(w.client.CreateCluster(ctx, &ecs.CreateClusterInput{
			ClusterName: name, Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}},
			Settings: []types.ClusterSetting{{Name: types.ClusterSettingNameContainerInsights, Value: aws.String("enabled")}},
		}))
		if *c.Cluster.Status != "ACTIVE" || len(c.Cluster.Settings) != 1 || len(c.Cluster.Tags) != 1 {
			t.Errorf("%+v", c.Cluster)
		}
	}
	w.start()
	run := must[*ecs.RunTaskOutput](t)(w.client.RunTask(ctx, &ecs.RunTaskInput{TaskDefinition: aws.String("web"), Cluster: name}))
	if !strings.HasSuffix(*run.Tasks[0].ClusterArn, ":cluster/blue") {
		t.Errorf("%s", *run.Tasks[0].ClusterArn)
	}
	if list := must[*ecs.ListTasksOutput](t)(w.client.ListTasks(ctx, &ecs.ListTasksInput{})); len(list.TaskArns) != 0 {
		t.Errorf("the default cluster has %v", list.TaskArns)
	}
	if _, err := w.client.DeleteCluster(ctx, &ecs.DeleteClusterInput{Cluster: name}); code(err) != "ClusterContainsTasksException" {
		t.Error(err)
	}
	w.change(w.states[0].ID, end)
	if _, err := w.client.DeleteCluster(ctx, &ecs.DeleteClusterInput{Cluster: name}); err != nil {
		t.Error(err)
	}
	if _, err := w.client.ListTasks(ctx, &ecs.ListTasksInput{Cluster: name}); code(err) != "ClusterNotFoundException" {
		t.Error(err)
	}
	describe := func() *ecs.DescribeClustersOutput {
		return must[*ecs.DescribeClustersOutput](t)(w.client.DescribeClusters(ctx, &ecs.DescribeClustersInput{Clusters: []string{"blue", "default"}}))
	}
	if c := describe(); len(c.Clusters) != 2 || *c.Clusters[0].Status != "INACTIVE" {
		t.Errorf("%+v", c)
	}
	w.now = w.now.Add(2 * time.Hour)
	if status, answer := w.post("DescribeClusters", `{"clusters": ["blue"]}`); status != 200 || !strings.Contains(answer, "MISSING") {
		t.Error(answer)
	}
}

func TestTagsChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.register("web")
	run := must[*ecs.RunTaskOutput](t)(w.client.RunTask(ctx, &ecs.RunTaskInput{TaskDefinition: aws.String("web"), Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("1")}}}))
	for _, arn := range []string{*run.Tasks[0].TaskArn, "arn:aws:ecs:local:000000000000:task-definition/web:1", "arn:aws:ecs:eu-west-1:000000000000:cluster/default"} {
		if _, err := w.client.TagResource(ctx, &ecs.TagResourceInput{ResourceArn: &arn, Tags: []types.Tag{{Key: aws.String("b"), Value: aws.String("2")}}}); err != nil {
			t.Error(arn, err)
		}
		if _, err := w.client.UntagResource(ctx, &ecs.UntagResourceInput{ResourceArn: &arn, TagKeys: []string{"a", "team"}}); err != nil {
			t.Error(arn, err)
		}
		w.start()
		out := must[*ecs.ListTagsForResourceOutput](t)(w.client.ListTagsForResource(ctx, &ecs.ListTagsForResourceInput{ResourceArn: &arn}))
		if len(out.Tags) != 1 || *out.Tags[0].Key != "b" {
			t.Errorf("%s has %+v", arn, out.Tags)
		}
	}
}

func TestTheHostIsTheContainerInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	list := must[*ecs.ListContainerInstancesOutput](t)(w.client.ListContainerInstances(ctx, &ecs.ListContainerInstancesInput{}))
	w.drained = true
	out := must[*ecs.DescribeContainerInstancesOutput](t)(w.client.DescribeContainerInstances(ctx, &ecs.DescribeContainerInstancesInput{ContainerInstances: append(list.ContainerInstanceArns, "x")}))
	if len(out.ContainerInstances) != 1 || len(out.Failures) != 1 {
		t.Fatalf("%+v", out)
	}
	i := out.ContainerInstances[0]
	if *i.Status != "DRAINING" || i.RegisteredResources[0].IntegerValue != 2048 || i.RemainingResources[0].IntegerValue != 1536 || i.RemainingResources[1].IntegerValue != 1023 || !slices.Equal(i.RemainingResources[2].StringSetValue, []string{"80"}) {
		t.Errorf("%+v", i)
	}
}

func TestRequestsAreSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for want, k := range map[string]sigv4.Key{
		"InvalidSignatureException": {ID: key.ID, Secret: "no"}, "UnrecognizedClientException": {ID: "AKIAX", Secret: key.Secret}, "<nil>": key,
	} {
		if _, err := clientOf(w.url, k).ListClusters(t.Context(), &ecs.ListClustersInput{}); code(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	w.now = w.now.Add(6 * time.Minute)
	if _, err := w.client.ListClusters(t.Context(), &ecs.ListClustersInput{}); code(err) != "InvalidSignatureException" {
		t.Error(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url, unread{t})
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113.ListClusters")
	rec := httptest.NewRecorder()
	w.server.Signed().ServeHTTP(rec, r)
	if rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), "MissingAuthenticationTokenException") || rec.Header().Get("X-Amzn-Requestid") == "" {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// What a page of any site can have a browser send has no signature, and so no effect, under whatever host name it comes; the page may
// not read the answer, and no answer says that it may.
func TestPagesOfSitesAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	run := `{"taskDefinition": "web"}`
	for name, request := range map[string]struct {
		method, path, host, kind, target, body string
	}{
		"a form":                  {"POST", "/", "", "text/plain", "", run},
		"a form of a query":       {"POST", "/", "", "application/x-www-form-urlencoded", "", "Action=GetCallerIdentity&Version=2011-06-15"},
		"several parts":           {"POST", "/", "", "multipart/form-data; boundary=x", "", "--x\r\n\r\n" + run + "\r\n--x--"},
		"a script of a site here": {"POST", "/", "evil.example:4580", "application/x-amz-json-1.1", "RunTask", run},
		"a question before it":    {"OPTIONS", "/", "", "", "", ""},
		"an image":                {"GET", "/?Action=GetCallerIdentity", "", "", "", ""},
	} {
		r := httptest.NewRequestWithContext(t.Context(), request.method, request.path, strings.NewReader(request.body))
		if request.host != "" {
			r.Host = request.host
		}
		r.Header.Set("Origin", "https://evil.example")
		r.Header.Set("Content-Type", request.kind)
		r.Header.Set("Access-Control-Request-Method", "POST")
		if request.target != "" {
			r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113."+request.target)
		}
		rec := httptest.NewRecorder()
		w.server.Signed().ServeHTTP(rec, r)
		for header := range rec.Header() {
			if strings.HasPrefix(header, "Access-Control-") {
				t.Errorf("%s: the answer has %s", name, header)
			}
		}
		if rec.Code < 400 {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
	}
	if out := must[*ecs.ListTasksOutput](t)(w.client.ListTasks(t.Context(), &ecs.ListTasksInput{})); len(out.TaskArns) > 0 {
		t.Errorf("tasks run: %v", out.TaskArns)
	}
}

// unread is a body that must not be read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body is read")
	return 0, io.EOF
}

func TestBadRequestsAreRefusedInTheirProtocol(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	for _, c := range []struct{ target, body, want string }{
		{"ListClusters", "", ""},
		{"ListClusters", `{"nextToken": null}`, ""},
		{"ListClusters", "nonsense", "SerializationException"},
		{"ListClusters", "[]", "SerializationException"},
		{"ListClusters", "{} {}", "SerializationException"},
		{"ListClusters", strings.Repeat(`{"a":`, 33) + "1" + strings.Repeat("}", 33), "SerializationException"},
		{"ListClusters", strings.Repeat(" ", 2<<20+1), "SerializationException"},
		{"ListClusters", `{"maxResults": "many"}`, "SerializationException"},
		{"ListClusters", `{"maxResults": 101}`, "InvalidParameterException"},
		{"ListClusters", `{"maxResults": 0}`, "InvalidParameterException"},
		{"ListClusters", `{"Cluster": "x"}`, "InvalidParameterException"},
		{"ListTasks", `{"cluster": "nowhere"}`, "ClusterNotFoundException"},
		{"ListTasks", `{"cluster": "a b"}`, "InvalidParameterException"},
		{"ListTasks", `{"cluster": "arn:aws:ecs:local:111111111111:cluster/default"}`, "InvalidParameterException"},
		{"ListTasks", `{"cluster": "arn:aws:ecs:local:000000000000:service/default"}`, "InvalidParameterException"},
		{"ListTasks", `{"desiredStatus": "DEAD"}`, "InvalidParameterException"},
		{"ListTasks", `{"startedBy": "a", "family": "b"}`, "InvalidParameterException"},
		{"ListTasks", `{"serviceName": "web"}`, "ServiceNotFoundException"},
		{"DescribeTasks", `{}`, "InvalidParameterException"},
		{"DescribeTasks", `{"tasks": "x"}`, "SerializationException"},
		{"DescribeTasks", `{"tasks": ["` + strings.Repeat("x", 40) + `"]}`, "InvalidParameterException"},
		{"DescribeTasks", `{"tasks": [` + strings.Repeat(`"x",`, 100) + `"x"]}`, "InvalidParameterException"},
		{"DescribeTasks", `{"tasks": ["arn:aws:ecs:local:000000000000:task/blue/` + strings.Repeat("0", 32) + `"]}`, "InvalidParameterException"},
		{"StopTask", `{"task": "` + strings.Repeat("0", 32) + `"}`, "InvalidParameterException"},
		{"RunTask", `{}`, "InvalidParameterException"},
		{"RunTask", `{"taskDefinition": "web", "count": 0}`, "InvalidParameterException"},
		{"RunTask", `{"taskDefinition": "web", "count": 11}`, "InvalidParameterException"},
		{"RunTask", `{"taskDefinition": "web", "launchType": "LAMBDA"}`, "InvalidParameterException"},
		{"RunTask", `{"taskDefinition": "web", "launchType": 1}`, "SerializationException"},
		{"RunTask", `{"taskDefinition": "web", "networkConfiguration": []}`, "SerializationException"},
		{"RunTask", `{"taskDefinition": "web", "volumeConfigurations": [{"name": "v"}]}`, "InvalidParameterException"},
		{"RunTask", `{"taskDefinition": "web", "volumeConfigurations": []}`, ""},
		{"RunTask", `{"taskDefinition": "web", "tags": [{"key": "a", "wat": "b"}]}`, "InvalidParameterException"},
		{"RunTask", `{"taskDefinition": "web", "tags": [{"key": "aws:a"}]}`, "InvalidParameterException"},
		{"RunTask", `{"taskDefinition": "web", "tags": ["a"]}`, "SerializationException"},
		{"RunTask", `{"taskDefinition": "web", "surprise": true}`, "InvalidParameterException"},
		{"RunTask", `{"taskDefinition": "web:9"}`, "ClientException"},
		{"RunTask", `{"taskDefinition": "web:x"}`, "InvalidParameterException"},
		{"RegisterTaskDefinition", `{"family": "x"}`, "ClientException"},
		{"RegisterTaskDefinition", `{"family": 7, "containerDefinitions": {}}`, "ClientException"},
		{"TagResource", `{"resourceArn": "x", "tags": []}`, "InvalidParameterException"},
		{"TagResource", `{"resourceArn": "arn:aws:ecs:local:000000000000:capacity-provider/x", "tags": []}`, "InvalidParameterException"},
		{"Conquer", `{}`, "UnknownOperationException"},
		{"CreateTaskSet", `{}`, "UnsupportedFeatureException"},
	} {
		status, answer := w.post(c.target, c.body)
		var failure struct {
			Type    string `json:"__type"`
			Message string
		}
		if err := json.Unmarshal([]byte(answer), &failure); err != nil {
			t.Errorf("%s: %v", answer, err)
		}
		if failure.Type != c.want || (status == 200) != (c.want == "") || status >= 500 || c.want != "" && failure.Message == "" || len(answer) > 2000 {
			t.Errorf("%s %.60s: %d %s, want %s", c.target, c.body, status, answer, c.want)
		}
	}
	if len(w.states) != 1 {
		t.Errorf("%d tasks are recorded, want the one of the good request", len(w.states))
	}
}

func TestOtherProtocolsAndServices(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	send := func(method, path, kind, target, body string) string {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		maps.Copy(r.Header, http.Header{"Content-Type": {kind}, "X-Amz-Target": {target}})
		rec := httptest.NewRecorder()
		w.server.Trusted().ServeHTTP(rec, r)
		return fmt.Sprintf("%d %s", rec.Code, rec.Body)
	}
	const form, amzJSON = "application/x-www-form-urlencoded; charset=utf-8", "application/x-amz-json-1.1"
	for _, c := range []struct{ method, path, kind, target, body, want string }{
		{"POST", "/", form, "", "Action=GetCallerIdentity&Version=2011-06-15", "<Account>000000000000</Account>"},
		{"POST", "/", form, "", "Action=DescribeSubnets&Version=2016-11-15", "<Code>InvalidAction</Code>"},
		{"POST", "/", form, "", "%zz", "<Code>MalformedQueryString</Code>"},
		{"POST", "/", amzJSON, "AmazonSSM.GetParameters", "{}", "UnknownOperationException"},
		{"POST", "/", amzJSON, "", "{}", "UnknownOperationException"},
		{"POST", "/", "text/plain", "AmazonEC2ContainerServiceV20141113.ListClusters", "{}", "UnknownOperationException"},
		{"GET", "/", amzJSON, "AmazonEC2ContainerServiceV20141113.ListClusters", "", "UnknownOperationException"},
		{"POST", "/other", amzJSON, "AmazonEC2ContainerServiceV20141113.ListClusters", "{}", "UnknownOperationException"},
	} {
		if got := send(c.method, c.path, c.kind, c.target, c.body); !strings.Contains(got, c.want) || strings.HasPrefix(got, "5") {
			t.Errorf("%s %s %s %s: %s, want %s", c.method, c.path, c.kind, c.target, got, c.want)
		}
	}
}

// `ecspresso verify` asks for the roles of a definition, and reads who may have them.
func TestRolesThatDefinitionsName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if status, answer := w.post("RegisterTaskDefinition", `{"family": "web", "executionRoleArn": "arn:aws:iam::123456789012:role/app/ecsTaskExecutionRole", "taskRoleArn": "shop",
	  "containerDefinitions": [{"name": "app", "image": "i", "memory": 64}]}`); status != 200 {
		t.Fatal(answer)
	}
	ask := func(name string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader("Action=GetRole&Version=2010-05-08&RoleName="+name))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		rec := httptest.NewRecorder()
		w.server.Trusted().ServeHTTP(rec, r)
		return rec.Code, rec.Body.String()
	}
	for name, want := range map[string][2]string{
		"ecsTaskExecutionRole": {"arn:aws:iam::123456789012:role/app/ecsTaskExecutionRole", "/app/"},
		"shop":                 {"arn:aws:iam::000000000000:role/shop", "/"},
	} {
		status, answer := ask(name)
		var got struct {
			Role struct {
				Path, RoleName, Arn, CreateDate, AssumeRolePolicyDocument string
			} `xml:"GetRoleResult>Role"`
		}
		if err := xml.Unmarshal([]byte(answer), &got); err != nil || status != 200 {
			t.Fatalf("%d %s %v", status, answer, err)
		}
		if r := got.Role; r.RoleName != name || r.Arn != want[0] || r.Path != want[1] {
			t.Errorf("%+v", r)
		}
		text, err := url.QueryUnescape(got.Role.AssumeRolePolicyDocument)
		var policy struct {
			Statement []struct {
				Principal struct{ Service string }
				Action    string
			}
		}
		if err == nil {
			err = json.Unmarshal([]byte(text), &policy)
		}
		if err != nil || len(policy.Statement) != 1 || policy.Statement[0].Principal.Service != "ecs-tasks.amazonaws.com" || policy.Statement[0].Action != "sts:AssumeRole" {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := time.Parse(time.RFC3339, got.Role.CreateDate); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"other", "", "app"} {
		if status, answer := ask(name); status != 400 || !strings.Contains(answer, "<Code>NoSuchEntity</Code>") {
			t.Errorf("%q: %d %s", name, status, answer)
		}
	}
}

func FuzzRequest(f *testing.F) {
	for name := range awsapi.Operations() {
		f.Add(name, `{"cluster": "default", "taskDefinition": "web", "maxResults": 1, "tasks": ["x"], "nextToken": "x"}`)
	}
	f.Fuzz(func(t *testing.T, target, body string) {
		w := newWorld(t)
		if status, answer := w.post(target, body); status != 200 && status != 400 || !json.Valid([]byte(answer)) {
			t.Errorf("%d %s", status, answer)
		}
	})
}

// What a task says of its pulls and its end is what scripts read on ECS.
func TestATaskTellsItsTimesAndItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	run := must[*ecs.RunTaskOutput](t)(w.client.RunTask(t.Context(), &ecs.RunTaskInput{TaskDefinition: aws.String("web"), Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}))
	if len(run.Tasks[0].Tags) != 1 {
		t.Errorf("RunTask answers the tags %+v", run.Tasks[0].Tags)
	}
	arn := *run.Tasks[0].TaskArn
	id := arn[strings.LastIndexByte(arn, '/')+1:]
	see := func() types.Task {
		t.Helper()
		return must[*ecs.DescribeTasksOutput](t)(w.client.DescribeTasks(t.Context(), &ecs.DescribeTasksInput{Tasks: []string{arn}})).Tasks[0]
	}
	if task := see(); task.PullStartedAt != nil || task.PullStoppedAt != nil || task.ExecutionStoppedAt != nil || task.ConnectivityAt == nil {
		t.Errorf("before its pulls: %+v", task)
	}
	at := func(s int64) time.Time { return time.Unix(s, 0).UTC() }
	w.change(id, func(s *lifecycle.State) {
		s.History = append(s.History,
			lifecycle.Transition{At: at(2000), Container: "app", Status: lifecycle.StatusManifestPulled.String()}, lifecycle.Transition{At: at(2001), Status: lifecycle.StatusManifestPulled.String()},
			lifecycle.Transition{At: at(2009), Container: "app", Status: lifecycle.StatusPulled.String()})
	})
	if task := see(); task.PullStartedAt.Unix() != 2001 || task.PullStoppedAt.Unix() != 2009 {
		t.Errorf("pulls from %v to %v", task.PullStartedAt, task.PullStoppedAt)
	}
	for _, c := range []struct{ code, reason, wantCode, wantReason string }{
		{lifecycle.StopEssentialContainerExited, "essential container app exited with code 3", "EssentialContainerExited", "Essential container in task exited"},
		{lifecycle.StopUserInitiated, "enough", "UserInitiated", "enough"},
		{lifecycle.StopUserInitiated, lifecycle.StoppedByAgent, "TerminationNotice", "stopped by the end of the agent"},
		{lifecycle.StopTaskFailedToStart, "CannotPullContainerError: x", "TaskFailedToStart", "CannotPullContainerError: x"},
	} {
		w.change(id, func(s *lifecycle.State) {
			end(s)
			s.Stop = lifecycle.StopReason{Code: c.code, Reason: c.reason, At: at(2010)}
		})
		if task := see(); string(task.StopCode) != c.wantCode || *task.StoppedReason != c.wantReason || task.ExecutionStoppedAt.Unix() != 2010 {
			t.Errorf("%s %q: %s %q", c.code, c.reason, task.StopCode, *task.StoppedReason)
		}
	}
}

// The sentences that clients compare.
func TestErrorsHaveTheWordsOfECS(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	must[*ecs.DeregisterTaskDefinitionOutput](t)(w.client.DeregisterTaskDefinition(t.Context(), &ecs.DeregisterTaskDefinitionInput{TaskDefinition: aws.String("web:1")}))
	for _, c := range []struct{ name, body, want string }{
		{"RunTask", `{"taskDefinition": "none"}`, `"TaskDefinition not found."`},
		{"RunTask", `{"taskDefinition": "web:1"}`, `"TaskDefinition is inactive"`},
		{"CreateService", `{"serviceName": "x", "desiredCount": 1, "taskDefinition": "none"}`, `"TaskDefinition not found."`},
		{"DescribeTaskDefinition", `{"taskDefinition": "none"}`, `"Unable to describe task definition."`},
		{"ListTasks", `{"nextToken": "eA", "family": "secret-family"}`, `this is not a token of ListTasks with these filters"`},
	} {
		if status, answer := w.post(c.name, c.body); status != 400 || !strings.Contains(answer, c.want) {
			t.Errorf("%s %s: %d %s", c.name, c.body, status, answer)
		}
	}
}
