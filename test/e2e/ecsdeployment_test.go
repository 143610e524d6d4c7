//go:build e2e

//e2e:bed systemd

package e2e

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// ecsService is a service of AWS' client with its deployments.
type ecsService struct {
	*box
	client *ecs.Client
}

// update rolls to a definition and returns the deployment that begins.
func (s ecsService) update(definition string) string {
	s.t.Helper()
	out, err := s.client.UpdateService(s.t.Context(), &ecs.UpdateServiceInput{Service: &s.family, TaskDefinition: &definition})
	if err != nil {
		s.t.Fatal(err)
	}
	return aws.ToString(out.Service.CurrentServiceDeployment)
}

func (s ecsService) deployment(arn string) types.ServiceDeployment {
	s.t.Helper()
	out, err := s.client.DescribeServiceDeployments(s.t.Context(), &ecs.DescribeServiceDeploymentsInput{ServiceDeploymentArns: []string{arn}})
	if err != nil || len(out.ServiceDeployments) != 1 {
		s.t.Fatalf("%s: %+v %v", arn, out, err)
	}
	return out.ServiceDeployments[0]
}

// wait waits until a deployment has a status.
func (s ecsService) wait(arn string, want types.ServiceDeploymentStatus) (d types.ServiceDeployment) {
	s.t.Helper()
	eventually(s.t, "deployment "+string(want), func() bool {
		d = s.deployment(arn)
		return d.Status == want
	})
	return d
}

// statuses are those of all deployments, the latest first.
func (s ecsService) statuses() string {
	s.t.Helper()
	out, err := s.client.ListServiceDeployments(s.t.Context(), &ecs.ListServiceDeploymentsInput{Service: &s.family})
	if err != nil {
		s.t.Fatal(err)
	}
	var all []string
	for _, d := range out.ServiceDeployments {
		all = append(all, string(d.Status))
	}
	return strings.Join(all, " ")
}

// slow registers a definition whose copies run and do not become healthy for ten minutes.
func (s ecsService) slow() string {
	s.t.Helper()
	out, err := s.client.RegisterTaskDefinition(s.t.Context(), &ecs.RegisterTaskDefinitionInput{Family: &s.family, ContainerDefinitions: []types.ContainerDefinition{{
		Name: aws.String("app"), Image: aws.String(s.testbox()), Command: words("term 0 -- wait /tmp/go"),
		HealthCheck: &types.HealthCheck{Command: []string{"CMD", "/testbox", "exists", "/tmp/never"}, StartPeriod: aws.Int32(300), Interval: aws.Int32(300)},
	}}})
	if err != nil {
		s.t.Fatal(err)
	}
	return *out.TaskDefinition.TaskDefinitionArn
}

// The requests of `aws ecs list-service-deployments` and the other three, which clients wait
// with: a deployment that succeeds while the agent is killed, one that the circuit breaker rolls
// back, and those that a user stops.
func TestAWSClientFollowsDeployments(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	address := loopback(t)
	agent := b.agent("--aws-listen=" + address)
	s, ctx := ecsService{b, ecsClient(b, address)}, t.Context()
	one, two := registerECS(b, s.client, "term 0 -- wait /tmp/go"), registerECS(b, s.client, "term 0 -- print two -- wait /tmp/go")
	broken := registerECS(b, s.client, "exit 1")
	made, err := s.client.CreateService(ctx, &ecs.CreateServiceInput{
		ServiceName: &b.family, TaskDefinition: &one, DesiredCount: aws.Int32(1),
		DeploymentConfiguration: &types.DeploymentConfiguration{DeploymentCircuitBreaker: &types.DeploymentCircuitBreaker{Enable: true, Rollback: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	first := s.wait(*made.Service.CurrentServiceDeployment, types.ServiceDeploymentStatusSuccessful)

	// The agent is killed in the middle of the second.
	arn := s.update(two)
	agent.kill()
	b.agent("--aws-listen=" + address)
	second := s.wait(arn, types.ServiceDeploymentStatusSuccessful)
	if second.FinishedAt.Before(*second.StartedAt) || second.TargetServiceRevision.RunningTaskCount != 1 || len(second.SourceServiceRevisions) != 1 || *second.SourceServiceRevisions[0].Arn != *first.TargetServiceRevision.Arn {
		t.Errorf("%+v, from %+v to %+v", second, second.SourceServiceRevisions, second.TargetServiceRevision)
	}
	revisions, err := s.client.DescribeServiceRevisions(ctx, &ecs.DescribeServiceRevisionsInput{ServiceRevisionArns: []string{*second.TargetServiceRevision.Arn}})
	if err != nil || *revisions.ServiceRevisions[0].TaskDefinition != two || !strings.HasPrefix(aws.ToString(revisions.ServiceRevisions[0].ContainerImages[0].ImageDigest), "sha256:") {
		t.Errorf("%+v %v", revisions, err)
	}

	failed := s.wait(s.update(broken), types.ServiceDeploymentStatusRollbackSuccessful)
	if c := failed.DeploymentCircuitBreaker; c.Status != "TRIGGERED" || c.FailureCount != 3 || *failed.Rollback.ServiceRevisionArn != *second.TargetServiceRevision.Arn || !strings.Contains(*failed.StatusReason, "circuit breaker") {
		t.Errorf("%+v %+v %s", c, failed.Rollback, *failed.StatusReason)
	}

	// Users stop one for good, and one for the revision before.
	stop := func(arn string, how types.StopServiceDeploymentStopType) {
		t.Helper()
		if _, err := s.client.StopServiceDeployment(ctx, &ecs.StopServiceDeploymentInput{ServiceDeploymentArn: &arn, StopType: how}); err != nil {
			t.Fatal(err)
		}
	}
	arn = s.update(s.slow())
	stop(arn, types.StopServiceDeploymentStopTypeAbort)
	if d := s.deployment(arn); d.Status != types.ServiceDeploymentStatusStopped || d.StoppedAt == nil {
		t.Errorf("%+v", d)
	}
	arn = s.update(s.slow())
	stop(arn, "")
	if d := s.wait(arn, types.ServiceDeploymentStatusRollbackSuccessful); d.StoppedAt == nil || *d.Rollback.ServiceRevisionArn != *second.TargetServiceRevision.Arn {
		t.Errorf("%+v %+v", d, d.Rollback)
	}
	var conflict *types.ConflictException
	if _, err := s.client.StopServiceDeployment(ctx, &ecs.StopServiceDeploymentInput{ServiceDeploymentArn: &arn}); !errors.As(err, &conflict) {
		t.Errorf("one that has ended is stopped: %v", err)
	}
	if got, want := s.statuses(), "ROLLBACK_SUCCESSFUL STOPPED ROLLBACK_SUCCESSFUL SUCCESSFUL SUCCESSFUL"; got != want {
		t.Errorf("the deployments are %s, want %s", got, want)
	}
	b.removeService()
}

// A rolling deployment with an early success ends when half of the new copies are healthy and no old one is left. Neither
// its circuit breaker nor a stop ends it then, and the other copy starts as those of a scaled service do.
func TestEarlySuccessWaitsForTheOldCopies(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	address := loopback(t)
	b.agent("--aws-listen=" + address)
	s, ctx := ecsService{b, ecsClient(b, address)}, t.Context()
	one := registerECS(b, s.client, "term 0 -- wait /tmp/go")
	made, err := s.client.CreateService(ctx, &ecs.CreateServiceInput{
		ServiceName: &b.family, TaskDefinition: &one, DesiredCount: aws.Int32(2),
		DeploymentConfiguration: &types.DeploymentConfiguration{
			MinimumHealthyPercent: aws.Int32(50), MaximumPercent: aws.Int32(200),
			EarlySuccessCriteria: &types.DeploymentEarlySuccessCriteria{Enable: true, HealthyPercent: aws.Int32(50), SourceServiceRevisionCleanup: "BLOCKING"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	first := s.wait(*made.Service.CurrentServiceDeployment, types.ServiceDeploymentStatusSuccessful)
	two, err := s.client.RegisterTaskDefinition(ctx, &ecs.RegisterTaskDefinitionInput{Family: &s.family, ContainerDefinitions: []types.ContainerDefinition{{
		Name: aws.String("app"), Image: aws.String(s.testbox()), Command: words("term 0 -- wait /tmp/end"),
		HealthCheck: &types.HealthCheck{Command: []string{"CMD", "/testbox", "exists", "/tmp/go"}, StartPeriod: aws.Int32(300), Interval: aws.Int32(5)},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	arn := s.update(*two.TaskDefinition.TaskDefinitionArn)
	var fresh string // the ID of a copy of the new revision
	eventually(t, "a new copy", func() bool {
		for _, c := range s.running() {
			if *c.TaskDefinitionArn != one {
				_, fresh, _ = strings.Cut(*c.TaskArn, ":task/default/")
			}
		}
		return fresh != ""
	})
	if d := s.deployment(arn); d.Status != types.ServiceDeploymentStatusInProgress {
		t.Errorf("without a healthy copy it is %s", d.Status)
	}
	b.want(0, "exec", fresh, "/testbox", "write", "/tmp/go")
	d := s.wait(arn, types.ServiceDeploymentStatusSuccessful)
	if len(d.SourceServiceRevisions) != 1 || *d.SourceServiceRevisions[0].Arn != *first.TargetServiceRevision.Arn {
		t.Errorf("from %+v", d.SourceServiceRevisions)
	}
	old, healthy := 0, 0
	for _, c := range s.running() {
		switch {
		case *c.TaskDefinitionArn == one:
			old++
		case c.HealthStatus == types.HealthStatusHealthy:
			healthy++
		}
	}
	if old != 0 || healthy != 1 {
		t.Errorf("%d old copies and %d healthy new ones when it succeeded", old, healthy)
	}
	eventually(t, "two new copies", func() bool { return len(s.running()) == 2 })
	b.removeService()
}

// running are the copies that run.
func (s ecsService) running() (all []types.Task) {
	s.t.Helper()
	listed, err := s.client.ListTasks(s.t.Context(), &ecs.ListTasksInput{ServiceName: &s.family})
	if err != nil || len(listed.TaskArns) == 0 {
		s.t.Fatal(listed, err)
	}
	described, err := s.client.DescribeTasks(s.t.Context(), &ecs.DescribeTasksInput{Tasks: listed.TaskArns})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range described.Tasks {
		if *c.LastStatus == "RUNNING" {
			all = append(all, c)
		}
	}
	return all
}
