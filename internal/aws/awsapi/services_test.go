package awsapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/podtask/podtask/internal/aws/awsapi"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/pkg/service"
)

func (w *world) describe(name string) *ecs.DescribeServicesOutput {
	w.t.Helper()
	return must[*ecs.DescribeServicesOutput](w.t)(w.client.DescribeServices(w.t.Context(), &ecs.DescribeServicesInput{Services: []string{name}}))
}

func (w *world) createService(name, definition string) types.Service {
	w.t.Helper()
	return *must[*ecs.CreateServiceOutput](w.t)(w.client.CreateService(w.t.Context(), &ecs.CreateServiceInput{
		ServiceName: &name, TaskDefinition: &definition, DesiredCount: aws.Int32(2),
		NetworkConfiguration: &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{Subnets: []string{"subnet-1"}}},
		LoadBalancers:        []types.LoadBalancer{{TargetGroupArn: aws.String("a"), ContainerName: aws.String("app"), ContainerPort: aws.Int32(80)}},
	})).Service
}

func TestServiceComesBackAsItWasSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	w.createService("web", "web:1")
	w.start()
	s := w.describe("web").Services[0]
	d := s.DeploymentConfiguration
	switch {
	case *s.Status != "ACTIVE", s.DesiredCount != 2, s.RunningCount != 0, len(s.Deployments) != 1, !strings.HasSuffix(*s.TaskDefinition, ":task-definition/web:1"),
		s.NetworkConfiguration.AwsvpcConfiguration.Subnets[0] != "subnet-1", *s.LoadBalancers[0].TargetGroupArn != "a", s.Tags != nil, s.LaunchType != "EXTERNAL",
		d.DeploymentCircuitBreaker.Enable, *d.MaximumPercent != 200, *d.MinimumHealthyPercent != 100, s.Deployments[0].RolloutState != "IN_PROGRESS", *s.Deployments[0].Status != "PRIMARY":
		t.Errorf("%+v", s)
	}
	told := slices.ContainsFunc(s.Events, func(e types.ServiceEvent) bool {
		return strings.Contains(*e.Message, "loadBalancers, which has no effect")
	})
	if last := *s.Events[len(s.Events)-1].Message; !told || !strings.Contains(last, "began") {
		t.Errorf("told %v; the oldest event is %q", told, last)
	}
	w.keeper.run("web", none)
	started := slices.ContainsFunc(w.describe("web").Services[0].Events, func(e types.ServiceEvent) bool { return strings.Contains(*e.Message, "has started 2 tasks") })
	if !started {
		t.Error("no event says that two tasks were started")
	}
	must[*ecs.CreateServiceOutput](t)(w.client.CreateService(t.Context(), &ecs.CreateServiceInput{
		ServiceName: aws.String("off"), TaskDefinition: aws.String("web:1"), DesiredCount: aws.Int32(0), ServiceConnectConfiguration: &types.ServiceConnectConfiguration{Enabled: false},
	}))
	for _, e := range w.describe("off").Services[0].Events {
		if strings.Contains(*e.Message, "no effect") {
			t.Errorf("what is off has the event %q", *e.Message)
		}
	}
	if w.keeper.all[0].Config.Bounds != nil {
		t.Error("bounds that were not sent are set")
	}
}

// Clients look for tasks and deployments by the ids that other answers have, and for the sentences of ECS.
func TestEventsAreInTheWordsOfECS(t *testing.T) {
	t.Parallel()
	s := service.State{ID: "0123", Name: "web"}
	first, second := s.TaskID(1), s.TaskID(12)
	for message, want := range map[string]string{
		"(service web) has started 2 tasks: (task web-1) (task web-12).":                           "(service web) has started 2 tasks: (task " + first + ") (task " + second + ").",
		"(service web) has stopped 1 tasks: (task web-1).":                                         "(service web) has stopped 1 running tasks: (task " + first + ").",
		"(service web) stopped 2 pending tasks: (task web-1) (task web-12).":                       "(service web) stopped 2 pending tasks.",
		"(service web) has begun draining connections on 1 tasks.":                                 "(service web) has begun draining connections on 1 tasks.",
		"(service web) (task web-1) failed: it failed container health checks.":                    "(service web) (task " + first + ") failed container health checks.",
		"(service web) (task web-1) failed: Essential container in task exited.":                   "(service web) (task " + first + ") failed: Essential container in task exited.",
		"(service web) (deployment web/2) deployment completed.":                                   "(service web) (deployment ecs-svc/" + arn.RevisionID("web/2") + ") deployment completed.",
		"(service web) rolling back to (deployment web/1).":                                        "(service web) rolling back to deployment ecs-svc/" + arn.RevisionID("web/1") + ".",
		"(service web) has reached a steady state.":                                                "(service web) has reached a steady state.",
		"(service web) was unable to place a task because it waits for 1 vCPU (task web-12).":      "(service web) was unable to place a task because it waits for 1 vCPU (task " + second + ").",
		"(service web) has a problem: it is like that of (task other-1), and of (task web-none).":  "(service web) has a problem: it is like that of (task other-1), and of (task web-none).",
		"(service web) is unable to consistently start tasks successfully; the next is due in 2s.": "(service web) is unable to consistently start tasks successfully; the next is due in 2s.",
		"(service web) (deployment web/2) is rolled back to (deployment web/1) as asked.":          "(service web) (deployment ecs-svc/" + arn.RevisionID("web/2") + ") is rolled back to (deployment ecs-svc/" + arn.RevisionID("web/1") + ") as asked.",
	} {
		if got := awsapi.EventMessage(s, message); got != want {
			t.Errorf("%s\nis    %s\nwant %s", message, got, want)
		}
	}
}

// Network mode awsvpc needs no network configuration here. ECS refuses a service without one, so an event says
// it; with one there is nothing to say.
func TestEventSaysThatECSWantsANetworkConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	if status, answer := w.post("RegisterTaskDefinition", `{"family": "bridged", "containerDefinitions": [{"name": "app", "image": "i", "memory": 64}]}`); status != http.StatusOK {
		t.Fatal(answer)
	}
	for _, c := range []struct {
		name, definition, more string
		told                   bool
	}{
		{"without", "web:1", "", true},
		{"empty", "web:1", `, "networkConfiguration": {}`, true},
		{"with", "web:1", `, "networkConfiguration": {"awsvpcConfiguration": {"subnets": ["subnet-1"]}}`, false},
		{"bridge", "bridged:1", "", false},
	} {
		if status, answer := w.post("CreateService", fmt.Sprintf(`{"serviceName": %q, "taskDefinition": %q, "desiredCount": 1%s}`, c.name, c.definition, c.more)); status != http.StatusOK {
			t.Fatal(answer)
		}
		told := slices.ContainsFunc(w.describe(c.name).Services[0].Events, func(e types.ServiceEvent) bool {
			return strings.Contains(*e.Message, "has no networkConfiguration")
		})
		if told != c.told {
			t.Errorf("%s: told %v, want %v", c.name, told, c.told)
		}
	}
	run := must[*ecs.RunTaskOutput](t)(w.client.RunTask(t.Context(), &ecs.RunTaskInput{TaskDefinition: aws.String("web"), LaunchType: types.LaunchTypeFargate}))
	if len(run.Tasks) != 1 || len(run.Failures) != 0 {
		t.Errorf("%+v", run)
	}
}

// ecspresso fills the platform version LATEST into a service of Fargate that names none, and compares. So it
// is answered, with the operating system, and sending it begins no deployment; another version does.
func TestServiceOfFargateHasThePlatformOfECS(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	create := func(name string, launch types.LaunchType, strategy ...types.CapacityProviderStrategyItem) types.Service {
		return *must[*ecs.CreateServiceOutput](t)(w.client.CreateService(t.Context(), &ecs.CreateServiceInput{
			ServiceName: &name, TaskDefinition: aws.String("web:1"), DesiredCount: aws.Int32(1), LaunchType: launch, CapacityProviderStrategy: strategy,
		})).Service
	}
	for _, s := range []types.Service{
		create("fargate", types.LaunchTypeFargate),
		create("spot", "", types.CapacityProviderStrategyItem{CapacityProvider: aws.String("FARGATE_SPOT"), Weight: 1}),
	} {
		d := s.Deployments[0]
		if aws.ToString(s.PlatformVersion) != "LATEST" || aws.ToString(s.PlatformFamily) != "Linux" || aws.ToString(d.PlatformVersion) != "LATEST" || aws.ToString(d.PlatformFamily) != "Linux" {
			t.Errorf("%+v", s)
		}
	}
	if s := create("external", ""); s.PlatformVersion != nil || s.PlatformFamily != nil || s.Deployments[0].PlatformVersion != nil {
		t.Errorf("%+v", s)
	}
	w.keeper.run("fargate", func(service.Task) bool { return false })
	first := *w.describe("fargate").Services[0].Deployments[0].Id
	for _, c := range []struct {
		version string
		deploys bool
	}{{"LATEST", false}, {"1.4.0", true}} {
		must[*ecs.UpdateServiceOutput](t)(w.client.UpdateService(t.Context(), &ecs.UpdateServiceInput{Service: aws.String("fargate"), PlatformVersion: &c.version}))
		if s := w.describe("fargate").Services[0]; (*s.Deployments[0].Id != first) != c.deploys || *s.PlatformVersion != c.version {
			t.Errorf("%s: deployment %s after %s, version %s", c.version, *s.Deployments[0].Id, first, *s.PlatformVersion)
		}
	}
}

// Definitions of services as DescribeServices of ECS answers them, and as tools write them from it, are
// accepted, and come back with the same values: a tool that compares them finds no difference.
func TestServiceIsCreatedFromItsDescription(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	create := func(name string, d *types.DeploymentConfiguration, s *types.Service) types.Service {
		in := ecs.CreateServiceInput{
			ServiceName: &name, TaskDefinition: aws.String("web:1"), DesiredCount: aws.Int32(1), DeploymentConfiguration: d,
			AvailabilityZoneRebalancing: types.AvailabilityZoneRebalancingDisabled,
			CapacityProviderStrategy:    []types.CapacityProviderStrategyItem{{CapacityProvider: aws.String("FARGATE_SPOT"), Weight: 1}},
		}
		if s != nil {
			in.HealthCheckGracePeriodSeconds, in.LaunchType = s.HealthCheckGracePeriodSeconds, s.LaunchType
			in.CapacityProviderStrategy, in.DeploymentController, in.SchedulingStrategy = s.CapacityProviderStrategy, s.DeploymentController, s.SchedulingStrategy
			in.PropagateTags, in.EnableECSManagedTags, in.EnableExecuteCommand = s.PropagateTags, s.EnableECSManagedTags, s.EnableExecuteCommand
			in.LoadBalancers, in.ServiceRegistries, in.PlacementConstraints, in.PlacementStrategy = s.LoadBalancers, s.ServiceRegistries, s.PlacementConstraints, s.PlacementStrategy
		}
		return *must[*ecs.CreateServiceOutput](t)(w.client.CreateService(t.Context(), &in)).Service
	}
	first := create("one", &types.DeploymentConfiguration{
		DeploymentCircuitBreaker: &types.DeploymentCircuitBreaker{}, MaximumPercent: aws.Int32(200), MinimumHealthyPercent: aws.Int32(100),
		Strategy: types.DeploymentStrategyRolling, BakeTimeInMinutes: aws.Int32(0),
	}, nil)
	if d := first.DeploymentConfiguration; d.Strategy != types.DeploymentStrategyRolling || d.BakeTimeInMinutes == nil || *d.BakeTimeInMinutes != 0 {
		t.Errorf("%+v", d)
	}
	if first.LaunchType != "" || first.HealthCheckGracePeriodSeconds != nil || *first.CapacityProviderStrategy[0].CapacityProvider != "FARGATE_SPOT" {
		t.Errorf("launch type %q, grace period %v, %+v", first.LaunchType, first.HealthCheckGracePeriodSeconds, first.CapacityProviderStrategy)
	}
	second := create("two", first.DeploymentConfiguration, &first)
	ignore := cmpopts.IgnoreFields(types.Service{}, "ServiceArn", "ServiceName", "Deployments", "Events", "CreatedAt", "CurrentServiceDeployment", "CurrentServiceRevisions")
	if diff := cmp.Diff(first, second, ignore, cmpopts.IgnoreUnexported(types.Service{}, types.DeploymentConfiguration{}, types.DeploymentCircuitBreaker{}, types.DeploymentController{},
		types.CapacityProviderStrategyItem{})); diff != "" {
		t.Error(diff)
	}
}

func TestUpdateDeploysOnlyForAReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	w.register("web")
	w.createService("web", "web:1")
	update := func(what string, began bool, in ecs.UpdateServiceInput) {
		t.Helper()
		before := w.keeper.all[0].LastDeployment
		in.Service = aws.String("web")
		out := must[*ecs.UpdateServiceOutput](t)(w.client.UpdateService(t.Context(), &in))
		if after := w.keeper.all[0].LastDeployment; (after != before) != began {
			t.Errorf("%s: deployment %d follows %d", what, after, before)
		}
		if out.Service.NetworkConfiguration == nil || len(out.Service.LoadBalancers) != 1 {
			t.Errorf("%s: what it does not name is gone", what)
		}
	}
	network := func(subnet string) *types.NetworkConfiguration {
		return &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{Subnets: []string{subnet}}}
	}
	update("another definition", true, ecs.UpdateServiceInput{TaskDefinition: aws.String("web:2")})
	update("the same again", false, ecs.UpdateServiceInput{TaskDefinition: aws.String("web")})
	update("nothing", false, ecs.UpdateServiceInput{})
	update("count and bounds", false, ecs.UpdateServiceInput{DesiredCount: aws.Int32(3), DeploymentConfiguration: &types.DeploymentConfiguration{
		MinimumHealthyPercent: aws.Int32(50), DeploymentCircuitBreaker: &types.DeploymentCircuitBreaker{Enable: true, Rollback: true},
	}})
	update("the same network", false, ecs.UpdateServiceInput{NetworkConfiguration: network("subnet-1")})
	update("another network", true, ecs.UpdateServiceInput{NetworkConfiguration: network("subnet-2")})
	update("the same platform twice", true, ecs.UpdateServiceInput{PlatformVersion: aws.String("1.4.0")})
	update("the same platform twice", false, ecs.UpdateServiceInput{PlatformVersion: aws.String("1.4.0")})
	update("no registries", false, ecs.UpdateServiceInput{ServiceRegistries: []types.ServiceRegistry{}})
	update("Service Connect that is off", false, ecs.UpdateServiceInput{ServiceConnectConfiguration: &types.ServiceConnectConfiguration{Enabled: false}})
	update("Service Connect that stays off", false, ecs.UpdateServiceInput{ServiceConnectConfiguration: &types.ServiceConnectConfiguration{Enabled: false, Namespace: aws.String("n")}})
	update("Service Connect", true, ecs.UpdateServiceInput{ServiceConnectConfiguration: &types.ServiceConnectConfiguration{Enabled: true, Namespace: aws.String("n")}})
	update("forced", true, ecs.UpdateServiceInput{ForceNewDeployment: true})
	for namespace, want := range map[string]int{"n": 1, "other": 0} {
		list := must[*ecs.ListServicesByNamespaceOutput](t)(w.client.ListServicesByNamespace(t.Context(), &ecs.ListServicesByNamespaceInput{Namespace: &namespace}))
		if len(list.ServiceArns) != want {
			t.Errorf("in the namespace %s: %v", namespace, list.ServiceArns)
		}
	}
	s := w.describe("web").Services[0]
	if d := s.DeploymentConfiguration; s.DesiredCount != 3 || *d.MinimumHealthyPercent != 50 || *d.MaximumPercent != 200 || !d.DeploymentCircuitBreaker.Rollback {
		t.Errorf("%d %+v", s.DesiredCount, d)
	}
}

func TestDeletedServiceIsShownForAnHour(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.register("web")
	w.createService("web", "web")
	if _, err := w.client.DeleteCluster(ctx, &ecs.DeleteClusterInput{Cluster: aws.String("default")}); code(err) != "ClusterContainsServicesException" {
		t.Error(err)
	}
	if _, err := w.client.DeleteService(ctx, &ecs.DeleteServiceInput{Service: aws.String("web")}); code(err) != "InvalidParameterException" {
		t.Error(err)
	}
	out := must[*ecs.DeleteServiceOutput](t)(w.client.DeleteService(ctx, &ecs.DeleteServiceInput{Service: aws.String("web"), Force: aws.Bool(true)}))
	if *out.Service.Status != "DRAINING" || out.Service.DesiredCount != 0 {
		t.Errorf("%+v", out.Service)
	}
	if _, err := w.client.CreateService(ctx, &ecs.CreateServiceInput{ServiceName: aws.String("web"), TaskDefinition: aws.String("web"), DesiredCount: aws.Int32(1)}); code(err) != "InvalidParameterException" || !strings.Contains(err.Error(), "Draining") {
		t.Error(err)
	}
	w.keeper.gone("web")
	w.start()
	if s := w.describe("web"); len(s.Services) != 1 || *s.Services[0].Status != "INACTIVE" || len(s.Services[0].Deployments) != 0 {
		t.Errorf("%+v", s)
	}
	if list := must[*ecs.ListServicesOutput](t)(w.client.ListServices(ctx, &ecs.ListServicesInput{})); len(list.ServiceArns) != 0 {
		t.Errorf("%v", list.ServiceArns)
	}
	if _, err := w.client.UpdateService(ctx, &ecs.UpdateServiceInput{Service: aws.String("web")}); code(err) != "ServiceNotActiveException" {
		t.Error(err)
	}
	if _, err := w.client.ListTasks(ctx, &ecs.ListTasksInput{ServiceName: aws.String("web")}); err != nil {
		t.Error(err)
	}
	w.createService("web", "web")
	if s := w.describe("web"); *s.Services[0].Status != "ACTIVE" {
		t.Errorf("%+v", s)
	}
	w.keeper.gone("web")
	if s := w.describe("web"); len(s.Failures) != 1 || *s.Failures[0].Reason != "MISSING" {
		t.Errorf("a service that was made again and is gone: %+v", s)
	}
	w.createService("other", "web")
	if _, err := w.client.DeleteService(ctx, &ecs.DeleteServiceInput{Service: aws.String("other"), Force: aws.Bool(true)}); err != nil {
		t.Error(err)
	}
	w.keeper.gone("other")
	w.now = w.now.Add(2 * time.Hour)
	if _, answer := w.post("DescribeServices", `{"services": ["other"]}`); !strings.Contains(answer, "MISSING") {
		t.Error(answer)
	}
}

func TestServicesArePagedAndUnique(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.register("web")
	for i := range 12 {
		w.createService(fmt.Sprintf("s%02d", i), "web")
	}
	list := must[*ecs.ListServicesOutput](t)(w.client.ListServices(ctx, &ecs.ListServicesInput{}))
	if len(list.ServiceArns) != 10 || list.NextToken == nil {
		t.Errorf("%v %v", list.ServiceArns, list.NextToken)
	}
	if list = must[*ecs.ListServicesOutput](t)(w.client.ListServices(ctx, &ecs.ListServicesInput{NextToken: list.NextToken})); len(list.ServiceArns) != 2 || list.NextToken != nil {
		t.Errorf("%v", list.ServiceArns)
	}
	must[*ecs.CreateClusterOutput](t)(w.client.CreateCluster(ctx, &ecs.CreateClusterInput{ClusterName: aws.String("blue")}))
	in := &ecs.CreateServiceInput{ServiceName: aws.String("s00"), Cluster: aws.String("blue"), TaskDefinition: aws.String("web"), DesiredCount: aws.Int32(1)}
	if _, err := w.client.CreateService(ctx, in); code(err) != "InvalidParameterException" || !strings.Contains(err.Error(), "unique") {
		t.Error(err)
	}
	in.ServiceName, in.ClientToken = aws.String("new"), aws.String("x")
	for range 2 {
		if _, err := w.client.CreateService(ctx, in); err != nil {
			t.Error(err)
		}
	}
	in.DesiredCount = aws.Int32(3)
	if _, err := w.client.CreateService(ctx, in); code(err) != "InvalidParameterException" || !strings.Contains(err.Error(), "idempotent") {
		t.Error(err)
	}
	if s := w.describe("new"); len(s.Failures) != 1 {
		t.Errorf("the default cluster has a service of another: %+v", s.Services)
	}
}

func TestBadRequestsForServices(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	w.createService("web", "web")
	for _, c := range []struct{ target, body, want string }{
		{"CreateService", `{"serviceName": "a", "taskDefinition": "web"}`, "InvalidParameterException"},
		{"CreateService", `{"serviceName": "a", "desiredCount": 1}`, "InvalidParameterException"},
		{"CreateService", `{"serviceName": "a b", "taskDefinition": "web", "desiredCount": 1}`, "InvalidParameterException"},
		{"CreateService", `{"serviceName": "a", "taskDefinition": "web", "desiredCount": -1}`, "InvalidParameterException"},
		{"CreateService", `{"serviceName": "a", "taskDefinition": "web:9", "desiredCount": 1}`, "ClientException"},
		{"CreateService", `{"serviceName": "a", "taskDefinition": "web", "desiredCount": 2, "schedulingStrategy": "DAEMON"}`, "InvalidParameterException"},
		{"CreateService", `{"serviceName": "a", "taskDefinition": "web", "desiredCount": 1, "deploymentController": {"type": "CODE_DEPLOY"}}`, "UnsupportedFeatureException"},
		{"CreateService", `{"serviceName": "a", "taskDefinition": "web", "desiredCount": 1, "deploymentConfiguration": {"strategy": "RED_GREEN"}}`, "InvalidParameterException"},
		{"CreateService", `{"serviceName": "a", "taskDefinition": "web", "desiredCount": 1, "deploymentConfiguration": {"bakeTimeInMinutes": 1441}}`, "InvalidParameterException"},
		{"CreateService", `{"serviceName": "a", "taskDefinition": "web", "desiredCount": 1, "deploymentConfiguration": {"minimumHealthyPercent": 200}}`, "InvalidParameterException"},
		{"CreateService", `{"serviceName": "a", "taskDefinition": "web", "desiredCount": 1, "volumeConfigurations": [{"name": "v"}]}`, "InvalidParameterException"},
		{"CreateService", `{"serviceName": "a", "taskDefinition": "web", "desiredCount": 1, "loadBalancers": {}}`, "SerializationException"},
		{"CreateService", `{"serviceName": "web", "taskDefinition": "web", "desiredCount": 1}`, "InvalidParameterException"},
		{"UpdateService", `{"service": "wob"}`, "ServiceNotFoundException"},
		{"UpdateService", `{"service": "web", "launchType": "EC2"}`, "InvalidParameterException"},
		{"UpdateService", `{"service": "web", "deploymentConfiguration": {"bakeTimeInMinutes": -1}}`, "InvalidParameterException"},
		{"CreateService", `{"serviceName": "a", "taskDefinition": "web", "desiredCount": 1, "launchType": "EC2", "capacityProviderStrategy": [{"capacityProvider": "x"}]}`, "InvalidParameterException"},
		{"DeleteService", `{"service": "wob"}`, "ServiceNotFoundException"},
		{"DescribeServices", `{"services": []}`, "InvalidParameterException"},
		{"DescribeServices", `{"services": ["1","2","3","4","5","6","7","8","9","10","11"]}`, "InvalidParameterException"},
		{"ListServices", `{"schedulingStrategy": "SOME"}`, "InvalidParameterException"},
	} {
		if status, answer := w.post(c.target, c.body); status != 400 || !strings.Contains(answer, `"`+c.want+`"`) {
			t.Errorf("%s %s: %d %s, want %s", c.target, c.body, status, answer, c.want)
		}
	}
	if len(w.keeper.all) != 1 {
		t.Errorf("%d services", len(w.keeper.all))
	}
}

var _ awsapi.Services = (*keeper)(nil)

// As on ECS, the number of copies of a DAEMON service is not the client's to choose; the one that it has here is taken.
func TestDaemonServicesHaveNoDesiredCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	create := func(count *int32) error {
		_, err := w.client.CreateService(t.Context(), &ecs.CreateServiceInput{ServiceName: aws.String("web"), TaskDefinition: aws.String("web:1"), DesiredCount: count, SchedulingStrategy: types.SchedulingStrategyDaemon})
		return err
	}
	if err := create(aws.Int32(2)); code(err) != "InvalidParameterException" || !strings.Contains(err.Error(), "The daemon scheduling strategy does not support a desired count for services.") {
		t.Error(err)
	}
	if err := create(nil); err != nil {
		t.Error(err)
	}
}

// As on ECS, a role may be given by its name, and comes back as an ARN.
func TestRoleOfAServiceComesBackAsAnARN(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	s := must[*ecs.CreateServiceOutput](t)(w.client.CreateService(t.Context(), &ecs.CreateServiceInput{
		ServiceName: aws.String("web"), TaskDefinition: aws.String("web:1"), DesiredCount: aws.Int32(0), Role: aws.String("ecsRole"),
	})).Service
	if aws.ToString(s.RoleArn) != "arn:aws:iam::000000000000:role/ecsRole" {
		t.Errorf("the role is %q", aws.ToString(s.RoleArn))
	}
}

// A service that sleeps has its desired count, none that runs, and a deployment that is complete.
func TestAServiceThatSleepsRunsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	w.createService("web", "web:1")
	w.keeper.all[0].Config.Sleep = &service.Sleep{After: time.Second}
	w.keeper.run("web", none)
	w.start()
	if s := w.describe("web").Services[0]; s.RunningCount != 2 {
		t.Fatalf("awake it has %d copies", s.RunningCount)
	}
	w.keeper.passed += time.Hour
	w.keeper.step("web", service.Used{IdleSince: time.Unix(901, 0)})
	w.keeper.run("web", none)
	s := w.describe("web").Services[0]
	if *s.Status != "ACTIVE" || s.DesiredCount != 2 || s.RunningCount+s.PendingCount != 0 || len(s.Deployments) != 1 || s.Deployments[0].RolloutState != "COMPLETED" || s.Deployments[0].RunningCount != 0 {
		t.Errorf("%s, %d of %d, %+v", *s.Status, s.RunningCount, s.DesiredCount, s.Deployments)
	}
}

// An update is of one state of the service: of two at once, the service has one whole.
func TestUpdatesAtOnceDoNotMix(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createService("web", w.register("web"))
	w.register("web")
	var wg sync.WaitGroup
	for revision := range 2 {
		wg.Go(func() {
			for range 50 {
				if status, answer := w.post("UpdateService", fmt.Sprintf(`{"service": "web", "taskDefinition": "web:%d", "healthCheckGracePeriodSeconds": %[1]d}`, revision+1)); status != 200 {
					t.Error(answer)
				}
				s, _ := w.keeper.State("web")
				if got, grace := s.Primary().TaskDefinition, s.Config.HealthCheckGracePeriod/time.Second; got != fmt.Sprintf("web:%d", grace) {
					t.Errorf("%s with the grace period of %d", got, grace)
				}
			}
		})
	}
	wg.Wait()
}
