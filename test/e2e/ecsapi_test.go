//go:build e2e

//e2e:bed plain

package e2e

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
)

// awsEnv is what `podtask aws env` prints.
func awsEnv(b *box, address string) map[string]string {
	b.t.Helper()
	env := make(map[string]string)
	for line := range strings.Lines(b.want(0, "aws", "env", "--aws-listen="+address).out) {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		env[name] = value
	}
	return env
}

func awsCredentials(env map[string]string) aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: env["AWS_ACCESS_KEY_ID"], SecretAccessKey: env["AWS_SECRET_ACCESS_KEY"]}, nil
	})
}

// ecsClient is the SDK's client with what `podtask aws env` prints.
func ecsClient(b *box, address string) *ecs.Client {
	b.t.Helper()
	env := awsEnv(b, address)
	return ecs.New(ecs.Options{BaseEndpoint: aws.String(env["AWS_ENDPOINT_URL"]), Region: env["AWS_REGION"], Credentials: awsCredentials(env)})
}

// wantLogs checks what CloudWatch Logs says of a group: the streams with their first lines.
func wantLogs(b *box, address, group string, want map[string]string) {
	b.t.Helper()
	env := awsEnv(b, address)
	c := cloudwatchlogs.New(cloudwatchlogs.Options{BaseEndpoint: aws.String(env["AWS_ENDPOINT_URL"]), Region: env["AWS_REGION"], Credentials: awsCredentials(env)})
	got := make(map[string]string)
	all, err := c.FilterLogEvents(b.t.Context(), &cloudwatchlogs.FilterLogEventsInput{LogGroupName: &group})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range all.Events {
		page, err := c.GetLogEvents(b.t.Context(), &cloudwatchlogs.GetLogEventsInput{LogGroupName: &group, LogStreamName: e.LogStreamName, StartFromHead: aws.Bool(true), Limit: aws.Int32(1)})
		if err != nil || len(page.Events) != 1 {
			b.t.Fatalf("%s: %+v %v", *e.LogStreamName, page, err)
		}
		got[*e.LogStreamName] = *page.Events[0].Message
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("the log group %s: %s", group, diff)
	}
}

// registerECS registers a definition of one container and returns its ARN.
func registerECS(b *box, c *ecs.Client, command string, ports ...int32) string {
	b.t.Helper()
	def := types.ContainerDefinition{Name: aws.String("app"), Image: aws.String(b.testbox()), Command: words(command), StopTimeout: aws.Int32(5),
		LogConfiguration: &types.LogConfiguration{LogDriver: types.LogDriverAwslogs, Options: map[string]string{"awslogs-group": "/ecs/" + b.family, "awslogs-region": "local", "awslogs-stream-prefix": "web"}}}
	for _, p := range ports {
		def.PortMappings = append(def.PortMappings, types.PortMapping{ContainerPort: aws.Int32(p)})
	}
	out, err := c.RegisterTaskDefinition(b.t.Context(), &ecs.RegisterTaskDefinitionInput{
		Family: &b.family, NetworkMode: types.NetworkModeAwsvpc, ContainerDefinitions: []types.ContainerDefinition{def},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return *out.TaskDefinition.TaskDefinitionArn
}

// within is the time for which the SDK's waiters wait: longer than they need on a busy machine.
const within = 4 * time.Minute

func TestAWSClientRunsAndStopsTasks(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	address := loopback(t)
	agent := b.agent("--aws-listen=" + address)
	c, ctx := ecsClient(b, address), t.Context()
	definition := registerECS(b, c, "term 0 -- print hello -- wait /tmp/go", 8080)
	if again := registerECS(b, c, "term 0 -- print hello -- wait /tmp/go", 8080); !strings.HasSuffix(definition, ":1") || !strings.HasSuffix(again, ":2") {
		t.Errorf("the revisions are %s and %s", definition, again)
	}

	in := &ecs.RunTaskInput{
		TaskDefinition: &definition, Count: aws.Int32(2), LaunchType: types.LaunchTypeFargate, StartedBy: aws.String("ci"), ClientToken: &b.family,
		NetworkConfiguration: &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{Subnets: []string{"subnet-1"}}},
		Overrides:            &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{{Name: aws.String("app"), Environment: []types.KeyValuePair{{Name: aws.String("GREETING"), Value: aws.String("hi")}}}}},
	}
	run := func() (arns []string) {
		t.Helper()
		out, err := c.RunTask(ctx, in)
		if err != nil || len(out.Failures) > 0 {
			t.Fatalf("%+v %v", out, err)
		}
		for _, task := range out.Tasks {
			arns = append(arns, *task.TaskArn)
		}
		return arns
	}
	arns := run()
	agent.kill()
	b.agent("--aws-listen=" + address)
	if again := run(); !slices.Equal(again, arns) {
		t.Errorf("after a crash of the agent the same request gives %v, not %v", again, arns)
	}
	tasks := &ecs.DescribeTasksInput{Tasks: arns}
	if err := ecs.NewTasksRunningWaiter(c, func(o *ecs.TasksRunningWaiterOptions) { o.MinDelay, o.MaxDelay = time.Second, time.Second }).Wait(ctx, tasks, within); err != nil {
		t.Fatal(err)
	}
	seen, err := c.DescribeTasks(ctx, tasks)
	if err != nil {
		t.Fatal(err)
	}
	var hosts []int32
	for _, task := range seen.Tasks {
		for _, binding := range task.Containers[0].NetworkBindings {
			hosts = append(hosts, *binding.HostPort)
		}
	}
	if len(hosts) != 2 || hosts[0] == hosts[1] || hosts[0] == 0 {
		t.Errorf("the host ports are %v", hosts)
	}
	id := arns[0][strings.LastIndexByte(arns[0], '/')+1:]
	if shown := b.want(0, "ps", "-q", "--no-trunc").out; strings.Count(shown, "\n") != 2 || !strings.Contains(shown, id) {
		t.Errorf("podtask ps shows %s", shown)
	}
	if out := b.want(0, "exec", id, "/testbox", "env", "GREETING").out; !strings.Contains(out, "hi") {
		t.Errorf("GREETING is %q", out)
	}

	for _, arn := range arns {
		if _, err := c.StopTask(ctx, &ecs.StopTaskInput{Task: &arn, Reason: aws.String("enough")}); err != nil {
			t.Error(err)
		}
	}
	if err := ecs.NewTasksStoppedWaiter(c, func(o *ecs.TasksStoppedWaiterOptions) { o.MinDelay, o.MaxDelay = time.Second, time.Second }).Wait(ctx, tasks, within); err != nil {
		t.Fatal(err)
	}
	if seen, err = c.DescribeTasks(ctx, tasks); err != nil || *seen.Tasks[0].StoppedReason != "enough" || seen.Tasks[0].StopCode != types.TaskStopCodeUserInitiated {
		t.Errorf("%+v %v", seen, err)
	}

	streams := make(map[string]string)
	for _, arn := range arns {
		streams["web/app/"+arn[strings.LastIndexByte(arn, '/')+1:]] = "hello"
	}
	wantLogs(b, address, "/ecs/"+b.family, streams)

	b.want(0, "aws", "key", "--new")
	var refused smithy.APIError
	if _, err := c.ListClusters(ctx, &ecs.ListClustersInput{}); !errors.As(err, &refused) || refused.ErrorCode() != "UnrecognizedClientException" {
		t.Errorf("with the key of before: %v", err)
	}
	if _, err := ecsClient(b, address).ListClusters(ctx, &ecs.ListClustersInput{}); err != nil {
		t.Error(err)
	}
	b.want(0, append([]string{"rm"}, strings.Fields(b.want(0, "ps", "-aq").out)...)...)
}
