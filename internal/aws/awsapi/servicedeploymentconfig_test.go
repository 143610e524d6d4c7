package awsapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/document"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/podtask/podtask/pkg/service"
)

// config has UpdateService change deploymentConfiguration, and returns what DescribeServices has then.
func (w *world) config(change string) string {
	w.t.Helper()
	if status, answer := w.post("UpdateService", `{"service": "web", "deploymentConfiguration": `+change+`}`); status != 200 {
		w.t.Fatalf("%s: %d %s", change, status, answer)
	}
	_, answer := w.post("DescribeServices", `{"services": ["web"]}`)
	var got struct {
		Services []struct {
			Config json.RawMessage `json:"deploymentConfiguration"`
		} `json:"services"`
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil || len(got.Services) != 1 {
		w.t.Fatalf("%s: %v", answer, err)
	}
	return string(got.Services[0].Config)
}

const (
	hook  = `{"hookTargetArn": "arn:aws:lambda:eu-west-1:111122223333:function:smoke", "roleArn": "arn:aws:iam::111122223333:role/r", "lifecycleStages": ["POST_SCALE_UP"]`
	pause = `{"targetType": "PAUSE", "lifecycleStages": ["POST_TEST_TRAFFIC_SHIFT"]`
)

// What an update leaves out stays; what it gives replaces what was there, with ECS' defaults for the rest.
func TestDeploymentConfigurationIsUpdatedInParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	must[*ecs.CreateServiceOutput](t)(w.client.CreateService(t.Context(), &ecs.CreateServiceInput{ServiceName: aws.String("web"), TaskDefinition: aws.String("web"), DesiredCount: aws.Int32(2)}))
	base := `"maximumPercent":200,"minimumHealthyPercent":100`
	off := `{"deploymentCircuitBreaker":{"enable":false,"rollback":false,"resetOnHealthyTask":true},` + base
	for _, tt := range []struct{ change, want string }{
		{`{}`, off + `,"strategy":"ROLLING","bakeTimeInMinutes":0}`},
		{`{"strategy": "LINEAR"}`, off + `,"strategy":"LINEAR","bakeTimeInMinutes":0,"linearConfiguration":{"stepPercent":10,"stepBakeTimeInMinutes":6}}`},
		{`{"linearConfiguration": {"stepPercent": 33.3}, "bakeTimeInMinutes": 7}`, off + `,"strategy":"LINEAR","bakeTimeInMinutes":7,"linearConfiguration":{"stepPercent":33.3,"stepBakeTimeInMinutes":6}}`},
		{`{"strategy": "LINEAR"}`, off + `,"strategy":"LINEAR","bakeTimeInMinutes":7,"linearConfiguration":{"stepPercent":33.3,"stepBakeTimeInMinutes":6}}`},
		{`{"linearConfiguration": {}}`, off + `,"strategy":"LINEAR","bakeTimeInMinutes":7,"linearConfiguration":{"stepPercent":10,"stepBakeTimeInMinutes":6}}`},
		{`{"strategy": "CANARY", "canaryConfiguration": {"canaryBakeTimeInMinutes": 0}}`, off + `,"strategy":"CANARY","bakeTimeInMinutes":7,"canaryConfiguration":{"canaryPercent":5,"canaryBakeTimeInMinutes":0}}`},
		{`{"strategy": "BLUE_GREEN"}`, off + `,"strategy":"BLUE_GREEN","bakeTimeInMinutes":7}`},
		{`{"deploymentCircuitBreaker": {"enable": true, "rollback": true, "resetOnHealthyTask": false, "thresholdConfiguration": {"type": "COUNT", "value": 2}}}`,
			`{"deploymentCircuitBreaker":{"enable":true,"rollback":true,"resetOnHealthyTask":false,"thresholdConfiguration":{"type":"COUNT","value":2}},` + base + `,"strategy":"BLUE_GREEN","bakeTimeInMinutes":7}`},
		{`{"deploymentCircuitBreaker": {"enable": true}}`, // rollback is off then, reset and threshold stay
			`{"deploymentCircuitBreaker":{"enable":true,"rollback":false,"resetOnHealthyTask":false,"thresholdConfiguration":{"type":"COUNT","value":2}},` + base + `,"strategy":"BLUE_GREEN","bakeTimeInMinutes":7}`},
		{`{"deploymentCircuitBreaker": {"enable": false, "resetOnHealthyTask": true, "thresholdConfiguration": {"type": "BOUNDED_PERCENT", "value": 50}}, "lifecycleHooks": [` + hook + `, "hookDetails": {"a": [1, "b"]}, "timeoutConfiguration": {}},` + pause + `, "timeoutConfiguration": {"action": "CONTINUE", "timeoutInMinutes": 20160}}]}`,
			`{"deploymentCircuitBreaker":{"enable":false,"rollback":false,"resetOnHealthyTask":true,"thresholdConfiguration":{"type":"BOUNDED_PERCENT","value":50}},` + base + `,"strategy":"BLUE_GREEN","bakeTimeInMinutes":7,"lifecycleHooks":[` +
				`{"hookTargetArn":"arn:aws:lambda:eu-west-1:111122223333:function:smoke","roleArn":"arn:aws:iam::111122223333:role/r","lifecycleStages":["POST_SCALE_UP"],"targetType":"AWS_LAMBDA","hookDetails":{"a":[1,"b"]},"timeoutConfiguration":{"action":"ROLLBACK","timeoutInMinutes":1440}},` +
				`{"lifecycleStages":["POST_TEST_TRAFFIC_SHIFT"],"targetType":"PAUSE","timeoutConfiguration":{"action":"CONTINUE","timeoutInMinutes":20160}}]}`},
		{`{"lifecycleHooks": [` + pause + `}], "bakeTimeInMinutes": 0}`, // the list is replaced as a whole
			`{"deploymentCircuitBreaker":{"enable":false,"rollback":false,"resetOnHealthyTask":true,"thresholdConfiguration":{"type":"BOUNDED_PERCENT","value":50}},` + base + `,"strategy":"BLUE_GREEN","bakeTimeInMinutes":0,"lifecycleHooks":[{"lifecycleStages":["POST_TEST_TRAFFIC_SHIFT"],"targetType":"PAUSE"}]}`},
		{`{"strategy": "ROLLING", "lifecycleHooks": [], "minimumHealthyPercent": 50, "earlySuccessCriteria": {"enable": true, "healthyPercent": 50, "sourceServiceRevisionCleanup": "DEFERRED"}, "alarms": {"alarmNames": ["errors"], "enable": true, "rollback": true}}`,
			`{"deploymentCircuitBreaker":{"enable":false,"rollback":false,"resetOnHealthyTask":true,"thresholdConfiguration":{"type":"BOUNDED_PERCENT","value":50}},"maximumPercent":200,"minimumHealthyPercent":50,"strategy":"ROLLING","bakeTimeInMinutes":0,` +
				`"earlySuccessCriteria":{"enable":true,"healthyPercent":50,"sourceServiceRevisionCleanup":"DEFERRED"},"alarms":{"alarmNames":["errors"],"enable":true,"rollback":true}}`},
		{`{"earlySuccessCriteria": {"enable": false}, "alarms": {"alarmNames": [], "enable": false, "rollback": false}}`,
			`{"deploymentCircuitBreaker":{"enable":false,"rollback":false,"resetOnHealthyTask":true,"thresholdConfiguration":{"type":"BOUNDED_PERCENT","value":50}},"maximumPercent":200,"minimumHealthyPercent":50,"strategy":"ROLLING","bakeTimeInMinutes":0,"alarms":{"alarmNames":[],"enable":false,"rollback":false}}`},
	} {
		var want, got any
		if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(w.config(tt.change)), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", tt.change, diff)
		}
	}
	if n := w.keeper.all[0].LastDeployment; n != 1 {
		t.Errorf("a change of the configuration alone began a deployment: %d", n)
	}
}

// What podtask keeps of a request is what its state machine reads.
func TestDeploymentConfigurationReachesTheService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	must[*ecs.CreateServiceOutput](t)(w.client.CreateService(t.Context(), &ecs.CreateServiceInput{
		ServiceName: aws.String("web"), TaskDefinition: aws.String("web"), DesiredCount: aws.Int32(2),
		DeploymentConfiguration: &types.DeploymentConfiguration{
			Strategy: types.DeploymentStrategyCanary, BakeTimeInMinutes: aws.Int32(5), CanaryConfiguration: &types.CanaryConfiguration{CanaryPercent: aws.Float64(0.1)},
			LifecycleHooks: []types.DeploymentLifecycleHook{
				{HookTargetArn: aws.String("arn:aws:lambda:r:1:function:smoke"), RoleArn: aws.String("arn:aws:iam::1:role/r"), LifecycleStages: []types.DeploymentLifecycleHookStage{"PRODUCTION_TRAFFIC_SHIFT", "TEST_TRAFFIC_SHIFT"}, HookDetails: document.NewLazyDocument(map[string]any{"a": 1})},
				{HookTargetArn: aws.String("arn:aws:lambda:r:1:function:smoke:live"), RoleArn: aws.String("arn:aws:iam::1:role/r"), LifecycleStages: []types.DeploymentLifecycleHookStage{"PRE_SCALE_UP"}},
				{TargetType: types.DeploymentLifecycleHookTargetTypePause, LifecycleStages: []types.DeploymentLifecycleHookStage{"PRE_PRODUCTION_TRAFFIC_SHIFT"}},
			},
			DeploymentCircuitBreaker: &types.DeploymentCircuitBreaker{Enable: true, ThresholdConfiguration: &types.ThresholdConfiguration{Type: types.ThresholdTypeUnboundedPercent, Value: 30}},
		},
	}))
	c := w.keeper.all[0].Config
	if c.Breaker.Threshold != (service.Threshold{Type: service.UnboundedPercent, Value: 30}) || c.Method.Strategy != service.Canary || c.Method.Step.Part != 1 || c.Method.Step.Bake != service.CanaryStep.Bake || c.Method.Bake.Minutes() != 5 {
		t.Errorf("%+v", c)
	}
	var hooks []string
	for _, h := range c.Method.Hooks {
		hooks = append(hooks, fmt.Sprintf("%s %s %s %s %s", h.Name, h.Target.Kind, h.Target.Value, h.Stages, h.Details))
	}
	if diff := cmp.Diff([]string{
		`smoke AWS_LAMBDA arn:aws:lambda:r:1:function:smoke [PRODUCTION_TRAFFIC_SHIFT TEST_TRAFFIC_SHIFT] {"a":1}`,
		`smoke-2 AWS_LAMBDA arn:aws:lambda:r:1:function:smoke:live [PRE_SCALE_UP] `, `pause PAUSE  [PRE_PRODUCTION_TRAFFIC_SHIFT] `,
	}, hooks); diff != "" {
		t.Error(diff)
	}
}

func TestBadDeploymentConfigurations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("web")
	w.createService("web", "web")
	hooks := func(all ...string) string { return `{"lifecycleHooks": [` + strings.Join(all, ",") + `]}` }
	before := w.config(`{}`)
	for _, c := range []struct{ change, want string }{
		{`{"strategy": "blue_green"}`, "is none of ROLLING, BLUE_GREEN, LINEAR, CANARY"},
		{`{"linearConfiguration": {"stepPercent": 10}}`, "linearConfiguration is for the strategy LINEAR, not ROLLING"},
		{`{"strategy": "BLUE_GREEN", "canaryConfiguration": {}}`, "canaryConfiguration is for the strategy CANARY, not BLUE_GREEN"},
		{`{"strategy": "LINEAR", "linearConfiguration": {"stepPercent": 2.9}}`, "2.9 is not a multiple of 0.1 from 3.0 to 100.0"},
		{`{"strategy": "LINEAR", "linearConfiguration": {"stepPercent": 10.05}}`, "10.05 is not a multiple"},
		{`{"strategy": "LINEAR", "linearConfiguration": {"stepPercent": 100.1}}`, "100.1 is not"},
		{`{"strategy": "LINEAR", "linearConfiguration": {"stepPercent": 1e300}}`, "is not a multiple"},
		{`{"strategy": "LINEAR", "linearConfiguration": {"stepBakeTimeInMinutes": 1441}}`, "1441 is not 0 to 1440"},
		{`{"strategy": "CANARY", "canaryConfiguration": {"canaryPercent": 0}}`, "0 is not a multiple of 0.1 from 0.1"},
		{`{"strategy": "CANARY", "canaryConfiguration": {"canaryPercent": 0.05, "canaryBakeTimeInMinutes": -1}}`, "-1 is not 0 to 1440"},
		{`{"bakeTimeInMinutes": 1441}`, "bakeTimeInMinutes: 1441 is not 0 to 1440"},
		{hooks(`{}`), "lifecycleHooks[0].lifecycleStages is required: at least one stage; deploymentConfiguration.lifecycleHooks[0].hookTargetArn is required"},
		{hooks(hook+`}`, `{"hookTargetArn": "arn:aws:lambda:r:1:function:f", "lifecycleStages": ["PRE_SCALE_UP"]}`), "lifecycleHooks[1].roleArn is required"},
		{hooks(`{"hookTargetArn": "arn:aws:sns:r:1:t", "roleArn": "r", "lifecycleStages": ["PRE_SCALE_UP"]}`), "is not the ARN of a Lambda function"},
		{hooks(`{"hookTargetArn": "arn:aws:lambda:r:1:function:f", "roleArn": "r", "lifecycleStages": ["BAKE_TIME"]}`), `"BAKE_TIME" is none of RECONCILE_SERVICE`},
		{hooks(hook + `, "targetType": "SNS"}`), `targetType: "SNS" is none of AWS_LAMBDA, PAUSE`},
		{hooks(hook + `, "timeoutConfiguration": {"timeoutInMinutes": 1441}}`), "1441 is not 1 to 1440"},
		{hooks(pause + `, "timeoutConfiguration": {"timeoutInMinutes": 20161, "action": "STOP"}}`), `20161 is not 1 to 20160; deploymentConfiguration.lifecycleHooks[0].timeoutConfiguration.action: "STOP" is none of`},
		{hooks(`{"targetType": "PAUSE", "lifecycleStages": ["PRODUCTION_TRAFFIC_SHIFT"]}`), "a PAUSE hook cannot be in PRODUCTION_TRAFFIC_SHIFT"},
		{hooks(pause + `, "roleArn": "r"}`), "a PAUSE hook has neither"},
		{hooks(strings.Split(strings.Repeat(pause+"}\n", 11), "\n")[:11]...), "more than 10 hooks of the type PAUSE"},
		{hooks(pause + `, "more": 1}`), "podtask does not know this member"},
		{`{"deploymentCircuitBreaker": {"enable": true, "thresholdConfiguration": {"type": "COUNT"}}}`, "thresholdConfiguration.value is required"},
		{`{"deploymentCircuitBreaker": {"enable": true, "thresholdConfiguration": {"value": 1}}}`, "thresholdConfiguration.type is required"},
		{`{"deploymentCircuitBreaker": {"enable": true, "thresholdConfiguration": {"type": "COUNT", "value": 0}}}`, "0 is not 1 to"},
		{`{"deploymentCircuitBreaker": {"enable": true, "thresholdConfiguration": {"type": "UNBOUNDED_PERCENT", "value": 101}}}`, "101 is not 1 to 100"},
		{`{"deploymentCircuitBreaker": {"enable": true, "thresholdConfiguration": {"type": "PERCENT", "value": 1}}}`, "is none of COUNT, BOUNDED_PERCENT, UNBOUNDED_PERCENT"},
		{`{"earlySuccessCriteria": {"enable": true}}`, "healthyPercent is required; deploymentConfiguration.earlySuccessCriteria.sourceServiceRevisionCleanup is required"},
		{`{"earlySuccessCriteria": {"healthyPercent": 50}}`, "earlySuccessCriteria.enable is required"},
		{`{"earlySuccessCriteria": {"enable": true, "healthyPercent": 50, "sourceServiceRevisionCleanup": "BLOCKING"}}`, "50 is less than minimumHealthyPercent, 100"},
		{`{"earlySuccessCriteria": {"enable": true, "healthyPercent": 101, "sourceServiceRevisionCleanup": "LATER"}}`, "101 is not 0 to 100"},
		{`{"strategy": "BLUE_GREEN", "earlySuccessCriteria": {"enable": true, "healthyPercent": 100, "sourceServiceRevisionCleanup": "BLOCKING"}}`, "is for the strategy ROLLING, not BLUE_GREEN"},
		{`{"alarms": {"enable": true, "alarmNames": [], "rollback": true}}`, "alarms are enabled, and none is named"},
		{`{"alarms": {"enable": true, "alarmNames": ["a", "a"], "rollback": true}}`, "there twice"},
		{`{"strategy": "BLUE_GREEN"}`, "loadBalancers[0].advancedConfiguration is required"}, // the service has one without
	} {
		status, answer := w.post("UpdateService", `{"service": "web", "deploymentConfiguration": `+c.change+`}`)
		var f struct{ Message string }
		_ = json.Unmarshal([]byte(answer), &f)
		if status != 400 || !strings.Contains(answer, `"InvalidParameterException"`) || !strings.Contains(f.Message, c.want) {
			t.Errorf("%s: %d %s, want %s", c.change, status, answer, c.want)
		}
	}
	if after := w.config(`{}`); after != before {
		t.Errorf("what was refused has changed something: %s", after)
	}
	balancer := func(rest string) string {
		return `{"serviceName": "x", "taskDefinition": "web", "desiredCount": 1, "deploymentConfiguration": {"strategy": "BLUE_GREEN"}, "loadBalancers": [` + rest + `]}`
	}
	for body, want := range map[string]string{
		balancer(`{"loadBalancerName": "classic", "containerName": "app", "containerPort": 80, "advancedConfiguration": {}}`):                                  "a Classic Load Balancer cannot",
		balancer(`{"targetGroupArn": "a", "advancedConfiguration": {"alternateTargetGroupArn": "a"}}`):                                                         "the target group a is there twice",
		balancer(`{"targetGroupArn": "a", "advancedConfiguration": {"alternateTargetGroupArn": "b", "productionListenerRule": "r", "testListenerRule": "r"}}`): "are the same",
	} {
		if status, answer := w.post("CreateService", body); status != 400 || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s, want %s", body, status, answer, want)
		}
	}
}

// Requests to continue that are not for a pause at which a deployment waits.
func TestBadRequestsToContinue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rolled()
	arn := *w.deployments(ecs.ListServiceDeploymentsInput{})[0].ServiceDeploymentArn
	id := "ecs-pause-" + strings.Repeat("a", 43)
	for _, c := range []struct{ body, want string }{
		{`{"hookId": "` + id + `"}`, "serviceDeploymentArn is required"},
		{`{"serviceDeploymentArn": "` + arn + `"}`, "hookId is required"},
		{`{"serviceDeploymentArn": "` + arn + `", "hookId": "pause"}`, "43 characters of base64url"},
		{`{"serviceDeploymentArn": "` + arn + `", "hookId": "` + id + `x"}`, "43 characters of base64url"},
		{`{"serviceDeploymentArn": "` + arn + `", "hookId": "` + id + `", "action": "STOP"}`, "is none of CONTINUE, ROLLBACK"},
		{`{"serviceDeploymentArn": "` + arn + `", "hookId": "` + id + `"}`, "does not wait at this pause: it is SUCCESSFUL"},
		{`{"serviceDeploymentArn": "web", "hookId": "` + id + `"}`, "is not the ARN of a service-deployment"},
	} {
		if status, answer := w.post("ContinueServiceDeployment", c.body); status != 400 || !strings.Contains(answer, "InvalidParameterException") || !strings.Contains(answer, c.want) {
			t.Errorf("%s: %d %s, want %s", c.body, status, answer, c.want)
		}
	}
	if status, answer := w.post("ContinueServiceDeployment", `{"serviceDeploymentArn": "`+arn+`x", "hookId": "`+id+`"}`); status != 400 || !strings.Contains(answer, "ServiceDeploymentNotFoundException") {
		t.Errorf("an unknown deployment: %d %s", status, answer)
	}
	running := w.deploy().CurrentServiceDeployment
	if status, answer := w.post("ContinueServiceDeployment", `{"serviceDeploymentArn": "`+*running+`", "hookId": "`+id+`"}`); status != 400 || !strings.Contains(answer, "it has no stages") {
		t.Errorf("a deployment without stages: %d %s", status, answer)
	}
}

// stages has a deployment of web that shifts connections go on until it waits or has ended, with its copies healthy.
func (w *world) stages() types.ServiceDeployment {
	w.t.Helper()
	w.keeper.run("web", none)
	return w.deployment(w.describe("web").Services[0].CurrentServiceDeployment)
}

// shifting makes a service web that runs, with a deployment configuration, and begins a deployment.
func (w *world) shifting(config string) {
	w.t.Helper()
	w.register("web")
	w.register("web")
	w.ok("CreateService", `{"serviceName": "web", "taskDefinition": "web:1", "desiredCount": 2, "deploymentConfiguration": {"strategy": "ROLLING"}}`)
	w.keeper.run("web", none)
	w.ok("UpdateService", `{"service": "web", "taskDefinition": "web:2", "deploymentConfiguration": `+config+`}`)
}

// ok posts a request that succeeds.
func (w *world) ok(target, body string) string {
	w.t.Helper()
	status, answer := w.post(target, body)
	if status != 200 {
		w.t.Fatalf("%s %s: %d %s", target, body, status, answer)
	}
	return answer
}

func weightsOf(d types.ServiceDeployment) string {
	text := fmt.Sprintf("%v/%v", aws.ToFloat64(d.TargetServiceRevision.RequestedProductionTrafficWeight), aws.ToFloat64(d.TargetServiceRevision.RequestedTestTrafficWeight))
	for _, s := range d.SourceServiceRevisions {
		text += fmt.Sprintf(" from %v/%v", aws.ToFloat64(s.RequestedProductionTrafficWeight), aws.ToFloat64(s.RequestedTestTrafficWeight))
	}
	return text
}

// A blue/green deployment waits at its pause, with an id that continues it once.
func TestAPausedDeploymentIsContinued(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shifting(`{"strategy": "BLUE_GREEN", "bakeTimeInMinutes": 5, "lifecycleHooks": [` + pause + `, "timeoutConfiguration": {"action": "CONTINUE", "timeoutInMinutes": 60}}]}`)
	d := w.stages()
	if d.Status != "IN_PROGRESS" || d.LifecycleStage != "POST_TEST_TRAFFIC_SHIFT" || weightsOf(d) != "0/100 from 100/0" || len(d.LifecycleHookDetails) != 1 || d.DeploymentConfiguration.Strategy != "BLUE_GREEN" || *d.DeploymentConfiguration.BakeTimeInMinutes != 5 {
		t.Fatalf("%s in %s, weights %s, hooks %+v, %+v", d.Status, d.LifecycleStage, weightsOf(d), d.LifecycleHookDetails, d.DeploymentConfiguration)
	}
	h := d.LifecycleHookDetails[0]
	if !strings.HasPrefix(*h.HookId, "ecs-pause-") || len(*h.HookId) != len("ecs-pause-")+43 || h.Status != "AWAITING_ACTION" || h.TargetType != "PAUSE" || h.TargetArn != nil || h.TimeoutAction != "CONTINUE" || h.ExpiresAt == nil {
		t.Errorf("%+v", h)
	}
	out := must[*ecs.ContinueServiceDeploymentOutput](t)(w.client.ContinueServiceDeployment(t.Context(), &ecs.ContinueServiceDeploymentInput{ServiceDeploymentArn: d.ServiceDeploymentArn, HookId: h.HookId}))
	if *out.ServiceDeploymentArn != *d.ServiceDeploymentArn {
		t.Errorf("the answer is %s", *out.ServiceDeploymentArn)
	}
	_, err := w.client.ContinueServiceDeployment(t.Context(), &ecs.ContinueServiceDeploymentInput{ServiceDeploymentArn: d.ServiceDeploymentArn, HookId: h.HookId})
	if code(err) != "InvalidParameterException" {
		t.Errorf("the second time: %v", err)
	}
	if d = w.stages(); d.LifecycleStage != "BAKE_TIME" || weightsOf(d) != "100/100 from 0/0" {
		t.Errorf("then it is in %s, weights %s", d.LifecycleStage, weightsOf(d))
	}
	w.keeper.passed = 6 * 60e9
	if d = w.stages(); d.Status != "SUCCESSFUL" || d.FinishedAt == nil {
		t.Errorf("in the end it is %s in %s", d.Status, d.LifecycleStage)
	}
}

// A canary is rolled back by its hook: the reason says which, and the weights are back.
func TestACanaryIsRolledBackByAHook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shifting(`{"strategy": "CANARY", "canaryConfiguration": {"canaryPercent": 5}, "lifecycleHooks": [{"hookTargetArn": "arn:aws:lambda:r:1:function:smoke", "roleArn": "arn:aws:iam::1:role/r", "lifecycleStages": ["PRODUCTION_TRAFFIC_SHIFT"]}]}`)
	answer := func(status service.HookStatus) {
		t.Helper()
		s := w.keeper.States()[0]
		for _, c := range s.History[len(s.History)-1].Progress.Calls {
			if c.Status == service.HookInProgress {
				w.keeper.step("web", service.HookAnswered{ID: c.ID, Number: c.Number, Status: status, Reason: "it answered FAILED; it wrote: too slow"})
			}
		}
	}
	d := w.stages()
	if d.LifecycleStage != "PRODUCTION_TRAFFIC_SHIFT" || weightsOf(d) != "5/100 from 95/0" || len(d.LifecycleHookDetails) != 1 || *d.LifecycleHookDetails[0].TargetArn != "arn:aws:lambda:r:1:function:smoke" || d.LifecycleHookDetails[0].Status != "IN_PROGRESS" {
		t.Fatalf("%s, weights %s, %+v", d.LifecycleStage, weightsOf(d), d.LifecycleHookDetails)
	}
	answer(service.HookFailed)
	for range 3 {
		w.stages()
		answer(service.HookSucceeded) // on the way back
	}
	if d = w.stages(); d.Status != "ROLLBACK_SUCCESSFUL" || weightsOf(d) != "0/0 from 100/100" || d.Rollback == nil || !strings.Contains(*d.StatusReason, "PRODUCTION_TRAFFIC_SHIFT hooks failed: smoke: it answered FAILED; it wrote: too slow") {
		t.Errorf("%s in %s, weights %s: %s", d.Status, d.LifecycleStage, weightsOf(d), aws.ToString(d.StatusReason))
	}
}

// Requests as the example of ECS' guide and tools send them: with listener rules, with nulls and empty texts, and a second time.
func TestRequestsOfTools(t *testing.T) {
	t.Parallel()
	const balancer = `"loadBalancers": [{"targetGroupArn": "arn:aws:elasticloadbalancing:us-west-2:123456789012:targetgroup/blue/54402ff563af1197", "containerName": "app", "containerPort": 80,
		"advancedConfiguration": {"alternateTargetGroupArn": "arn:aws:elasticloadbalancing:us-west-2:123456789012:targetgroup/green/cad10a56f5843199",
			"productionListenerRule": "arn:aws:elasticloadbalancing:us-west-2:123456789012:listener-rule/app/my-blue-green-demo/32e0e4f946c3c05b/9cfa8c482e204f7d/831dbaf72edb911",
			"testListenerRule": "arn:aws:elasticloadbalancing:us-west-2:123456789012:listener-rule/app/my-blue-green-demo/32e0e4f946c3c05b/9cfa8c482e204f7d/831dbaf72edb912",
			"roleArn": "arn:aws:iam::123456789012:role/LoadBalancerManagementforECS"}}]`
	for name, config := range map[string]string{
		"the guide": `{"strategy": "BLUE_GREEN", "maximumPercent": 200, "minimumHealthyPercent": 100, "bakeTimeInMinutes": 2, "alarms": {"alarmNames": ["myAlarm"], "rollback": true, "enable": true},
			"lifecycleHooks": [{"hookTargetArn": "arn:aws:lambda:us-west-2:123456789012:function:checkExample", "roleArn": "arn:aws:iam::123456789012:role/ECSLifecycleHookInvoke", "lifecycleStages": ["PRE_SCALE_UP"]}]}`,
		"ecspresso": `{"alarms": null, "bakeTimeInMinutes": 0, "canaryConfiguration": null, "deploymentCircuitBreaker": {"enable": false, "resetOnHealthyTask": null, "rollback": false, "thresholdConfiguration": null},
			"earlySuccessCriteria": null, "lifecycleHooks": [{"hookTargetArn": null, "roleArn": null, "targetType": "PAUSE", "lifecycleStages": ["POST_SCALE_UP"], "hookDetails": null, "timeoutConfiguration": {"action": "ROLLBACK", "timeoutInMinutes": 60}}],
			"linearConfiguration": {"stepBakeTimeInMinutes": 1, "stepPercent": 20}, "maximumPercent": 200, "minimumHealthyPercent": 100, "strategy": "LINEAR"}`,
		"details in a text": `{"strategy": "CANARY", "canaryConfiguration": {"canaryPercent": 10.0, "canaryBakeTimeInMinutes": 5},
			"lifecycleHooks": [{"targetType": "AWS_LAMBDA", "hookTargetArn": "arn:aws:lambda:us-west-2:123456789012:function:checkExample:live", "roleArn": "arn:aws:iam::123456789012:role/x", "lifecycleStages": ["POST_TEST_TRAFFIC_SHIFT", "PRODUCTION_TRAFFIC_SHIFT"], "hookDetails": "{\"a\": 1}"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.register("web")
			w.ok("CreateService", `{"serviceName": "web", "taskDefinition": "web", "desiredCount": 2, `+balancer+`, "deploymentConfiguration": `+config+`, "healthCheckGracePeriodSeconds": 0, "launchType": "FARGATE"}`)
			first := w.config(`{}`)
			for range 2 {
				w.ok("UpdateService", `{"service": "web", "taskDefinition": "web", "forceNewDeployment": false, `+balancer+`, "deploymentConfiguration": `+config+`}`)
			}
			if again := w.config(first); again != first { // what was read back is sent again
				t.Errorf("it was\n%s\nand is\n%s", first, again)
			}
			if n := w.keeper.all[0].LastDeployment; n != 1 {
				t.Errorf("the same request began a deployment: %d", n)
			}
		})
	}
}
