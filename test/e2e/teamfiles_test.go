//go:build e2e

//e2e:bed systemd

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// templateFile is a template as teams keep it, with what stands for their load balancer.
const templateFile = `
Parameters:
  Image: {Type: String}
  Port: {Type: Number}
Resources:
  Task:
    Type: AWS::ECS::TaskDefinition
    Properties:
      NetworkMode: awsvpc
      ExecutionRoleArn: !GetAtt Role.Arn
      ContainerDefinitions:
        - Name: app
          Image: !Ref Image
          Command: !Split [" ", !Sub "serve ${Port}"]
          PortMappings: [{ContainerPort: !Ref Port}]
          Environment: [{Name: GREETING, Value: !Sub "hello from ${AWS::StackName}"}]
          HealthCheck: {Command: [CMD, /testbox, get, !Sub "http://127.0.0.1:${Port}/"], Interval: 5}
          StopTimeout: 2
  Role: {Type: AWS::IAM::Role}
  Service:
    Type: AWS::ECS::Service
    Properties:
      DesiredCount: 2
      LaunchType: FARGATE
      TaskDefinition: !Ref Task
      LoadBalancers: [{ContainerName: app, ContainerPort: !Ref Port, TargetGroupArn: !Ref Target}]
  Target: {Type: AWS::ElasticLoadBalancingV2::TargetGroup}
`

// next returns the command that import tells the user to run, without its first word.
func next(t *testing.T, r result) []string {
	t.Helper()
	_, line, found := strings.Cut(r.err, "Next: podtask ")
	if !found {
		t.Fatalf("import prints no command: %s", r.err)
	}
	line, _, _ = strings.Cut(line, "\n")
	return strings.Fields(line)
}

// The command that import prints for a service of a CloudFormation template makes the service.
func TestTemplatesBecomeServices(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	port := freePort(t)
	file := filepath.Join(b.dir, "stack.yaml")
	if err := os.WriteFile(file, []byte(templateFile), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := b.want(125, "import", file, "--param=AWS::StackName="+b.family)
	for _, want := range []string{"--param Image=VALUE", "--param Port=VALUE"} {
		if !strings.Contains(refused.err, want) {
			t.Errorf("%q is not in %s", want, refused.err)
		}
	}
	told := b.want(0, "import", "--name", b.family, "--output", b.dir, file, "--param=AWS::StackName="+b.family, "--param=Image="+b.testbox(), "--param=Port="+strconv.Itoa(port))
	if !strings.Contains(told.err, "Lost: "+file+":") {
		t.Errorf("nothing is lost: %s", told.err)
	}
	b.want(0, append(next(t, told), "--timeout=4m")...)
	if s := b.service(); s.DesiredCount != 2 || s.HealthyCount != 2 {
		t.Errorf("%d of %d copies are healthy", s.HealthyCount, s.DesiredCount)
	}
	b.wantAnswer(port, "hello from "+b.family)
	b.removeService()
}

// What import makes of a plan of Terraform and of manifests of Helm runs.
func TestPlansAndChartsRun(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	plan := filepath.Join(b.dir, "plan.json")
	containers, err := json.Marshal([]obj{{"name": "app", "image": b.testbox(), "command": []string{"print", "planned"}, "essential": true}})
	if err != nil {
		t.Fatal(err)
	}
	text := `{"format_version": "1.2", "planned_values": {"root_module": {"child_modules": [{"address": "module.app", "resources": [
		{"address": "module.app.aws_ecs_task_definition.this", "mode": "managed", "type": "aws_ecs_task_definition", "name": "this",
		 "values": {"family": "x", "network_mode": "awsvpc", "cpu": "256", "memory": "512", "container_definitions": ` + strconv.Quote(string(containers)) + `}}]}]}}}`
	if err := os.WriteFile(plan, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := next(t, b.want(0, "import", "--name", b.family, "--output", b.dir, plan))
	if out := b.want(0, append(run, "--limits=off", "--rm")...).out; !strings.Contains(out, "planned") {
		t.Errorf("the task printed %q", out)
	}
	chart := `
apiVersion: v1
kind: ServiceAccount
metadata: {name: app}
---
apiVersion: batch/v1
kind: Job
metadata: {name: app}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: app, image: ` + b.testbox() + `, args: [print, charted]}]
`
	p := b.startWith(func(cmd *exec.Cmd) { cmd.Stdin = strings.NewReader(chart) }, "import", "-", "--replace", "--name", b.family, "--output", b.dir)
	run = next(t, p.want(0))
	if out := b.want(0, append(run, "--rm")...).out; !strings.Contains(out, "charted") {
		t.Errorf("the task printed %q", out)
	}
}

// awsStubEnv makes the test program an aws command that calls the endpoint in it.
const awsStubEnv = "PODTASK_TEST_AWS"

// awsStub answers `aws ecs OPERATION --FLAG VALUE ...` as the command line of AWS does, for the two operations that
// podtask calls. It returns the exit code.
func awsStub(endpoint string, args []string) int {
	targets := map[string]string{"describe-services": "DescribeServices", "describe-task-definition": "DescribeTaskDefinition"}
	if len(args) < 2 || args[0] != "ecs" || targets[args[1]] == "" {
		fmt.Fprintf(os.Stderr, "not an operation that only reads: %q\n", args)
		return 252
	}
	body := map[string]string{}
	for i := 2; i+1 < len(args); i += 2 {
		body[args[i]] = args[i+1]
	}
	text := fmt.Sprintf(`{"services": [%q]}`, body["--services"])
	if args[1] == "describe-task-definition" {
		text = fmt.Sprintf(`{"taskDefinition": %q, "include": [%q]}`, body["--task-definition"], body["--include"])
	}
	key := aws.Credentials{AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY")}
	out, err := callECS(endpoint, key, body["--region"], targets[args[1]], text)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 254
	}
	fmt.Printf("%s\n", out)
	return 0
}

// callECS calls an operation with a body in JSON and returns the answer, as the command line of AWS prints it.
func callECS(endpoint string, key aws.Credentials, region, operation, body string) ([]byte, error) {
	ctx := context.Background()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113."+operation)
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	sum := sha256.Sum256([]byte(body))
	if err := v4.NewSigner().SignHTTP(ctx, key, req, hex.EncodeToString(sum[:]), "ecs", region, time.Now()); err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("an error occurred: %s", out)
	}
	return out, err
}

// A service is imported from an API of ECS, here podtask's own. Registered there, the definition is imported again
// without a change, and nothing differs.
func TestLiveServicesAreImported(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	address := loopback(t)
	b.agent("--aws-listen=" + address)
	env, client := awsEnv(b, address), ecsClient(b, address)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(b.dir, "bin")
	script := fmt.Sprintf("#!/bin/sh\nexport %s=%s AWS_ACCESS_KEY_ID=%s AWS_SECRET_ACCESS_KEY=%s\nexec %s \"$@\"\n", awsStubEnv, env["AWS_ENDPOINT_URL"], env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], self)
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "aws"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, v := range b.env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			b.env[i] = "PATH=" + bin + ":" + path
		}
	}
	if !slices.ContainsFunc(b.env, func(v string) bool { return strings.HasPrefix(v, "PATH="+bin) }) {
		b.env = append(b.env, "PATH="+bin+":"+os.Getenv("PATH"))
	}
	arn := registerECS(b, client, "wait", 8080)
	if _, err := client.CreateService(t.Context(), &ecs.CreateServiceInput{
		ServiceName: &b.family, TaskDefinition: &arn, DesiredCount: aws.Int32(0),
		DeploymentConfiguration: &types.DeploymentConfiguration{MinimumHealthyPercent: aws.Int32(50), MaximumPercent: aws.Int32(150)},
	}); err != nil {
		t.Fatal(err)
	}
	b.want(0, "ecs", "import", b.family, "--region=local", "--output", b.dir)
	file := filepath.Join(b.dir, b.family+".json")
	first := read(t, file)
	if again := b.want(0, "ecs", "diff", b.family, "--region=local"); !strings.Contains(again.out, "do not differ") {
		t.Errorf("a service differs from itself: %s", again.out)
	}
	key := aws.Credentials{AccessKeyID: env["AWS_ACCESS_KEY_ID"], SecretAccessKey: env["AWS_SECRET_ACCESS_KEY"]}
	for _, call := range [][2]string{{"RegisterTaskDefinition", first}, {"UpdateService", fmt.Sprintf(`{"service": %q, "taskDefinition": %q}`, b.family, b.family)}} {
		if _, err := callECS(env["AWS_ENDPOINT_URL"], key, "local", call[0], call[1]); err != nil {
			t.Fatal(err)
		}
	}
	b.want(0, "ecs", "import", b.family, "--region=local", "--output", b.dir, "--replace")
	if second := read(t, file); second != first {
		t.Errorf("imported, registered and imported again:\n%s\nbefore:\n%s", second, first)
	}
	changed := strings.Replace(first, `"wait"`, `"print", "x"`, 1)
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	differs := b.want(1, "ecs", "diff", b.family, "--region=local", "--file", file)
	if strings.Count(differs.out, "\n") != 1 || !strings.Contains(differs.out, "~ containerDefinitions[app].command") {
		t.Errorf("the difference is\n%s", differs.out)
	}
	if none := b.want(125, "ecs", "import", "none", "--region=local"); !strings.Contains(none.err, "there is no such service") {
		t.Error(none.err)
	}
	b.removeService()
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
