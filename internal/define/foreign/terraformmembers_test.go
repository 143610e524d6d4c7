package foreign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/define/foreign/toolfile"
)

// terraformExamples are values that are legal where that of the type is not, by resource and path.
var terraformExamples = map[string]any{
	"aws_ecs_service.scheduling_strategy": "DAEMON", "aws_ecs_service.deployment_controller.type": "EXTERNAL", "aws_ecs_service.deployment_configuration.strategy": "BLUE_GREEN",
	"aws_ecs_service.deployment_configuration.bake_time_in_minutes": "7", "aws_ecs_service.availability_zone_rebalancing": "ENABLED", "aws_ecs_service.name": "other",
	"aws_ecs_service.load_balancer.container_name": "b", "aws_ecs_service.load_balancer.container_port": 7000,
	"aws_ecs_service.deployment_circuit_breaker.enable": false, "aws_ecs_service.deployment_circuit_breaker.rollback": false, "aws_ecs_service.alarms.enable": true, "aws_ecs_service.alarms": []any{map[string]any{"enable": true, "alarm_names": []any{"a"}}},
	"aws_ecs_service.deployment_controller":                                                   []any{map[string]any{"type": "EXTERNAL"}},
	"aws_ecs_service.deployment_configuration.linear_configuration.step_bake_time_in_minutes": "7", "aws_ecs_service.deployment_configuration.canary_configuration.canary_bake_time_in_minutes": "7",
	"aws_cloudwatch_event_rule.state": "DISABLED", "aws_cloudwatch_event_rule.is_enabled": false, "aws_cloudwatch_event_rule.schedule_expression": "rate(2 hours)",
	"aws_cloudwatch_event_rule.event_pattern": `{"source":["x"]}`, "aws_cloudwatch_event_rule.name": "other", "aws_cloudwatch_event_target.input": `{"containerOverrides":[]}`,
	"aws_scheduler_schedule.state": "DISABLED", "aws_scheduler_schedule.schedule_expression": "rate(2 hours)", "aws_scheduler_schedule.schedule_expression_timezone": "Europe/Berlin",
	"aws_scheduler_schedule.start_date": "2030-01-01T00:00:00Z", "aws_scheduler_schedule.end_date": "2020-01-01T00:00:00Z", "aws_scheduler_schedule.flexible_time_window.mode": "FLEXIBLE",
	"aws_scheduler_schedule.name": "other", "aws_scheduler_schedule.target.input": `{"containerOverrides":[]}`,
}

// terraformBeside are members that a block needs beside the one that is set.
var terraformBeside = map[string]map[string]any{
	"aws_ecs_service.deployment_circuit_breaker": {"enable": true, "rollback": true}, "aws_ecs_service.alarms": {"enable": true, "alarm_names": []any{"a"}},
	"aws_ecs_service.load_balancer":                                     {"container_name": "a", "container_port": 80},
	"aws_ecs_service.deployment_configuration.linear_configuration":     {"step_percent": 10},
	"aws_ecs_service.deployment_configuration.canary_configuration":     {"canary_percent": 10},
	"aws_scheduler_schedule.target.ecs_parameters.placement_strategy":   {"type": "spread"},
	"aws_ecs_service.deployment_configuration.lifecycle_hook":           {"hook_target_arn": "arn:x", "lifecycle_stages": []any{"PRE_SCALE_UP"}},
	"aws_cloudwatch_event_target.ecs_target.placement_constraint":       {"type": "distinctInstance"},
	"aws_cloudwatch_event_target.ecs_target.ordered_placement_strategy": {"type": "spread"},
}

// terraformPlan returns a plan with the resources of one kind, to which edit is applied, and a task definition.
func terraformPlan(kind string, edit func(map[string]any)) map[string]any {
	values := map[string]map[string]any{
		"aws_ecs_task_definition":     {"family": "f", "container_definitions": `[{"name":"a","image":"localhost/bb:1"}]`},
		"aws_ecs_service":             {"name": "s", "task_definition": "f", "desired_count": 1},
		"aws_cloudwatch_event_rule":   {"name": "s", "schedule_expression": "rate(1 hour)"},
		"aws_cloudwatch_event_target": {"rule": "s", "arn": "c", "target_id": "t", "ecs_target": []any{map[string]any{"task_definition_arn": "f"}}},
		"aws_scheduler_schedule": {"name": "s", "schedule_expression": "rate(1 hour)", "flexible_time_window": []any{map[string]any{"mode": "OFF"}},
			"target": []any{map[string]any{"arn": "c", "ecs_parameters": []any{map[string]any{"task_definition_arn": "f"}}}}},
	}
	resource := func(kind string, values map[string]any) any {
		return map[string]any{"address": kind + ".x", "mode": "managed", "type": kind, "name": "x", "values": values}
	}
	all := []any{resource("aws_ecs_task_definition", values["aws_ecs_task_definition"])}
	switch {
	case kind == "aws_ecs_task_definition":
	case strings.HasPrefix(kind, "aws_cloudwatch_event"):
		all = append(all, resource("aws_cloudwatch_event_rule", values["aws_cloudwatch_event_rule"]), resource("aws_cloudwatch_event_target", values["aws_cloudwatch_event_target"]))
	default:
		all = append(all, resource(kind, values[kind]))
	}
	edit(values[kind])
	return map[string]any{"format_version": "1.2", "planned_values": map[string]any{"root_module": map[string]any{"resources": all}}}
}

func terraformOutcome(t *testing.T, kind string, edit func(map[string]any)) string {
	t.Helper()
	src, err := json.Marshal(terraformPlan(kind, edit))
	if err != nil {
		t.Fatal(err)
	}
	address := strings.Replace(kind, "event_target", "event_rule", 1) + ".x"
	r, err := Read(toolfile.Request{File: "p.json", Source: src, Service: address, Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		return "refused: " + err.Error()
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s %v\n", r.Name, r.Definition.JSON(), r.Schedules)
	if r.Service != nil {
		fmt.Fprintln(&b, r.Service.Flags)
	}
	for _, l := range r.Lost {
		fmt.Fprintln(&b, l.Message)
	}
	return b.String()
}

// setBlock sets a value below a path of blocks, which are lists of one object; nil makes the blocks only.
func setBlock(kind string, values map[string]any, path string, value any) {
	parts, at := strings.Split(path, "."), values
	for i, part := range parts[:len(parts)-1] {
		list, _ := at[part].([]any)
		if list == nil {
			block := map[string]any{}
			for k, v := range terraformBeside[kind+"."+strings.Join(parts[:i+1], ".")] {
				block[k] = v
			}
			list = []any{block}
			at[part] = list
		}
		at = list[0].(map[string]any)
	}
	if value != nil {
		at[parts[len(parts)-1]] = value
	}
}

// Each member of a service, rule, target or schedule is set alone to a value that is not its default: it changes what comes out,
// is listed or is refused.
func TestNoMemberOfTerraformIsIgnoredInSilence(t *testing.T) {
	t.Parallel()
	all := schemaOf(t, "terraform.txt")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	kinds := []string{"aws_ecs_service", "aws_cloudwatch_event_rule", "aws_cloudwatch_event_target", "aws_scheduler_schedule"}
	tried := 0
	for _, m := range all {
		if !slices.Contains(kinds, m.resource) || slices.Contains([]string{"task_definition", "rule", "target_id", "ecs_target.task_definition_arn", "target.ecs_parameters.task_definition_arn"}, m.path) {
			continue
		}
		var row *toolfile.Member
		for _, r := range resourceTables {
			if slices.Contains(r.kinds, strings.Replace(m.resource, "event_target", "event_rule", 1)) {
				row = r.table.Find(spelledByECS(m))
			}
		}
		name := m.resource + "." + m.path
		if row == nil || row.Decision == toolfile.NoMeaning || m.kind == "b" && row.Decision == toolfile.Honored {
			continue
		}
		value, special := terraformExamples[name]
		if !special {
			value = map[string]any{"s": "x", "n": 7, "t": true, "l": []any{"x"}, "m": map[string]any{"x": "y"}, "b": []any{map[string]any{"x": "y"}}}[m.kind]
		}
		tried++
		if m.resource == "aws_cloudwatch_event_rule" && m.path == "name" || m.path == "id" {
			continue // the target names the rule by it; the provider makes it
		}
		strategy := func(v map[string]any) { // these are read for a strategy, or where no name is given
			if m.path == "name_prefix" {
				delete(v, "name")
			}
			if m.path == "deployment_configuration.bake_time_in_minutes" {
				setBlock(m.resource, v, "deployment_configuration.strategy", "BLUE_GREEN")
			}
			for word, part := range map[string]string{"LINEAR": "linear_configuration", "CANARY": "canary_configuration"} {
				if strings.Contains(m.path, part) {
					setBlock(m.resource, v, "deployment_configuration.strategy", word)
				}
			}
		}
		got := terraformOutcome(t, m.resource, func(v map[string]any) { strategy(v); setBlock(m.resource, v, m.path, value) })
		without := terraformOutcome(t, m.resource, func(v map[string]any) {
			strategy(v)
			if row.Decision != toolfile.Dropped || row.Path == spelledByECS(m) {
				setBlock(m.resource, v, m.path, nil)
			}
		})
		if got == without {
			t.Errorf("%s is %s, and nothing is said or done about it:\n%s", name, row.Decision, got)
		} else if strings.HasPrefix(got, "refused: ") && row.Decision != toolfile.Refused && !strings.HasSuffix(name, "container_name") {
			t.Errorf("%s is %s, but refused: %s", name, row.Decision, got)
		}
	}
	if tried < 50 {
		t.Errorf("%d members were tried", tried)
	}
	t.Logf("%d members", tried)
}
