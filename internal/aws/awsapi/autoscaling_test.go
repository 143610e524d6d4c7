package awsapi_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"
	"github.com/podtask/podtask/internal/aws/awsapi/autoscaling"
	run "github.com/podtask/podtask/internal/engine/run/scaling"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/scaling"
)

// scaled are services that scale, with times that no calendar checks.
type scaled struct {
	*run.Store
	now func() time.Time
}

func (w *world) scaled() autoscaling.Scaling {
	w.t.Helper()
	store, err := run.Open(w.dir, state.OS{})
	if err != nil {
		w.t.Fatal(err)
	}
	return scaled{store, func() time.Time { return w.now.Round(0).UTC() }}
}

func (s scaled) Get(service string) (scaling.State, bool, error) {
	state, err := s.Store.Get(service)
	if missing := (*run.NotFoundError)(nil); errors.As(err, &missing) {
		return state, false, nil
	}
	return state, err == nil, err
}

func (s scaled) Configure(ctx context.Context, service string, change func(scaling.Config, bool) (scaling.Config, error)) (scaling.State, error) {
	return s.Store.Configure(ctx, service, s.now(), change)
}

func (s scaled) End(ctx context.Context, service string) error {
	err := s.Store.End(ctx, service)
	if errors.As(err, new(*run.NotFoundError)) {
		return nil
	}
	return err
}

func (s scaled) Times(_ context.Context, schedule, zone string) ([]string, error) {
	if schedule == "cron(x)" {
		return nil, errors.New("no such time")
	}
	return []string{schedule + " " + zone}, nil
}

func scalingClient(w *world) *applicationautoscaling.Client {
	return applicationautoscaling.New(applicationautoscaling.Options{BaseEndpoint: &w.url, Region: "local", RetryMaxAttempts: 1, HTTPClient: newWholeBodies(), Credentials: credentials(key)})
}

const (
	scaledService = "service/default/web"
	dimension     = types.ScalableDimensionECSServiceDesiredCount
)

// tracked is a request for a policy.
func tracked(name string, metric types.MetricType, target float64) *applicationautoscaling.PutScalingPolicyInput {
	return &applicationautoscaling.PutScalingPolicyInput{
		PolicyName: &name, ServiceNamespace: types.ServiceNamespaceEcs, ResourceId: aws.String(scaledService), ScalableDimension: dimension, PolicyType: types.PolicyTypeTargetTrackingScaling,
		TargetTrackingScalingPolicyConfiguration: &types.TargetTrackingScalingPolicyConfiguration{
			TargetValue: &target, PredefinedMetricSpecification: &types.PredefinedMetricSpecification{PredefinedMetricType: metric}, ScaleInCooldown: aws.Int32(60), DisableScaleIn: aws.Bool(true),
		},
	}
}

func (w *world) scalable() *applicationautoscaling.Client {
	w.t.Helper()
	w.createService("web", w.register("web"))
	c := scalingClient(w)
	must[*applicationautoscaling.RegisterScalableTargetOutput](w.t)(c.RegisterScalableTarget(w.t.Context(), &applicationautoscaling.RegisterScalableTargetInput{
		ServiceNamespace: types.ServiceNamespaceEcs, ResourceId: aws.String(scaledService), ScalableDimension: dimension, MinCapacity: aws.Int32(1), MaxCapacity: aws.Int32(4),
		RoleARN: aws.String("arn:aws:iam::000000000000:role/mine"), Tags: map[string]string{"team": "a"},
	}))
	return c
}

func TestAScalableTargetComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.scalable()
	if _, err := c.RegisterScalableTarget(t.Context(), &applicationautoscaling.RegisterScalableTargetInput{
		ServiceNamespace: types.ServiceNamespaceEcs, ResourceId: aws.String(scaledService), ScalableDimension: dimension, MaxCapacity: aws.Int32(6),
		SuspendedState: &types.SuspendedState{DynamicScalingInSuspended: aws.Bool(true)},
	}); err != nil {
		t.Fatal(err)
	}
	w.start() // with what is on the disk
	c = scalingClient(w)
	out := must[*applicationautoscaling.DescribeScalableTargetsOutput](t)(c.DescribeScalableTargets(t.Context(), &applicationautoscaling.DescribeScalableTargetsInput{ServiceNamespace: types.ServiceNamespaceEcs, ResourceIds: []string{scaledService}}))
	if len(out.ScalableTargets) != 1 {
		t.Fatalf("%d targets", len(out.ScalableTargets))
	}
	got := out.ScalableTargets[0]
	if *got.MinCapacity != 1 || *got.MaxCapacity != 6 || *got.RoleARN != "arn:aws:iam::000000000000:role/mine" || !*got.SuspendedState.DynamicScalingInSuspended || *got.SuspendedState.DynamicScalingOutSuspended || got.CreationTime == nil {
		t.Errorf("%+v", got)
	}
	tags := must[*applicationautoscaling.ListTagsForResourceOutput](t)(c.ListTagsForResource(t.Context(), &applicationautoscaling.ListTagsForResourceInput{ResourceARN: got.ScalableTargetARN}))
	if tags.Tags["team"] != "a" {
		t.Errorf("tags %v", tags.Tags)
	}
	if _, err := c.DeregisterScalableTarget(t.Context(), &applicationautoscaling.DeregisterScalableTargetInput{ServiceNamespace: types.ServiceNamespaceEcs, ResourceId: aws.String(scaledService), ScalableDimension: dimension}); err != nil {
		t.Fatal(err)
	}
	_, err := c.DeregisterScalableTarget(t.Context(), &applicationautoscaling.DeregisterScalableTargetInput{ServiceNamespace: types.ServiceNamespaceEcs, ResourceId: aws.String(scaledService), ScalableDimension: dimension})
	if code(err) != "ObjectNotFoundException" {
		t.Errorf("the second time: %v", err)
	}
	if _, err := c.ListTagsForResource(t.Context(), &applicationautoscaling.ListTagsForResourceInput{ResourceARN: got.ScalableTargetARN}); code(err) != "ResourceNotFoundException" {
		t.Errorf("tags of a target that is gone: %v", err)
	}
}

func TestPoliciesComeBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.scalable()
	for _, in := range []*applicationautoscaling.PutScalingPolicyInput{tracked("cpu", types.MetricTypeECSServiceAverageCPUUtilization, 60), tracked("visitors", types.MetricTypeALBRequestCountPerTarget, 1000)} {
		out := must[*applicationautoscaling.PutScalingPolicyOutput](t)(c.PutScalingPolicy(t.Context(), in))
		if !strings.HasSuffix(*out.PolicyARN, ":resource/ecs/service/default/web:policyName/"+*in.PolicyName) {
			t.Errorf("ARN %s", *out.PolicyARN)
		}
	}
	out := must[*applicationautoscaling.DescribeScalingPoliciesOutput](t)(c.DescribeScalingPolicies(t.Context(), &applicationautoscaling.DescribeScalingPoliciesInput{ServiceNamespace: types.ServiceNamespaceEcs, ResourceId: aws.String(scaledService), PolicyNames: []string{"cpu"}}))
	if len(out.ScalingPolicies) != 1 {
		t.Fatalf("%d policies", len(out.ScalingPolicies))
	}
	got := out.ScalingPolicies[0].TargetTrackingScalingPolicyConfiguration
	if *got.TargetValue != 60 || got.PredefinedMetricSpecification.PredefinedMetricType != types.MetricTypeECSServiceAverageCPUUtilization || *got.ScaleInCooldown != 60 || *got.ScaleOutCooldown != 300 || !*got.DisableScaleIn {
		t.Errorf("%+v", got)
	}
	in := &applicationautoscaling.DeleteScalingPolicyInput{PolicyName: aws.String("cpu"), ServiceNamespace: types.ServiceNamespaceEcs, ResourceId: aws.String(scaledService), ScalableDimension: dimension}
	if _, err := c.DeleteScalingPolicy(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if _, err := c.DeleteScalingPolicy(t.Context(), in); code(err) != "ObjectNotFoundException" {
		t.Errorf("the second time: %v", err)
	}
}

func TestScheduledActionsComeBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.scalable()
	put := &applicationautoscaling.PutScheduledActionInput{
		ScheduledActionName: aws.String("morning"), ServiceNamespace: types.ServiceNamespaceEcs, ResourceId: aws.String(scaledService), ScalableDimension: dimension,
		Schedule: aws.String("cron(0 7 * * ? *)"), Timezone: aws.String("Europe/Berlin"), StartTime: aws.Time(time.Unix(2_000_000_000, 0)), ScalableTargetAction: &types.ScalableTargetAction{MinCapacity: aws.Int32(3)},
	}
	if _, err := c.PutScheduledAction(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	out := must[*applicationautoscaling.DescribeScheduledActionsOutput](t)(c.DescribeScheduledActions(t.Context(), &applicationautoscaling.DescribeScheduledActionsInput{ServiceNamespace: types.ServiceNamespaceEcs}))
	if len(out.ScheduledActions) != 1 {
		t.Fatalf("%d actions", len(out.ScheduledActions))
	}
	got := out.ScheduledActions[0]
	if *got.Schedule != *put.Schedule || *got.Timezone != "Europe/Berlin" || !got.StartTime.Equal(*put.StartTime) || got.EndTime != nil || *got.ScalableTargetAction.MinCapacity != 3 || got.ScalableTargetAction.MaxCapacity != nil {
		t.Errorf("%+v", got)
	}
	put.Schedule = aws.String("cron(x)")
	if _, err := c.PutScheduledAction(t.Context(), put); code(err) != "ValidationException" {
		t.Errorf("a schedule that is none: %v", err)
	}
	if _, err := c.DeleteScheduledAction(t.Context(), &applicationautoscaling.DeleteScheduledActionInput{ScheduledActionName: aws.String("morning"), ServiceNamespace: types.ServiceNamespaceEcs, ResourceId: aws.String(scaledService), ScalableDimension: dimension}); err != nil {
		t.Error(err)
	}
}

func TestActivitiesAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.scalable()
	if _, err := c.PutScalingPolicy(t.Context(), tracked("cpu", types.MetricTypeECSServiceAverageCPUUtilization, 50)); err != nil {
		t.Fatal(err)
	}
	all := w.scaled()
	s, _, err := all.Get("web")
	if err != nil {
		t.Fatal(err)
	}
	// What the agent decides is in the record: here the controller decides for it.
	rows, at, desired := scaling.Rows(nil), w.now.Round(0).UTC(), 1
	for range 30 {
		at = at.Add(scaling.Interval)
		sample := scaling.Sample{At: at, Copies: desired, Values: map[scaling.Metric]float64{scaling.CPU: 90}}
		rows = rows.Observe(s.Config, sample)
		before := desired
		if s, desired, _ = scaling.Decide(s, scaling.Facts{Desired: desired}, rows, sample, nil); desired != before {
			rows = nil
		}
	}
	if len(s.Activities) < 2 {
		t.Fatalf("%+v", s.Activities)
	}
	if err := all.(scaled).Replace(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	out := must[*applicationautoscaling.DescribeScalingActivitiesOutput](t)(c.DescribeScalingActivities(t.Context(), &applicationautoscaling.DescribeScalingActivitiesInput{ServiceNamespace: types.ServiceNamespaceEcs, ResourceId: aws.String(scaledService), MaxResults: aws.Int32(1)}))
	if len(out.ScalingActivities) != 1 || out.NextToken == nil {
		t.Fatalf("%+v", out)
	}
	newest := out.ScalingActivities[0]
	if want := fmt.Sprintf("Setting desired count to %d.", s.Activities[len(s.Activities)-1].To); *newest.Description != want || newest.StatusCode != types.ScalingActivityStatusCodeSuccessful || !strings.Contains(*newest.Cause, "above the target") {
		t.Errorf("%+v, want %s", newest, want)
	}
	next := must[*applicationautoscaling.DescribeScalingActivitiesOutput](t)(c.DescribeScalingActivities(t.Context(), &applicationautoscaling.DescribeScalingActivitiesInput{ServiceNamespace: types.ServiceNamespaceEcs, ResourceId: aws.String(scaledService), MaxResults: aws.Int32(1), NextToken: out.NextToken}))
	if len(next.ScalingActivities) != 1 || *next.ScalingActivities[0].ActivityId == *newest.ActivityId {
		t.Errorf("the next page: %+v", next)
	}
}

// A metric that the copies serve themselves is one of the namespace podtask, and comes back.
func TestAMetricOfTheCopiesOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.scalable()
	in := tracked("jobs", "", 10)
	in.TargetTrackingScalingPolicyConfiguration.PredefinedMetricSpecification = nil
	spec := &types.CustomizedMetricSpecification{
		MetricName: aws.String("jobs_waiting"), Namespace: aws.String("podtask"), Statistic: types.MetricStatisticAverage,
		Dimensions: []types.MetricDimension{{Name: aws.String("queue"), Value: aws.String(`"mail"`)}, {Name: aws.String("Endpoint"), Value: aws.String("app:9090/metrics")}},
	}
	in.TargetTrackingScalingPolicyConfiguration.CustomizedMetricSpecification = spec
	must[*applicationautoscaling.PutScalingPolicyOutput](t)(c.PutScalingPolicy(t.Context(), in))
	s, _, err := w.scaled().Get("web")
	if want := scaling.Metric(`app:9090/metrics jobs_waiting{queue="\"mail\""}`); err != nil || len(s.Config.Policies) != 1 || s.Config.Policies[0].Metric != want {
		t.Errorf("%v: %+v, want %s", err, s.Config.Policies, want)
	}
	out := must[*applicationautoscaling.DescribeScalingPoliciesOutput](t)(c.DescribeScalingPolicies(t.Context(), &applicationautoscaling.DescribeScalingPoliciesInput{ServiceNamespace: types.ServiceNamespaceEcs}))
	got := out.ScalingPolicies[0].TargetTrackingScalingPolicyConfiguration.CustomizedMetricSpecification
	if got == nil || *got.MetricName != "jobs_waiting" || *got.Namespace != "podtask" || got.Statistic != types.MetricStatisticAverage || len(got.Dimensions) != 2 || *got.Dimensions[1].Value != `"mail"` {
		t.Errorf("%+v", got)
	}
	for member, change := range map[string]func(){
		"Statistic":                func() { spec.Statistic = types.MetricStatisticSum },
		"no metric of an endpoint": func() { spec.Statistic, spec.Dimensions = types.MetricStatisticAverage, spec.Dimensions[:1] },
	} {
		before := *spec
		change()
		if _, err := c.PutScalingPolicy(t.Context(), in); code(err) != "ValidationException" || !strings.Contains(err.Error(), member) {
			t.Errorf("%s: %v", member, err)
		}
		*spec = before
	}
}

func TestWhatCannotScaleIsRefusedByName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.scalable()
	steps := tracked("steps", "", 1)
	steps.PolicyType, steps.TargetTrackingScalingPolicyConfiguration = types.PolicyTypeStepScaling, nil
	own := tracked("own", "", 1)
	own.TargetTrackingScalingPolicyConfiguration.PredefinedMetricSpecification = nil
	own.TargetTrackingScalingPolicyConfiguration.CustomizedMetricSpecification = &types.CustomizedMetricSpecification{MetricName: aws.String("x"), Namespace: aws.String("y"), Statistic: types.MetricStatisticSum}
	for name, in := range map[string]*applicationautoscaling.PutScalingPolicyInput{
		"CloudWatch alarms": steps, "CustomizedMetricSpecification": own, "RDSReaderAverageCPUUtilization": tracked("x", types.MetricTypeRDSReaderAverageCPUUtilization, 1), "more than 0": tracked("x", types.MetricTypeECSServiceAverageCPUUtilization, -1),
	} {
		if _, err := c.PutScalingPolicy(t.Context(), in); code(err) != "ValidationException" || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for resource, want := range map[string]string{"service/default/other": "doesn't exist", "web": "service/CLUSTER/NAME", "service/blue/web": "doesn't exist"} {
		_, err := c.RegisterScalableTarget(t.Context(), &applicationautoscaling.RegisterScalableTargetInput{ServiceNamespace: types.ServiceNamespaceEcs, ResourceId: &resource, ScalableDimension: dimension, MinCapacity: aws.Int32(1), MaxCapacity: aws.Int32(2)})
		if code(err) != "ValidationException" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", resource, err)
		}
	}
	if _, err := c.DescribeScalableTargets(t.Context(), &applicationautoscaling.DescribeScalableTargetsInput{ServiceNamespace: types.ServiceNamespaceDynamodb}); code(err) != "ValidationException" {
		t.Errorf("another namespace: %v", err)
	}
}

// Numbers, times and names that no client of good will sends are refused as AWS refuses them, and change nothing.
func TestHostileScalingIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.scalable()
	const resource = `"ServiceNamespace": "ecs", "ResourceId": "service/default/web", "ScalableDimension": "ecs:service:DesiredCount"`
	policy := func(tracking string) string {
		return `{` + resource + `, "PolicyName": "x", "PolicyType": "TargetTrackingScaling", "TargetTrackingScalingPolicyConfiguration": {"PredefinedMetricSpecification": {"PredefinedMetricType": "ECSServiceAverageCPUUtilization"}, ` + tracking + `}}`
	}
	action := func(members string) string {
		return `{` + resource + `, "ScheduledActionName": "x", "Schedule": "rate(1 day)", "ScalableTargetAction": {"MinCapacity": 1}, ` + members + `}`
	}
	for _, c := range []struct{ target, body string }{
		{"PutScalingPolicy", policy(`"TargetValue": NaN`)},
		{"PutScalingPolicy", policy(`"TargetValue": 1e999`)},
		{"PutScalingPolicy", policy(`"TargetValue": -0.0`)},
		{"PutScalingPolicy", policy(`"TargetValue": "50"`)},
		{"PutScalingPolicy", policy(`"TargetValue": 50, "ScaleOutCooldown": -1`)},
		{"PutScalingPolicy", policy(`"TargetValue": 50, "ScaleOutCooldown": 86401`)},
		{"PutScalingPolicy", policy(`"TargetValue": 50, "ScaleOutCooldown": 18446744074`)}, // 290 ms in 64 bits of nanoseconds
		{"PutScalingPolicy", policy(`"TargetValue": 50, "ScaleInCooldown": -18446744073`)},
		{"PutScalingPolicy", policy(`"TargetValue": 50, "ScaleInCooldown": 99999999999999999999999`)},
		{"PutScalingPolicy", policy(`"TargetValue": 50, "ScaleInCooldown": 1.5`)},
		{"PutScheduledAction", action(`"StartTime": 1e15`)}, // the year 31,690,708
		{"PutScheduledAction", action(`"EndTime": 1e300`)},
		{"PutScheduledAction", action(`"StartTime": -1e300`)},
		{"PutScheduledAction", action(`"StartTime": 5, "EndTime": 4`)},
		{"RegisterScalableTarget", `{` + resource + `, "MaxCapacity": 9223372036854775807}`},
		{"RegisterScalableTarget", `{` + resource + `, "MinCapacity": -9223372036854775808}`},
		{"RegisterScalableTarget", `{` + resource + `, "MinCapacity": 5}`},
		{"RegisterScalableTarget", strings.Replace(`{`+resource+`, "MaxCapacity": 3}`, "default/web", "../web", 1)},
		{"RegisterScalableTarget", strings.Replace(`{`+resource+`, "MaxCapacity": 3}`, "default/web", "default/web/../../x", 1)},
		{"RegisterScalableTarget", strings.Replace(`{`+resource+`, "MaxCapacity": 3}`, "default/web", `default/web\u0000`, 1)},
	} {
		status, answer := w.post("AnyScaleFrontendService."+c.target, c.body)
		if status < 400 || status >= 500 || len(answer) > 2000 {
			t.Errorf("%s %s: %d %s", c.target, c.body, status, answer)
		}
	}
	if s, _, err := w.scaled().Get("web"); err != nil || s.Config.Min != 1 || s.Config.Max != 4 || len(s.Config.Policies)+len(s.Config.Actions) > 0 {
		t.Errorf("%v: the configuration is %+v", err, s.Config)
	}
}
