package foreign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/define/foreign/terraform"
	"github.com/podtask/podtask/internal/define/foreign/toolfile"
)

// schemaMember is a member of a public schema: its resource, its path in the schema's spelling, and the kind of its value.
type schemaMember struct{ resource, path, kind string }

func schemaOf(t *testing.T, file string) (all []schemaMember) {
	t.Helper()
	text, err := os.ReadFile("testdata/members/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		name, kind, ok := strings.Cut(line, " ")
		if resource, path, dotted := strings.Cut(name, "."); ok && dotted && line[0] != '#' {
			all = append(all, schemaMember{resource, path, kind})
		}
	}
	if len(all) < 10 {
		t.Fatalf("%s has %d members", file, len(all))
	}
	return all
}

// spelled spells a path as the tables do.
func spelled(path string, key func(string) string) string {
	parts := strings.Split(path, ".")
	for i := range parts {
		parts[i] = key(parts[i])
	}
	return strings.Join(parts, ".")
}

func TestEveryMemberOfCloudFormationHasADecision(t *testing.T) {
	t.Parallel()
	counts := map[toolfile.Decision]int{}
	for _, m := range schemaOf(t, "cloudformation.txt") {
		if whole, ok := wholeResources[m.resource]; ok {
			counts[whole.Decision]++
			continue
		}
		decided := false
		for _, r := range resourceTables {
			if slices.Contains(r.kinds, m.resource) {
				row := r.table.Find(spelled(m.path, toolfile.LowerKey))
				if decided = row != nil; decided {
					counts[row.Decision]++
				}
			}
		}
		if !decided {
			t.Errorf("%s.%s has no row", m.resource, m.path)
		}
	}
	t.Log(counts)
}

// spelledByECS is the path of a member of Terraform in the tables; empty for one of a resource that has a mapping of its
// own.
func spelledByECS(m schemaMember) string {
	switch m.resource {
	case "aws_ecs_service":
		first, rest, nested := strings.Cut(m.path, ".")
		key, renamed := terraform.ServiceSpelling[first]
		switch {
		case first == "deployment_minimum_healthy_percent":
			return "deploymentConfiguration.minimumHealthyPercent"
		case first == "deployment_maximum_percent":
			return "deploymentConfiguration.maximumPercent"
		case first == "deployment_configuration":
			key = "deploymentConfiguration"
		case renamed && key == "":
			key = "deploymentConfiguration." + terraform.Camel(first)
		case !renamed:
			key = terraform.Camel(first)
		}
		if nested {
			key += "." + spelled(rest, terraform.Camel)
		}
		return strings.Replace(key, "lifecycleHook", "lifecycleHooks", 1)
	case "aws_cloudwatch_event_target":
		return "targets." + spelled(strings.Replace(m.path, "ecs_target", "ecs_parameters", 1), func(k string) string {
			if k == "enable_ecs_managed_tags" {
				return "enableECSManagedTags"
			}
			return terraform.Camel(k)
		})
	}
	return spelled(m.path, func(k string) string {
		if k == "enable_ecs_managed_tags" {
			return "enableECSManagedTags"
		}
		return terraform.Camel(k)
	})
}

func TestEveryMemberOfTerraformHasADecision(t *testing.T) {
	t.Parallel()
	counts := map[toolfile.Decision]int{}
	for _, m := range schemaOf(t, "terraform.txt") {
		if whole, ok := wholeResources[m.resource]; ok {
			counts[whole.Decision]++
			continue
		}
		decided := false
		for _, r := range resourceTables {
			if slices.Contains(r.kinds, strings.Replace(m.resource, "event_target", "event_rule", 1)) {
				row := r.table.Find(spelledByECS(m))
				if decided = row != nil; decided {
					counts[row.Decision]++
				}
			}
		}
		if !decided {
			t.Errorf("%s.%s has no row (%s)", m.resource, m.path, spelledByECS(m))
		}
	}
	t.Log(counts)
}

// The members of AWS::ECS::TaskDefinition are those of ECS once they are spelled so: the page of its members, which a test
// holds against ECS, has a row for each.
func TestMembersOfATaskDefinitionAreThoseOfECS(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/task-definition-members.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "`"); ok {
			rows[strings.ReplaceAll(name, "[]", "")] = true
		}
	}
	for _, m := range schemaOf(t, "cloudformation.txt") {
		path := spelled(m.path, toolfile.LowerKey)
		has := func(p string) bool { return rows[p] || rows[strings.TrimPrefix(p, "containerDefinitions.")] }
		found := has(path)
		for parent := path; !found && strings.Contains(parent, "."); { // what is refused or lost as a whole has one row
			parent = parent[:strings.LastIndexByte(parent, '.')]
			found = parent != "containerDefinitions" && has(parent)
		}
		if m.resource == "AWS::ECS::TaskDefinition" && !found {
			t.Errorf("%s: ECS has no member %s", m.path, path)
		}
	}
}

// example is a value of a kind that is not the default.
func example(m schemaMember) any {
	special := map[string]any{
		"SchedulingStrategy": "DAEMON", "DeploymentController.Type": "EXTERNAL", "DeploymentController": map[string]any{"Type": "EXTERNAL"},
		"DeploymentConfiguration.Alarms":   map[string]any{"Enable": true},
		"DeploymentConfiguration.Strategy": "BLUE_GREEN", "State": "DISABLED", "StartDate": "2030-01-01T00:00:00Z", "EndDate": "2020-01-01T00:00:00Z",
		"FlexibleTimeWindow.Mode": "FLEXIBLE", "ScheduleExpression": "rate(2 hours)", "EventPattern": map[string]any{"source": []any{"x"}}, "ServiceName": "other", "Name": "other",
		"DeploymentConfiguration.DeploymentCircuitBreaker.ThresholdConfiguration.Type": "COUNT",
		"DeploymentConfiguration.EarlySuccessCriteria.SourceServiceRevisionCleanup":    "DEFERRED",
	}
	if v, ok := special[m.path]; ok {
		return v
	}
	switch m.kind {
	case "n":
		return 7
	case "t":
		return true
	case "l":
		return []any{"x"}
	case "m", "j", "b":
		return map[string]any{"x": "x"}
	}
	return "x"
}

// companions are members that a member needs beside it.
var companions = map[string]map[string]any{
	"DeploymentConfiguration.DeploymentCircuitBreaker":                        {"Enable": true, "Rollback": true, "ResetOnHealthyTask": true},
	"DeploymentConfiguration.DeploymentCircuitBreaker.ThresholdConfiguration": {"Type": "BOUNDED_PERCENT", "Value": 50},
	"DeploymentConfiguration.EarlySuccessCriteria":                            {"Enable": true, "HealthyPercent": 50, "SourceServiceRevisionCleanup": "BLOCKING"},
	"DeploymentConfiguration.Alarms":                                          {"Enable": true},
	"DeploymentConfiguration":                                                 {"Strategy": "CANARY"},
	"LoadBalancers":                                                           {"ContainerName": "a", "ContainerPort": 80},
}

// without what companions says: the members that change it are set to another value.
var changed = map[string]any{
	"DeploymentConfiguration.DeploymentCircuitBreaker.Enable": false, "DeploymentConfiguration.DeploymentCircuitBreaker.Rollback": false,
	"DeploymentConfiguration.DeploymentCircuitBreaker.ResetOnHealthyTask": false, "DeploymentConfiguration.EarlySuccessCriteria.Enable": false,
	"DeploymentConfiguration.Alarms.Enable": false, "LoadBalancers.ContainerName": "b", "LoadBalancers.ContainerPort": 7000,
}

// outcome is all that the user sees of a template with a resource of one kind.
func outcome(t *testing.T, kind string, properties map[string]any) string {
	t.Helper()
	template := map[string]any{"Resources": map[string]any{
		"T": map[string]any{"Type": "AWS::ECS::TaskDefinition", "Properties": map[string]any{"Family": "f", "ContainerDefinitions": []any{map[string]any{"Name": "a", "Image": "localhost/bb:1"}}}},
		"R": map[string]any{"Type": kind, "Properties": properties},
	}}
	src, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Read(toolfile.Request{File: "t.json", Source: src, Service: "R", Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
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

// put sets a value below a path, with the companions of its parents.
func put(properties map[string]any, path string, value any) {
	parts, at := strings.Split(path, "."), properties
	for i, part := range parts[:len(parts)-1] {
		next, _ := at[part].(map[string]any)
		if list, ok := at[part].([]any); ok {
			next = list[0].(map[string]any)
		}
		if next == nil {
			next = map[string]any{}
			for k, v := range companions[strings.Join(parts[:i+1], ".")] {
				next[k] = v
			}
			if at[part] = any(next); part == "LoadBalancers" {
				at[part] = []any{next}
			}
		}
		at = next
	}
	if value == nil {
		delete(at, parts[len(parts)-1])
		return
	}
	at[parts[len(parts)-1]] = value
}

// Each member of a service, rule or schedule is set alone to a value that is not its default: it changes what comes out,
// is listed or is refused.
func TestNoMemberOfCloudFormationIsIgnoredInSilence(t *testing.T) {
	t.Parallel()
	all := schemaOf(t, "cloudformation.txt")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	ref := func() any { return map[string]any{"Ref": "T"} }
	base := map[string]func() map[string]any{
		"AWS::ECS::Service": func() map[string]any { return map[string]any{"TaskDefinition": ref()} },
		"AWS::Events::Rule": func() map[string]any {
			return map[string]any{"ScheduleExpression": "rate(1 hour)", "Targets": []any{map[string]any{"Id": "t", "Arn": "c", "EcsParameters": map[string]any{"TaskDefinitionArn": ref()}}}}
		},
		"AWS::Scheduler::Schedule": func() map[string]any {
			return map[string]any{"ScheduleExpression": "rate(1 hour)", "FlexibleTimeWindow": map[string]any{"Mode": "OFF"}, "Target": map[string]any{"Arn": "c", "EcsParameters": map[string]any{"TaskDefinitionArn": ref()}}}
		},
	}
	tried := 0
	for _, m := range all {
		make, ok := base[m.resource]
		if !ok {
			continue
		}
		row := toolfile.Member{}
		for _, r := range resourceTables {
			if slices.Contains(r.kinds, m.resource) {
				row = *r.table.Find(spelled(m.path, toolfile.LowerKey))
			}
		}
		last := m.path[strings.LastIndexByte(m.path, '.')+1:]
		if row.Decision == toolfile.NoMeaning || row.Decision == toolfile.Honored && m.kind == "b" || slices.Contains([]string{"TaskDefinition", "TaskDefinitionArn", "Id"}, last) {
			continue
		}
		tried++
		with, without := make(), make()
		value := example(m)
		if v, ok := changed[m.path]; ok {
			value = v
		}
		for parent := m.path; strings.Contains(parent, "."); {
			parent = parent[:strings.LastIndexByte(parent, '.')]
			if parent == "DeploymentConfiguration.LinearConfiguration" {
				put(with, "DeploymentConfiguration.Strategy", "LINEAR")
			}
		}
		put(with, m.path, value)
		if parent := strings.LastIndexByte(m.path, '.'); parent > 0 {
			put(without, m.path, nil)
			if c := companions[m.path[:parent]]; c != nil && c[last] != nil {
				put(without, m.path, c[last])
			}
		}
		if row.Decision == toolfile.Dropped && row.Path != spelled(m.path, toolfile.LowerKey) {
			without = make() // what is lost is the member above it
		}
		if got := outcome(t, m.resource, with); got == outcome(t, m.resource, without) {
			t.Errorf("%s.%s is %s, and nothing is said or done about it:\n%s", m.resource, m.path, row.Decision, got)
		} else if strings.HasPrefix(got, "refused: ") && row.Decision != toolfile.Refused && !strings.HasSuffix(m.path, "ContainerName") && m.path != "ScheduleExpression" {
			t.Errorf("%s.%s is %s, but refused: %s", m.resource, m.path, row.Decision, got)
		}
	}
	if tried < 50 {
		t.Errorf("%d members were tried", tried)
	}
	t.Logf("%d members", tried)
}

func TestEveryRowHasAReason(t *testing.T) {
	t.Parallel()
	for _, f := range Formats() {
		seen := map[string]bool{}
		for _, r := range f.Rows {
			if r.Note == "" && r.Treatment != 0 || seen[r.Member] {
				t.Errorf("%s: %s has no reason, or is there twice", f.Name, r.Member)
			}
			seen[r.Member] = true
		}
		t.Log(f.Name, f.Counts())
	}
}

// Each member of a task definition of Terraform that is set changes what comes out, or is one of Terraform's own.
func TestEveryMemberOfATaskDefinitionOfTerraformIsRead(t *testing.T) {
	t.Parallel()
	const kind = "aws_ecs_task_definition"
	own := []string{"id", "region", "skip_destroy", "tags_all", "track_latest", "arn", "revision", "container_definitions"}
	without := terraformOutcome(t, kind, func(map[string]any) {})
	for _, m := range schemaOf(t, "terraform.txt") {
		if m.resource != kind || strings.Contains(m.path, ".") || slices.Contains(own, m.path) {
			continue
		}
		value := map[string]any{"s": "x", "n": 7, "t": true, "l": []any{"x"}, "m": map[string]any{"x": "y"}, "b": []any{map[string]any{"name": "x", "size_in_gib": 21, "type": "x"}}}[m.kind]
		if got := terraformOutcome(t, kind, func(v map[string]any) { v[m.path] = value }); got == without {
			t.Errorf("%s: nothing is said or done about it:\n%s", m.path, got)
		}
	}
}
