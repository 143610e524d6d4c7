package terraform

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// resource is a resource of Terraform.
type resource struct {
	address string // module.shop["a"].aws_ecs_service.web[0]
	module  string // module.shop["a"]; empty for the root module
	kind    string // aws_ecs_service
	name    string // web
	index   string // of count or for_each, as written in the address; empty for none
	values  *doctree.Node
	config  *doctree.Node // of the configuration; nil if it is unknown
	unknown *doctree.Node // what is known after apply only; nil if it is unknown
}

// plan is a plan or a state of Terraform, as `terraform show -json` prints it.
type plan struct {
	*toolfile.Reader
	root      *doctree.Node
	resources []*resource
	scaled    *resource   // the target that scales the service; nil for none
	alarms    []*resource // those that execute its policies
}

// Workloads finds the services, schedules and task definitions of a plan or state.
func Workloads(r *toolfile.Reader, docs []*doctree.Node) []*toolfile.Workload {
	p := &plan{Reader: r, root: docs[0]}
	values := docs[0].Member("planned_values")
	if values == nil {
		values = docs[0].Member("values")
	}
	if values != nil {
		p.module(values.Member("root_module"), "", docs[0].Member("configuration").Member("root_module"))
	} else {
		p.stateFile()
	}
	p.changes()
	var all []*toolfile.Workload
	used := map[*resource]bool{}
	for _, s := range p.of("aws_ecs_service") {
		def := p.definitionOf(s, s.values.Member("task_definition"), s.config.Member("expressions").Member("task_definition"))
		if def != nil {
			used[def] = true
		}
		all = append(all, &toolfile.Workload{Names: []string{s.address, toolfile.TextOf(s.values.Member("name")), s.name}, Name: toolfile.TextOf(s.values.Member("name")), Build: func(res *toolfile.Result) *doctree.Node { return p.buildService(res, s, def) }})
	}
	for _, tasks := range p.triggers() {
		var named []*toolfile.Workload
		for i, s := range tasks {
			used[s.def] = true
			w := &toolfile.Workload{Names: []string{s.rule.address, s.rule.name}, Name: cmp.Or(toolfile.TextOf(s.rule.values.Member("name")), s.rule.name), Build: func(res *toolfile.Result) *doctree.Node { return p.buildSchedule(res, s) }}
			if w.Name != s.rule.name {
				w.Names = append(w.Names, w.Name)
			}
			if s.target != nil {
				w.Target = cmp.Or(toolfile.TextOf(s.target.values.Member("target_id")), s.target.name, strconv.Itoa(i+1))
			}
			named = append(named, w)
		}
		for i, w := range toolfile.NameTargets(named) {
			if len(named) > 1 {
				w.Names = append(w.Names, tasks[i].target.address)
			}
			all = append(all, w)
		}
	}
	for _, d := range p.of("aws_ecs_task_definition") {
		all = append(all, &toolfile.Workload{Bare: true, Used: used[d], Names: []string{d.address, toolfile.TextOf(d.values.Member("family")), d.name}, Name: toolfile.TextOf(d.values.Member("family")), Build: func(res *toolfile.Result) *doctree.Node {
			p.others()
			return p.definition(d)
		}})
	}
	return all
}

// stateFile adds the resources of a state as Terraform stores it.
func (p *plan) stateFile() {
	for _, n := range toolfile.Items(p.root.Member("resources")) {
		if toolfile.TextOf(n.Member("mode")) != "managed" {
			continue
		}
		for _, instance := range toolfile.Items(n.Member("instances")) {
			res := &resource{module: toolfile.TextOf(n.Member("module")), kind: toolfile.TextOf(n.Member("type")), name: toolfile.TextOf(n.Member("name")), values: toolfile.OrAt(instance.Member("attributes"), toolfile.EmptyAt(instance))}
			if key := instance.Member("index_key"); key != nil {
				res.index = "[" + string(key.JSON()) + "]"
			}
			res.address = strings.TrimPrefix(res.module+"."+res.kind+"."+res.name+res.index, ".")
			p.resources = append(p.resources, res)
		}
	}
}

// module adds the resources of a module and of those in it.
func (p *plan) module(m *doctree.Node, address string, config *doctree.Node) {
	configs := map[string]*doctree.Node{}
	for _, c := range toolfile.Items(config.Member("resources")) {
		if toolfile.TextOf(c.Member("mode")) != "data" {
			configs[toolfile.TextOf(c.Member("type"))+"."+toolfile.TextOf(c.Member("name"))] = c
		}
	}
	for _, n := range toolfile.Items(m.Member("resources")) {
		if mode := toolfile.TextOf(n.Member("mode")); mode != "" && mode != "managed" {
			continue
		}
		res := &resource{address: toolfile.TextOf(n.Member("address")), module: address, kind: toolfile.TextOf(n.Member("type")), name: toolfile.TextOf(n.Member("name")), values: n.Member("values")}
		if i := n.Member("index"); i != nil {
			res.index = strings.TrimPrefix(strings.TrimPrefix(res.address, address), ".")
			res.index = strings.TrimPrefix(res.index, res.kind+"."+res.name)
		}
		if res.values == nil {
			res.values = toolfile.EmptyAt(n)
		}
		res.config = configs[res.kind+"."+res.name]
		p.resources = append(p.resources, res)
	}
	for _, child := range toolfile.Items(m.Member("child_modules")) {
		at := toolfile.TextOf(child.Member("address"))
		p.module(child, at, p.moduleConfig(config, at, address))
	}
}

// moduleConfig returns the configuration of a module that another one calls.
func (p *plan) moduleConfig(parent *doctree.Node, address, parentAddress string) *doctree.Node {
	call := strings.TrimPrefix(strings.TrimPrefix(address, parentAddress), ".")
	call, _, _ = strings.Cut(strings.TrimPrefix(call, "module."), "[")
	return parent.Member("module_calls").Member(call).Member("module")
}

// changes notes what is known after apply only.
func (p *plan) changes() {
	unknown := map[string]*doctree.Node{}
	for _, n := range toolfile.Items(p.root.Member("resource_changes")) {
		unknown[toolfile.TextOf(n.Member("address"))] = n.Member("change").Member("after_unknown")
	}
	for _, res := range p.resources {
		res.unknown = unknown[res.address]
	}
}

func (p *plan) of(kind string) (all []*resource) {
	for _, res := range p.resources {
		if res.kind == kind {
			all = append(all, res)
		}
	}
	return all
}

// definitionOf returns the task definition that a resource names: by its ARN or family if that is known, else by the
// references of the configuration; nil if neither tells.
func (p *plan) definitionOf(from *resource, value, expression *doctree.Node) *resource {
	all := p.of("aws_ecs_task_definition")
	if text := toolfile.TextOf(value); text != "" {
		for _, d := range all {
			fam := toolfile.TextOf(d.values.Member("family"))
			name := text[strings.LastIndex(text, "/")+1:]
			if text == toolfile.TextOf(d.values.Member("arn")) || name == fam || strings.HasPrefix(name, fam+":") && fam != "" {
				return d
			}
		}
		return nil
	}
	if found := p.referenced(from.module, references(expression), from, 0); len(found) == 1 {
		return found[0]
	}
	var near []*resource
	for _, d := range all {
		if d.module == from.module {
			near = append(near, d)
		}
	}
	switch {
	case len(near) == 1:
		return near[0]
	case len(all) == 1:
		return all[0]
	}
	return nil
}

// references returns what an expression of the configuration refers to.
func references(expression *doctree.Node) (all []string) {
	for _, n := range toolfile.Items(expression.Member("references")) {
		all = append(all, toolfile.TextOf(n))
	}
	return all
}

// moduleOutput splits module.NAME[INDEX].OUTPUT; what follows is left out.
func moduleOutput(ref string) (name, index, output string, ok bool) {
	rest := strings.TrimPrefix(ref, "module.")
	end := strings.IndexAny(rest, ".[")
	if end < 0 {
		return "", "", "", false
	}
	name, rest = rest[:end], rest[end:]
	if rest[0] == '[' {
		end := strings.IndexByte(rest, ']')
		if end < 0 {
			return "", "", "", false
		}
		index, rest = rest[:end+1], rest[end+1:]
	}
	output, ok = strings.CutPrefix(rest, ".")
	if i := strings.IndexAny(output, ".["); i >= 0 {
		output = output[:i]
	}
	return name, index, output, ok && output != ""
}

// referenced returns the task definitions that references in a module lead to, through variables and outputs.
func (p *plan) referenced(module string, refs []string, from *resource, depth int) (found []*resource) {
	const deep = 10
	if depth > deep {
		return nil
	}
	add := func(list []*resource) {
		for _, d := range list {
			if !slices.Contains(found, d) {
				found = append(found, d)
			}
		}
	}
	for _, ref := range refs {
		switch {
		case strings.HasPrefix(ref, "aws_ecs_task_definition."):
			add(p.definitionsAt(module, ref, from))
		case strings.HasPrefix(ref, "var."):
			name, _, _ := strings.Cut(strings.TrimPrefix(ref, "var."), ".")
			name, _, _ = strings.Cut(name, "[")
			parent, call := splitModule(module)
			expression := p.configOf(parent).Member("module_calls").Member(call).Member("expressions").Member(name)
			add(p.referenced(parent, references(expression), from, depth+1))
		case strings.HasPrefix(ref, "module."):
			name, index, member, ok := moduleOutput(ref)
			if !ok {
				continue
			}
			output := p.configOf(module).Member("module_calls").Member(name).Member("module").Member("outputs").Member(member)
			for _, child := range p.modulesCalled(module, name) {
				if literal := strings.ContainsAny(index, `"0123456789`); literal && !strings.HasSuffix(child, index) {
					continue
				}
				add(p.referenced(child, references(output.Member("expression")), from, depth+1))
			}
		}
	}
	return found
}

// definitionsAt returns the task definitions of a module at a reference such as aws_ecs_task_definition.web[0].arn.
// Of several instances the one counts that has the index of the resource that refers to it.
func (p *plan) definitionsAt(module, ref string, from *resource) (found []*resource) {
	rest := strings.TrimPrefix(ref, "aws_ecs_task_definition.")
	name := rest
	if i := strings.IndexAny(rest, ".["); i >= 0 {
		name = rest[:i]
	}
	index := ""
	if i := strings.IndexByte(rest, '['); i >= 0 {
		if end := strings.IndexByte(rest, ']'); end > i {
			index = rest[i : end+1]
		}
	}
	for _, d := range p.of("aws_ecs_task_definition") {
		if d.module == module && d.name == name && (index == "" || d.index == index || strings.Contains(index, "each.") || strings.Contains(index, "count.")) {
			found = append(found, d)
		}
	}
	if len(found) > 1 {
		if same := slices.DeleteFunc(slices.Clone(found), func(d *resource) bool { return d.index != from.index }); len(same) > 0 {
			return same
		}
	}
	return found
}

// splitModule splits module.a["x"].module.b[0] into module.a["x"] and b.
func splitModule(address string) (parent, call string) {
	i := strings.LastIndex(address, "module.")
	if i < 0 {
		return "", ""
	}
	call, _, _ = strings.Cut(address[i+len("module."):], "[")
	return strings.TrimSuffix(address[:i], "."), call
}

// configOf returns the configuration of a module by its address.
func (p *plan) configOf(address string) *doctree.Node {
	if address == "" {
		return p.root.Member("configuration").Member("root_module")
	}
	parent, call := splitModule(address)
	if call == "" {
		return nil
	}
	return p.configOf(parent).Member("module_calls").Member(call).Member("module")
}

// modulesCalled returns the addresses of the instances of a module.
func (p *plan) modulesCalled(parent, call string) (all []string) {
	for _, res := range p.resources {
		up, name := splitModule(res.module)
		if res.module != "" && up == parent && name == call && !slices.Contains(all, res.module) {
			all = append(all, res.module)
		}
	}
	return all
}

// buildService makes the command of a service, and its definition.
func (p *plan) buildService(res *toolfile.Result, s, def *resource) *doctree.Node {
	if def == nil {
		at := s.values.Member("task_definition")
		if at == nil {
			at = s.values
		}
		p.Wrong(at, s.address+".task_definition: the file does not say which task definition this is", "import the task definition alone: --service takes its address, too, such as aws_ecs_task_definition.web")
		return p.Object(s.values)
	}
	out := p.definition(def)
	service := p.serviceOf(s)
	toolfile.Teller{Reader: p.Reader, Table: toolfile.MembersOfService, What: s.address}.Tell(service)
	p.AddService(res, toolfile.OfNode(service), out)
	p.loseUnknown(s, "the service has its default here", "desired_count", "scheduling_strategy", "health_check_grace_period_seconds", "load_balancer", "deployment_minimum_healthy_percent", "deployment_maximum_percent")
	p.scaling(res, s)
	p.noCount(s)
	p.others()
	return out
}

// noCount reports a service without a count, of which ECS starts no copy: the provider has no default, and sends 0.
func (p *plan) noCount(s *resource) {
	if p.scaled != nil || s.values.Member("desired_count") != nil || toolfile.IsTrue(s.unknown.Member("desired_count")) || toolfile.TextOf(s.values.Member("scheduling_strategy")) == "DAEMON" {
		return
	}
	p.Lose(s.values, s.address+".desired_count is not set, so ECS starts no copy until somebody asks for one: one runs here", "podtask service scale NAME=0 stops it")
}

// scaling takes over what scales a service.
func (p *plan) scaling(res *toolfile.Result, service *resource) {
	if p.Whole || res.Service == nil {
		return
	}
	sc := toolfile.Scaler{Reader: p.Reader}
	for _, t := range p.of("aws_appautoscaling_target") {
		if p.scaled == nil && p.about(t, service) && sc.Bounds(t.values, t.values.Member("min_capacity"), t.values.Member("max_capacity")) {
			p.scaled = t
		}
	}
	if p.scaled == nil {
		return
	}
	of := func(r *resource) bool {
		return p.about(r, service) || slices.ContainsFunc(references(r.config.Member("expressions").Member("resource_id")), func(ref string) bool {
			return r.module == p.scaled.module && isOf(ref, p.scaled)
		})
	}
	for _, r := range p.of("aws_appautoscaling_policy") {
		if of(r) {
			sc.Policy(r.values, p.alarmOf(r))
		}
	}
	for _, r := range p.of("aws_appautoscaling_scheduled_action") {
		if of(r) {
			sc.Action(r.values)
		}
	}
	sc.AddTo(res.Service)
}

// alarmOf returns the alarm that executes a scaling policy; nil for none.
func (p *plan) alarmOf(policy *resource) *doctree.Node {
	for _, a := range p.of("aws_cloudwatch_metric_alarm") {
		if a.module == policy.module && slices.ContainsFunc(references(a.config.Member("expressions").Member("alarm_actions")), func(ref string) bool { return isOf(ref, policy) }) {
			p.alarms = append(p.alarms, a)
			return a.values
		}
	}
	return nil
}

// about reports whether what scales is about a service: by its name, or by a reference to it.
func (p *plan) about(r, service *resource) bool {
	name := toolfile.TextOf(service.values.Member("name"))
	if id := toolfile.TextOf(r.values.Member("resource_id")); id != "" {
		return name != "" && strings.HasSuffix(id, "/"+name)
	}
	return r.module == service.module && slices.ContainsFunc(references(r.config.Member("expressions").Member("resource_id")), func(ref string) bool {
		return isOf(ref, service)
	})
}

// isOf reports whether a reference is to a resource or to a part of it.
func isOf(ref string, r *resource) bool {
	rest, is := strings.CutPrefix(ref, r.kind+"."+r.name)
	return is && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// ServiceSpelling are members of a service whose names differ by more than underscores; an empty one is a part of
// deploymentConfiguration.
var ServiceSpelling = map[string]string{
	"name": "serviceName", "load_balancer": "loadBalancers", "ordered_placement_strategy": "placementStrategy", "volume_configuration": "volumeConfigurations",
	"enable_ecs_managed_tags": "enableECSManagedTags", "iam_role": "role", "deployment_minimum_healthy_percent": "", "deployment_maximum_percent": "",
	"deployment_circuit_breaker": "", "alarms": "", "deployment_configuration": "",
}

// serviceOf returns a service in the spelling of ECS.
func (p *plan) serviceOf(s *resource) *doctree.Node {
	service := p.Object(s.values)
	for _, f := range s.values.Fields {
		key, renamed := ServiceSpelling[f.Key]
		switch {
		case f.Value.Empty() || renamed && key == "":
			continue
		case !renamed:
			key = Camel(f.Key)
		}
		toolfile.Set(service, key, p.camelTree(f.Value))
	}
	toolfile.Set(service, "deploymentConfiguration", p.deploymentOf(s))
	if c := toolfile.Single(s.values.Member("deployment_controller")); c != nil {
		toolfile.Set(service, "deploymentController", c)
	}
	return service
}

// deploymentOf returns the deploymentConfiguration of a service, whose parts are members of their own in Terraform.
func (p *plan) deploymentOf(s *resource) *doctree.Node {
	deployment := p.Object(s.values)
	if d := toolfile.Single(s.values.Member("deployment_configuration")); d != nil {
		deployment = p.camelTree(d)
		for _, key := range []string{"linearConfiguration", "canaryConfiguration"} {
			if v := toolfile.Single(deployment.Member(key)); v != nil {
				toolfile.Set(deployment, key, v)
			}
		}
		if hooks := deployment.Member("lifecycleHook"); hooks != nil {
			toolfile.Set(deployment, "lifecycleHooks", hooks)
			toolfile.Remove(deployment, "lifecycleHook")
		}
	}
	for member, key := range map[string]string{"deployment_minimum_healthy_percent": "minimumHealthyPercent", "deployment_maximum_percent": "maximumPercent"} {
		if v := s.values.Member(member); v != nil {
			toolfile.Set(deployment, key, v)
		}
	}
	for member, key := range map[string]string{"deployment_circuit_breaker": "deploymentCircuitBreaker", "alarms": "alarms"} {
		if v := toolfile.Single(s.values.Member(member)); v != nil {
			toolfile.Set(deployment, key, p.camelTree(v))
		}
	}
	slices.SortFunc(deployment.Fields, func(a, b doctree.Field) int { return strings.Compare(a.Key, b.Key) })
	return deployment
}

// Camel turns snake_case into camelCase.
func Camel(s string) string {
	parts := strings.Split(s, "_")
	for i, part := range parts {
		if i > 0 && part != "" {
			parts[i] = strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return strings.Join(parts, "")
}

// camelTree copies a value with its members in camelCase.
func (p *plan) camelTree(n *doctree.Node) *doctree.Node {
	out := p.Put(&doctree.Node{Kind: n.Kind, Text: n.Text}, n)
	for _, item := range n.Items {
		out.Items = append(out.Items, p.camelTree(item))
	}
	for _, f := range n.Fields {
		out.Fields = append(out.Fields, doctree.Field{Key: Camel(f.Key), Line: f.Line, Col: f.Col, Value: p.camelTree(f.Value)})
	}
	return out
}

// definition makes a task definition of a resource.
func (p *plan) definition(d *resource) *doctree.Node {
	out := p.Object(d.values)
	for _, f := range d.values.Fields {
		if f.Value.Kind == doctree.Null || f.Value.Empty() {
			continue
		}
		v := f.Value
		switch f.Key {
		case "family", "cpu", "memory", "ipc_mode", "pid_mode", "network_mode", "task_role_arn", "execution_role_arn", "requires_compatibilities", "enable_fault_injection":
			toolfile.Set(out, Camel(f.Key), v)
		case "container_definitions":
			toolfile.Set(out, "containerDefinitions", p.inner(v, d.address+".container_definitions"))
		case "volume":
			list := p.List(v)
			for _, item := range v.Items {
				list.Items = append(list.Items, p.volume(item))
			}
			toolfile.Set(out, "volumes", list)
		case "runtime_platform":
			if block := toolfile.Single(v); block != nil {
				toolfile.Set(out, "runtimePlatform", p.camelTree(block))
			}
		case "ephemeral_storage":
			if block := toolfile.Single(v); block != nil {
				toolfile.Set(out, "ephemeralStorage", p.Object(block, "sizeInGiB", block.Member("size_in_gib")))
			}
		case "placement_constraints":
			toolfile.Set(out, "placementConstraints", p.camelTree(v))
		case "inference_accelerator":
			toolfile.Set(out, "inferenceAccelerators", p.camelTree(v))
		case "proxy_configuration":
			if block := toolfile.Single(v); block != nil {
				toolfile.Set(out, "proxyConfiguration", p.Object(block, "type", block.Member("type"), "containerName", block.Member("container_name"), "properties", p.pairs(block.Member("properties"), "name")))
			}
		case "tags":
			toolfile.Set(out, "tags", p.pairs(v, "key"))
		}
	}
	if out.Member("containerDefinitions") == nil {
		fix := "import the state after apply: terraform show -json > state.json"
		what := d.address + ".container_definitions is known after apply only"
		if !toolfile.IsTrue(d.unknown.Member("container_definitions")) {
			what = d.address + " has no container_definitions"
		}
		p.Wrong(d.values, what, fix)
	}
	p.loseUnknown(d, "the task has none here", "task_role_arn", "execution_role_arn", "cpu", "memory", "ipc_mode", "pid_mode", "requires_compatibilities", "volume",
		"runtime_platform", "ephemeral_storage", "proxy_configuration", "placement_constraints", "tags")
	return out
}

// loseUnknown notes members that are known after apply only, for which a plan has null.
func (p *plan) loseUnknown(res *resource, instead string, names ...string) {
	for _, name := range names {
		if toolfile.IsTrue(res.unknown.Member(name)) {
			p.Lose(res.values, res.address+"."+name+" is known after apply only: "+instead, "")
		}
	}
}

// pairs turns a map into a list of objects, each with key (or name) and value.
func (p *plan) pairs(n *doctree.Node, key string) *doctree.Node {
	if n == nil || n.Kind != doctree.Object {
		return n
	}
	list := p.List(n)
	for _, f := range n.Fields {
		list.Items = append(list.Items, p.Object(f.Value, key, p.TextAt(f.Value, f.Key), "value", f.Value))
	}
	return list
}

// volume turns a block of a task definition into a volume.
func (p *plan) volume(n *doctree.Node) *doctree.Node {
	out := p.Object(n, "name", n.Member("name"))
	if v := n.Member("host_path"); v != nil && !v.Empty() {
		toolfile.Set(out, "host", p.Object(v, "sourcePath", v))
	}
	if toolfile.IsTrue(n.Member("configure_at_launch")) {
		toolfile.Set(out, "configuredAtLaunch", n.Member("configure_at_launch"))
	}
	if b := toolfile.Single(n.Member("docker_volume_configuration")); b != nil {
		toolfile.Set(out, "dockerVolumeConfiguration", p.Object(b, "scope", b.Member("scope"), "autoprovision", b.Member("autoprovision"), "driver", b.Member("driver"), "driverOpts", b.Member("driver_opts"), "labels", b.Member("labels")))
	}
	if b := toolfile.Single(n.Member("efs_volume_configuration")); b != nil {
		c := p.Object(b, "fileSystemId", b.Member("file_system_id"), "rootDirectory", b.Member("root_directory"), "transitEncryption", b.Member("transit_encryption"))
		if port := b.Member("transit_encryption_port"); port != nil && toolfile.TextOf(port) != "0" {
			toolfile.Set(c, "transitEncryptionPort", port)
		}
		if a := toolfile.Single(b.Member("authorization_config")); a != nil {
			toolfile.Set(c, "authorizationConfig", p.Object(a, "accessPointId", a.Member("access_point_id"), "iam", a.Member("iam")))
		}
		if b.Member("file_system_id") == nil {
			p.Lose(b, "the ID of the EFS file system is known after apply only; unknown stands for it", "give --map-volume "+toolfile.ShellWord(toolfile.TextOf(n.Member("name"))+"=PATH"))
			toolfile.Set(c, "fileSystemId", p.TextAt(b, "fs-unknown"))
		}
		toolfile.Set(out, "efsVolumeConfiguration", c)
	}
	if b := toolfile.Single(n.Member("fsx_windows_file_server_volume_configuration")); b != nil {
		toolfile.Set(out, "fsxWindowsFileServerVolumeConfiguration", p.camelTree(b))
	}
	if b := toolfile.Single(n.Member("s3files_volume_configuration")); b != nil {
		toolfile.Set(out, "s3filesVolumeConfiguration", p.camelTree(b))
	}
	return out
}

// inner reads JSON that is the text of a value. All that is in it has the place of the text.
func (p *plan) inner(n *doctree.Node, what string) *doctree.Node {
	if n.Kind != doctree.Text {
		return n
	}
	docs, err := doctree.JSON([]byte(n.Text), toolfile.Limits([]byte(n.Text)))
	if err != nil || len(docs) != 1 || docs[0].Kind != doctree.List {
		p.Wrong(n, what+" is not a list in JSON", "")
		return p.List(n)
	}
	place(p.Reader, docs[0], n)
	return docs[0]
}

// place gives all values of a tree the place of another value.
func place(r *toolfile.Reader, n, at *doctree.Node) {
	r.Put(n, at)
	for _, item := range n.Items {
		place(r, item, at)
	}
	for i := range n.Fields {
		n.Fields[i].Line, n.Fields[i].Col = at.Line, at.Col
		place(r, n.Fields[i].Value, at)
	}
}

// trigger is a rule or a schedule with a target that is a task.
type trigger struct {
	rule   *resource // aws_cloudwatch_event_rule or aws_scheduler_schedule
	target *resource // aws_cloudwatch_event_target; nil for a schedule
	def    *resource
	node   *doctree.Node // the target
	ecs    *doctree.Node // its part for ECS
}

// triggers returns the rules of EventBridge that start tasks, one for each target, and the schedules of its scheduler.
func (p *plan) triggers() (all [][]trigger) {
	for _, rule := range p.of("aws_cloudwatch_event_rule") {
		var tasks []trigger
		for _, t := range p.targetsOf(rule) {
			ecs := toolfile.Single(t.values.Member("ecs_target"))
			if ecs == nil {
				continue
			}
			block := toolfile.Single(t.config.Member("expressions").Member("ecs_target"))
			tasks = append(tasks, trigger{rule, t, p.definitionOf(t, ecs.Member("task_definition_arn"), block.Member("task_definition_arn")), t.values, ecs})
		}
		all = append(all, tasks)
	}
	for _, s := range p.of("aws_scheduler_schedule") {
		target := toolfile.Single(s.values.Member("target"))
		ecs := toolfile.Single(target.Member("ecs_parameters"))
		if ecs == nil {
			continue
		}
		block := toolfile.Single(toolfile.Single(s.config.Member("expressions").Member("target")).Member("ecs_parameters"))
		all = append(all, []trigger{{s, nil, p.definitionOf(s, ecs.Member("task_definition_arn"), block.Member("task_definition_arn")), target, ecs}})
	}
	return all
}

// targetsOf returns the targets of a rule.
func (p *plan) targetsOf(rule *resource) (all []*resource) {
	for _, t := range p.of("aws_cloudwatch_event_target") {
		name := toolfile.TextOf(t.values.Member("rule"))
		byName := name != "" && name == toolfile.TextOf(rule.values.Member("name"))
		byRef := slices.ContainsFunc(references(t.config.Member("expressions").Member("rule")), func(ref string) bool {
			return ref == "aws_cloudwatch_event_rule."+rule.name || strings.HasPrefix(ref, "aws_cloudwatch_event_rule."+rule.name+".") || strings.HasPrefix(ref, "aws_cloudwatch_event_rule."+rule.name+"[")
		})
		same := rule.index == t.index || rule.index == "" || name != ""
		if rule.module == t.module && same && (byName || byRef && name == "" || byRef && toolfile.TextOf(rule.values.Member("name")) == "") {
			all = append(all, t)
		}
	}
	return all
}

func (p *plan) buildSchedule(res *toolfile.Result, s trigger) *doctree.Node {
	if s.def == nil {
		p.Wrong(s.rule.values, s.rule.address+": the file does not say which task definition it runs", "import the task definition alone: --service takes its address, too")
		return p.Object(s.rule.values)
	}
	v := s.rule.values
	if toolfile.IsTrue(s.rule.unknown.Member("schedule_expression")) {
		p.Wrong(v, s.rule.address+".schedule_expression is known after apply only", "import the state after apply: terraform show -json > state.json")
		return p.Object(v)
	}
	d := toolfile.Due{
		At: v, Expression: toolfile.TextOf(v.Member("schedule_expression")), Zone: toolfile.TextOf(v.Member("schedule_expression_timezone")), State: v.Member("state"),
		Start: v.Member("start_date"), End: v.Member("end_date"), Count: s.ecs.Member("task_count"), Input: s.node.Member("input"), Pattern: v.Member("event_pattern"),
	}
	if enabled := v.Member("is_enabled"); toolfile.TextOf(d.State) == "" && toolfile.TextOf(enabled) == "false" {
		d.State = p.TextAt(enabled, "DISABLED")
	}
	p.AddDue(res, d)
	p.loseUnknown(s.rule, "the schedule has none here", "schedule_expression_timezone", "start_date", "end_date")
	tell := toolfile.Teller{Reader: p.Reader, Table: toolfile.ScheduleMembers, What: s.rule.address, Key: Camel}
	if s.target != nil {
		tell.Table = toolfile.RuleMembers
		parts := p.Object(s.node)
		for _, f := range s.node.Fields {
			if f.Key == "ecs_target" {
				f.Key = "ecs_parameters"
			}
			parts.Fields = append(parts.Fields, f)
		}
		tell.Object(p.Object(s.node, "targets", parts), "")
		for _, t := range p.targetsOf(s.rule) {
			if toolfile.Single(t.values.Member("ecs_target")) == nil {
				p.Lose(t.values, t.address+" is no task: it is not started here", "")
			}
		}
	}
	tell.Tell(v)
	p.others()
	return p.definition(s.def)
}

// others notes the resources that nothing here stands for.
func (p *plan) others() {
	counts, scaled := map[string]int{}, false
	tasks := map[*resource]bool{}
	for _, triggers := range p.triggers() {
		for _, t := range triggers {
			tasks[t.rule], tasks[t.target] = true, true
			for _, other := range p.targetsOf(t.rule) {
				tasks[other] = true // its line says that it is no task
			}
		}
	}
	for _, res := range p.resources {
		switch res.kind {
		case "aws_ecs_service", "aws_ecs_task_definition", "aws_ecs_cluster":
		case "aws_appautoscaling_target":
			if scaled = true; res != p.scaled {
				p.Lose(res.values, res.address+": "+toolfile.FixedCopies, toolfile.FollowLoad)
			}
		default:
			if !tasks[res] && !slices.Contains(p.alarms, res) {
				counts[res.kind]++
			}
		}
	}
	if scaled { // its line says what is lost with these
		delete(counts, "aws_appautoscaling_policy")
		delete(counts, "aws_appautoscaling_scheduled_action")
	}
	p.LoseOthers(p.root, counts)
}
