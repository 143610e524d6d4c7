//go:build e2e && (bed_plain || bed_systemd)

//e2e:bed systemd

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"

	"github.com/podtask/podtask/test/testbed"
)

// The copies of a service go from one to four with its connections, and back to one, and no request is lost.
func TestServiceScales(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	at := freePort(t)
	b.want(0, "service", "create", b.family, b.define(served("one")), "--wait", "--timeout=4m", fmt.Sprintf("--listen=127.0.0.1:%d=app:8080", at))
	b.want(125, "service", "scaling", "set", b.family, "--cpu=50")                           // without a maximum
	b.want(125, "service", "scaling", "set", b.family, "--max=1", "--min=2", "--memory=200") // nonsense
	b.want(0, "service", "scaling", "set", b.family, "--max=4", "--connections=30", "--cooldown-out=0s")

	var done atomic.Bool
	asked := make(chan int)
	go func() {
		n := 0
		for ; !done.Load(); n++ {
			if text, err := askURL(fresh(), fmt.Sprintf("http://127.0.0.1:%d", at)); err != nil || text != "one" {
				t.Errorf("request %d was lost: %q, %v", n, text, err)
			}
			<-time.After(200 * time.Millisecond) // 300 in a minute
		}
		asked <- n
	}()
	eventually(t, "four copies", func() bool { return b.sleeper().HealthyCount == 4 })

	b.want(0, "exec", b.family, "--", "/testbox", "exists", "/testbox")
	b.want(0, "logs", b.family)
	var shown struct {
		Desired    *int
		Targets    []struct{ Value *float64 }
		Activities []struct {
			From, To int
			Policy   string
		}
	}
	r := b.want(0, "service", "scaling", "show", b.family, "--format=json")
	if err := json.Unmarshal([]byte(r.out), &shown); err != nil || shown.Desired == nil || *shown.Desired != 4 || len(shown.Activities) == 0 || shown.Activities[0].To != 4 || shown.Activities[0].Policy != "connections" {
		t.Errorf("show printed %s (%v)", r.out, err)
	}
	b.want(0, "service", "scaling", "set", b.family, "--max=1")
	eventually(t, "one copy", func() bool { s := b.sleeper(); return s.RunningCount == 1 && s.DesiredCount == 1 })
	done.Store(true)
	t.Logf("%d requests", <-asked)
	b.want(0, "service", "rm", "--force", b.family)
	eventually(t, "the end of the scaling", func() bool { return b.podtask("service", "scaling", "show", b.family).code == 125 })
}

// A metric that the copies serve themselves, in their own network namespace, is a target, and what cannot be read is told.
func TestServiceScalesByItsOwnMetric(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	app := served("one")
	app.Environment = append(app.Environment, envVar{"PAGE", `jobs{queue="mail"} 30`})
	b.want(0, "service", "create", b.family, b.define(app), "--wait", "--timeout=4m")
	if r := b.want(125, "service", "scaling", "set", b.family, "--max=2", "--metric=app:8080/env/PAGE jobs"); !strings.Contains(r.err, "NAME=NUMBER") {
		t.Errorf("without a number: %s", r.err)
	}
	b.want(0, "service", "scaling", "set", b.family, "--max=2", `--metric=app:8080/env/PAGE jobs{queue="mail"}=10`, "--metric=app:8080/env/NONE nothing=10")
	eventually(t, "two copies", func() bool { return b.sleeper().HealthyCount == 2 })
	eventually(t, "what cannot be read", func() bool {
		return strings.Contains(b.want(0, "service", "scaling", "show", b.family).out, `jobs{queue="mail"}: 30 now`) &&
			strings.Contains(b.want(0, "service", "scaling", "ls").out, `jobs{queue="mail"} 30/10, nothing ?/10`)
	})
	b.want(0, "service", "scaling", "set", b.family, "--max=3", `--metric=app:8080/env/PAGE jobs{queue="mail"}=0`)
	eventually(t, "the reason", func() bool {
		return strings.Contains(b.want(0, "why", b.family).out, "nothing (app:8080/env/NONE has no nothing) is not measured")
	})
	b.want(125, "service", "scaling", "set", b.family, "--step=jobs 20..=3")
	b.want(0, "service", "scaling", "set", b.family, `--step=app:8080/env/PAGE jobs{queue="mail"} ..20=1`, `--step=app:8080/env/PAGE jobs{queue="mail"} 20..=3`)
	eventually(t, "three copies by a step", func() bool { return b.sleeper().HealthyCount == 3 })
	b.removeService()
}

// The targets of CPU time and requests, by the API of Application Auto Scaling: copies go from one to more and back, and no request to
// the public address is lost.
func TestServiceScalesByTheAPI(t *testing.T) {
	b := newBox(t)
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	b.agent("--aws-listen=" + address)
	proxy := b.ingressProxy()
	app := served("one")
	app.More = obj{"cpu": 102}
	b.want(0, "service", "create", b.family, b.define(app), "--ingress=https://app.localhost=app:8080", "--wait", "--timeout=4m")
	env := awsEnv(b, address)
	client := applicationautoscaling.New(applicationautoscaling.Options{BaseEndpoint: aws.String(env["AWS_ENDPOINT_URL"]), Region: env["AWS_REGION"], Credentials: awsCredentials(env)})
	resource := aws.String("service/default/" + b.family)
	bounds := func(most int32) {
		t.Helper()
		if _, err := client.RegisterScalableTarget(t.Context(), &applicationautoscaling.RegisterScalableTargetInput{ServiceNamespace: types.ServiceNamespaceEcs, ResourceId: resource, ScalableDimension: types.ScalableDimensionECSServiceDesiredCount, MinCapacity: aws.Int32(1), MaxCapacity: &most}); err != nil {
			t.Fatal(err)
		}
	}
	track := func(metric types.MetricType, target float64) {
		t.Helper()
		if _, err := client.PutScalingPolicy(t.Context(), &applicationautoscaling.PutScalingPolicyInput{
			PolicyName: aws.String(string(metric)), ServiceNamespace: types.ServiceNamespaceEcs, ResourceId: resource, ScalableDimension: types.ScalableDimensionECSServiceDesiredCount, PolicyType: types.PolicyTypeTargetTrackingScaling,
			TargetTrackingScalingPolicyConfiguration: &types.TargetTrackingScalingPolicyConfiguration{
				TargetValue: &target, ScaleOutCooldown: aws.Int32(0), PredefinedMetricSpecification: &types.PredefinedMetricSpecification{PredefinedMetricType: metric},
			},
		}); err != nil {
			t.Fatal(err)
		}
	}
	copies := func(n int) {
		t.Helper()
		if !testbed.Until(func() bool { s := b.sleeper(); return s.HealthyCount == n && s.RunningCount == n }) {
			t.Fatalf("never: %d copies\n%s", n, b.want(0, "service", "scaling", "show", b.family).out)
		}
	}

	var done atomic.Bool
	asked := make(chan int, 1)
	t.Cleanup(func() { done.Store(true) })
	go func() {
		n, c := 0, proxy.client(b)
		for ; !done.Load(); n++ {
			if text, err := askURL(c, "https://app.localhost"); err != nil || text != "one" {
				t.Errorf("request %d was lost: %q, %v", n, text, err)
			}
			<-time.After(100 * time.Millisecond) // 600 in a minute
		}
		asked <- n
	}()
	bounds(3)
	track(types.MetricTypeECSServiceAverageCPUUtilization, 60)
	burning := b.start("exec", b.family, "--", "/testbox", "burn", "10m")
	copies(3) // one processor is ten times the share of a copy
	burning.signalAll(syscall.SIGKILL)
	bounds(1)
	copies(1)
	if _, err := client.DeleteScalingPolicy(t.Context(), &applicationautoscaling.DeleteScalingPolicyInput{PolicyName: aws.String(string(types.MetricTypeECSServiceAverageCPUUtilization)), ServiceNamespace: types.ServiceNamespaceEcs, ResourceId: resource, ScalableDimension: types.ScalableDimensionECSServiceDesiredCount}); err != nil {
		t.Fatal(err)
	}
	track(types.MetricTypeALBRequestCountPerTarget, 100)
	bounds(2)
	copies(2)
	bounds(1)
	copies(1)
	done.Store(true)
	t.Logf("%d requests", <-asked)
	out, err := client.DescribeScalingActivities(t.Context(), &applicationautoscaling.DescribeScalingActivitiesInput{ServiceNamespace: types.ServiceNamespaceEcs, ResourceId: resource})
	if err != nil || len(out.ScalingActivities) < 4 {
		t.Errorf("%v, %+v", err, out)
	}
	b.removeService()
}
