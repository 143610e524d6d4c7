package terraform

import (
	"fmt"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// planOf is a plan of resources, KIND.NAME VALUES, with more members.
func planOf(resources []string, more string) string {
	for i, res := range resources {
		address, values, _ := strings.Cut(res, " ")
		kind, name, _ := strings.Cut(address, ".")
		resources[i] = fmt.Sprintf(`{"address": %q, "mode": "managed", "type": %q, "name": %q, "values": %s}`, address, kind, name, values)
	}
	return `{"planned_values": {"root_module": {"resources": [` + strings.Join(resources, ", ") + "]}}" + more + "}"
}

// changed says that members of a resource are known after apply only.
func changed(address, unknown string) string {
	return fmt.Sprintf(`, "resource_changes": [{"address": %q, "change": {"after_unknown": %s}}]`, address, unknown)
}

// configured gives members of a resource the references of the configuration: TYPE.NAME MEMBER REFERENCE.
func configured(words ...string) string {
	var all []string
	for _, w := range words {
		parts := strings.Fields(w)
		kind, name, _ := strings.Cut(parts[0], ".")
		all = append(all, fmt.Sprintf(`{"type": %q, "name": %q, "expressions": {%q: {"references": [%q]}}}`, kind, name, parts[1], parts[2]))
	}
	return `, "configuration": {"root_module": {"resources": [` + strings.Join(all, ", ") + "]}}"
}

// built makes the definition of the first workload of a plan or state, as JSON.
func built(t *testing.T, text string) (string, toolfile.Result, *toolfile.Reader) {
	t.Helper()
	r := toolfile.NewReader(toolfile.Request{File: "plan.json"})
	docs, ok := r.Parse("plan.json", []byte(text))
	if !ok {
		t.Fatal(r.Err())
	}
	res := toolfile.Result{Name: "web"}
	def := ""
	if all := Workloads(r, docs); len(all) > 0 {
		def = string(all[0].Build(&res).JSON())
	}
	return def, res, r
}

func lost(r *toolfile.Reader) string {
	var all []string
	for _, l := range r.Losses {
		all = append(all, l.Message)
	}
	return strings.Join(all, "\n")
}

const containers = `"container_definitions": "[{\"name\":\"a\"}]"`

func TestMembersOfADefinition(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, values, want string }{
		{"the containers are JSON in a text", `{` + containers + `}`, `{"containerDefinitions":[{"name":"a"}]}`},
		{"names with underscores become those of ECS", `{` + containers + `, "task_role_arn": "r"}`, `"taskRoleArn":"r"`},
		{"a block is the only item of a list", `{` + containers + `, "runtime_platform": [{"cpu_architecture": "ARM64"}]}`, `"runtimePlatform":{"cpuArchitecture":"ARM64"}`},
		{"a block that is not there is left out", `{` + containers + `, "ephemeral_storage": []}`, `{"containerDefinitions":[{"name":"a"}]}`},
		{"null is left out", `{` + containers + `, "cpu": null, "memory": ""}`, `{"containerDefinitions":[{"name":"a"}]}`},
		{"GiB keep their capitals", `{` + containers + `, "ephemeral_storage": [{"size_in_gib": 30}]}`, `"ephemeralStorage":{"sizeInGiB":30}`},
		{"tags become pairs", `{` + containers + `, "tags": {"Team": "x"}}`, `"tags":[{"key":"Team","value":"x"}]`},
		{"properties of a proxy become pairs of names", `{` + containers + `, "proxy_configuration": [{"type": "APPMESH", "container_name": "e", "properties": {"P": "1"}}]}`, `"properties":[{"name":"P","value":"1"}]`},
		{"a path of the host is an object", `{` + containers + `, "volume": [{"name": "v", "host_path": "/d"}]}`, `"volumes":[{"name":"v","host":{"sourcePath":"/d"}}]`},
		{"an empty path of the host is none", `{` + containers + `, "volume": [{"name": "v", "host_path": ""}]}`, `"volumes":[{"name":"v"}]`},
		{"port 0 of an encrypted file system is none", `{` + containers + `, "volume": [{"name": "v", "efs_volume_configuration": [{"file_system_id": "fs-1", "transit_encryption_port": 0}]}]}`, `"efsVolumeConfiguration":{"fileSystemId":"fs-1"}`},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			def, _, r := built(t, planOf([]string{"aws_ecs_task_definition.web " + tc.values}, ""))
			if !strings.Contains(def, tc.want) || r.Err() != nil || len(r.Losses) > 0 {
				t.Errorf("no %s in %s; lost %s; %v", tc.want, def, lost(r), r.Err())
			}
		})
	}
}

const web = "aws_ecs_task_definition.web {" + containers + "}"

func TestWhatIsKnownAfterApplyOnlyIsTold(t *testing.T) {
	t.Parallel()
	rule := "aws_scheduler_schedule.s {\"schedule_expression\": \"rate(1 hour)\", \"target\": [{\"ecs_parameters\": [{}]}]}"
	for _, tc := range []struct {
		rule      string
		resources []string
		unknown   string
		want      string
	}{
		{"a role", []string{web}, changed("aws_ecs_task_definition.web", `{"task_role_arn": true}`), "aws_ecs_task_definition.web.task_role_arn is known after apply only: the task has none here"},
		{"a limit", []string{web}, changed("aws_ecs_task_definition.web", `{"memory": true, "network_mode": true, "arn": true}`), "aws_ecs_task_definition.web.memory is known after apply only: the task has none here"},
		{"the number of copies", []string{web, "aws_ecs_service.web {}"}, changed("aws_ecs_service.web", `{"desired_count": true, "id": true}`), "aws_ecs_service.web.desired_count is known after apply only: the service has its default here"},
		{"the end of a schedule", []string{web, rule}, changed("aws_scheduler_schedule.s", `{"end_date": true, "arn": true}`), "aws_scheduler_schedule.s.end_date is known after apply only: the schedule has none here"},
		{"an ID of a file system", []string{"aws_ecs_task_definition.web {" + containers + `, "volume": [{"name": "v", "efs_volume_configuration": [{}]}]}`}, "", "the ID of the EFS file system is known after apply only; unknown stands for it"},
		{"no number of copies", []string{web, `aws_ecs_service.web {"desired_count": null}`}, "", "aws_ecs_service.web.desired_count is not set, so ECS starts no copy until somebody asks for one: one runs here"},
		{"no number of copies of a daemon", []string{web, `aws_ecs_service.web {"desired_count": null, "scheduling_strategy": "DAEMON"}`}, "", "schedulingStrategy DAEMON: one copy runs on this host, and on no other"},
		{"what is known", []string{web, `aws_ecs_service.web {"desired_count": 1}`}, changed("aws_ecs_service.web", `{"desired_count": false, "load_balancer": [{"target_group_arn": true}]}`), ""},
	} {
		if _, _, r := built(t, planOf(tc.resources, tc.unknown)); lost(r) != tc.want || r.Err() != nil {
			t.Errorf("%s: lost %q; %v", tc.rule, lost(r), r.Err())
		}
	}
	for _, tc := range []struct {
		rule      string
		resources []string
		unknown   string
		want      string
	}{
		{"containers that are not known", []string{"aws_ecs_task_definition.web {}"}, changed("aws_ecs_task_definition.web", `{"container_definitions": true}`), "aws_ecs_task_definition.web.container_definitions is known after apply only; import the state after apply"},
		{"no containers", []string{"aws_ecs_task_definition.web {}"}, "", "aws_ecs_task_definition.web has no container_definitions"},
		{"containers that are no list", []string{`aws_ecs_task_definition.web {"container_definitions": "{}"}`}, "", "aws_ecs_task_definition.web.container_definitions is not a list in JSON"},
		{"a time that is not known", []string{web, rule}, changed("aws_scheduler_schedule.s", `{"schedule_expression": true}`), "aws_scheduler_schedule.s.schedule_expression is known after apply only"},
		{"a definition that nothing tells", []string{web, "aws_ecs_task_definition.b {}", "aws_ecs_service.web {}"}, "", "aws_ecs_service.web.task_definition: the file does not say which task definition this is"},
		{"a definition that is elsewhere", []string{web, `aws_ecs_service.web {"task_definition": "other:3"}`}, "", "aws_ecs_service.web.task_definition: the file does not say which task definition this is"},
	} {
		if _, _, r := built(t, planOf(tc.resources, tc.unknown)); r.Err() == nil || !strings.Contains(r.Err().Error(), tc.want) {
			t.Errorf("%s is refused: %v", tc.rule, r.Err())
		}
	}
}

func TestTheDefinitionOfAService(t *testing.T) {
	t.Parallel()
	def := func(name, family string) string {
		return fmt.Sprintf(`aws_ecs_task_definition.%s {"family": %q, %s}`, name, family, containers)
	}
	for _, tc := range []struct {
		rule, service, more, want string
	}{
		{"a family names it", `aws_ecs_service.s {"task_definition": "b"}`, "", "b"},
		{"a revision of a family names it", `aws_ecs_service.s {"task_definition": "b:7"}`, "", "b"},
		{"an ARN names it by its end", `aws_ecs_service.s {"task_definition": "arn:aws:ecs:x:1:task-definition/b:7"}`, "", "b"},
		{"a family that begins like another is another", `aws_ecs_service.s {"task_definition": "ba"}`, "", "ba"},
		{"a reference of the configuration leads to it", `aws_ecs_service.s {}`, configured("aws_ecs_service.s task_definition aws_ecs_task_definition.b.arn"), "b"},
		{"a value comes before a reference", `aws_ecs_service.s {"task_definition": "a:1"}`, configured("aws_ecs_service.s task_definition aws_ecs_task_definition.b.arn"), "a"},
	} {
		got, _, r := built(t, planOf([]string{tc.service, def("a", "a"), def("b", "b"), def("ba", "ba")}, tc.more))
		if !strings.Contains(got, `"family":"`+tc.want+`"`) || r.Err() != nil {
			t.Errorf("%s: %s; %v", tc.rule, got, r.Err())
		}
	}
}

// Instances of count and for_each belong together by their keys, and modules by their variables and outputs.
func TestReferencesLeadThroughModulesAndInstances(t *testing.T) {
	t.Parallel()
	task := func(module, index string) *resource {
		return &resource{module: module, kind: "aws_ecs_task_definition", name: "t", index: index, address: module + index}
	}
	const call = `{"configuration": {"root_module": {"module_calls": {
		"tasks": {"expressions": {"loop": {"references": ["module.tasks.loop"]}}, "module": {"outputs": {"loop": {"expression": {"references": ["var.loop"]}}, "arn": {"expression": {"references": ["aws_ecs_task_definition.t[0].arn"]}}}}},
		"service": {"expressions": {"task": {"references": ["module.tasks.arn"]}}}}}}}`
	docs, err := doctree.JSON([]byte(call), toolfile.Limits([]byte(call)))
	if err != nil {
		t.Fatal(err)
	}
	p := &plan{root: docs[0], resources: []*resource{task("", `["a"]`), task("", `["b"]`), task("module.tasks", "[0]"), task(`module.many["x"]`, ""), task(`module.many["y"]`, "")}}
	for _, tc := range []struct{ rule, module, ref, index, want string }{
		{"an index chooses an instance", "", `aws_ecs_task_definition.t["b"].arn`, "", `["b"]`},
		{"each.key is the key of the resource that refers", "", "aws_ecs_task_definition.t[each.key].arn", `["a"]`, `["a"]`},
		{"without an index it is that of the resource, too", "", "aws_ecs_task_definition.t", `["b"]`, `["b"]`},
		{"without any there are several", "", "aws_ecs_task_definition.t", "", `["a"] ["b"]`},
		{"an output leads into a module", "", "module.tasks.arn", "", "module.tasks[0]"},
		{"a variable leads out of a module", "module.service", "var.task", "", "module.tasks[0]"},
		{"a circle ends", "", "module.tasks.loop", "", ""},
		{"a name that is longer is another one", "", "aws_ecs_task_definition.tt.arn", "", ""},
	} {
		var got []string
		for _, d := range p.referenced(tc.module, []string{tc.ref}, &resource{index: tc.index}, 0) {
			got = append(got, d.address)
		}
		if text := strings.Join(got, " "); text != tc.want {
			t.Errorf("%s: %s", tc.rule, text)
		}
	}
}

func TestModuleAddresses(t *testing.T) {
	t.Parallel()
	for ref, want := range map[string]string{
		"module.a.out": "a||out", `module.a["x.y"].out.arn`: `a|["x.y"]|out`, "module.a[0].out[1]": "a|[0]|out", "module.a": "", "module.a[0": "", "module.a[0]": "",
	} {
		name, index, output, ok := moduleOutput(ref)
		if got := name + "|" + index + "|" + output; ok != (want != "") || ok && got != want {
			t.Errorf("%s: %s, %v", ref, got, ok)
		}
	}
	for address, want := range map[string]string{`module.a["x"].module.b[0]`: `module.a["x"]|b`, "module.a": "|a", "": "|"} {
		if parent, call := splitModule(address); parent+"|"+call != want {
			t.Errorf("%s: %s|%s", address, parent, call)
		}
	}
}

func TestMembersOfAService(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, values, want string }{
		{"its percents are members of their own", `{"desired_count": 2, "deployment_minimum_healthy_percent": 50, "deployment_maximum_percent": 150}`, "--count 2 --min-healthy 50 --max 150"},
		{"a block of the deployment is an item of a list", `{"desired_count": 1, "deployment_circuit_breaker": [{"enable": true, "rollback": false}]}`, "--count 1 --no-rollback"},
		{"names in a block are those of ECS", `{"desired_count": 1, "deployment_circuit_breaker": [{"enable": true, "rollback": true, "reset_on_healthy_task": false}]}`, "--count 1 --breaker-cumulative"},
		{"a strategy has blocks of its own", `{"desired_count": 1, "deployment_configuration": [{"strategy": "LINEAR", "bake_time_in_minutes": 5, "linear_configuration": [{"step_percent": 20}]}]}`, "--count 1 --strategy linear --bake 5m --step-percent 20"},
		{"null is no value", `{"desired_count": 1, "deployment_maximum_percent": null}`, "--count 1"},
	} {
		_, res, r := built(t, planOf([]string{web, "aws_ecs_service.s " + tc.values}, ""))
		if got := strings.Join(res.Service.Flags, " "); got != tc.want || r.Err() != nil || len(r.Losses) > 0 {
			t.Errorf("%s: %s; lost %s; %v", tc.rule, got, lost(r), r.Err())
		}
	}
}

func TestTargetsOfARule(t *testing.T) {
	t.Parallel()
	const target = `aws_cloudwatch_event_target.t {%s"ecs_target": [{}]}`
	for _, tc := range []struct {
		rule, target, name, more string
		found                    bool
	}{
		{"a name joins them", `"rule": "r", `, "r", "", true},
		{"another name does not", `"rule": "other", `, "r", "", false},
		{"a reference joins them where the name is not known", "", "r", configured("aws_cloudwatch_event_target.t rule aws_cloudwatch_event_rule.R.name"), true},
		{"a reference to another rule does not", "", "r", configured("aws_cloudwatch_event_target.t rule aws_cloudwatch_event_rule.R2.name"), false},
	} {
		_, res, r := built(t, planOf([]string{web, fmt.Sprintf(`aws_cloudwatch_event_rule.R {"name": %q, "schedule_expression": "rate(1 hour)"}`, tc.name), fmt.Sprintf(target, tc.target)}, tc.more))
		if (len(res.Schedules) == 1) != tc.found || !tc.found && !strings.Contains(lost(r), "aws_cloudwatch_event_rule (1)") {
			t.Errorf("%s: %v; lost %s", tc.rule, res.Schedules, lost(r))
		}
	}
}

func TestAStateOfABackend(t *testing.T) {
	t.Parallel()
	const state = `{"resources": [
		{"mode": "data", "type": "aws_ecs_task_definition", "name": "d", "instances": [{"attributes": {}}]},
		{"mode": "managed", "module": "module.shop", "type": "aws_ecs_task_definition", "name": "t", "instances": [{"index_key": "a", "attributes": {}}, {"index_key": 0, "attributes": {}}]}]}`
	r := toolfile.NewReader(toolfile.Request{File: "terraform.tfstate"})
	docs, ok := r.Parse("terraform.tfstate", []byte(state))
	if !ok {
		t.Fatal(r.Err())
	}
	var got []string
	for _, w := range Workloads(r, docs) {
		got = append(got, w.Names[0])
	}
	if text := strings.Join(got, " "); text != `module.shop.aws_ecs_task_definition.t["a"] module.shop.aws_ecs_task_definition.t[0]` {
		t.Errorf("each instance of what is managed is a resource: %s", text)
	}
}
