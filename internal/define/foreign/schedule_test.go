package foreign_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/define/foreign"
	"github.com/podtask/podtask/internal/define/foreign/toolfile"
)

// now is the time of these tests.
var now = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func read(t *testing.T, file, src, service string, params ...string) (toolfile.Result, error) {
	t.Helper()
	q := toolfile.Request{File: file, Source: []byte(src), Service: service, Params: map[string]string{}, Now: now}
	for _, p := range params {
		name, value, _ := strings.Cut(p, "=")
		q.Params[name] = value
	}
	return foreign.Read(q)
}

// summary is the flags of the only schedule, "none" without one, and the messages of what is lost, without the places.
func summary(t *testing.T, r toolfile.Result, err error) (flags string, lost []string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Lost {
		lost = append(lost, p.Message)
	}
	if len(r.Schedules) == 0 {
		return "none", lost
	}
	return toolfile.Shell(r.Schedules[0].Flags...), lost
}

// scheduled is a template with a schedule of each kind, with more members of the rule or schedule, its target, and the
// part of the target for ECS.
func scheduled(kind, resource, target, ecs string) string {
	const head = `
Parameters:
  Off: {Type: String, Default: DISABLED}
  N: {Type: Number, Default: 3}
  Unknown: {Type: String}
Conditions: {Dev: !Equals [!Ref Off, DISABLED]}
Mappings: {ByStage: {dev: {state: DISABLED, count: 2}}}
Resources:
  T: {Type: AWS::ECS::TaskDefinition, Properties: {Family: job, ContainerDefinitions: [{Name: a, Image: "localhost/bb:1", Memory: 64}]}}
  S:
    Type: `
	if kind == "rule" {
		return fmt.Sprintf("%sAWS::Events::Rule\n    Properties:\n      ScheduleExpression: rate(1 hour)\n      %s\n      Targets:\n      - Id: t\n        Arn: c\n        %s\n        EcsParameters:\n          TaskDefinitionArn: !Ref T\n          %s\n", head, resource, target, ecs)
	}
	return fmt.Sprintf("%sAWS::Scheduler::Schedule\n    Properties:\n      ScheduleExpression: rate(1 hour)\n      FlexibleTimeWindow: {Mode: 'OFF'}\n      %s\n      Target:\n        Arn: c\n        RoleArn: r\n        %s\n        EcsParameters:\n          TaskDefinitionArn: !Ref T\n          %s\n", head, resource, target, ecs)
}

func TestAScheduleThatIsOffIsCreatedPaused(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"rule", "schedule"} {
		for state, paused := range map[string]bool{
			"DISABLED": true, "ENABLED": false, "!Ref Off": true, "!If [Dev, DISABLED, ENABLED]": true, "!If [Dev, ENABLED, DISABLED]": false,
			"!FindInMap [ByStage, dev, state]": true, "!Sub '${Off}'": true, "!If [Dev, !Ref 'AWS::NoValue', DISABLED]": false, "!Select [0, [DISABLED, ENABLED]]": true,
			`!Join ["", [DIS, ABLED]]`: true,
		} {
			r, err := read(t, "t.yaml", scheduled(kind, "State: "+state, "", ""), "")
			flags, _ := summary(t, r, err)
			if got := strings.HasSuffix(flags, " --paused"); got != paused {
				t.Errorf("%s with State %s: %s", kind, state, flags)
			}
		}
		_, err := read(t, "t.yaml", scheduled(kind, "State: !Ref Unknown", "", ""), "")
		if err == nil || !strings.Contains(err.Error(), "--param Unknown=") {
			t.Errorf("%s with a state that is not known: %v", kind, err)
		}
		r, err := read(t, "t.yaml", scheduled(kind, "State: !Ref Unknown", "", ""), "", "Unknown=DISABLED")
		if flags, _ := summary(t, r, err); !strings.HasSuffix(flags, " --paused") {
			t.Error(flags)
		}
	}
}

func TestTheNumberOfTasksIsEvaluated(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"rule", "schedule"} {
		for count, want := range map[string]string{
			"3": "3", "1": "", "!Ref N": "3", "!If [Dev, 2, 1]": "2", "!If [Dev, 1, 2]": "", "!FindInMap [ByStage, dev, count]": "2", "'4'": "4", "!If [Dev, !Ref 'AWS::NoValue', 2]": "",
		} {
			r, err := read(t, "t.yaml", scheduled(kind, "", "", "TaskCount: "+count), "")
			_, lost := summary(t, r, err)
			told := slices.Contains(lost, "the schedule starts "+want+" tasks: one is started here")
			if told != (want != "") || len(lost) > 1 {
				t.Errorf("%s with TaskCount %s: %q", kind, count, lost)
			}
		}
	}
}

func TestTheDatesOfASchedule(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		members, flags, lost string
	}{
		{"EndDate: '2024-12-31T00:00:00Z'", "--at 'rate(1 hour)' --paused", "endDate 2024-12-31T00:00:00Z has passed"},
		{"EndDate: '2030-12-31T00:00:00Z'", "--at 'rate(1 hour)'", "endDate 2030-12-31T00:00:00Z: a schedule has no end here"},
		{"StartDate: '2030-01-01T00:00:00Z'", "--at 'rate(1 hour)' --paused", "startDate 2030-01-01T00:00:00Z: a schedule has no beginning here"},
		{"StartDate: '2024-01-01T00:00:00Z'", "--at 'rate(1 hour)'", ""},
		{"EndDate: !If [Dev, '2024-12-31T00:00:00Z', !Ref 'AWS::NoValue']", "--at 'rate(1 hour)' --paused", "endDate 2024-12-31T00:00:00Z has passed"},
		{"EndDate: !If [Dev, !Ref 'AWS::NoValue', '2024-12-31T00:00:00Z']", "--at 'rate(1 hour)'", ""},
	} {
		r, err := read(t, "t.yaml", scheduled("schedule", tt.members, "", ""), "")
		flags, lost := summary(t, r, err)
		if flags != tt.flags || tt.lost == "" != (len(lost) == 0) || !strings.Contains(strings.Join(lost, "\n"), tt.lost) {
			t.Errorf("%s: %s %q", tt.members, flags, lost)
		}
	}
	if _, err := read(t, "t.yaml", scheduled("schedule", "EndDate: soon", "", ""), ""); err == nil || !strings.Contains(err.Error(), "2030-01-31T00:00:00Z") {
		t.Error(err)
	}
}

func TestWhatASchedulePromisesOnAWSIsTold(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ kind, resource, target, ecs, lost string }{
		{"schedule", "", "RetryPolicy: {MaximumRetryAttempts: 2}", "", "target.retryPolicy: "},
		{"schedule", "", "DeadLetterConfig: {Arn: q}", "", "target.deadLetterConfig: "},
		{"rule", "", "RetryPolicy: {MaximumRetryAttempts: 2}", "", "targets.retryPolicy: "},
		{"rule", "", "DeadLetterConfig: {Arn: q}", "", "targets.deadLetterConfig: "},
		{"rule", "", "InputTransformer: {InputTemplate: x}", "", "targets.inputTransformer: "},
		{"rule", "EventPattern: {source: [aws.s3]}", "", "", "eventPattern: on AWS events start the task"},
		{"rule", "", "", "PlacementConstraints: [{Type: distinctInstance}]", "targets.ecsParameters.placementConstraints: "},
		{"rule", "Novelty: 1", "", "", "novelty: podtask does not know this member of the rule"},
		{"schedule", "Novelty: !Ref N", "", "", "novelty: podtask does not know this member of the schedule"},
		{"schedule", "Novelty: !Ref 'AWS::NoValue'", "", "", ""},
	} {
		r, err := read(t, "t.yaml", scheduled(tt.kind, tt.resource, tt.target, tt.ecs), "")
		_, lost := summary(t, r, err)
		if tt.lost == "" && len(lost) > 0 || tt.lost != "" && (len(lost) != 1 || !strings.HasPrefix(lost[0], tt.lost)) {
			t.Errorf("%s %s%s%s: %q", tt.kind, tt.resource, tt.target, tt.ecs, lost)
		}
	}
	window := strings.ReplaceAll(scheduled("schedule", "", "", ""), "{Mode: 'OFF'}", "{Mode: FLEXIBLE, MaximumWindowInMinutes: 15}")
	r, err := read(t, "t.yaml", window, "")
	if _, lost := summary(t, r, err); len(lost) != 1 || !strings.HasPrefix(lost[0], "flexibleTimeWindow.mode: ") {
		t.Errorf("a flexible window: %q", lost)
	}
}

func TestARuleOfEventsIsNoSchedule(t *testing.T) {
	t.Parallel()
	src := strings.Replace(scheduled("rule", "EventPattern: {source: [aws.s3]}", "", ""), "ScheduleExpression: rate(1 hour)", "", 1)
	r, err := read(t, "t.yaml", src, "")
	if flags, lost := summary(t, r, err); flags != "none" || len(lost) != 1 || !strings.HasPrefix(lost[0], "eventPattern: ") {
		t.Errorf("%s %q", flags, lost)
	}
	if textOf(t, r) != "job" {
		t.Error(string(r.Definition.JSON()))
	}
}

func textOf(t *testing.T, r toolfile.Result) string {
	t.Helper()
	return r.Definition.Member("family").Text
}

func TestEachTargetOfARuleCanBeChosen(t *testing.T) {
	t.Parallel()
	const template = `
Resources:
  T: {Type: AWS::ECS::TaskDefinition, Properties: {Family: job, ContainerDefinitions: [{Name: a, Image: "localhost/bb:1", Memory: 64}]}}
  T2: {Type: AWS::ECS::TaskDefinition, Properties: {Family: job2, ContainerDefinitions: [{Name: a, Image: "localhost/bb:1", Memory: 64}]}}
  R: {Type: AWS::Events::Rule, Properties: {ScheduleExpression: rate(2 hours), Targets: [
    {Id: a, Arn: c, RoleArn: r, EcsParameters: {TaskDefinitionArn: !Ref T}}, {Id: b, Arn: c, RoleArn: r, EcsParameters: {TaskDefinitionArn: !Ref T2}},
    {Id: c, Arn: "arn:aws:lambda:eu-central-1:1:function:f"}]}}
`
	const plan = `{"format_version": "1.2", "terraform_version": "1.9.0", "planned_values": {"root_module": {"resources": [
		{"address": "aws_ecs_task_definition.t", "mode": "managed", "type": "aws_ecs_task_definition", "name": "t", "values": {"family": "job", "container_definitions": "[{\"name\":\"a\",\"image\":\"localhost/bb:1\",\"memory\":64}]"}},
		{"address": "aws_ecs_task_definition.t2", "mode": "managed", "type": "aws_ecs_task_definition", "name": "t2", "values": {"family": "job2", "container_definitions": "[{\"name\":\"a\",\"image\":\"localhost/bb:1\",\"memory\":64}]"}},
		{"address": "aws_cloudwatch_event_rule.R", "mode": "managed", "type": "aws_cloudwatch_event_rule", "name": "R", "values": {"name": "R", "schedule_expression": "rate(2 hours)", "is_enabled": true}},
		{"address": "aws_cloudwatch_event_target.a", "mode": "managed", "type": "aws_cloudwatch_event_target", "name": "a", "values": {"rule": "R", "target_id": "a", "ecs_target": [{"task_definition_arn": "job"}]}},
		{"address": "aws_cloudwatch_event_target.b", "mode": "managed", "type": "aws_cloudwatch_event_target", "name": "b", "values": {"rule": "R", "target_id": "b", "ecs_target": [{"task_definition_arn": "job2"}]}},
		{"address": "aws_cloudwatch_event_target.c", "mode": "managed", "type": "aws_cloudwatch_event_target", "name": "c", "values": {"rule": "R", "target_id": "c"}}
	]}}}`
	for file, tt := range map[string]struct{ src, rule, alone string }{"t.yaml": {template, "R", "T2"}, "plan.json": {plan, "aws_cloudwatch_event_rule.R", "aws_ecs_task_definition.t2"}} {
		for _, service := range []string{"", tt.rule} {
			_, err := read(t, file, tt.src, service)
			if err == nil || !strings.Contains(err.Error(), tt.rule+"/a, "+tt.rule+"/b") {
				t.Errorf("%s, --service %q: %v", file, service, err)
			}
		}
		for id, family := range map[string]string{"a": "job", "b": "job2"} {
			r, err := read(t, file, tt.src, tt.rule+"/"+id)
			flags, lost := summary(t, r, err)
			if textOf(t, r) != family || r.Schedules[0].Name != "R-"+id || flags != "--at 'rate(2 hours)'" {
				t.Errorf("%s: target %s is %s, %s %s", file, id, textOf(t, r), r.Schedules[0].Name, flags)
			}
			if len(lost) != 1 || !strings.Contains(lost[0], "is no task: it is not started here") {
				t.Errorf("%s: %q", file, lost)
			}
		}
		r, err := read(t, file, tt.src, tt.alone)
		if flags, _ := summary(t, r, err); flags != "none" || textOf(t, r) != "job2" {
			t.Errorf("%s: the definition alone is %s with %s", file, textOf(t, r), flags)
		}
	}
}

// planned is a plan with a schedule of each kind.
func planned(kind, resource, target, ecs string) string {
	const definition = `{"address": "aws_ecs_task_definition.t", "mode": "managed", "type": "aws_ecs_task_definition", "name": "t", "values": {"family": "job", "container_definitions": "[{\"name\":\"a\",\"image\":\"localhost/bb:1\",\"memory\":64}]"}}`
	text := `{"format_version": "1.2", "planned_values": {"root_module": {"resources": [` + definition + `, `
	if kind == "rule" {
		return fmt.Sprintf(text+`{"address": "aws_cloudwatch_event_rule.S", "mode": "managed", "type": "aws_cloudwatch_event_rule", "name": "S", "values": {"name": "S", "schedule_expression": "rate(1 hour)"%s}},
			{"address": "aws_cloudwatch_event_target.a", "mode": "managed", "type": "aws_cloudwatch_event_target", "name": "a", "values": {"rule": "S", "target_id": "a"%s, "ecs_target": [{"task_definition_arn": "job"%s}]}}]}}}`, resource, target, ecs)
	}
	return fmt.Sprintf(text+`{"address": "aws_scheduler_schedule.S", "mode": "managed", "type": "aws_scheduler_schedule", "name": "S", "values": {"name": "S", "schedule_expression": "rate(1 hour)"%s,
		"target": [{"arn": "c"%s, "ecs_parameters": [{"task_definition_arn": "job"%s}]}]}}]}}}`, resource, target, ecs)
}

func TestSchedulesOfTerraform(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ kind, resource, target, ecs, flags, lost string }{
		{"rule", `, "state": "DISABLED"`, "", "", "--at 'rate(1 hour)' --paused", ""},
		{"rule", `, "is_enabled": false`, "", "", "--at 'rate(1 hour)' --paused", ""},
		{"rule", `, "is_enabled": false, "state": "ENABLED"`, "", "", "--at 'rate(1 hour)'", ""},
		{"rule", `, "event_pattern": "{}"`, "", "", "--at 'rate(1 hour)'", "eventPattern: "},
		{"rule", "", `, "retry_policy": [{"maximum_retry_attempts": 2}]`, "", "--at 'rate(1 hour)'", "targets.retryPolicy: "},
		{"rule", "", `, "retry_policy": []`, "", "--at 'rate(1 hour)'", ""},
		{"rule", "", `, "dead_letter_config": [{"arn": "q"}]`, "", "--at 'rate(1 hour)'", "targets.deadLetterConfig: "},
		{"rule", "", `, "input_transformer": [{"input_template": "q"}]`, "", "--at 'rate(1 hour)'", "targets.inputTransformer: "},
		{"rule", "", "", `, "task_count": 2`, "--at 'rate(1 hour)'", "the schedule starts 2 tasks"},
		{"rule", "", "", `, "placement_constraint": [{"type": "x"}]`, "--at 'rate(1 hour)'", "targets.ecsParameters.placementConstraint: "},
		{"schedule", `, "end_date": "2024-12-31T00:00:00Z"`, "", "", "--at 'rate(1 hour)' --paused", "endDate 2024-12-31T00:00:00Z has passed"},
		{"schedule", `, "start_date": "2030-12-31T00:00:00Z"`, "", "", "--at 'rate(1 hour)' --paused", "startDate 2030-12-31T00:00:00Z: "},
		{"schedule", `, "flexible_time_window": [{"mode": "FLEXIBLE", "maximum_window_in_minutes": 5}]`, "", "", "--at 'rate(1 hour)'", "flexibleTimeWindow.mode: "},
		{"schedule", `, "flexible_time_window": [{"mode": "OFF"}]`, "", "", "--at 'rate(1 hour)'", ""},
		{"schedule", "", `, "retry_policy": [{"maximum_retry_attempts": 2}]`, "", "--at 'rate(1 hour)'", "target.retryPolicy: "},
		{"schedule", "", `, "dead_letter_config": [{"arn": "q"}]`, "", "--at 'rate(1 hour)'", "target.deadLetterConfig: "},
		{"schedule", `, "action_after_completion": "DELETE"`, "", "", "--at 'rate(1 hour)'", "actionAfterCompletion: "},
	} {
		r, err := read(t, "plan.json", planned(tt.kind, tt.resource, tt.target, tt.ecs), "")
		flags, lost := summary(t, r, err)
		if diff := cmp.Diff(tt.flags, flags); diff != "" {
			t.Errorf("%s%s%s: %s", tt.resource, tt.target, tt.ecs, diff)
		}
		if tt.lost == "" && len(lost) > 0 || tt.lost != "" && (len(lost) != 1 || !strings.HasPrefix(lost[0], tt.lost)) {
			t.Errorf("%s%s%s: %q", tt.resource, tt.target, tt.ecs, lost)
		}
	}
}

// A time that has passed starts nothing, here and on AWS; one in another time zone may still come.
func TestATimeThatHasPassed(t *testing.T) {
	t.Parallel()
	for expression, lost := range map[string]bool{"at(2020-01-01T00:00:00)": true, "at(2990-01-01T00:00:00)": false} {
		r, err := read(t, "plan.json", strings.Replace(planned("schedule", "", "", ""), "rate(1 hour)", expression, 1), "")
		flags, lines := summary(t, r, err)
		if strings.Contains(flags, "--paused") != lost || lost != (len(lines) == 1 && strings.Contains(lines[0], expression+" has passed")) {
			t.Errorf("%s: %s, %q", expression, flags, lines)
		}
	}
}

// Resources that a macro would make are not there, and that is said.
func TestResourcesOfAMacro(t *testing.T) {
	t.Parallel()
	r, err := read(t, "stack.json", `{"Resources": {"T": {"Type": "AWS::ECS::TaskDefinition", "Properties": {"Family": "job", "ContainerDefinitions": [{"Name": "a", "Image": "i"}]}},
		"Fn::ForEach::Jobs": ["N", ["a", "b"], {"T${N}": {"Type": "AWS::ECS::TaskDefinition", "Properties": {"Family": "f"}}}]}}`, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Lost) != 1 || !strings.HasPrefix(r.Lost[0].Message, "Fn::ForEach::Jobs: resources of a macro are not made") {
		t.Errorf("%v", r.Lost)
	}
}
