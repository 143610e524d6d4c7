package awsapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/aws/awsapi"
	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// operation is an operation of the SDK's client.
type sdkOperation struct{ input, output reflect.Type }

// sdkOperations are all operations of the SDK's client for ECS, by name.
func sdkOperations() map[string]sdkOperation { return operationsOf(reflect.TypeFor[*ecs.Client]()) }

// answerable are the operations of all services that are answered, named as awsapi.Operations names them.
func answerable() map[string]sdkOperation {
	all := sdkOperations()
	for prefix, client := range map[string]reflect.Type{"logs ": reflect.TypeFor[*cloudwatchlogs.Client](), "ssm ": reflect.TypeFor[*ssm.Client](), "application-autoscaling ": reflect.TypeFor[*applicationautoscaling.Client]()} {
		for name, o := range operationsOf(client) {
			all[prefix+name] = o
		}
	}
	return all
}

// servicesOfTargets are the prefixes of X-Amz-Target with those of awsapi.Operations.
var servicesOfTargets = strings.NewReplacer("AmazonSSM.", "ssm ", "Logs_20140328.", "logs ", "AnyScaleFrontendService.", "application-autoscaling ")

func operationsOf(client reflect.Type) map[string]sdkOperation {
	all := make(map[string]sdkOperation)
	for i := range client.NumMethod() {
		m := client.Method(i)
		if m.Type.NumIn() == 4 && m.Type.NumOut() == 2 && strings.HasSuffix(m.Type.In(2).String(), "."+m.Name+"Input") {
			all[m.Name] = sdkOperation{m.Type.In(2).Elem(), m.Type.Out(0).Elem()}
		}
	}
	return all
}

// memberOf is the name on the wire of a field of the SDK's.
func memberOf(input reflect.Type, f reflect.StructField) string {
	if strings.HasSuffix(input.PkgPath(), "/ssm") || strings.HasSuffix(input.PkgPath(), "/applicationautoscaling") { // its members begin with a capital
		return f.Name
	}
	return strings.ToLower(f.Name[:1]) + f.Name[1:]
}

func TestEveryOperationOfTheSDKIsAnsweredOrRefusedByName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answered := awsapi.Operations()
	all := sdkOperations()
	if len(all) < 80 {
		t.Fatalf("the SDK has %d operations: they are not found", len(all))
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, ok := answered[name]; ok {
			continue
		}
		status, answer := w.post(name, "{}")
		if status != 400 || !strings.Contains(answer, "UnsupportedFeatureException") || !strings.Contains(answer, "podtask does not do "+name+": ") {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
	for name := range answered {
		if _, ok := answerable()[name]; !ok {
			t.Errorf("%s is answered, and the SDK does not have it", name)
		}
	}
}

func TestEveryMemberOfAnAnsweredInputHasARow(t *testing.T) {
	t.Parallel()
	sdk := answerable()
	for name, members := range awsapi.Operations() {
		if name == "RegisterTaskDefinition" { // pkg/taskdef has the table, and a test for it
			continue
		}
		var want, have []string
		for i := range sdk[name].input.NumField() {
			if f := sdk[name].input.Field(i); f.IsExported() {
				want = append(want, memberOf(sdk[name].input, f))
			}
		}
		for _, m := range members {
			if !strings.Contains(m.Path, ".") {
				have = append(have, m.Path)
			}
		}
		slices.Sort(want)
		slices.Sort(have)
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// The types of members that come back are the SDK's, to the last member inside of them: what is not in them is refused.
func TestMembersThatComeBackHaveTheTypesOfTheSDK(t *testing.T) {
	t.Parallel()
	sdk := answerable()
	for name, members := range awsapi.Operations() {
		for _, m := range members {
			shape, words := m.Shape()
			if shape == nil {
				continue
			}
			within, f := sdk[name].input, reflect.StructField{}
			for segment := range strings.SplitSeq(m.Path, ".") {
				f, _ = within.FieldByName(strings.ToUpper(segment[:1]) + segment[1:])
				if within = f.Type; within != nil && within.Kind() == reflect.Pointer {
					within = within.Elem()
				}
			}
			if within == nil {
				t.Errorf("%s: %s is not in the SDK", name, m.Path)
				continue
			}
			if diff := cmp.Diff(shapeOf("", within, ""), shapeOf("", shape, words)); diff != "" {
				t.Errorf("%s: %s: %s", name, m.Path, diff)
			}
		}
	}
}

// shapeOf returns the paths and kinds of the values of a type as JSON has them, and the words that text can be.
func shapeOf(path string, shape reflect.Type, words string) []string {
	switch kind := shape.Kind(); kind {
	case reflect.Pointer:
		return shapeOf(path, shape.Elem(), words)
	case reflect.Slice:
		return shapeOf(path+"[]", shape.Elem(), words)
	case reflect.Map:
		return shapeOf(path+"[key]", shape.Elem(), "")
	case reflect.Interface: // one of several types, containerConfigurations only: refused
		return nil
	case reflect.Struct:
		var all []string
		for _, f := range reflect.VisibleFields(shape) {
			if tag := f.Tag.Get("json"); tag != "" {
				all = append(all, shapeOf(path+"."+tag, f.Type, f.Tag.Get("words"))...)
			} else if f.IsExported() && !f.Anonymous {
				all = append(all, shapeOf(path+"."+strings.ToLower(f.Name[:1])+f.Name[1:], f.Type, "")...)
			}
		}
		slices.Sort(all)
		return all
	default:
		all := strings.Split(words, "|")
		if values := reflect.Zero(shape).MethodByName("Values"); values.IsValid() {
			all = strings.Split(strings.Trim(fmt.Sprint(values.Call(nil)[0]), "[]"), " ")
		}
		slices.Sort(all)
		return []string{path + " " + strings.TrimRight(kind.String(), "3264") + " " + strings.Join(all, " ")}
	}
}

// A value of another type and a member that the SDK does not have are refused with their place.
func TestWrongValuesInsideOfMembersThatComeBackAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.prepareTrips()
	for _, c := range []struct{ operation, members, want string }{
		{"RunTask", `"networkConfiguration": {"awsvpcConfiguration": {"subnets": "a"}}`, "networkConfiguration.awsvpcConfiguration.subnets cannot be text"},
		{"RunTask", `"networkConfiguration": {"awsvpcConfiguration": {"Subnets": ["a"]}}`, "networkConfiguration.awsvpcConfiguration.Subnets: podtask does not know this member"},
		{"RunTask", `"networkConfiguration": {"awsvpcConfiguration": {"subnets": ["a", 5]}}`, "networkConfiguration.awsvpcConfiguration.subnets[1] cannot be a number"},
		{"RunTask", `"placementConstraints": [{"type": "distinctInstance"}, {"typ": "x"}]`, "placementConstraints[1].typ: podtask does not know this member"},
		{"RunTask", `"capacityProviderStrategy": ["FARGATE"]`, "capacityProviderStrategy[0] cannot be text"},
		{"CreateService", `"serviceName": "wrong", "loadBalancers": [{"containerPort": "80"}]`, "loadBalancers[0].containerPort cannot be text"},
		{"CreateService", `"serviceName": "wrong", "loadBalancers": [{"containerPort": 80.5}]`, "loadBalancers[0].containerPort cannot be 80.5"},
		{"RunTask", `"capacityProviderStrategy": [{"capacityProvider": "FARGATE", "weight": 9999999999}]`, "capacityProviderStrategy[0].weight cannot be 9999999999"},
		{"CreateService", `"serviceName": "wrong", "serviceConnectConfiguration": {"enabled": false, "services": [{"portname": "x"}]}`, "serviceConnectConfiguration.services[0].portname: podtask does not know this member"},
		{"RunTask", `"overrides": {"containerOverrides": [{"name": "app", "comand": ["x"]}]}`, "comand"},
		{"RunTask", `"overrides": {"containerOverrides": [{"name": "app", "Command": ["x"]}]}`, "Command"},
		{"CreateService", `"serviceName": "wrong", "deploymentConfiguration": {"alarms": {"alarmnames": []}}`, "alarmnames"},
		{"CreateService", `"serviceName": "wrong", "deploymentConfiguration": {"lifecycleHooks": [{"hook": "x"}]}`, "hook"},
		{"CreateCluster", `"clusterName": "wrong", "configuration": {"executeCommandConfiguration": {"logging": true}}`, "configuration.executeCommandConfiguration.logging cannot be true or false"},
	} {
		members := c.members
		if c.operation != "CreateCluster" {
			members += `, "taskDefinition": "web"`
		}
		if status, answer := w.post(c.operation, "{"+members+"}"); status != 400 || !strings.Contains(answer, c.want) {
			t.Errorf("%s %s: %d %s, want %s", c.operation, members, status, answer, c.want)
		}
	}
}

// What a task definition is registered with is described, but for its tags, which are beside it.
func TestEveryMemberOfADefinitionIsDescribed(t *testing.T) {
	t.Parallel()
	var want []string
	input, described := reflect.TypeFor[ecs.RegisterTaskDefinitionInput](), reflect.TypeFor[types.TaskDefinition]()
	for i := range input.NumField() {
		f := input.Field(i)
		if _, ok := described.FieldByName(f.Name); ok && f.IsExported() {
			want = append(want, memberOf(input, f))
		}
	}
	have := slices.Sorted(slices.Values(awsapi.ECSMembers))
	slices.Sort(want)
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
}

// conforms reports each key and value of a document that the SDK's type does not have.
func conforms(path string, want reflect.Type, got any) (wrong []string) {
	for want.Kind() == reflect.Pointer {
		want = want.Elem()
	}
	if want.Kind() == reflect.Interface { // any JSON value
		return nil
	}
	is := func(ok bool) []string {
		if ok {
			return nil
		}
		return []string{fmt.Sprintf("%s is %v, and the SDK has a %s", path, got, want)}
	}
	switch v := got.(type) {
	case nil:
		return []string{path + " is null"}
	case string:
		return is(want.Kind() == reflect.String)
	case bool:
		return is(want.Kind() == reflect.Bool)
	case float64:
		return is(want == reflect.TypeFor[time.Time]() || want.Kind() >= reflect.Int && want.Kind() <= reflect.Float64)
	case []any:
		if wrong := is(want.Kind() == reflect.Slice); wrong != nil {
			return wrong
		}
		for i, item := range v {
			wrong = append(wrong, conforms(fmt.Sprintf("%s[%d]", path, i), want.Elem(), item)...)
		}
	case map[string]any:
		if want.Kind() == reflect.Map {
			return nil
		}
		if wrong := is(want.Kind() == reflect.Struct && want != reflect.TypeFor[time.Time]()); wrong != nil {
			return wrong
		}
		for key, item := range v {
			f, ok := want.FieldByName(strings.ToUpper(key[:1]) + key[1:])
			if !ok {
				wrong = append(wrong, path+"."+key+" is not in the SDK")
				continue
			}
			wrong = append(wrong, conforms(path+"."+key, f.Type, item)...)
		}
	}
	return wrong
}

// requests are good ones of each operation, in an order in which they work.
var requests = []struct{ name, body string }{
	{"CreateCluster", `{"clusterName": "blue", "settings": [{"name": "containerInsights", "value": "enabled"}], "tags": [{"key": "a", "value": "b"}]}`},
	{"RegisterTaskDefinition", `{"family": "web", "networkMode": "awsvpc", "cpu": "256", "memory": "512", "tags": [{"key": "a", "value": "b"}], "volumes": [{"name": "v"}],
	  "containerDefinitions": [{"name": "app", "image": "i", "memory": 64, "portMappings": [{"containerPort": 80}], "healthCheck": {"command": ["CMD", "x"]}}]}`},
	{"DescribeTaskDefinition", `{"taskDefinition": "web:1", "include": ["TAGS"]}`},
	{"ListTaskDefinitions", `{}`},
	{"ListTaskDefinitionFamilies", `{"familyPrefix": "w"}`},
	{"RunTask", `{"taskDefinition": "web", "cluster": "blue", "clientToken": "x", "launchType": "FARGATE", "platformVersion": "LATEST", "enableExecuteCommand": true, "tags": [{"key": "a", "value": "b"}],
	  "overrides": {"containerOverrides": [{"name": "app", "environment": [{"name": "A", "value": "b"}]}]}}`},
	{"DescribeTasks", `{"tasks": ["TASK", "00000000000000000000000000000000"], "cluster": "blue", "include": ["TAGS"]}`},
	{"ListTasks", `{"cluster": "blue"}`},
	{"UpdateTaskProtection", `{"tasks": ["TASK", "00000000000000000000000000000000"], "cluster": "blue", "protectionEnabled": true}`},
	{"GetTaskProtection", `{"cluster": "blue"}`},
	{"ExecuteCommand", `{"task": "TASK", "cluster": "blue", "container": "app", "command": "sh", "interactive": true}`},
	{"AmazonSSM.StartSession", `{"Target": "ecs:blue_TASK_f00", "DocumentName": "AWS-StartPortForwardingSession", "Parameters": {"portNumber": ["80"]}}`},
	{"DiscoverPollEndpoint", `{"cluster": "blue"}`},
	{"AmazonSSM.ResumeSession", `{"SessionId": "ecs-execute-command-0123456789abcdef"}`},
	{"AmazonSSM.TerminateSession", `{"SessionId": "ecs-execute-command-0123456789abcdef"}`},
	{"StartTask", `{"taskDefinition": "web", "containerInstances": ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"], "tags": [{"key": "a", "value": "b"}]}`},
	{"StopTask", `{"task": "TASK", "cluster": "blue", "reason": "enough"}`},
	{"DescribeClusters", `{"clusters": ["blue", "nowhere"], "include": ["TAGS"]}`},
	{"ListClusters", `{}`},
	{"UpdateCluster", `{"cluster": "blue", "settings": [{"name": "containerInsights", "value": "disabled"}], "configuration": {"executeCommandConfiguration": {"logging": "DEFAULT"}}, "serviceConnectDefaults": {"namespace": "n"}}`},
	{"UpdateClusterSettings", `{"cluster": "blue", "settings": [{"name": "containerInsights", "value": "enabled"}]}`},
	{"PutClusterCapacityProviders", `{"cluster": "blue", "capacityProviders": ["FARGATE", "mine"], "defaultCapacityProviderStrategy": [{"capacityProvider": "FARGATE", "weight": 1, "base": 1}]}`},
	{"DescribeCapacityProviders", `{"capacityProviders": ["mine", "FARGATE", "none"], "include": ["TAGS"]}`},
	{"PutAccountSetting", `{"name": "containerInsights", "value": "enabled"}`},
	{"PutAccountSettingDefault", `{"name": "awsvpcTrunking", "value": "enabled"}`},
	{"DeleteAccountSetting", `{"name": "containerInsights"}`},
	{"UpdateContainerInstancesState", `{"containerInstances": ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "x"], "status": "ACTIVE"}`},
	{"TagResource", `{"resourceArn": "arn:aws:ecs:local:000000000000:cluster/blue", "tags": [{"key": "c", "value": "d"}]}`},
	{"UntagResource", `{"resourceArn": "arn:aws:ecs:local:000000000000:cluster/blue", "tagKeys": ["c"]}`},
	{"ListTagsForResource", `{"resourceArn": "arn:aws:ecs:local:000000000000:cluster/blue"}`},
	{"ListContainerInstances", `{}`},
	{"DescribeContainerInstances", `{"containerInstances": ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "x"]}`},
	{"ListAccountSettings", `{"effectiveSettings": true}`},
	{"CreateService", `{"serviceName": "web", "cluster": "blue", "taskDefinition": "web", "desiredCount": 2, "launchType": "FARGATE", "platformVersion": "LATEST", "clientToken": "x",
	  "deploymentConfiguration": {"deploymentCircuitBreaker": {"enable": true, "rollback": true}, "minimumHealthyPercent": 50, "alarms": {"alarmNames": [], "enable": false, "rollback": false}},
	  "loadBalancers": [{"targetGroupArn": "a", "containerName": "app", "containerPort": 80}], "networkConfiguration": {"awsvpcConfiguration": {"subnets": ["subnet-1"]}},
	  "tags": [{"key": "a", "value": "b"}], "propagateTags": "SERVICE", "deploymentController": {"type": "ECS"}, "schedulingStrategy": "REPLICA", "enableECSManagedTags": true, "healthCheckGracePeriodSeconds": 5}`},
	{"UpdateService", `{"service": "web", "cluster": "blue", "desiredCount": 1, "enableExecuteCommand": true, "forceNewDeployment": true}`},
	{"DescribeServices", `{"services": ["web", "wob"], "cluster": "blue", "include": ["TAGS"]}`},
	{"ListServices", `{"cluster": "blue"}`},
	{"CreateExpressGatewayService", `{"serviceName": "shop", "cluster": "blue", "infrastructureRoleArn": "r", ` + expressMembers + `, "tags": [{"key": "a", "value": "b"}]}`},
	{"DescribeExpressGatewayService", `{"serviceArn": "arn:aws:ecs:local:000000000000:service/blue/shop", "include": ["TAGS"]}`},
	{"UpdateExpressGatewayService", `{"serviceArn": "arn:aws:ecs:local:000000000000:service/blue/shop", "cpu": "512"}`},
	{"DeleteExpressGatewayService", `{"serviceArn": "arn:aws:ecs:local:000000000000:service/blue/shop"}`},
	{"AnyScaleFrontendService.RegisterScalableTarget", `{"ServiceNamespace": "ecs", "ResourceId": "service/blue/web", "ScalableDimension": "ecs:service:DesiredCount", "MinCapacity": 1, "MaxCapacity": 4, "RoleARN": "r", "Tags": {"a": "b"}, "SuspendedState": {"DynamicScalingInSuspended": true}}`},
	{"AnyScaleFrontendService.PutScalingPolicy", `{"ServiceNamespace": "ecs", "ResourceId": "service/blue/web", "ScalableDimension": "ecs:service:DesiredCount", "PolicyName": "p", "PolicyType": "TargetTrackingScaling", "TargetTrackingScalingPolicyConfiguration": {"TargetValue": 60, "PredefinedMetricSpecification": {"PredefinedMetricType": "ALBRequestCountPerTarget", "ResourceLabel": "l"}}}`},
	{"AnyScaleFrontendService.PutScheduledAction", `{"ServiceNamespace": "ecs", "ResourceId": "service/blue/web", "ScalableDimension": "ecs:service:DesiredCount", "ScheduledActionName": "a", "Schedule": "cron(0 7 * * ? *)", "EndTime": 2000000000.5, "ScalableTargetAction": {"MinCapacity": 2}}`},
	{"AnyScaleFrontendService.DescribeScalableTargets", `{"ServiceNamespace": "ecs"}`},
	{"AnyScaleFrontendService.DescribeScalingPolicies", `{"ServiceNamespace": "ecs"}`},
	{"AnyScaleFrontendService.DescribeScheduledActions", `{"ServiceNamespace": "ecs"}`},
	{"AnyScaleFrontendService.DescribeScalingActivities", `{"ServiceNamespace": "ecs", "IncludeNotScaledActivities": true}`},
	{"AnyScaleFrontendService.TagResource", `{"ResourceARN": "SCALED", "Tags": {"c": "d"}}`},
	{"AnyScaleFrontendService.ListTagsForResource", `{"ResourceARN": "SCALED"}`},
	{"AnyScaleFrontendService.UntagResource", `{"ResourceARN": "SCALED", "TagKeys": ["c"]}`},
	{"AnyScaleFrontendService.DeleteScheduledAction", `{"ServiceNamespace": "ecs", "ResourceId": "service/blue/web", "ScalableDimension": "ecs:service:DesiredCount", "ScheduledActionName": "a"}`},
	{"AnyScaleFrontendService.DeleteScalingPolicy", `{"ServiceNamespace": "ecs", "ResourceId": "service/blue/web", "ScalableDimension": "ecs:service:DesiredCount", "PolicyName": "p"}`},
	{"AnyScaleFrontendService.DeregisterScalableTarget", `{"ServiceNamespace": "ecs", "ResourceId": "service/blue/web", "ScalableDimension": "ecs:service:DesiredCount"}`},
	{"ListServicesByNamespace", `{"namespace": "n"}`},
	{"ListServiceDeployments", `{"service": "web", "cluster": "blue", "status": ["IN_PROGRESS"], "createdAt": {"after": 1, "before": 9999999999.5}}`},
	{"DescribeServiceDeployments", `{"serviceDeploymentArns": ["DEPLOYMENT", "arn:aws:ecs:local:000000000000:service-deployment/blue/web/x"]}`},
	{"DescribeServiceRevisions", `{"serviceRevisionArns": ["REVISION", "arn:aws:ecs:local:000000000000:service-revision/blue/web/1"]}`},
	{"UpdateService", `{"service": "web", "cluster": "blue", "forceNewDeployment": true, "deploymentConfiguration": {"strategy": "LINEAR", "bakeTimeInMinutes": 5, "linearConfiguration": {"stepPercent": 20.0},
	  "lifecycleHooks": [{"targetType": "PAUSE", "lifecycleStages": ["PRE_SCALE_UP"], "timeoutConfiguration": {"timeoutInMinutes": 5}},
	    {"hookTargetArn": "arn:aws:lambda:eu-west-1:111122223333:function:smoke", "roleArn": "arn:aws:iam::111122223333:role/r", "lifecycleStages": ["POST_SCALE_UP"], "hookDetails": {"a": [1, "b"]}}],
	  "deploymentCircuitBreaker": {"enable": true, "rollback": true, "thresholdConfiguration": {"type": "COUNT", "value": 2}, "resetOnHealthyTask": false}, "alarms": {"alarmNames": ["errors"], "enable": true, "rollback": true}},
	  "loadBalancers": [{"targetGroupArn": "a", "containerName": "app", "containerPort": 80, "advancedConfiguration": {"alternateTargetGroupArn": "b", "productionListenerRule": "p", "roleArn": "r"}}]}`},
	{"DescribeServices", `{"services": ["web"], "cluster": "blue"}`},
	{"DescribeServiceDeployments", `{"serviceDeploymentArns": ["DEPLOYMENT"]}`},
	{"ContinueServiceDeployment", `{"serviceDeploymentArn": "DEPLOYMENT", "hookId": "PAUSE_ID"}`},
	{"StopServiceDeployment", `{"serviceDeploymentArn": "DEPLOYMENT", "stopType": "ABORT"}`},
	{"DeleteService", `{"service": "web", "cluster": "blue", "force": true}`},
	{"DeregisterTaskDefinition", `{"taskDefinition": "web:1"}`},
	{"DeleteTaskDefinitions", `{"taskDefinitions": ["web:1", "web:7"]}`},
	{"DeleteCluster", `{"cluster": "blue"}`},
	{"Logs_20140328.CreateLogGroup", `{"logGroupName": "/ecs/new", "tags": {"a": "b"}}`},
	{"Logs_20140328.PutRetentionPolicy", `{"logGroupName": "/ecs/new", "retentionInDays": 14}`},
	{"Logs_20140328.TagResource", `{"resourceArn": "arn:aws:logs:local:000000000000:log-group:/ecs/new", "tags": {"c": "d"}}`},
	{"Logs_20140328.UntagResource", `{"resourceArn": "arn:aws:logs:local:000000000000:log-group:/ecs/new", "tagKeys": ["c"]}`},
	{"Logs_20140328.ListTagsForResource", `{"resourceArn": "arn:aws:logs:local:000000000000:log-group:/ecs/new"}`},
	{"Logs_20140328.CreateLogStream", `{"logGroupName": "/ecs/new", "logStreamName": "mine"}`},
	{"Logs_20140328.PutLogEvents", `{"logGroupName": "/ecs/new", "logStreamName": "mine", "sequenceToken": "1", "entity": {}, "logEvents": [{"timestamp": 1, "message": "hi"}]}`},
	{"Logs_20140328.DeleteLogStream", `{"logGroupName": "/ecs/new", "logStreamName": "mine"}`},
	{"Logs_20140328.DescribeLogGroups", `{}`},
	{"Logs_20140328.DeleteRetentionPolicy", `{"logGroupName": "/ecs/new"}`},
	{"Logs_20140328.DeleteLogGroup", `{"logGroupName": "/ecs/new"}`},
	{"Logs_20140328.DescribeLogStreams", `{"logGroupName": "/ecs/web", "limit": 1}`},
	{"Logs_20140328.GetLogEvents", `{"logGroupName": "/ecs/web", "logStreamName": "s", "limit": 1, "unmask": true}`},
	{"Logs_20140328.FilterLogEvents", `{"logGroupName": "/ecs/web", "limit": 1, "interleaved": true}`},
}

// arnWords stand in requests for the latest ARN in an answer.
var arnWords = map[string]*regexp.Regexp{
	"DEPLOYMENT": regexp.MustCompile(`arn:aws:ecs:local:000000000000:service-deployment/[^"]*`),
	"PAUSE_ID":   regexp.MustCompile(`ecs-pause-[A-Za-z0-9_-]{43}`),
	"SCALED":     regexp.MustCompile(`arn:aws:application-autoscaling:local:000000000000:scalable-target/[^"]*`),
	"REVISION":   regexp.MustCompile(`arn:aws:ecs:local:000000000000:service-revision/[^"]*`),
}

func TestEveryKeyOfAnAnswerIsTheSDKs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sdk := answerable()
	seen, seenARNs := make(map[string]bool), make(map[string]string)
	w.write("s", logStart, 1, "x", "y")
	for _, r := range requests {
		operation := servicesOfTargets.Replace(r.name)
		seen[operation] = true
		body := r.body
		if len(w.states) > 0 {
			body = strings.ReplaceAll(body, "TASK", w.states[0].ID)
		}
		if r.name == "ExecuteCommand" {
			w.change(w.states[0].ID, runs)
			w.change(w.states[0].ID, func(s *lifecycle.State) { s.Containers[0].ID = "f00" })
		}
		if r.name == "DeleteCluster" {
			w.change(w.states[0].ID, end)
			w.change(w.states[len(w.states)-1].ID, end)
		}
		for word, found := range seenARNs {
			body = strings.ReplaceAll(body, word, found)
		}
		status, answer := w.signed(r.name, body)
		for word, pattern := range arnWords {
			if found := pattern.FindString(answer); found != "" {
				seenARNs[word] = found
			}
		}
		var got any
		if err := json.Unmarshal([]byte(answer), &got); err != nil || status != 200 {
			t.Errorf("%s: %d %s %v", r.name, status, answer, err)
			continue
		}
		for _, wrong := range conforms(r.name, sdk[operation].output, got) {
			t.Error(wrong)
		}
	}
	for name := range awsapi.Operations() {
		if !seen[name] {
			t.Errorf("%s has no request in this test", name)
		}
	}
}

const (
	page    = "../../../docs/aws.md"
	tableTo = "<!-- end of table -->\n"
)

// TestDocument holds the tables of docs/aws.md against the code; UPDATE_GOLDEN=1 writes them.
func TestDocument(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(doc)
	for _, table := range []struct{ from, want string }{
		{"<!-- table of members -->\n", tableOfMembers()}, {"<!-- table of refusals -->\n", tableOfRefusals()},
	} {
		before, rest, ok := strings.Cut(text, table.from)
		old, after, ok2 := strings.Cut(rest, tableTo)
		if !ok || !ok2 {
			t.Fatalf("docs/aws.md has no marks around its table: %s", table.from)
		}
		if diff := cmp.Diff(table.want, old); diff != "" && os.Getenv("UPDATE_GOLDEN") == "" {
			t.Errorf("docs/aws.md: UPDATE_GOLDEN=1 go test ./internal/aws/awsapi writes it: %s", diff)
		}
		text = before + table.from + table.want + tableTo + after
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func tableOfMembers() string {
	var b strings.Builder
	fmt.Fprint(&b, "\n| operation | honored | kept | refused |\n|---|---|---|---|\n")
	all := awsapi.Operations()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		cells := map[protocol.Answer][]string{}
		for _, m := range all[name] {
			if !strings.Contains(m.Path, ".") {
				cells[m.Answer] = append(cells[m.Answer], "`"+m.Path+"`")
			}
		}
		if name == "RegisterTaskDefinition" {
			cells[protocol.Honored] = []string{"as in [task-definition.md](task-definition.md)"}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, strings.Join(cells[protocol.Honored], " "), strings.Join(cells[protocol.Kept], " "), strings.Join(cells[protocol.Refused], " "))
	}
	b.WriteString("\n")
	return b.String()
}

// tableOfRefusals has a row for each reason.
func tableOfRefusals() string {
	var b strings.Builder
	fmt.Fprint(&b, "\n| operations | why they are refused |\n|---|---|\n")
	by := make(map[string][]string)
	for name, why := range awsapi.Refusals() {
		by[why] = append(by[why], name)
	}
	rows := make([]string, 0, len(by))
	for why, names := range by {
		slices.Sort(names)
		rows = append(rows, fmt.Sprintf("| %s | %s |\n", strings.Join(names, ", "), why))
	}
	slices.Sort(rows)
	return b.String() + strings.Join(rows, "") + "\n"
}
