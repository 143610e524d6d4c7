package taskdef

// foreign are documents of other kinds that people have beside task definitions, by
// members that only they have.
var foreign = []struct {
	members   []string
	what, fix string
}{
	{[]string{"apiVersion", "kind"}, "a Kubernetes manifest", "write its containers as a task definition"},
	{[]string{"services"}, "a Compose file", "convert it: podtask generate --from FILE"},
	{[]string{"Resources"}, "a CloudFormation template", "give the Properties of its AWS::ECS::TaskDefinition, with names that begin in lower case"},
	{[]string{"Type", "Properties"}, "a resource of CloudFormation", "give its Properties, with names that begin in lower case"},
	{[]string{"ContainerDefinitions"}, "in the words of CloudFormation", "begin the names of members in lower case, as in containerDefinitions"},
	{[]string{"containerOverrides"}, "a TaskOverride", "give the definition, and this with --override"},
	{[]string{"overrides"}, "the input of RunTask", "give the definition, and the overrides in a file of their own with --override"},
}

// isForeign reports a document of another kind at once, instead of each of its members.
func (c cursor) isForeign() bool {
	if c.node.member("containerDefinitions") != nil {
		return false
	}
	for _, f := range foreign {
		if c.hasAll(f.members) {
			c.wrong("this is "+f.what+", and not a task definition", f.fix)
			return true
		}
	}
	return false
}

func (c cursor) hasAll(members []string) bool {
	for _, m := range members {
		if c.node.member(m) == nil {
			return false
		}
	}
	return true
}

// notAnObject reports a document that is no object at all.
func (c cursor) notAnObject() {
	fix := ""
	if c.node.kind == list && len(c.node.items) > 0 && c.node.items[0].member("image") != nil {
		fix = `write {"family": NAME, "containerDefinitions": ...} around these containers`
	}
	c.wrong("a task definition is an object, and this is "+c.node.kind.String(), fix)
}
