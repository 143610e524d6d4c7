//go:build e2e && nightly

//e2e:bed systemd

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

func TestAWSClientDeploysAService(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	address := loopback(t)
	b.agent("--aws-listen=" + address)
	c, ctx := ecsClient(b, address), t.Context()
	one, two := registerECS(b, c, "term 0 -- wait /tmp/go"), registerECS(b, c, "term 0 -- print two -- wait /tmp/go")
	broken := registerECS(b, c, "exit 1")
	if _, err := c.CreateService(ctx, &ecs.CreateServiceInput{
		ServiceName: &b.family, TaskDefinition: &one, DesiredCount: aws.Int32(2),
		DeploymentConfiguration: &types.DeploymentConfiguration{DeploymentCircuitBreaker: &types.DeploymentCircuitBreaker{Enable: true, Rollback: true}},
	}); err != nil {
		t.Fatal(err)
	}
	services := &ecs.DescribeServicesInput{Services: []string{b.family}}
	stable := func() types.Service {
		t.Helper()
		if err := ecs.NewServicesStableWaiter(c, func(o *ecs.ServicesStableWaiterOptions) { o.MinDelay, o.MaxDelay = time.Second, time.Second }).Wait(ctx, services, within); err != nil {
			t.Fatal(err)
		}
		out, err := c.DescribeServices(ctx, services)
		if err != nil {
			t.Fatal(err)
		}
		return out.Services[0]
	}
	update := func(definition string) (deployment string) {
		t.Helper()
		out, err := c.UpdateService(ctx, &ecs.UpdateServiceInput{Service: &b.family, TaskDefinition: &definition})
		if err != nil {
			t.Fatal(err)
		}
		return *out.Service.CurrentServiceDeployment
	}
	before := *stable().CurrentServiceDeployment
	if first, second := update(two), update(two); first == before || second != first {
		t.Errorf("the same update twice makes deployments %s and %s after %s", first, second, before)
	}
	if s := stable(); *s.TaskDefinition != two || s.RunningCount != 2 {
		t.Errorf("%s, %d tasks", *s.TaskDefinition, s.RunningCount)
	}
	update(broken)
	s := stable()
	rolledBack := slices.ContainsFunc(s.Events, func(e types.ServiceEvent) bool { return strings.Contains(*e.Message, "rolling back") })
	if *s.TaskDefinition != two || len(s.Deployments) != 1 || !rolledBack || !strings.Contains(*s.Deployments[0].RolloutStateReason, "circuit breaker") {
		t.Errorf("%s, %d deployments, events tell of the rollback: %v", *s.TaskDefinition, len(s.Deployments), rolledBack)
	}
	list, err := c.ListTasks(ctx, &ecs.ListTasksInput{ServiceName: &b.family})
	if err != nil || len(list.TaskArns) != 2 {
		t.Errorf("%+v %v", list, err)
	}
	if _, err := c.DeleteService(ctx, &ecs.DeleteServiceInput{Service: &b.family, Force: aws.Bool(true)}); err != nil {
		t.Fatal(err)
	}
	if err := ecs.NewServicesInactiveWaiter(c, func(o *ecs.ServicesInactiveWaiterOptions) { o.MinDelay, o.MaxDelay = time.Second, time.Second }).Wait(ctx, services, within); err != nil {
		t.Fatal(err)
	}
}
