package taskdef

import (
	"path"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// foreign are documents of other kinds that people have beside task definitions, by
// members that only they have. The first that fits counts.
var foreign = []struct {
	members   []string
	what, fix string
}{
	{[]string{"apiVersion", "kind"}, "a Kubernetes manifest", "write its containers as a task definition"},
	{[]string{"serviceName"}, "an ECS service", "give its task definition; `podtask service create` runs it as a service"},
	{[]string{"services", "failures"}, "the output of DescribeServices", "give the task definition of the service, as DescribeTaskDefinition prints it"},
	{[]string{"services"}, "a Compose file", "convert it: podtask import FILE"},
	{[]string{"Resources"}, "a CloudFormation template", "make a definition of it: podtask import FILE"},
	{[]string{"format_version", "planned_values"}, "a plan of Terraform", "make a definition of it: podtask import FILE"},
	{[]string{"format_version", "values"}, "a state of Terraform", "make a definition of it: podtask import FILE"},
	{[]string{"terraform_version", "lineage"}, "a state of Terraform", "make a definition of it: podtask import FILE"},
	{[]string{"artifacts", "version"}, "a cloud assembly of CDK", "make a definition of it: podtask import FILE"},
	{[]string{"task_definition"}, "a configuration of ecspresso", "make a definition of it: podtask import FILE"},
	{[]string{"name", "type", "image"}, "a manifest of Copilot", "make a definition of it: podtask import FILE"},
	{[]string{"Type", "Properties"}, "a CloudFormation resource", "use its Properties, with names that begin in lower case"},
	{[]string{"ContainerDefinitions"}, "written for CloudFormation", "begin the names of members in lower case, as in containerDefinitions"},
	{[]string{"containerOverrides"}, "a TaskOverride", "give the task definition, and this file with --override"},
	{[]string{"overrides"}, "the input of RunTask", "give the task definition, and its overrides in a file of their own with --override"},
}

// isForeign reports a document of another kind once, instead of each of its members.
func isForeign(c cursor) bool {
	if c.node.Member("containerDefinitions") != nil {
		return false
	}
	for _, f := range foreign {
		if hasAll(c, f.members) {
			c.wrong("this is "+f.what+", and not a task definition", c.named(f.fix))
			return true
		}
	}
	return false
}

// named has the file that is read in the place of FILE, if it is one.
func (c cursor) named(fix string) string {
	if path.Ext(c.p.name) == "" {
		return fix
	}
	return strings.ReplaceAll(fix, "podtask import FILE", "podtask import "+c.p.name)
}

func hasAll(c cursor, members []string) bool {
	for _, m := range members {
		if c.node.Member(m) == nil {
			return false
		}
	}
	return true
}

// notAnObject reports a document that is no object at all.
func notAnObject(c cursor) {
	fix := ""
	if c.node.Kind == doctree.List && len(c.node.Items) > 0 && c.node.Items[0].Member("image") != nil {
		fix = `write {"family": NAME, "containerDefinitions": ...} around these containers, as podtask import FILE does`
	}
	c.wrong("a task definition is an object, and this is "+c.node.Kind.String(), c.named(fix))
}
