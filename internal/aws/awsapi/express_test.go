package awsapi_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	autotypes "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/podtask/podtask/internal/aws/awsapi"
	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/pkg/scaling"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// express makes an Express service.
func (w *world) express(name string) types.ECSExpressGatewayService {
	w.t.Helper()
	return *must[*ecs.CreateExpressGatewayServiceOutput](w.t)(w.client.CreateExpressGatewayService(w.t.Context(), &ecs.CreateExpressGatewayServiceInput{
		ServiceName: &name, InfrastructureRoleArn: aws.String("arn:aws:iam::000000000000:role/i"), PrimaryContainer: &types.ExpressGatewayContainer{Image: aws.String("registry.example.org/shop:1")},
	})).Service
}

func (w *world) updateExpress(in ecs.UpdateExpressGatewayServiceInput) types.UpdatedExpressGatewayService {
	w.t.Helper()
	return *must[*ecs.UpdateExpressGatewayServiceOutput](w.t)(w.client.UpdateExpressGatewayService(w.t.Context(), &in)).Service
}

// An Express service is a task definition, a service with an address, and a scaling, which other operations show too.
func TestExpressServiceIsMadeOfOrdinaryThings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.express("Shop")
	a := made.ActiveConfigurations[0]
	if made.Status.StatusCode != "ACTIVE" || *made.Cluster != "default" || len(a.IngressPaths) != 1 || *a.IngressPaths[0].Endpoint != "https://shop.apps.test" || a.IngressPaths[0].AccessType != "PUBLIC" ||
		*a.Cpu != "256" || *a.Memory != "512" || *a.HealthCheckPath != "/ping" || *a.PrimaryContainer.ContainerPort != 80 || *a.ScalingTarget.MinTaskCount != 1 || *a.ScalingTarget.MaxTaskCount != 20 ||
		a.ScalingTarget.AutoScalingMetric != "AVERAGE_CPU" || *a.ScalingTarget.AutoScalingTargetValue != 60 {
		t.Errorf("made %+v", a)
	}
	s := w.describe("Shop").Services[0]
	if s.DesiredCount != 1 || s.ResourceManagementType != "ECS" || s.LaunchType != "FARGATE" || !s.DeploymentConfiguration.DeploymentCircuitBreaker.Rollback {
		t.Errorf("the service is %+v", s)
	}
	state, _ := w.keeper.State("Shop")
	if i := *state.Config.Ingress; i[0].URL != "https://shop.apps.test" || i[0].Container != "Main" || i[0].Port != 80 {
		t.Errorf("the address is %+v", i)
	}
	targets := must[*applicationautoscaling.DescribeScalableTargetsOutput](t)(w.scalable().DescribeScalableTargets(t.Context(), &applicationautoscaling.DescribeScalableTargetsInput{ServiceNamespace: autotypes.ServiceNamespaceEcs}))
	if !slices.ContainsFunc(targets.ScalableTargets, func(s autotypes.ScalableTarget) bool {
		return *s.ResourceId == "service/default/Shop" && *s.MinCapacity == 1 && *s.MaxCapacity == 20
	}) {
		t.Errorf("scalable are %+v", targets.ScalableTargets)
	}
	w.createService("other", w.register("web"))
	for managed, want := range map[types.ResourceManagementType]string{"ECS": "/Shop", "CUSTOMER": "/other"} {
		l := must[*ecs.ListServicesOutput](t)(w.client.ListServices(t.Context(), &ecs.ListServicesInput{ResourceManagementType: managed}))
		if len(l.ServiceArns) == 0 || !strings.HasSuffix(l.ServiceArns[0], want) || managed == "ECS" && len(l.ServiceArns) != 1 {
			t.Errorf("of %s are %v", managed, l.ServiceArns)
		}
	}
}

func TestExpressServiceChangesWhatIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	self := w.express("shop").ServiceArn
	u := w.updateExpress(ecs.UpdateExpressGatewayServiceInput{ServiceArn: self, PrimaryContainer: &types.ExpressGatewayContainer{Image: aws.String("registry.example.org/shop:1")}})
	if c := u.TargetConfiguration; !strings.HasSuffix(*c.TaskDefinitionArn, "/shop:1") {
		t.Errorf("the same container made %s", *c.TaskDefinitionArn)
	}
	u = w.updateExpress(ecs.UpdateExpressGatewayServiceInput{ServiceArn: self, Memory: aws.String("1024"), ScalingTarget: &types.ExpressGatewayScalingTarget{MaxTaskCount: aws.Int32(3)}})
	if c := u.TargetConfiguration; !strings.HasSuffix(*c.TaskDefinitionArn, "/shop:2") || *c.Memory != "1024" || *c.Cpu != "256" || *c.PrimaryContainer.Image != "registry.example.org/shop:1" || *c.ScalingTarget.MaxTaskCount != 3 || *c.ScalingTarget.MinTaskCount != 1 {
		t.Errorf("more memory made %+v", c)
	}
	u = w.updateExpress(ecs.UpdateExpressGatewayServiceInput{ServiceArn: self, PrimaryContainer: &types.ExpressGatewayContainer{Image: aws.String("i"), ContainerPort: aws.Int32(8080)}})
	if state, _ := w.keeper.State("shop"); (*state.Config.Ingress)[0].Port != 8080 || *u.TargetConfiguration.IngressPaths[0].Endpoint != "https://shop.apps.test" {
		t.Errorf("with another port requests go to %+v", *state.Config.Ingress)
	}
	if status, answer := w.post("UpdateExpressGatewayService", `{"serviceArn": "`+*self+`", "memory": "4096", "scalingTarget": {"minTaskCount": 9}}`); status != 400 || !strings.Contains(answer, "scalingTarget: ") {
		t.Errorf("a wrong target: %d %s", status, answer)
	}
	if state, _ := w.keeper.State("shop"); state.Primary().TaskDefinition != "shop:3" {
		t.Errorf("a request that was refused made %s", state.Primary().TaskDefinition)
	}
	gone := must[*ecs.DeleteExpressGatewayServiceOutput](t)(w.client.DeleteExpressGatewayService(t.Context(), &ecs.DeleteExpressGatewayServiceInput{ServiceArn: self}))
	if gone.Service.Status.StatusCode != "DRAINING" {
		t.Errorf("deleted is %s", gone.Service.Status.StatusCode)
	}
	if _, err := w.client.UpdateExpressGatewayService(t.Context(), &ecs.UpdateExpressGatewayServiceInput{ServiceArn: self}); err == nil || !strings.Contains(err.Error(), "ServiceNotActiveException") {
		t.Errorf("an update of it: %v", err)
	}
	w.keeper.mu.Lock()
	w.keeper.all = nil
	w.keeper.mu.Unlock()
	d := must[*ecs.DescribeExpressGatewayServiceOutput](t)(w.client.DescribeExpressGatewayService(t.Context(), &ecs.DescribeExpressGatewayServiceInput{ServiceArn: self}))
	if d.Service.Status.StatusCode != "INACTIVE" || len(d.Service.ActiveConfigurations) != 0 {
		t.Errorf("afterwards it is %+v", d.Service)
	}
}

// Another command may give an Express service a definition of any form. It is described and removed all the same, and gets a
// definition with a container Main again.
func TestExpressServiceWithAnotherDefinition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	self := w.express("shop").ServiceArn
	other := w.register("web")
	must[*ecs.UpdateServiceOutput](t)(w.client.UpdateService(t.Context(), &ecs.UpdateServiceInput{Service: aws.String("shop"), TaskDefinition: &other}))
	d := must[*ecs.DescribeExpressGatewayServiceOutput](t)(w.client.DescribeExpressGatewayService(t.Context(), &ecs.DescribeExpressGatewayServiceInput{ServiceArn: self}))
	if a := d.Service.ActiveConfigurations[0]; !strings.HasSuffix(*a.TaskDefinitionArn, "/web:1") || a.PrimaryContainer != nil || len(a.IngressPaths) != 1 {
		t.Errorf("described as %+v", a)
	}
	if status, answer := w.post("UpdateExpressGatewayService", `{"serviceArn": "`+*self+`", "cpu": "512"}`); status != 400 || !strings.Contains(answer, "container Main") {
		t.Errorf("a change of its processor: %d %s", status, answer)
	}
	u := w.updateExpress(ecs.UpdateExpressGatewayServiceInput{ServiceArn: self, TaskDefinitionArn: aws.String("shop:1")})
	if c := u.TargetConfiguration; *c.PrimaryContainer.Image != "registry.example.org/shop:1" {
		t.Errorf("back at its definition: %+v", c)
	}
	w.ok("RegisterTaskDefinition", `{"family": "odd", "cpu": 256, "memory": 512, "containerDefinitions": [{"name": "Main", "image": "i", "portMappings": [{"containerPort": 80}]}]}`)
	if status, answer := w.post("UpdateExpressGatewayService", `{"serviceArn": "`+*self+`", "taskDefinitionArn": "odd:1"}`); status != 400 || !strings.Contains(answer, "form of ECS") {
		t.Errorf("a definition with a number for a text: %d %s", status, answer)
	}
}

func TestExpressRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	w.createService("plain", "web:1")
	w.express("there")
	const role = `"infrastructureRoleArn": "r"`
	arn := func(name string) string {
		return `{"serviceArn": "arn:aws:ecs:local:000000000000:service/default/` + name + `"`
	}
	for _, tt := range []struct{ operation, body, want string }{
		{"Create", `{` + role + `}`, "primaryContainer or taskDefinitionArn is required"},
		{"Create", `{"primaryContainer": {"image": "i"}}`, "infrastructureRoleArn is required"},
		{"Create", `{` + role + `, "primaryContainer": {"command": ["c"]}}`, "primaryContainer.image is required"},
		{"Create", `{` + role + `, "primaryContainer": {"image": "i", "stopTimeout": 3}}`, "primaryContainer.stopTimeout: podtask does not know this member"},
		{"Create", `{` + role + `, "primaryContainer": {"image": "i", "containerPort": 70000}, "healthCheckPath": "up", "cpuArchitecture": "VAX"}`, "70000 is not 0 to 65535"},
		{"Create", `{` + role + `, "primaryContainer": {"image": "i", "containerPort": 70000}, "healthCheckPath": "up", "cpuArchitecture": "VAX"}`, "begins with one slash"},
		{"Create", `{` + role + `, "primaryContainer": {"image": "i"}, "taskDefinitionArn": "web:1"}`, "a request with it cannot have primaryContainer"},
		{"Create", `{` + role + `, "taskDefinitionArn": "web:1"}`, "must have a container Main with one port"},
		{"Create", `{` + role + `, "primaryContainer": {"image": "i"}, "cluster": "none"}`, "ClusterNotFoundException"},
		{"Create", `{` + role + `, "primaryContainer": {"image": "i"}, "tags": [{"key": "aws:x", "value": "y"}]}`, "tags"},
		{"Create", `{` + role + `, "primaryContainer": {"image": "i"}, "scalingTarget": {"minTaskCount": 5, "maxTaskCount": 2}}`, "scalingTarget: "},
		{"Create", `{` + role + `, "primaryContainer": {"image": "i"}, "scalingTarget": {"autoScalingMetric": "LUCK"}}`, "LUCK"},
		{"Create", `{` + role + `, "primaryContainer": {"image": "i"}, "serviceName": "there"}`, "there is a service there"},
		{"Create", `{` + role + `, "primaryContainer": {"image": "i"}, "serviceName": "` + strings.Repeat("a", 64) + `"}`, "it is a label of the address"},
		{"Create", `{` + role + `, "primaryContainer": {"image": "i"}, "serviceName": "_a"}`, "it is a label of the address"},
		{"Create", `{` + role + `, "primaryContainer": {"image": "i"}, "serviceName": "a/b"}`, "it is a label of the address"},
		{"Create", `{` + role + `, "primaryContainer": {"image": "i"}, "serviceName": "web"}`, "the task definitions of the family web are not those of an Express service"},
		{"Create", `{` + role + `, "primaryContainer": {"image": "i"}, "serviceName": "plain"}`, "there is a service plain, which is not an Express service"},
		{"Create", `{` + role + `, "primaryContainer": {"image": "i"}, "healthCheckPath": "//other.example/x"}`, "begins with one slash"},
		{"Create", `{` + role + `, "primaryContainer": {"image": "i"}, "healthCheckPath": "/up\r\nHost: x"}`, "begins with one slash"},
		{"Create", `{` + role + `, "primaryContainer": {"image": "i"}, "healthCheckPath": "/` + strings.Repeat("a", 1024) + `"}`, "begins with one slash"},
		{"Create", `{` + role + `, "primaryContainer": {"image": "i"}, "networkConfiguration": {"subnets": 5}}`, "networkConfiguration.subnets cannot be a number"},
		{"Create", `{` + role + `, "primaryContainer": {"image": "i"}, "networkConfiguration": {"vpc": "v"}}`, "networkConfiguration.vpc: podtask does not know this member"},
		{"Create", `{` + role + `, "primaryContainer": {"image": "i", "environment": [{"name": "n", "value": 5}]}}`, "SerializationException"},
		{"Create", `{` + role + `, "primaryContainer": {"image": "i", "command": [5]}}`, `"primaryContainer.command cannot be a number"`},
		{"Create", `{` + role + `, "cpu": 256, "primaryContainer": {"image": "i"}}`, `"cpu cannot be a number"`},
		{"Describe", arn("none") + `}`, "ServiceNotFoundException"},
		{"Describe", arn("plain") + `}`, "plain is not an Express service"},
		{"Describe", `{"serviceArn": "there"}`, "is not the ARN of a service"},
		{"Update", arn("plain") + `}`, "plain is not an Express service"},
		{"Delete", arn("plain") + `}`, "plain is not an Express service"},
	} {
		if status, answer := w.post(tt.operation+"ExpressGatewayService", tt.body); status != 400 || !strings.Contains(answer, tt.want) {
			t.Errorf("%s %s: %d %s, want %q", tt.operation, tt.body, status, answer, tt.want)
		}
	}
	if all := w.keeper.States(); len(all) != 2 {
		t.Errorf("%d services are there", len(all))
	}
	families := must[*ecs.ListTaskDefinitionFamiliesOutput](t)(w.client.ListTaskDefinitionFamilies(t.Context(), &ecs.ListTaskDefinitionFamiliesInput{}))
	if len(families.Families) != 2 {
		t.Errorf("refused requests registered definitions: %v", families.Families)
	}
	without := &world{t: t, host: &host{}, dir: t.TempDir(), now: w.now, configure: func(c *awsapi.Config) { c.ExpressDomain = "" }}
	without.start()
	if status, answer := without.post("CreateExpressGatewayService", `{`+role+`, "primaryContainer": {"image": "i"}}`); status != 400 || !strings.Contains(answer, "UnsupportedFeatureException") || !strings.Contains(answer, "set aws-express-domain") {
		t.Errorf("without a domain: %d %s", status, answer)
	}
}

// A client whose answer was lost sends its request again, and so does one whose request was cut off by the end of the agent: it gets the
// service, with what was missing. Another request for the name is refused.
func TestExpressServiceIsMadeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const body = `{"infrastructureRoleArn": "r", "serviceName": "shop", "primaryContainer": {"image": "i"}, "scalingTarget": {"maxTaskCount": 3}}`
	w.ok("CreateExpressGatewayService", body)
	if err := w.scaled().End(t.Context(), "shop"); err != nil { // as if the agent had ended before the last step
		t.Fatal(err)
	}
	w.start()
	if answer := w.ok("CreateExpressGatewayService", body); !strings.Contains(answer, `"maxTaskCount":3`) || !strings.Contains(answer, "task-definition/shop:1") {
		t.Errorf("the same request: %s", answer)
	}
	if status, answer := w.post("CreateExpressGatewayService", strings.Replace(body, "3", "4", 1)); status != 400 || !strings.Contains(answer, "there is a service shop") {
		t.Errorf("another maximum: %d %s", status, answer)
	}
	w.updateExpress(ecs.UpdateExpressGatewayServiceInput{ServiceArn: aws.String("arn:aws:ecs:local:000000000000:service/default/shop"), Memory: aws.String("1024")})
	if status, answer := w.post("CreateExpressGatewayService", body); status != 400 || !strings.Contains(answer, "there is a service shop") {
		t.Errorf("the first request after an update: %d %s", status, answer)
	}
	w.ok("DeleteExpressGatewayService", `{"serviceArn": "arn:aws:ecs:local:000000000000:service/default/shop"}`)
	if status, answer := w.post("CreateExpressGatewayService", body); status != 400 || !strings.Contains(answer, "still Draining") {
		t.Errorf("while it is removed: %d %s", status, answer)
	}
	w.keeper.gone("shop")
	if answer := w.ok("CreateExpressGatewayService", strings.Replace(body, `"maxTaskCount": 3`, "", 1)); !strings.Contains(answer, `"maxTaskCount":20`) || !strings.Contains(answer, "task-definition/shop:1") {
		t.Errorf("again: %s; the scaling of the one before must not stay, and the definition is the same", answer)
	}
}

// Nothing is left of a service that cannot be made.
func TestExpressServiceThatCannotBeMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.keeper.refuse = &protocol.Failure{Code: "InvalidParameterException", Message: "service other has https://shop.apps.test already"}
	if status, answer := w.post("CreateExpressGatewayService", `{"infrastructureRoleArn": "r", "serviceName": "shop", "primaryContainer": {"image": "i"}}`); status != 400 || !strings.Contains(answer, "has https://shop.apps.test already") {
		t.Errorf("%d %s", status, answer)
	}
	if families := must[*ecs.ListTaskDefinitionFamiliesOutput](t)(w.client.ListTaskDefinitionFamilies(t.Context(), &ecs.ListTaskDefinitionFamiliesInput{Status: "ALL"})).Families; len(families) != 0 {
		t.Errorf("families are %v", families)
	}
}

// The user has given the address of an Express service users, and has added another one: with another port of the container, both stay.
func TestExpressServiceKeepsItsAddresses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	self := w.express("shop").ServiceArn
	addresses := []taskdef.Ingress{
		{URL: "https://shop.apps.test", Container: "Main", Port: 80, Auth: "podman:users"}, {URL: "https://shop.test", Container: "Main", Port: 80}, {URL: "https://side.test", Container: "app", Port: 80},
	}
	must[service.State](t)(w.keeper.Update(t.Context(), "shop", awsapi.ServiceChange{Config: func(c service.Config) service.Config { c.Ingress = &addresses; return c }}))
	w.updateExpress(ecs.UpdateExpressGatewayServiceInput{ServiceArn: self, PrimaryContainer: &types.ExpressGatewayContainer{Image: aws.String("i"), ContainerPort: aws.Int32(8080)}})
	now, _ := w.keeper.State("shop")
	want := slices.Clone(addresses)
	want[0].Port, want[1].Port = 8080, 8080
	if !slices.Equal(*now.Config.Ingress, want) {
		t.Errorf("the addresses are %+v", *now.Config.Ingress)
	}
}

// Updates at once change what each of them names.
func TestExpressUpdatesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	self := w.express("shop").ServiceArn
	all := []ecs.UpdateExpressGatewayServiceInput{{Memory: aws.String("1024")}, {Cpu: aws.String("512")}, {TaskRoleArn: aws.String("t")}, {ExecutionRoleArn: aws.String("e")}, {HealthCheckPath: aws.String("/up")}}
	var wg sync.WaitGroup
	for _, in := range all {
		in.ServiceArn = self
		wg.Go(func() {
			if _, err := w.client.UpdateExpressGatewayService(t.Context(), &in); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	d := must[*ecs.DescribeExpressGatewayServiceOutput](t)(w.client.DescribeExpressGatewayService(t.Context(), &ecs.DescribeExpressGatewayServiceInput{ServiceArn: self}))
	if a := d.Service.ActiveConfigurations[0]; *a.Memory != "1024" || *a.Cpu != "512" || *a.TaskRoleArn != "t" || *a.ExecutionRoleArn != "e" || *a.HealthCheckPath != "/up" {
		t.Errorf("it has %+v", a)
	}
}

// The bounds of a service whose policy the user has replaced are changed, and no other policy comes back.
func TestExpressBoundsBesideAPolicyOfTheUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	self := w.express("shop").ServiceArn
	if _, err := w.scaled().Configure(t.Context(), "shop", func(c scaling.Config, _ bool) (scaling.Config, error) {
		c.Policies[0].Name = "own"
		return c, nil
	}); err != nil {
		t.Fatal(err)
	}
	u := w.updateExpress(ecs.UpdateExpressGatewayServiceInput{ServiceArn: self, ScalingTarget: &types.ExpressGatewayScalingTarget{MaxTaskCount: aws.Int32(3)}})
	if s := u.TargetConfiguration.ScalingTarget; *s.MaxTaskCount != 3 || s.AutoScalingMetric != "" {
		t.Errorf("the scaling is %+v", s)
	}
}
