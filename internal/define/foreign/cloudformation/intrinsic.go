package cloudformation

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// noValue stands for a value that AWS::NoValue removes.
var noValue = &doctree.Node{Kind: doctree.Null}

// namesOnly are members whose values only name something on AWS that a reference of this host answers, or that has no
// effect here: a name that AWS would make up may be another one.
var namesOnly = []string{
	"TaskRoleArn", "ExecutionRoleArn", "ValueFrom", "CredentialsParameter", "FilesystemId", "FileSystemId",
	"AccessPointId", "LogConfiguration", "EnvironmentFiles", "FirelensConfiguration", "CredentialSpecs",
}

// eval evaluates the functions of a value. With name, the value only names something on AWS. What has no value is
// noted, and stands for an empty text.
func (s *stack) eval(n *doctree.Node, name bool) *doctree.Node {
	if !s.spend(n, 0) {
		return s.TextAt(n, "")
	}
	switch n.Kind {
	case doctree.List:
		out := s.List(n)
		for _, item := range n.Items {
			if v := s.eval(item, name); v != noValue {
				out.Items = append(out.Items, v)
			}
		}
		return out
	case doctree.Object:
		if len(n.Fields) == 1 && isFunction(n.Fields[0].Key) {
			return s.call(n, n.Fields[0], name)
		}
		out := s.Object(n)
		for _, f := range n.Fields {
			if v := s.eval(f.Value, name || slices.Contains(namesOnly, f.Key)); v != noValue {
				out.Fields = append(out.Fields, doctree.Field{Key: f.Key, Line: f.Line, Col: f.Col, Value: v})
			}
		}
		return out
	}
	return n
}

func isFunction(key string) bool {
	return key == "Ref" || key == "Condition" || strings.HasPrefix(key, "Fn::")
}

// spend counts what functions make. It returns false above the bounds.
func (s *stack) spend(at *doctree.Node, bytes int) bool {
	s.Steps++
	s.TextBytes += bytes
	if s.Steps <= toolfile.MaxSteps && s.TextBytes <= toolfile.MaxText {
		return true
	}
	if s.Steps < 2*toolfile.MaxSteps { // once
		s.Wrong(at, "the functions of the template make too many values", "")
		s.Steps = 2 * toolfile.MaxSteps
	}
	return false
}

// enter notes that something is being evaluated, until leave is called. It returns false if it is already.
func (s *stack) enter(at *doctree.Node, what string) (leave func(), ok bool) {
	if s.busy[what] {
		s.Wrong(at, what+" refers to itself", "")
		return func() {}, false
	}
	s.busy[what] = true
	return func() { delete(s.busy, what) }, true
}

// call evaluates a function.
func (s *stack) call(n *doctree.Node, f doctree.Field, name bool) *doctree.Node {
	k := call{s, n, f, name}
	switch f.Key {
	case "Ref":
		if f.Value.Kind != doctree.Text {
			return k.bad("its value is the name of a parameter or resource")
		}
		return s.ref(n, f.Value.Text, name)
	case "Fn::GetAtt":
		return s.getAtt(n, f.Value, name)
	case "Fn::Sub":
		return s.sub(n, f.Value, name)
	case "Fn::Join":
		return k.join()
	case "Fn::Split":
		return k.split()
	case "Fn::Select":
		return k.choose()
	case "Fn::If":
		return k.ifElse()
	case "Fn::FindInMap":
		return s.findInMap(n, f.Value, name)
	case "Fn::ImportValue":
		return s.importValue(n, f.Value, name)
	case "Fn::Base64":
		v := s.eval(f.Value, name)
		if !toolfile.Scalar(v) {
			return k.bad("its value is no text")
		}
		return k.text(base64.StdEncoding.EncodeToString([]byte(v.Text)))
	case "Fn::Length":
		asked := s.Asked
		v := s.eval(f.Value, name)
		if v.Kind != doctree.List && s.Asked == asked {
			return k.bad("its value is no list")
		}
		return s.Number(n, len(v.Items))
	case "Fn::ToJsonString":
		return k.text(string(s.eval(f.Value, name).JSON()))
	case "Fn::And", "Fn::Or", "Fn::Not", "Fn::Equals", "Condition":
		return s.Boolean(n, s.test(n))
	case "Fn::GetAZs":
		return k.zones()
	}
	s.Wrong(n, f.Key+" cannot be evaluated here", "write its value")
	return s.TextAt(n, "")
}

// call is a function of a template with its arguments.
type call struct {
	*stack
	at   *doctree.Node
	f    doctree.Field
	name bool // the value only names something on AWS
}

// bad reports wrong arguments.
func (k call) bad(what string) *doctree.Node {
	k.Wrong(k.at, k.f.Key+": "+what, "")
	return k.TextAt(k.at, "")
}

// text returns a text that the function makes.
func (k call) text(v string) *doctree.Node {
	if !k.spend(k.at, len(v)) {
		v = ""
	}
	return k.TextAt(k.at, v)
}

// listOf evaluates a list, which may be a text with commas.
func (k call) listOf(n *doctree.Node) *doctree.Node {
	list := k.eval(n, k.name)
	if list.Kind != doctree.List {
		list = k.List(list, k.commaList(list)...)
	}
	return list
}

func (k call) join() *doctree.Node {
	args := toolfile.Items(k.f.Value)
	if len(args) != 2 || args[0].Kind != doctree.Text {
		return k.bad("it takes a delimiter and a list")
	}
	var parts []string
	for _, item := range k.listOf(args[1]).Items {
		if !toolfile.Scalar(item) {
			return k.bad("an item of the list is no text")
		}
		parts = append(parts, item.Text)
	}
	return k.text(strings.Join(parts, args[0].Text))
}

func (k call) split() *doctree.Node {
	args := toolfile.Items(k.f.Value)
	if len(args) != 2 || args[0].Kind != doctree.Text || args[0].Text == "" {
		return k.bad("it takes a delimiter and a text")
	}
	v := k.eval(args[1], k.name)
	if !toolfile.Scalar(v) {
		return k.bad("its second value is no text")
	}
	out := k.List(k.at)
	for part := range strings.SplitSeq(v.Text, args[0].Text) {
		out.Items = append(out.Items, k.text(part))
	}
	return out
}

// choose evaluates Select.
func (k call) choose() *doctree.Node {
	args := toolfile.Items(k.f.Value)
	if len(args) != 2 {
		return k.bad("it takes an index and a list")
	}
	asked := k.Asked
	index, ok := toolfile.IntOf(k.eval(args[0], k.name))
	list := k.listOf(args[1])
	switch {
	case ok && index >= 0 && index < len(list.Items):
		return list.Items[index]
	case k.Asked > asked: // the list is not known
		return k.TextAt(k.at, "")
	}
	return k.bad("there is no item " + toolfile.TextOf(args[0]) + " in the list")
}

func (k call) ifElse() *doctree.Node {
	args := toolfile.Items(k.f.Value)
	if len(args) != 3 {
		return k.bad("it takes a condition and two values")
	}
	if k.condition(args[0], toolfile.TextOf(args[0])) {
		return k.eval(args[1], k.name)
	}
	return k.eval(args[2], k.name)
}

// zones evaluates GetAZs as far as it can be told: three zones of the region.
func (k call) zones() *doctree.Node {
	region, ok := k.fact(k.at, "AWS::Region", k.name)
	out := k.List(k.at)
	for _, zone := range []string{"a", "b", "c"} {
		if ok {
			out.Items = append(out.Items, k.text(region+zone))
		}
	}
	return out
}

// commaList returns the items of a CommaDelimitedList.
func (s *stack) commaList(n *doctree.Node) (all []*doctree.Node) {
	for part := range strings.SplitSeq(toolfile.TextOf(n), ",") {
		all = append(all, s.TextAt(n, strings.TrimSpace(part)))
	}
	return all
}

// ref evaluates Ref.
func (s *stack) ref(at *doctree.Node, id string, name bool) *doctree.Node {
	if strings.HasPrefix(id, "AWS::") {
		if id == "AWS::NoValue" {
			return noValue
		}
		v, _ := s.fact(at, id, name)
		return s.TextAt(at, v)
	}
	if p := s.root.Member("Parameters").Member(id); p != nil {
		return s.parameter(at, id, p, name)
	}
	if v, ok := s.Param(s.prefix+id, id); ok {
		return s.TextAt(at, v)
	}
	if r := s.root.Member("Resources").Member(id); r != nil {
		return s.TextAt(at, s.physical(at, id, r, "", name))
	}
	s.unknownName(at, id)
	return s.TextAt(at, "")
}

// parameter returns the value of a parameter: that of the parent stack or of the command line, or its default.
func (s *stack) parameter(at *doctree.Node, id string, p *doctree.Node, name bool) *doctree.Node {
	kind := toolfile.TextOf(p.Member("Type"))
	given := s.given.Member(id)
	value := p.Member("Default")
	if v, ok := s.Param(s.prefix+id, id); ok {
		value = s.TextAt(at, v)
		s.allowed(id, p, v)
	} else if given != nil {
		leave, ok := s.enter(at, "the parameter "+id)
		defer leave()
		if !ok {
			return s.TextAt(at, "")
		}
		if v := s.parent.eval(given, name); v != noValue { // which leaves the default
			value = v
		}
	} else if strings.HasPrefix(kind, "AWS::SSM::Parameter::Value<") {
		if name {
			s.standIn(at, "the parameter "+id+" is read from SSM", toolfile.TextOf(value), "give --param "+toolfile.ShellWord(s.prefix+id+"=")+"VALUE where it matters")
			return s.TextAt(at, toolfile.TextOf(value))
		}
		s.Ask(at, s.prefix+id, "the value of parameter "+id+" is in SSM")
		return s.TextAt(at, "")
	}
	if value == nil {
		s.Ask(at, s.prefix+id, "parameter "+id+" has no default")
		return s.TextAt(at, "")
	}
	if toolfile.IsTrue(p.Member("NoEcho")) && !name && toolfile.TextOf(value) != "" && !s.loose["NoEcho "+id] {
		s.loose["NoEcho "+id] = true
		s.Lose(at, "the value of parameter "+id+" is not to be shown (NoEcho), and stands in the definition", "give it to the container as a secret")
	}
	if isList(kind) {
		if value.Kind == doctree.List {
			return value
		}
		return s.List(at, s.commaList(s.TextAt(at, toolfile.TextOf(value)))...)
	}
	if !toolfile.Scalar(value) {
		return value
	}
	return s.TextAt(at, value.Text)
}

// isList reports whether a parameter of a type is a list, whose items a text separates by commas.
func isList(kind string) bool {
	kind = strings.TrimPrefix(kind, "AWS::SSM::Parameter::Value<")
	return strings.HasPrefix(kind, "CommaDelimitedList") || strings.HasPrefix(kind, "List<")
}

// allowed reports a value that AllowedValues do not have; of a list they are the items.
func (s *stack) allowed(id string, p *doctree.Node, v string) {
	values := []*doctree.Node{s.TextAt(p, v)}
	if isList(toolfile.TextOf(p.Member("Type"))) {
		values = s.commaList(values[0])
	}
	var all []string
	for _, n := range toolfile.Items(p.Member("AllowedValues")) {
		all = append(all, toolfile.TextOf(n))
	}
	wrong := func(n *doctree.Node) bool { return !slices.Contains(all, n.Text) }
	if len(all) > 0 && slices.ContainsFunc(values, wrong) && !s.loose["AllowedValues "+id] {
		s.loose["AllowedValues "+id] = true
		s.Wrong(p, "--param "+s.prefix+id+": the template allows "+strings.Join(all[:min(len(all), 20)], ", "), "")
	}
}

// fact returns a pseudo parameter.
func (s *stack) fact(at *doctree.Node, id string, name bool) (string, bool) {
	if v, ok := s.Param(id); ok {
		return v, true
	}
	if v := s.facts[id]; v != "" {
		return v, true
	}
	switch {
	case id == "AWS::Partition":
		return "aws", true
	case id == "AWS::URLSuffix":
		return "amazonaws.com", true
	case id == "AWS::StackName":
		return s.name, true
	case id == "AWS::StackId":
		return "arn:aws:cloudformation:local:000000000000:stack/" + s.name, true
	case id == "AWS::NotificationARNs":
		return "", true
	case id == "AWS::Region" && s.Getenv != nil:
		for _, variable := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
			if v := s.Getenv(variable); v != "" {
				return v, true
			}
		}
	}
	stand, known := map[string]string{"AWS::Region": "local", "AWS::AccountId": "000000000000"}[id]
	switch {
	case !known:
		s.Wrong(at, "there is no pseudo parameter "+doctree.Quote(id), "")
	case name:
		s.standIn(at, id+" is not known", stand, "give --param "+id+"=VALUE where it matters")
		return stand, true
	default:
		s.Ask(at, id, id+" is not known")
	}
	return "", false
}

// standIn notes that a placeholder stands for a name that is known on AWS only.
func (s *stack) standIn(at *doctree.Node, what, placeholder, fix string) {
	if s.loose[what] {
		return
	}
	s.loose[what] = true
	s.Lose(at, what+"; placeholder "+doctree.Quote(placeholder), fix)
}

// mapFix is how this host answers a name of AWS, by the kind of the resource.
func mapFix(kind string) string {
	switch kind {
	case "AWS::SecretsManager::Secret", "AWS::SSM::Parameter":
		return "map it with --map-secret"
	case "AWS::EFS::FileSystem", "AWS::EFS::AccessPoint":
		return "map the volume with --map-volume"
	case "AWS::S3::Bucket":
		return "map the file with --map-env-file"
	}
	return "a reference answers it where it matters (docs/references.md)"
}

// kind of a resource whose names podtask can tell as far as the template does.
type resourceKind struct {
	kind  string
	name  string      // the property that names it
	ref   string      // what Ref returns
	attrs [][2]string // attributes, and what GetAtt returns
}

// The words in braces stand for the name, region and account. An ARN of a secret is never complete.
var resourceKinds = []resourceKind{
	{"AWS::IAM::Role", "RoleName", "{name}", [][2]string{{"Arn", "arn:{partition}:iam::{account}:role/{name}"}}},
	{"AWS::Logs::LogGroup", "LogGroupName", "{name}", [][2]string{{"Arn", "arn:{partition}:logs:{region}:{account}:log-group:{name}:*"}}},
	{"AWS::SecretsManager::Secret", "Name", "arn:{partition}:secretsmanager:{region}:{account}:secret:{name}", nil},
	{"AWS::SSM::Parameter", "Name", "{name}", nil},
	{"AWS::SQS::Queue", "QueueName", "https://sqs.{region}.amazonaws.com/{account}/{name}", [][2]string{{"Arn", "arn:{partition}:sqs:{region}:{account}:{name}"}, {"QueueName", "{name}"}, {"QueueUrl", "https://sqs.{region}.amazonaws.com/{account}/{name}"}}},
	{"AWS::SNS::Topic", "TopicName", "arn:{partition}:sns:{region}:{account}:{name}", [][2]string{{"TopicName", "{name}"}, {"TopicArn", "arn:{partition}:sns:{region}:{account}:{name}"}}},
	{"AWS::DynamoDB::Table", "TableName", "{name}", [][2]string{{"Arn", "arn:{partition}:dynamodb:{region}:{account}:table/{name}"}}},
	{"AWS::S3::Bucket", "BucketName", "{name}", [][2]string{{"Arn", "arn:{partition}:s3:::{name}"}, {"DomainName", "{name}.s3.amazonaws.com"}}},
	{"AWS::ECR::Repository", "RepositoryName", "{name}", [][2]string{{"Arn", "arn:{partition}:ecr:{region}:{account}:repository/{name}"}, {"RepositoryUri", "{account}.dkr.ecr.{region}.amazonaws.com/{name}"}}},
	{"AWS::ECS::Cluster", "ClusterName", "{name}", [][2]string{{"Arn", "arn:{partition}:ecs:{region}:{account}:cluster/{name}"}}},
	{"AWS::ECS::Service", "ServiceName", "{name}", [][2]string{{"Name", "{name}"}}},
}

// formOf returns what is known of a kind of resource, and what Ref (for an empty attribute) or GetAtt returns of it.
func formOf(kind, attr string) (known resourceKind, form string) {
	if i := slices.IndexFunc(resourceKinds, func(k resourceKind) bool { return k.kind == kind }); i >= 0 {
		known = resourceKinds[i]
	}
	if attr == "" {
		return known, known.ref
	}
	for _, a := range known.attrs {
		if a[0] == attr {
			form = a[1]
		}
	}
	return known, form
}

// idOf names a resource, or an attribute of it.
func idOf(id, attr string) string {
	if attr == "" {
		return id
	}
	return attr + " of " + id
}

// physical returns what Ref (for an empty attribute) or GetAtt returns of a resource. A name that AWS makes up can
// stand in a name, and is asked for elsewhere.
func (s *stack) physical(at *doctree.Node, id string, r *doctree.Node, attr string, name bool) string {
	key, what := id, "the name of "+id
	if attr != "" {
		key, what = id+"."+attr, attr+" of "+id
	}
	if v, ok := s.Param(s.prefix+key, key); ok {
		return v
	}
	kind := toolfile.TextOf(r.Member("Type"))
	if kind == "AWS::ECS::TaskDefinition" {
		return s.arnOf(id)
	}
	known, form := formOf(kind, attr)
	own := r.Member("Properties").Member(known.name)
	ask := func() string {
		s.Ask(at, s.prefix+key, what+" ("+kind+") is known on AWS only")
		return ""
	}
	if form == "" || known.name == "" {
		if !name {
			return ask()
		}
		s.standIn(at, idOf(id, attr)+" gets its name on AWS", key, mapFix(kind))
		return key
	}
	physical := nameOf(id)
	if own != nil {
		leave, ok := s.enter(at, id)
		if !ok {
			return ""
		}
		if own = s.eval(own, name); own == noValue {
			own = nil
		} else {
			physical = toolfile.TextOf(own)
		}
		leave()
	}
	if !name && (own == nil || kind == "AWS::SecretsManager::Secret") {
		return ask()
	}
	for word, fact := range map[string]string{"{partition}": "AWS::Partition", "{region}": "AWS::Region", "{account}": "AWS::AccountId"} {
		if strings.Contains(form, word) {
			v, _ := s.fact(at, fact, name)
			form = strings.ReplaceAll(form, word, v)
		}
	}
	out := strings.ReplaceAll(form, "{name}", physical)
	if own == nil && name && kind != "AWS::IAM::Role" && kind != "AWS::Logs::LogGroup" && kind != "AWS::ECS::Cluster" {
		got := "its name"
		if strings.HasPrefix(out, "arn:") {
			got = "its ARN"
		}
		s.standIn(at, idOf(id, attr)+" gets "+got+" on AWS", out, mapFix(kind))
	}
	return out
}

// getAtt evaluates GetAtt: [ID, ATTRIBUTE] or "ID.ATTRIBUTE".
func (s *stack) getAtt(at, arg *doctree.Node, name bool) *doctree.Node {
	var id, attr string
	switch {
	case arg.Kind == doctree.Text:
		id, attr, _ = strings.Cut(arg.Text, ".")
	case len(toolfile.Items(arg)) == 2:
		id, attr = toolfile.TextOf(arg.Items[0]), toolfile.TextOf(s.eval(arg.Items[1], name))
	}
	if id == "" || attr == "" {
		s.Wrong(at, "Fn::GetAtt: it takes a resource and an attribute", "")
		return s.TextAt(at, "")
	}
	return s.attribute(at, id, attr, name)
}

// attribute returns an attribute of a resource, or an output of a nested stack.
func (s *stack) attribute(at *doctree.Node, id, attr string, name bool) *doctree.Node {
	r := s.root.Member("Resources").Member(id)
	if r == nil {
		s.unknownName(at, id)
		return s.TextAt(at, "")
	}
	output, isOutput := strings.CutPrefix(attr, "Outputs.")
	child := s.nested[id]
	if !isOutput || child == nil {
		return s.TextAt(at, s.physical(at, id, r, attr, name))
	}
	value := child.root.Member("Outputs").Member(output).Member("Value")
	if value == nil {
		s.Wrong(at, "the nested stack "+id+" has no output "+doctree.Quote(output), "")
		return s.TextAt(at, "")
	}
	leave, ok := child.enter(at, "the output "+output)
	defer leave()
	if !ok {
		return s.TextAt(at, "")
	}
	return child.eval(value, name)
}

// sub evaluates Sub: a text, or a text with variables.
func (s *stack) sub(at, arg *doctree.Node, name bool) *doctree.Node {
	var own *doctree.Node
	form := arg
	if list := toolfile.Items(arg); len(list) == 2 {
		form, own = list[0], list[1]
	}
	if form.Kind != doctree.Text {
		s.Wrong(at, "Fn::Sub: it takes a text, or a text and variables", "")
		return s.TextAt(at, "")
	}
	var b strings.Builder
	rest := form.Text
	for {
		before, after, found := strings.Cut(rest, "${")
		b.WriteString(before)
		if !found {
			break
		}
		word, tail, closed := strings.Cut(after, "}")
		if !closed {
			b.WriteString("${" + after)
			break
		}
		rest = tail
		if literal, ok := strings.CutPrefix(word, "!"); ok {
			b.WriteString("${" + literal + "}")
			continue
		}
		word = strings.TrimSpace(word)
		var v *doctree.Node
		if n := own.Member(word); n != nil {
			v = s.eval(n, name)
		} else if id, attr, dotted := strings.Cut(word, "."); dotted {
			v = s.attribute(at, id, attr, name)
		} else {
			v = s.ref(at, word, name)
		}
		if v.Kind == doctree.List || v.Kind == doctree.Object {
			s.Wrong(at, "Fn::Sub: "+word+" is no text", "")
		}
		b.WriteString(toolfile.TextOf(v))
		if !s.spend(at, len(toolfile.TextOf(v))) {
			break
		}
	}
	return s.TextAt(at, b.String())
}

// findInMap evaluates FindInMap, with a default if there is one.
func (s *stack) findInMap(at, arg *doctree.Node, name bool) *doctree.Node {
	args := toolfile.Items(arg)
	if len(args) != 3 && len(args) != 4 {
		s.Wrong(at, "Fn::FindInMap: it takes a map and two keys", "")
		return s.TextAt(at, "")
	}
	asked := s.Asked
	var keys [3]string
	for i := range keys {
		keys[i] = toolfile.TextOf(s.eval(args[i], false))
	}
	table := s.root.Member("Mappings").Member(keys[0])
	if v := table.Member(keys[1]).Member(keys[2]); v != nil {
		return v
	}
	if len(args) == 4 && args[3].Member("DefaultValue") != nil {
		return s.eval(args[3].Member("DefaultValue"), name)
	}
	if s.Asked == asked {
		s.Wrong(at, fmt.Sprintf("Fn::FindInMap: the map %s has no %s.%s", doctree.Quote(keys[0]), doctree.Quote(keys[1]), doctree.Quote(keys[2])), "")
	}
	return s.TextAt(at, "")
}

// importValue evaluates ImportValue: an export of another stack of this import, or what the user gives.
func (s *stack) importValue(at, arg *doctree.Node, name bool) *doctree.Node {
	key := toolfile.TextOf(s.eval(arg, false))
	if v, ok := s.Param(key); ok {
		return s.TextAt(at, v)
	}
	if key == "" {
		return s.TextAt(at, "")
	}
	for _, other := range s.stacks {
		if !s.spend(at, 0) {
			break
		}
		for _, o := range toolfile.Fields(other.root.Member("Outputs")) {
			export := o.Value.Member("Export").Member("Name")
			if export == nil || other == s || export.Kind == doctree.Text && export.Text != key || other.quiet(export) != key {
				continue
			}
			leave, ok := other.enter(at, "the export "+key)
			defer leave()
			if value := o.Value.Member("Value"); ok && value != nil {
				v := other.eval(value, name)
				return v
			}
			return s.TextAt(at, "")
		}
	}
	if name {
		s.standIn(at, "the export "+key+" of another stack is not known", key, "give --param "+toolfile.ShellWord(key+"=")+"VALUE where it matters")
		return s.TextAt(at, key)
	}
	s.Ask(at, key, "the export "+key+" of another stack is not known")
	return s.TextAt(at, "")
}

// condition evaluates a condition of the template by its name.
func (s *stack) condition(at *doctree.Node, id string) bool {
	if v, known := s.conditions[id]; known {
		return v
	}
	c := s.root.Member("Conditions").Member(id)
	if c == nil {
		s.Wrong(at, "there is no condition "+doctree.Quote(id), "")
		return false
	}
	leave, ok := s.enter(at, "the condition "+id)
	defer leave()
	if !ok {
		return false
	}
	v := s.test(c)
	s.conditions[id] = v
	return v
}

// test evaluates And, Or, Not, Equals or Condition.
func (s *stack) test(n *doctree.Node) bool {
	if !s.spend(n, 0) {
		return false
	}
	if n.Kind == doctree.Boolean {
		return n.Text == "true"
	}
	if len(n.Fields) != 1 {
		s.Wrong(n, "a condition is one of Fn::And, Fn::Or, Fn::Not, Fn::Equals and Condition", "")
		return false
	}
	f := n.Fields[0]
	switch args := toolfile.Items(f.Value); {
	case f.Key == "Condition":
		return s.condition(n, toolfile.TextOf(f.Value))
	case f.Key == "Fn::Equals" && len(args) == 2:
		a, b := s.eval(args[0], false), s.eval(args[1], false)
		return toolfile.Scalar(a) && toolfile.Scalar(b) && a.Text == b.Text || !toolfile.Scalar(a) && string(a.JSON()) == string(b.JSON())
	case f.Key == "Fn::Not" && len(args) == 1:
		return !s.test(args[0])
	case f.Key == "Fn::And" && len(args) > 0:
		return !slices.ContainsFunc(args, func(a *doctree.Node) bool { return !s.test(a) })
	case f.Key == "Fn::Or" && len(args) > 0:
		return slices.ContainsFunc(args, s.test)
	}
	s.Wrong(n, f.Key+" is no condition, or has the wrong number of values", "")
	return false
}

// declared notes the parameters of all templates as known, so that one that is given and not used is no mistake.
func (a *assembly) declared() {
	for _, s := range a.stacks {
		for _, id := range slices.Sorted(maps.Keys(names(s.root.Member("Parameters")))) {
			a.Known = append(a.Known, s.prefix+id, id)
		}
		a.Known = append(a.Known, "AWS::Region", "AWS::AccountId", "AWS::StackName", "AWS::Partition")
	}
}
