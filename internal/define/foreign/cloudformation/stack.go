package cloudformation

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// stack is a template of CloudFormation with its parameters.
type stack struct {
	*assembly
	path   string // of the file, relative to the root
	prefix string // of names of parameters on the command line: LogicalID. of a nested stack
	name   string // AWS::StackName
	root   *doctree.Node
	parent *stack
	given  *doctree.Node // the parameters that the parent gives; nil for a root stack
	facts  map[string]string
	nested map[string]*stack

	busy       map[string]bool // what is being evaluated
	conditions map[string]bool
}

// assembly is the stacks of one import.
type assembly struct {
	*toolfile.Reader
	stacks []*stack
	// definitions are the task definitions by the ARN that stands for them.
	definitions map[string]definitionResource
	loose       map[string]bool        // of what a stand-in was noted
	sources     map[string]string      // files of assets by their hashes
	scaled      map[*doctree.Node]bool // resources that scale the service
}

type definitionResource struct {
	stack *stack
	id    string
	node  *doctree.Node
}

const (
	maxNesting = 8     // of stacks
	maxEntries = 5_000 // of a section of a template; CloudFormation allows 500 resources
)

// Workloads finds the workloads of a template and its nested stacks.
func Workloads(r *toolfile.Reader, docs []*doctree.Node) []*toolfile.Workload {
	a := &assembly{Reader: r, definitions: map[string]definitionResource{}, loose: map[string]bool{}}
	a.add(&stack{path: cmp.Or(r.Base, path.Base(r.File)), name: toolfile.Plain(r.Stem()), root: docs[0]})
	return a.workloads()
}

// AssemblyWorkloads finds the workloads of all stacks of a cloud assembly: the root is its manifest.json.
func AssemblyWorkloads(r *toolfile.Reader, docs []*doctree.Node) []*toolfile.Workload {
	a := &assembly{Reader: r, definitions: map[string]definitionResource{}, loose: map[string]bool{}, sources: map[string]string{}}
	a.manifest(docs[0], cmp.Or(r.Base, "manifest.json"), 0)
	return a.workloads()
}

// manifest adds the stacks of a manifest.json, and those of the assemblies in it.
func (a *assembly) manifest(root *doctree.Node, at string, depth int) {
	for _, f := range toolfile.Fields(root.Member("artifacts")) {
		properties := f.Value.Member("properties")
		switch kind := toolfile.TextOf(f.Value.Member("type")); kind {
		case "aws:cloudformation:stack":
			a.artifact(f, properties, at)
		case "cdk:asset-manifest":
			a.assets(properties.Member("file"), at)
		case "cdk:cloud-assembly":
			dir := properties.Member("directoryName")
			if depth >= maxNesting {
				a.Wrong(f.Value, "cloud assemblies are nested too deep", "")
				continue
			}
			if p, src, ok := a.OpenFile(toolfile.OrAt(dir, f.Value), at, path.Join(toolfile.TextOf(dir), "manifest.json")); ok && dir != nil {
				if docs, ok := a.Parse(a.Shown(p), src); ok {
					a.manifest(docs[0], p, depth+1)
				}
			}
		}
	}
}

// artifact adds a stack.
func (a *assembly) artifact(f doctree.Field, properties *doctree.Node, at string) {
	file := properties.Member("templateFile")
	if file == nil {
		a.Wrong(f.Value, "the stack "+doctree.Quote(f.Key)+" has no templateFile", "")
		return
	}
	p, src, ok := a.OpenFile(file, at, file.Text)
	if !ok {
		return
	}
	docs, ok := a.Parse(a.Shown(p), src)
	if !ok {
		return
	}
	s := &stack{path: p, name: cmp.Or(toolfile.TextOf(properties.Member("stackName")), f.Key), root: docs[0], given: nil, facts: map[string]string{}}
	if env := strings.Split(strings.TrimPrefix(toolfile.TextOf(f.Value.Member("environment")), "aws://"), "/"); len(env) == 2 {
		for i, name := range []string{"AWS::AccountId", "AWS::Region"} {
			if !strings.HasPrefix(env[i], "unknown-") {
				s.facts[name] = env[i]
			}
		}
	}
	a.add(s)
}

// assets notes which file an asset is, by the name that URLs of it have.
func (a *assembly) assets(file *doctree.Node, at string) {
	if file == nil {
		return
	}
	p, src, ok := a.OpenFile(file, at, file.Text)
	if !ok {
		return
	}
	docs, ok := a.Parse(a.Shown(p), src)
	if !ok {
		return
	}
	for _, f := range toolfile.Fields(docs[0].Member("files")) {
		if source := toolfile.TextOf(f.Value.Member("source").Member("path")); source != "" && len(f.Key) >= 32 {
			a.sources[f.Key] = source
		}
	}
}

// add adds a stack and those that are nested in it.
func (a *assembly) add(s *stack) {
	s.assembly, s.nested, s.busy, s.conditions = a, map[string]*stack{}, map[string]bool{}, map[string]bool{}
	if s.facts == nil {
		s.facts = map[string]string{}
	}
	a.stacks = append(a.stacks, s)
	if len(a.stacks) > toolfile.MaxFiles {
		a.Wrong(s.root, fmt.Sprintf("more than %d stacks", toolfile.MaxFiles), "")
		return
	}
	if s.root.Kind != doctree.Object || s.root.Member("Resources") == nil {
		a.Wrong(s.root, s.path+" has no Resources", "")
		return
	}
	for _, f := range s.root.Fields {
		if n := len(toolfile.Fields(f.Value)); n > maxEntries {
			a.Wrong(f.Value, fmt.Sprintf("%s has %d entries, and at most %d are read", f.Key, n, maxEntries), "")
			return
		}
		if f.Key == "Transform" {
			a.Lose(f.Value, "Transform: macros are not run, so what they would change or add is not there", processed)
		}
	}
	for _, f := range s.resources() {
		if s.kind(f) == "AWS::CloudFormation::Stack" {
			s.nest(f)
		}
	}
	for _, f := range toolfile.Fields(s.root.Member("Resources")) {
		if strings.HasPrefix(f.Key, "Fn::") {
			a.Lose(f.Value, f.Key+": resources of a macro are not made, so what it would add is not there", processed)
		}
	}
}

// processed is the way to a template without macros.
const processed = "import what CloudFormation has processed: aws cloudformation get-template --template-stage Processed"

// nest adds a stack whose template is a file here.
func (s *stack) nest(f doctree.Field) {
	url := f.Value.Member("Properties").Member("TemplateURL")
	name := toolfile.TextOf(url)
	if asset := toolfile.TextOf(f.Value.Member("Metadata").Member("aws:asset:path")); asset != "" {
		name = asset
	} else if url != nil && url.Kind != doctree.Text {
		name = ""
		text := string(url.JSON())
		for hash, file := range s.sources {
			if strings.Contains(text, hash) {
				name = file
			}
		}
	}
	at := toolfile.OrAt(url, f.Value)
	if name == "" || strings.Contains(name, "://") {
		s.Lose(at, "the template of the nested stack "+f.Key+" is not a local file", "name its file in TemplateURL, as before `aws cloudformation package`")
		return
	}
	depth := 0
	p, err := toolfile.Below(s.path, name)
	for up := s; up != nil; up = up.parent {
		depth++
		if err == nil && up.path == p {
			s.Wrong(at, "the nested stack "+f.Key+" contains itself: "+p, "")
			return
		}
	}
	if depth > maxNesting {
		s.Wrong(at, fmt.Sprintf("stacks are nested deeper than %d levels", maxNesting), "")
		return
	}
	if len(s.stacks) >= toolfile.MaxFiles {
		s.Wrong(at, fmt.Sprintf("more than %d stacks", toolfile.MaxFiles), "")
		return
	}
	p, src, ok := s.OpenFile(at, s.path, name)
	if !ok {
		return
	}
	docs, ok := s.Parse(s.Shown(p), src)
	if !ok {
		return
	}
	child := &stack{path: p, prefix: s.prefix + f.Key + ".", name: s.name + "-" + f.Key, root: docs[0], parent: s, given: toolfile.OrAt(f.Value.Member("Properties").Member("Parameters"), toolfile.EmptyAt(f.Value)), facts: s.facts}
	s.nested[f.Key] = child
	s.assembly.add(child)
}

// resources returns the resources, without macros that would make some.
func (s *stack) resources() []doctree.Field {
	return slices.DeleteFunc(slices.Clone(toolfile.Fields(s.root.Member("Resources"))), func(f doctree.Field) bool { return strings.HasPrefix(f.Key, "Fn::") })
}

func (s *stack) kind(f doctree.Field) string { return toolfile.TextOf(f.Value.Member("Type")) }

// exists reports whether the condition of a resource holds.
func (s *stack) exists(f doctree.Field) bool {
	c := f.Value.Member("Condition")
	return c == nil || s.condition(c, toolfile.TextOf(c))
}

// nameOf is what a resource without a name of its own is called: its logical ID without what CDK appends.
func nameOf(id string) string {
	const hash = 8 // digits
	if cut := len(id) - hash; cut > 0 && strings.Trim(id[cut:], "0123456789ABCDEF") == "" {
		return id[:cut]
	}
	return id
}

// arnOf is what stands for the ARN of a task definition.
func (s *stack) arnOf(id string) string {
	return "arn:aws:ecs:local:000000000000:task-definition/" + s.name + "." + s.prefix + id
}

// workloads returns the services, schedules and other task definitions of all stacks.
func (a *assembly) workloads() []*toolfile.Workload {
	if len(a.Problems) > 0 {
		return nil
	}
	for _, s := range a.stacks {
		for _, f := range s.resources() {
			if s.kind(f) == "AWS::ECS::TaskDefinition" {
				a.definitions[s.arnOf(f.Key)] = definitionResource{s, f.Key, f.Value}
			}
		}
	}
	a.declared()
	var all []*toolfile.Workload
	used := map[string]bool{}
	for _, s := range a.stacks {
		for _, f := range s.resources() {
			properties := f.Value.Member("Properties")
			switch s.kind(f) {
			case "AWS::ECS::Service":
				arn := s.quiet(properties.Member("TaskDefinition"))
				used[arn] = true
				all = append(all, s.workload(f, "ServiceName", func(res *toolfile.Result) *doctree.Node { return s.buildService(res, f) }))
			case "AWS::Events::Rule", "AWS::Scheduler::Schedule":
				var tasks []*toolfile.Workload
				for _, t := range s.targets(f) {
					if !t.task {
						continue
					}
					used[s.quiet(s.peek(t.node.Member("EcsParameters")).Member("TaskDefinitionArn"))] = true
					w := s.workload(f, "Name", func(res *toolfile.Result) *doctree.Node { return s.buildSchedule(res, f, t) })
					w.Target = t.id
					tasks = append(tasks, w)
				}
				all = append(all, toolfile.NameTargets(tasks)...)
			}
		}
	}
	for _, s := range a.stacks {
		for _, f := range s.resources() {
			if s.kind(f) == "AWS::ECS::TaskDefinition" {
				w := s.workload(f, "Family", func(*toolfile.Result) *doctree.Node {
					a.others()
					return s.definition(f.Value)
				})
				w.Bare = true
				w.Used = used[s.arnOf(f.Key)]
				all = append(all, w)
			}
		}
	}
	return all
}

// workload names a resource: by its logical ID, in a nested stack with those of the stacks, and by its own name.
func (s *stack) workload(f doctree.Field, member string, build func(*toolfile.Result) *doctree.Node) *toolfile.Workload {
	named := s.quiet(f.Value.Member("Properties").Member(member))
	w := &toolfile.Workload{Names: []string{s.prefix + f.Key}, Name: cmp.Or(named, nameOf(f.Key)), Build: func(res *toolfile.Result) *doctree.Node {
		if !s.exists(f) {
			s.Wrong(f.Value, f.Key+" does not exist: its condition "+toolfile.TextOf(f.Value.Member("Condition"))+" is false with these parameters", "")
			return toolfile.EmptyAt(f.Value)
		}
		return build(res)
	}}
	w.Absent, w.After = s.surelyAbsent(f), dependsOn(f.Value.Member("DependsOn"))
	if several := s.roots() > 1; several {
		w.Names[0] = s.name + "/" + w.Names[0]
	}
	for _, name := range []string{s.prefix + f.Key, f.Key, nameOf(f.Key), named} {
		if name != "" && !slices.Contains(w.Names, name) {
			w.Names = append(w.Names, name)
		}
	}
	return w
}

// surelyAbsent reports whether the condition of a resource is false, as far as that is known.
func (s *stack) surelyAbsent(f doctree.Field) (absent bool) {
	if f.Value.Member("Condition") == nil {
		return false
	}
	known := s.silently(func() { absent = !s.exists(f) })
	return known && absent
}

func (a *assembly) roots() (n int) {
	for _, s := range a.stacks {
		if s.parent == nil {
			n++
		}
	}
	return n
}

// quiet evaluates a value without noting what is wrong or missing; empty if it has no value.
func (s *stack) quiet(n *doctree.Node) (text string) {
	if n == nil {
		return ""
	}
	if known := s.silently(func() { text = toolfile.TextOf(s.eval(n, true)) }); !known {
		return ""
	}
	return text
}

// silently calls f and forgets what it noted. It reports whether nothing was wrong or missing.
func (s *stack) silently(f func()) (known bool) {
	problems, lost, needs, loose, conditions := s.Problems, s.Losses, s.Needs, s.loose, maps.Clone(s.conditions)
	s.Needs, s.loose = map[string]*toolfile.Need{}, map[string]bool{}
	f()
	known = len(s.Problems) == len(problems) && len(s.Needs) == 0
	s.Problems, s.Losses, s.Needs, s.loose, s.conditions = problems, lost, needs, loose, conditions
	return known
}

// target is a target of a rule or schedule.
type target struct {
	node *doctree.Node
	id   string // of several targets of a rule; else empty
	task bool   // it starts a task
}

// targets returns the targets of a rule or schedule.
func (s *stack) targets(f doctree.Field) (all []target) {
	properties := f.Value.Member("Properties")
	if s.kind(f) == "AWS::Scheduler::Schedule" {
		if t := properties.Member("Target"); t != nil {
			all = append(all, target{node: t, task: t.Member("EcsParameters") != nil})
		}
		return all
	}
	for i, item := range toolfile.Items(s.peek(properties.Member("Targets"))) {
		if t := s.peek(item); t != nil {
			all = append(all, target{node: t, task: t.Member("EcsParameters") != nil, id: cmp.Or(s.quiet(t.Member("Id")), strconv.Itoa(i+1))})
		}
	}
	return all
}

// startsTask reports whether a target of a rule or schedule is a task.
func (s *stack) startsTask(f doctree.Field) bool {
	return slices.ContainsFunc(s.targets(f), func(t target) bool { return t.task })
}

// buildService makes the command line of a service, and its definition.
func (s *stack) buildService(res *toolfile.Result, f doctree.Field) *doctree.Node {
	properties := f.Value.Member("Properties")
	def := s.definitionAt(f.Value, properties.Member("TaskDefinition"))
	m := toolfile.ServiceMembers{Eval: func(n *doctree.Node) *doctree.Node { return s.LowerTree(s.eval(n, false), "") }}
	toolfile.Teller{Reader: s.Reader, Table: toolfile.MembersOfService, What: "the service", Key: toolfile.LowerKey, Look: s.evaluated}.Tell(properties)
	for _, p := range toolfile.Fields(properties) {
		if v := s.unIf(p.Value); v != nil {
			if p.Key == "LoadBalancers" {
				v = s.onlyPorts(v)
			}
			m.Fields = append(m.Fields, doctree.Field{Key: toolfile.LowerKey(p.Key), Line: p.Line, Col: p.Col, Value: v})
		}
	}
	s.AddService(res, m, def)
	s.scaling(res, f)
	s.others()
	return def
}

// scaling takes over what scales a service.
func (s *stack) scaling(res *toolfile.Result, service doctree.Field) {
	target := ""
	sc := toolfile.Scaler{Reader: s.Reader}
	properties := func(f doctree.Field) *doctree.Node { return s.plain(f.Value.Member("Properties")) }
	for _, f := range s.resources() {
		p := f.Value.Member("Properties")
		if s.kind(f) != "AWS::ApplicationAutoScaling::ScalableTarget" || s.Whole || res.Service == nil || target != "" || !s.about(p.Member("ResourceId"), service) {
			continue
		}
		values := properties(f)
		if target = f.Key; !sc.Bounds(f.Value, values.Member("MinCapacity"), values.Member("MaxCapacity")) {
			return
		}
		if s.scaled == nil {
			s.scaled = map[*doctree.Node]bool{}
		}
		s.scaled[f.Value] = true
		for _, a := range toolfile.Items(values.Member("ScheduledActions")) {
			sc.Action(a)
		}
	}
	for _, f := range s.resources() {
		p := f.Value.Member("Properties")
		if target != "" && s.kind(f) == "AWS::ApplicationAutoScaling::ScalingPolicy" && (refersTo(p.Member("ScalingTargetId"), target) || s.about(p.Member("ResourceId"), service)) {
			s.scaled[f.Value] = true
			sc.Policy(properties(f), s.alarmOf(f.Key))
		}
	}
	sc.AddTo(res.Service)
}

// alarmOf returns the properties of the alarm that executes a scaling policy; nil for none.
func (s *stack) alarmOf(policy string) *doctree.Node {
	for _, f := range s.resources() {
		p := f.Value.Member("Properties")
		if s.kind(f) == "AWS::CloudWatch::Alarm" && refersTo(p.Member("AlarmActions"), policy) {
			s.scaled[f.Value] = true
			return s.plain(p)
		}
	}
	return nil
}

// plain returns a value with all functions in it evaluated, as far as they are known.
func (s *stack) plain(n *doctree.Node) *doctree.Node {
	v := s.evaluated(n)
	if v == nil {
		return &doctree.Node{}
	}
	out := v.Clone()
	for i, f := range out.Fields {
		out.Fields[i].Value = s.plain(f.Value)
	}
	for i, item := range out.Items {
		out.Items[i] = s.plain(item)
	}
	return out
}

// about reports whether the ID of a resource that scales is that of a service.
func (s *stack) about(id *doctree.Node, service doctree.Field) bool {
	if refersTo(id, service.Key) {
		return true
	}
	name := s.quiet(service.Value.Member("Properties").Member("ServiceName"))
	return name != "" && strings.HasSuffix(s.quiet(id), "/"+name)
}

// refersTo reports whether a value refers to a resource by its logical ID.
func refersTo(n *doctree.Node, id string) bool {
	if n == nil {
		return false
	}
	if n.Kind == doctree.Text && (n.Text == id || strings.Contains(n.Text, "${"+id+".") || strings.Contains(n.Text, "${"+id+"}") || strings.HasPrefix(n.Text, id+".")) {
		return true
	}
	return slices.ContainsFunc(n.Items, func(item *doctree.Node) bool { return refersTo(item, id) }) ||
		slices.ContainsFunc(n.Fields, func(f doctree.Field) bool { return refersTo(f.Value, id) })
}

// onlyPorts removes everything but the ports from load balancers, so that import does not ask for their ARNs.
func (s *stack) onlyPorts(n *doctree.Node) *doctree.Node {
	if n.Kind != doctree.List {
		return n
	}
	out := s.List(n)
	for _, lb := range n.Items {
		if v := s.unIf(lb); v != nil {
			out.Items = append(out.Items, s.Object(v, "ContainerName", v.Member("ContainerName"), "ContainerPort", v.Member("ContainerPort")))
		}
	}
	return out
}

// unIf follows an If that decides whether a member is there at all, as far as its condition is known.
func (s *stack) unIf(n *doctree.Node) *doctree.Node {
	for range maxNesting {
		args := toolfile.Items(n.Member("Fn::If"))
		if len(n.Fields) != 1 || len(args) != 3 {
			break
		}
		if n = args[2]; s.condition(args[0], toolfile.TextOf(args[0])) {
			n = args[1]
		}
	}
	if len(n.Fields) == 1 && toolfile.TextOf(n.Member("Ref")) == "AWS::NoValue" {
		return nil
	}
	return n
}

// definitionAt returns the task definition that a value names.
func (s *stack) definitionAt(at, n *doctree.Node) *doctree.Node {
	if n == nil {
		s.Wrong(at, "TaskDefinition is missing", "")
		return toolfile.EmptyAt(at)
	}
	arn := toolfile.TextOf(s.eval(n, true))
	d, ok := s.definitions[arn]
	if !ok {
		if len(s.Needs) == 0 && len(s.Problems) == 0 {
			s.Wrong(n, "the task definition "+doctree.Quote(arn)+" is not in this file", "import it from where it is, as with aws ecs describe-task-definition")
		}
		return toolfile.EmptyAt(at)
	}
	return d.stack.definition(d.node)
}

// definition evaluates a task definition and spells its members as ECS does.
func (s *stack) definition(n *doctree.Node) *doctree.Node {
	properties := n.Member("Properties")
	if properties == nil {
		s.Wrong(n, "the task definition has no Properties", "")
		return toolfile.EmptyAt(n)
	}
	out := s.LowerTree(s.eval(properties, false), "")
	s.dynamicSecrets(out)
	return out
}

// peek returns a value without the If around it, as far as that is known; nil for none. It notes nothing.
func (s *stack) peek(n *doctree.Node) (v *doctree.Node) {
	if n == nil {
		return nil
	}
	known := s.silently(func() { v = s.unIf(n) })
	if !known {
		return n
	}
	return v
}

func (s *stack) buildSchedule(res *toolfile.Result, f doctree.Field, t target) *doctree.Node {
	properties, ecs := f.Value.Member("Properties"), s.unIf(t.node.Member("EcsParameters"))
	value := func(n *doctree.Node) *doctree.Node {
		if n == nil {
			return nil
		}
		if n = s.eval(n, false); n == noValue {
			return nil
		}
		return n
	}
	d := toolfile.Due{
		At: f.Value, Expression: toolfile.TextOf(value(properties.Member("ScheduleExpression"))), Zone: toolfile.TextOf(value(properties.Member("ScheduleExpressionTimezone"))),
		State: value(properties.Member("State")), Start: value(properties.Member("StartDate")), End: value(properties.Member("EndDate")),
		Count: value(ecs.Member("TaskCount")), Pattern: s.peek(properties.Member("EventPattern")),
	}
	if d.Input = s.peek(t.node.Member("Input")); d.Input != nil && d.Input.Kind != doctree.Text {
		d.Input = s.TextAt(d.Input, "?") // its text is of no interest
	}
	s.AddDue(res, d)
	tell := toolfile.Teller{Reader: s.Reader, Table: toolfile.ScheduleMembers, What: "the schedule", Key: toolfile.LowerKey, Look: s.evaluated}
	if s.kind(f) == "AWS::Events::Rule" {
		tell.Table, tell.What = toolfile.RuleMembers, "the rule"
		properties = without(properties, "Targets")
		tell.Object(s.Object(t.node, "Targets", t.node), "")
		for _, other := range s.targets(f) {
			if !other.task {
				s.Lose(other.node, "the target "+other.id+" of the rule is no task: it is not started here", "")
			}
		}
	}
	tell.Tell(properties)
	def := s.definitionAt(t.node, ecs.Member("TaskDefinitionArn"))
	s.others()
	return def
}

// evaluated returns a value without the functions around it, as far as that is known; nil for none. It notes nothing.
func (s *stack) evaluated(n *doctree.Node) *doctree.Node {
	v := s.peek(n)
	if v == nil || v.Kind != doctree.Object || len(v.Fields) != 1 || !isFunction(v.Fields[0].Key) {
		return v
	}
	known := s.silently(func() { v = s.eval(n, true) })
	switch {
	case !known:
		return n
	case v == noValue:
		return nil
	}
	return v
}

// without returns an object without a member.
func without(n *doctree.Node, key string) *doctree.Node {
	out := *n
	out.Fields = slices.DeleteFunc(slices.Clone(n.Fields), func(f doctree.Field) bool { return f.Key == key })
	return &out
}

// others notes resources that nothing here stands for.
func (a *assembly) others() {
	for _, s := range a.stacks {
		counts, scaled := map[string]int{}, false
		for _, f := range s.resources() {
			switch kind := s.kind(f); kind {
			case "AWS::ECS::Service", "AWS::ECS::TaskDefinition", "AWS::ECS::Cluster", "AWS::CloudFormation::Stack", "AWS::CDK::Metadata":
			case "AWS::ApplicationAutoScaling::ScalableTarget":
				if scaled = true; !a.scaled[f.Value] {
					s.Lose(f.Value, f.Key+": "+toolfile.FixedCopies, toolfile.FollowLoad)
				}
			case "AWS::Events::Rule", "AWS::Scheduler::Schedule":
				if !s.startsTask(f) {
					counts[kind]++
				}
			default:
				if !a.scaled[f.Value] {
					counts[kind]++
				}
			}
		}
		if scaled { // its line says what is lost with its policies
			delete(counts, "AWS::ApplicationAutoScaling::ScalingPolicy")
		}
		s.LoseOthers(s.root.Member("Resources"), counts)
	}
}

// wholeDynamic splits a text that is a dynamic reference and nothing else into its service and the rest.
func wholeDynamic(text string) (service, rest string, ok bool) {
	text, opened := strings.CutPrefix(text, "{{resolve:")
	text, closed := strings.CutSuffix(text, "}}")
	service, rest, ok = strings.Cut(text, ":")
	ok = ok && opened && closed && rest != "" && !strings.Contains(rest, "}")
	return service, rest, ok && slices.Contains([]string{"secretsmanager", "ssm", "ssm-secure"}, service)
}

// dynamicSecrets makes secrets of variables whose value CloudFormation would read from Secrets Manager or SSM.
func (s *stack) dynamicSecrets(def *doctree.Node) {
	for _, c := range toolfile.Items(def.Member("containerDefinitions")) {
		env := c.Member("environment")
		if env == nil {
			continue
		}
		var kept []*doctree.Node
		for _, v := range env.Items {
			service, rest, ok := wholeDynamic(toolfile.TextOf(v.Member("value")))
			if !ok {
				kept = append(kept, v)
				continue
			}
			secrets := c.Member("secrets")
			if secrets == nil {
				secrets = s.List(v)
				toolfile.Set(c, "secrets", secrets)
			}
			name, version := dynamicName(service, rest)
			if version != "" {
				s.Lose(v, "version "+version+" of the parameter "+name+": a secret is read by its name alone", "")
			}
			secrets.Items = append(secrets.Items, s.Object(v, "name", v.Member("name"), "valueFrom", s.TextAt(v, name)))
		}
		env.Items = kept
	}
	s.leftDynamic(def, 0)
}

// dynamicName is the valueFrom of a dynamic reference. Version is that of a parameter of SSM, which a valueFrom does not have.
func dynamicName(service, rest string) (name, version string) {
	if service != "secretsmanager" {
		if i := strings.LastIndexByte(rest, ':'); i >= 0 && rest[i+1:] != "" && strings.Trim(rest[i+1:], "0123456789") == "" {
			return rest[:i], rest[i+1:]
		}
		return rest, ""
	}
	id, rest, _ := strings.Cut(rest, ":SecretString")
	if !strings.HasPrefix(id, "arn:") {
		id = "arn:aws:secretsmanager:local:000000000000:secret:" + id
	}
	parts := append(strings.Split(strings.TrimPrefix(rest, ":"), ":"), "", "", "")[:3]
	if parts[0]+parts[1]+parts[2] == "" {
		return id, ""
	}
	return id + ":" + strings.Join(parts, ":"), ""
}

// leftDynamic replaces the dynamic references that are left by their values, which the user gives.
func (s *stack) leftDynamic(n *doctree.Node, depth int) {
	if n.Kind == doctree.Text && strings.Contains(n.Text, "{{resolve:") {
		n.Text = toolfile.ReplaceBetween(n.Text, "{{resolve:", "}}", func(name string) string {
			key := "resolve:" + name
			if v, ok := s.Param(key); ok {
				return v
			}
			s.Ask(n, key, "CloudFormation reads a value from "+name+" here")
			return ""
		})
	}
	for _, item := range n.Items {
		s.leftDynamic(item, depth+1)
	}
	for _, f := range n.Fields {
		s.leftDynamic(f.Value, depth+1)
	}
}

// unknownName reports a name that the template does not have.
func (s *stack) unknownName(at *doctree.Node, name string) {
	names := slices.Concat(slices.Collect(maps.Keys(names(s.root.Member("Parameters")))), slices.Collect(maps.Keys(names(s.root.Member("Resources")))))
	slices.Sort(names)
	s.Wrong(at, "there is no parameter or resource "+doctree.Quote(name)+" in the template", suggest.Question(name, names))
}

func names(n *doctree.Node) map[string]bool {
	m := map[string]bool{}
	for _, f := range toolfile.Fields(n) {
		m[f.Key] = true
	}
	return m
}

// dependsOn reads DependsOn of a resource.
func dependsOn(n *doctree.Node) (names []string) {
	if text := toolfile.TextOf(n); text != "" {
		return []string{text}
	}
	for _, item := range toolfile.Items(n) {
		names = append(names, toolfile.TextOf(item))
	}
	return names
}
