package foreign_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/taskdef"
)

const scaledTemplate = `
Resources:
  Def: {Type: AWS::ECS::TaskDefinition, Properties: {Family: web, ContainerDefinitions: [{Name: app, Image: web, Memory: 64}]}}
  Web: {Type: AWS::ECS::Service, Properties: {ServiceName: web, DesiredCount: 2, TaskDefinition: !Ref Def}}
  Target:
    Type: AWS::ApplicationAutoScaling::ScalableTarget
    Properties:
      MinCapacity: 1
      MaxCapacity: 4
      ResourceId: !Sub service/main/${Web.Name}
      ScheduledActions:
        - {ScheduledActionName: morning, Schedule: 'cron(0 7 * * ? *)', Timezone: Europe/Berlin, ScalableTargetAction: {MinCapacity: 3}}
        - {ScheduledActionName: once, Schedule: 'at(2026-12-24T12:00:00)', StartTime: '2026-12-01', ScalableTargetAction: {MaxCapacity: 9}}
  CPU:
    Type: AWS::ApplicationAutoScaling::ScalingPolicy
    Properties:
      PolicyName: cpu
      PolicyType: TargetTrackingScaling
      ScalingTargetId: !Ref Target
      TargetTrackingScalingPolicyConfiguration:
        TargetValue: 60
        ScaleInCooldown: 120
        PredefinedMetricSpecification: {PredefinedMetricType: ECSServiceAverageCPUUtilization}
  Queue:
    Type: AWS::ApplicationAutoScaling::ScalingPolicy
    Properties: {PolicyName: queue, PolicyType: StepScaling, ScalingTargetId: !Ref Target, StepScalingPolicyConfiguration: {AdjustmentType: ChangeInCapacity}}
`

const scaledPlan = `{"format_version": "1.2", "terraform_version": "1.9.0", "planned_values": {"root_module": {"resources": [
 {"address": "aws_ecs_task_definition.web", "mode": "managed", "type": "aws_ecs_task_definition", "name": "web", "values": {"family": "web", "container_definitions": "[{\"name\": \"app\", \"image\": \"web\", \"memory\": 64}]"}},
 {"address": "aws_ecs_service.web", "mode": "managed", "type": "aws_ecs_service", "name": "web", "values": {"name": "web", "desired_count": 2}},
 {"address": "aws_appautoscaling_target.web", "mode": "managed", "type": "aws_appautoscaling_target", "name": "web", "values": {"min_capacity": 1, "max_capacity": 4, "resource_id": "service/main/web"}},
 {"address": "aws_appautoscaling_target.other", "mode": "managed", "type": "aws_appautoscaling_target", "name": "other", "values": {"min_capacity": 1, "max_capacity": 9, "resource_id": "service/main/other"}},
 {"address": "aws_appautoscaling_policy.cpu", "mode": "managed", "type": "aws_appautoscaling_policy", "name": "cpu", "values": {"name": "cpu", "policy_type": "TargetTrackingScaling", "resource_id": "service/main/web",
  "target_tracking_scaling_policy_configuration": [{"target_value": 60, "scale_in_cooldown": 120, "disable_scale_in": true, "predefined_metric_specification": [{"predefined_metric_type": "ECSServiceAverageCPUUtilization"}]}]}},
 {"address": "aws_appautoscaling_policy.queue", "mode": "managed", "type": "aws_appautoscaling_policy", "name": "queue", "values": {"name": "queue", "policy_type": "StepScaling", "resource_id": "service/main/web", "step_scaling_policy_configuration": [{}]}},
 {"address": "aws_appautoscaling_scheduled_action.morning", "mode": "managed", "type": "aws_appautoscaling_scheduled_action", "name": "morning", "values": {"name": "morning", "schedule": "cron(0 7 * * ? *)", "timezone": "UTC", "scalable_target_action": [{"min_capacity": "3", "max_capacity": "6"}]}}
]}}, "configuration": {"root_module": {"resources": [
 {"address": "aws_ecs_service.web", "mode": "managed", "type": "aws_ecs_service", "name": "web", "expressions": {"task_definition": {"references": ["aws_ecs_task_definition.web.arn", "aws_ecs_task_definition.web"]}}},
 {"address": "aws_appautoscaling_scheduled_action.morning", "mode": "managed", "type": "aws_appautoscaling_scheduled_action", "name": "morning", "expressions": {"resource_id": {"references": ["aws_appautoscaling_target.web.resource_id", "aws_appautoscaling_target.web"]}}}
]}}}`

const scaledManifest = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 2, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: app, image: web}]}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 4
  metrics:
    - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}
    - {type: Pods, pods: {metric: {name: lag}, target: {type: AverageValue, averageValue: 3}}}
---
apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: other}
spec: {scaleTargetRef: {kind: Deployment, name: other}, maxReplicas: 4}
`

const steppedTemplate = `
Resources:
  Def: {Type: AWS::ECS::TaskDefinition, Properties: {Family: web, ContainerDefinitions: [{Name: app, Image: web, Memory: 64}]}}
  Web: {Type: AWS::ECS::Service, Properties: {ServiceName: web, DesiredCount: 2, TaskDefinition: !Ref Def}}
  Target: {Type: AWS::ApplicationAutoScaling::ScalableTarget, Properties: {MinCapacity: 1, MaxCapacity: 4, ResourceId: service/main/web}}
  Up:
    Type: AWS::ApplicationAutoScaling::ScalingPolicy
    Properties:
      {PolicyName: up, PolicyType: StepScaling, ScalingTargetId: !Ref Target, StepScalingPolicyConfiguration: {AdjustmentType: PercentChangeInCapacity, Cooldown: 60, MinAdjustmentMagnitude: 2,
        StepAdjustments: [{MetricIntervalLowerBound: 0, MetricIntervalUpperBound: 15, ScalingAdjustment: 10}, {MetricIntervalLowerBound: 15, ScalingAdjustment: 50}]}}
  High: {Type: AWS::CloudWatch::Alarm, Properties: {Namespace: AWS/ECS, MetricName: CPUUtilization, Threshold: 70, ComparisonOperator: GreaterThanOrEqualToThreshold, AlarmActions: [!Ref Up]}}
  Queue: {Type: AWS::ApplicationAutoScaling::ScalingPolicy, Properties: {PolicyName: queue, ScalingTargetId: !Ref Target, StepScalingPolicyConfiguration: {AdjustmentType: ChangeInCapacity, StepAdjustments: [{ScalingAdjustment: 1}]}}}
  Long: {Type: AWS::CloudWatch::Alarm, Properties: {Namespace: AWS/SQS, MetricName: ApproximateNumberOfMessagesVisible, Threshold: 70, ComparisonOperator: GreaterThanThreshold, AlarmActions: [!Ref Queue]}}
`

const steppedPlan = `{"format_version": "1.2", "terraform_version": "1.9.0", "planned_values": {"root_module": {"resources": [
 {"address": "aws_ecs_task_definition.web", "mode": "managed", "type": "aws_ecs_task_definition", "name": "web", "values": {"family": "web", "container_definitions": "[{\"name\": \"app\", \"image\": \"web\", \"memory\": 64}]"}},
 {"address": "aws_ecs_service.web", "mode": "managed", "type": "aws_ecs_service", "name": "web", "values": {"name": "web", "desired_count": 2}},
 {"address": "aws_appautoscaling_target.web", "mode": "managed", "type": "aws_appautoscaling_target", "name": "web", "values": {"min_capacity": 1, "max_capacity": 4, "resource_id": "service/main/web"}},
 {"address": "aws_appautoscaling_policy.down", "mode": "managed", "type": "aws_appautoscaling_policy", "name": "down", "values": {"name": "down", "policy_type": "StepScaling", "resource_id": "service/main/web",
  "step_scaling_policy_configuration": [{"adjustment_type": "ChangeInCapacity", "cooldown": 300, "min_adjustment_magnitude": null, "step_adjustment": [{"metric_interval_lower_bound": "", "metric_interval_upper_bound": "-10", "scaling_adjustment": -2}, {"metric_interval_lower_bound": "-10", "metric_interval_upper_bound": "0", "scaling_adjustment": -1}]}]}},
 {"address": "aws_cloudwatch_metric_alarm.low", "mode": "managed", "type": "aws_cloudwatch_metric_alarm", "name": "low", "values": {"namespace": "AWS/ECS", "metric_name": "MemoryUtilization", "threshold": 30.5, "comparison_operator": "LessThanThreshold"}}
]}}, "configuration": {"root_module": {"resources": [
 {"address": "aws_ecs_service.web", "mode": "managed", "type": "aws_ecs_service", "name": "web", "expressions": {"task_definition": {"references": ["aws_ecs_task_definition.web.arn", "aws_ecs_task_definition.web"]}}},
 {"address": "aws_cloudwatch_metric_alarm.low", "mode": "managed", "type": "aws_cloudwatch_metric_alarm", "name": "low", "expressions": {"alarm_actions": {"references": ["aws_appautoscaling_policy.down.arn", "aws_appautoscaling_policy.down"]}}}
]}}}`

// What scales a service on AWS or on Kubernetes becomes commands of podtask service scaling, and what cannot is told.
func TestWhatScalesAServiceIsImported(t *testing.T) {
	t.Parallel()
	for file, c := range map[string]struct {
		source     string
		want, lost []string
	}{
		"template.yaml": {
			scaledTemplate,
			[]string{"set --min 1 --max 4 --cpu 60 --cooldown-in 120s", "at morning cron(0 7 * * ? *) --min 3 --timezone Europe/Berlin", "at once at(2026-12-24T12:00:00) --max 9"},
			[]string{`scaling policy "queue": steps follow an alarm of CloudWatch`, `scheduled action "once": StartTime`},
		},
		"plan.json": {
			scaledPlan,
			[]string{"set --min 1 --max 4 --cpu 60 --cooldown-in 120s --only-out", "at morning cron(0 7 * * ? *) --min 3 --max 6"},
			[]string{`scaling policy "queue": steps follow an alarm of CloudWatch`, "aws_appautoscaling_target.other: the number of copies"},
		},
		"steps.yaml": {
			steppedTemplate,
			[]string{"set --min 1 --max 4 --step cpu 70..85=+10% --step cpu 85..=+50% --min-adjustment 2 --cooldown-out 60s"},
			[]string{`scaling policy "up": the periods of its alarm`, `scaling policy "queue": steps follow an alarm of CloudWatch`},
		},
		"steps.json": {
			steppedPlan,
			[]string{"set --min 1 --max 4 --step memory ..20.5=-2 --step memory 20.5..30.5=-1 --cooldown-in 300s"},
			[]string{`scaling policy "down": the periods of its alarm`},
		},
		"web.yaml": {
			scaledManifest,
			[]string{"set --min 1 --max 4 --cpu 60"},
			[]string{"a metric of type Pods is not known here", "a percentage is that of the limit", `HorizontalPodAutoscaler "other": the number of copies`},
		},
	} {
		r, err := read(t, file, c.source, "")
		if err != nil || r.Service == nil {
			t.Errorf("%s: %v, %+v", file, err, r.Service)
			continue
		}
		var got []string
		for _, s := range r.Service.Scaling {
			got = append(got, s.Verb+" "+strings.Join(s.Words, " "))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", file, got, c.want)
		}
		scaled := 0
		for _, l := range r.Lost {
			if strings.Contains(l.Message, "scal") || strings.Contains(l.Message, "cheduled") || strings.Contains(l.Message, "Horizontal") {
				scaled++
			}
		}
		for _, want := range c.lost {
			if !strings.Contains(textOfLost(r.Lost), want) {
				t.Errorf("%s: %q is not told: %s", file, want, textOfLost(r.Lost))
			}
		}
		if scaled > len(c.lost) {
			t.Errorf("%s: more is lost: %s", file, textOfLost(r.Lost))
		}
	}
}

func textOfLost(all []taskdef.Problem) string {
	var lines []string
	for _, p := range all {
		lines = append(lines, p.Message)
	}
	return strings.Join(lines, "\n")
}
