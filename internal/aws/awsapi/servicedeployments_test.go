package awsapi_test

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

func none(service.Task) bool { return false }

// failing are the tasks of a deployment.
func failing(deployment string) func(service.Task) bool {
	return func(t service.Task) bool { return t.Deployment == deployment }
}

// rolled makes a service web of two tasks that runs, with the breaker on.
func (w *world) rolled() {
	w.t.Helper()
	w.register("web")
	w.createService("web", "web:1")
	w.keeper.run("web", none)
	must[*ecs.UpdateServiceOutput](w.t)(w.client.UpdateService(w.t.Context(), &ecs.UpdateServiceInput{Service: aws.String("web"), DeploymentConfiguration: &types.DeploymentConfiguration{
		DeploymentCircuitBreaker: &types.DeploymentCircuitBreaker{Enable: true, Rollback: true}, MinimumHealthyPercent: aws.Int32(50),
	}}))
}

// deploy registers another revision and updates the service to it.
func (w *world) deploy() *types.Service {
	w.t.Helper()
	w.register("web")
	return must[*ecs.UpdateServiceOutput](w.t)(w.client.UpdateService(w.t.Context(), &ecs.UpdateServiceInput{Service: aws.String("web"), TaskDefinition: aws.String("web")})).Service
}

func (w *world) deployments(in ecs.ListServiceDeploymentsInput) []types.ServiceDeploymentBrief {
	w.t.Helper()
	in.Service = aws.String("web")
	return must[*ecs.ListServiceDeploymentsOutput](w.t)(w.client.ListServiceDeployments(w.t.Context(), &in)).ServiceDeployments
}

func (w *world) deployment(arn *string) types.ServiceDeployment {
	w.t.Helper()
	out := must[*ecs.DescribeServiceDeploymentsOutput](w.t)(w.client.DescribeServiceDeployments(w.t.Context(), &ecs.DescribeServiceDeploymentsInput{ServiceDeploymentArns: []string{*arn}}))
	if len(out.ServiceDeployments) != 1 {
		w.t.Fatalf("%s: %+v", *arn, out)
	}
	return out.ServiceDeployments[0]
}

// Terraform looks for the deployment that its update began, and waits for its end.
func TestTerraformFollowsADeployment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rolled()
	before := time.Unix(1000, 999_000_000)
	s := w.deploy()
	_, taskSet, _ := strings.Cut(*s.Deployments[0].Id, "/")
	found := w.deployments(ecs.ListServiceDeploymentsInput{CreatedAt: &types.CreatedAt{After: &before}})
	if len(found) != 1 || !strings.HasSuffix(*found[0].TargetServiceRevisionArn, "/"+taskSet) || *s.CurrentServiceDeployment != *found[0].ServiceDeploymentArn {
		t.Fatalf("%+v, wanted the one to revision %s", found, taskSet)
	}
	if all := w.deployments(ecs.ListServiceDeploymentsInput{CreatedAt: &types.CreatedAt{Before: &before}, Status: []types.ServiceDeploymentStatus{"SUCCESSFUL"}}); len(all) != 1 || *all[0].FinishedAt != time.Unix(1001, 0).UTC() {
		t.Errorf("before that: %+v", all)
	}
	form := regexp.MustCompile(`^arn:aws:ecs:local:000000000000:service-(deployment/default/web/[\w-]{22}|revision/default/web/[1-9]\d{18})$`)
	d := w.deployment(found[0].ServiceDeploymentArn)
	switch {
	case !form.MatchString(*d.ServiceDeploymentArn), !form.MatchString(*d.TargetServiceRevision.Arn):
		t.Errorf("the ARNs are %s and %s", *d.ServiceDeploymentArn, *d.TargetServiceRevision.Arn)
	case d.Status != "IN_PROGRESS", d.FinishedAt != nil, d.StoppedAt != nil, d.StatusReason != nil, d.Rollback != nil, d.DeploymentCircuitBreaker.Status != "MONITORING", d.DeploymentCircuitBreaker.Threshold != 3,
		d.DeploymentConfiguration.Strategy != "ROLLING", *d.DeploymentConfiguration.MinimumHealthyPercent != 50, d.TargetServiceRevision.RequestedTaskCount != 2,
		len(d.SourceServiceRevisions) != 1, d.SourceServiceRevisions[0].RunningTaskCount != 1: // the other one makes room
		t.Errorf("%+v\n%+v\n%+v", d, d.TargetServiceRevision, d.SourceServiceRevisions)
	}
	w.keeper.run("web", none)
	w.start() // a new process
	d = w.deployment(found[0].ServiceDeploymentArn)
	if d.Status != "SUCCESSFUL" || d.TargetServiceRevision.RunningTaskCount != 2 || d.DeploymentCircuitBreaker.Status != "MONITORING_COMPLETE" {
		t.Errorf("%+v", d)
	}
	if s := w.describe("web").Services[0]; len(s.CurrentServiceRevisions) != 1 || *s.CurrentServiceRevisions[0].Arn != *d.TargetServiceRevision.Arn || s.CurrentServiceRevisions[0].RunningTaskCount != 2 {
		t.Errorf("%+v", s.CurrentServiceRevisions)
	}
}

func TestADeploymentThatTheBreakerEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rolled()
	arn := w.deploy().CurrentServiceDeployment
	w.keeper.run("web", failing("web/2"))
	w.keeper.passed = time.Minute
	w.keeper.run("web", failing("web/2"))
	d := w.deployment(arn)
	if d.Status != "ROLLBACK_SUCCESSFUL" || d.DeploymentCircuitBreaker.Status != "TRIGGERED" || d.DeploymentCircuitBreaker.FailureCount != 3 || d.StoppedAt == nil || d.FinishedAt == nil ||
		*d.Rollback.ServiceRevisionArn != *d.SourceServiceRevisions[0].Arn || !strings.Contains(*d.StatusReason, "circuit breaker: 3 tasks failed") || *d.Rollback.Reason != *d.StatusReason {
		t.Errorf("%+v %+v %+v", d, d.DeploymentCircuitBreaker, d.Rollback)
	}
}

func TestResetOnHealthyTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rolled()
	set := func(in types.DeploymentCircuitBreaker, want bool) {
		t.Helper()
		out := must[*ecs.UpdateServiceOutput](t)(w.client.UpdateService(t.Context(), &ecs.UpdateServiceInput{Service: aws.String("web"), DeploymentConfiguration: &types.DeploymentConfiguration{DeploymentCircuitBreaker: &in}}))
		got := out.Service.DeploymentConfiguration.DeploymentCircuitBreaker
		if got.ResetOnHealthyTask == nil || *got.ResetOnHealthyTask != want || got.Enable != in.Enable {
			t.Errorf("%+v, want %t", got, want)
		}
	}
	set(types.DeploymentCircuitBreaker{Enable: true}, true)
	set(types.DeploymentCircuitBreaker{Enable: true, ResetOnHealthyTask: aws.Bool(false)}, false)
	set(types.DeploymentCircuitBreaker{Enable: false, Rollback: true}, false) // it stays
	set(types.DeploymentCircuitBreaker{Enable: true, ResetOnHealthyTask: aws.Bool(true)}, true)
}

// Clients that look every few seconds see that a deployment runs, that it failed, and why.
func TestClientsSeeADeploymentFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rolled()
	arn := w.deploy().CurrentServiceDeployment
	see := func(after time.Duration, want ...string) {
		t.Helper()
		w.keeper.passed = after
		w.keeper.run("web", failing("web/2"))
		var got []string
		for _, d := range w.describe("web").Services[0].Deployments {
			reason, _, _ := strings.Cut(*d.RolloutStateReason, ":")
			got = append(got, fmt.Sprintf("%s %s %s, %d failed, %s", *d.Status, (*d.TaskDefinition)[strings.LastIndex(*d.TaskDefinition, "/")+1:], d.RolloutState, d.FailedTasks, reason))
		}
		if !slices.Equal(got, want) {
			t.Errorf("after %s: %q, want %q", after, got, want)
		}
	}
	id := *w.describe("web").Services[0].Deployments[0].Id
	old := *w.describe("web").Services[0].Deployments[1].Id
	see(0, "PRIMARY web:2 IN_PROGRESS, 3 failed, ECS deployment "+id+" in progress.", "ACTIVE web:1 COMPLETED, 0 failed, ECS deployment "+old+" completed.")
	back := "PRIMARY web:1 COMPLETED, 0 failed, ECS deployment circuit breaker"
	for _, after := range []time.Duration{10 * time.Second, 29 * time.Second} {
		see(after, back, "ACTIVE web:2 FAILED, 3 failed, ECS deployment circuit breaker")
	}
	see(30*time.Second, back)
	if d := w.deployment(arn); d.Status != "ROLLBACK_SUCCESSFUL" || !strings.Contains(*d.StatusReason, "3 tasks failed") {
		t.Errorf("%+v", d)
	}
}

func TestDeploymentsAreStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rolled()
	stop := func(arn *string, how types.StopServiceDeploymentStopType, want string) {
		t.Helper()
		out, err := w.client.StopServiceDeployment(t.Context(), &ecs.StopServiceDeploymentInput{ServiceDeploymentArn: arn, StopType: how})
		if code(err) != want || err == nil && *out.ServiceDeploymentArn != *arn {
			t.Errorf("%+v %v", out, err)
		}
	}
	first := w.deployments(ecs.ListServiceDeploymentsInput{})[0].ServiceDeploymentArn
	stop(first, "", "ConflictException")
	stop(aws.String(*first+"x"), "", "ServiceDeploymentNotFoundException")
	rolledBack := w.deploy().CurrentServiceDeployment
	for range 2 { // the second time it continues
		stop(rolledBack, "", "<nil>")
		if d := w.deployment(rolledBack); d.Status != "ROLLBACK_IN_PROGRESS" && d.Status != "ROLLBACK_SUCCESSFUL" {
			t.Errorf("%+v", d)
		}
	}
	w.keeper.run("web", none)
	if d := w.deployment(rolledBack); d.Status != "ROLLBACK_SUCCESSFUL" || d.DeploymentCircuitBreaker.Status != "MONITORING_COMPLETE" {
		t.Errorf("%+v", d)
	}
	aborted := w.deploy().CurrentServiceDeployment
	stop(aborted, types.StopServiceDeploymentStopTypeAbort, "<nil>")
	if d := w.deployment(aborted); d.Status != "STOPPED" || d.StoppedAt == nil || d.Rollback != nil || !strings.Contains(*d.StatusReason, "user") {
		t.Errorf("%+v", d)
	}
	if s := w.describe("web").Services[0]; s.Deployments[0].RolloutState != "FAILED" || strings.Contains(*s.Deployments[0].RolloutStateReason, "breaker") {
		t.Errorf("%s: %s", s.Deployments[0].RolloutState, *s.Deployments[0].RolloutStateReason)
	}
}

func TestRevisionsAreAsTheyWere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rolled()
	must[*ecs.UpdateServiceOutput](t)(w.client.UpdateService(t.Context(), &ecs.UpdateServiceInput{Service: aws.String("web"), PlatformVersion: aws.String("1.4.0")}))
	digest := "sha256:" + strings.Repeat("a", 64)
	made := lifecycle.New(strings.Repeat("b", 32), "web-9", taskdef.Task{Family: "web", Containers: []taskdef.Container{{Name: "app", Image: "i"}}}, lifecycle.Options{Service: "web", Deployment: "web/2"}, time.Unix(1001, 0).UTC())
	made.Containers[0].Digest = digest
	w.states = append(w.states, made)
	var arns []string
	for _, d := range w.deployments(ecs.ListServiceDeploymentsInput{}) {
		arns = append(arns, *d.TargetServiceRevisionArn)
	}
	out := must[*ecs.DescribeServiceRevisionsOutput](t)(w.client.DescribeServiceRevisions(t.Context(), &ecs.DescribeServiceRevisionsInput{ServiceRevisionArns: append(arns, arns[0]+"0")}))
	if len(out.ServiceRevisions) != 2 || len(out.Failures) != 1 || *out.Failures[0].Reason != "MISSING" {
		t.Fatalf("%+v", out)
	}
	second, first := out.ServiceRevisions[0], out.ServiceRevisions[1]
	if *second.PlatformVersion != "1.4.0" || first.PlatformVersion != nil || first.NetworkConfiguration.AwsvpcConfiguration.Subnets[0] != "subnet-1" || len(first.LoadBalancers) != 1 {
		t.Errorf("%+v\n%+v", second, first)
	}
	if i := second.ContainerImages[0]; *i.ContainerName != "app" || *i.ImageDigest != digest || first.ContainerImages[0].ImageDigest != nil {
		t.Errorf("%+v, %+v", i, first.ContainerImages[0])
	}
}

func TestDeploymentsArePaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rolled()
	for range 11 {
		w.deploy()
	}
	all := w.deployments(ecs.ListServiceDeploymentsInput{})
	if len(all) != 10 {
		t.Fatalf("%d deployments", len(all))
	}
	var pages []string
	in := ecs.ListServiceDeploymentsInput{Service: aws.String("web"), MaxResults: aws.Int32(4)}
	for range 3 {
		out := must[*ecs.ListServiceDeploymentsOutput](t)(w.client.ListServiceDeployments(t.Context(), &in))
		for _, d := range out.ServiceDeployments {
			pages = append(pages, *d.ServiceDeploymentArn)
		}
		in.NextToken = out.NextToken
	}
	for i, d := range all {
		if len(pages) != 10 || pages[i] != *d.ServiceDeploymentArn || i > 0 && d.Status != "STOPPED" {
			t.Errorf("%d: %s is %s; the pages have %d", i, *d.ServiceDeploymentArn, d.Status, len(pages))
		}
	}
}

func TestBadRequestsForDeployments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rolled()
	arn := *w.deployments(ecs.ListServiceDeploymentsInput{})[0].ServiceDeploymentArn
	many := strings.Repeat(`"`+arn+`",`, 20) + `"x"`
	for _, c := range []struct{ target, body, want string }{
		{"ListServiceDeployments", `{"service": "wob"}`, "ServiceNotFoundException"},
		{"ListServiceDeployments", `{"service": "web", "cluster": "nowhere"}`, "ClusterNotFoundException"},
		{"ListServiceDeployments", `{"service": "web", "status": ["FINE"]}`, "InvalidParameterException"},
		{"ListServiceDeployments", `{"service": "web", "createdAt": {"since": 1}}`, "InvalidParameterException"},
		{"ListServiceDeployments", `{"service": "web", "createdAt": {"after": "noon"}}`, "SerializationException"},
		{"ListServiceDeployments", `{"service": "web", "maxResults": 101}`, "InvalidParameterException"},
		{"ListServiceDeployments", fmt.Sprintf(`{"service": "web", "nextToken": %q}`, base64.RawURLEncoding.EncodeToString([]byte("ListServices default \nweb"))), "InvalidParameterException"},
		{"DescribeServiceDeployments", `{"serviceDeploymentArns": []}`, "InvalidParameterException"},
		{"DescribeServiceDeployments", `{"serviceDeploymentArns": [` + many + `]}`, "InvalidParameterException"},
		{"DescribeServiceDeployments", `{"serviceDeploymentArns": ["web"]}`, "InvalidParameterException"},
		{"DescribeServiceDeployments", `{"serviceDeploymentArns": ["arn:aws:ecs:local:000000000000:service/default/web"]}`, "InvalidParameterException"},
		{"DescribeServiceDeployments", `{"serviceDeploymentArns": ["` + strings.Replace(arn, "000000000000", "123456789012", 1) + `"]}`, "InvalidParameterException"},
		{"DescribeServiceRevisions", `{"serviceRevisionArns": ["` + arn + `"]}`, "InvalidParameterException"},
		{"DescribeServiceRevisions", `{}`, "InvalidParameterException"},
		{"StopServiceDeployment", `{}`, "InvalidParameterException"},
		{"StopServiceDeployment", `{"serviceDeploymentArn": "` + arn + `", "stopType": "NOW"}`, "InvalidParameterException"},
		{"StopServiceDeployment", `{"serviceDeploymentArn": "` + strings.Replace(arn, "default", "blue", 1) + `"}`, "ServiceDeploymentNotFoundException"},
	} {
		if status, answer := w.post(c.target, c.body); status != 400 || !strings.Contains(answer, `"`+c.want+`"`) {
			t.Errorf("%s %s: %d %s, want %s", c.target, c.body, status, answer, c.want)
		}
	}
}
