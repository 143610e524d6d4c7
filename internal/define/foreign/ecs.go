package foreign

import (
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/internal/define/short"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// containerList is a list of containers, as in container_definitions of Terraform.
func containerList(r *toolfile.Reader, docs []*doctree.Node) []*toolfile.Workload {
	root := docs[0]
	return []*toolfile.Workload{{Names: []string{r.Stem()}, Build: func(*toolfile.Result) *doctree.Node {
		return r.Object(root, "containerDefinitions", root)
	}}}
}

// taskDefinition is a task definition as RegisterTaskDefinition takes or DescribeTaskDefinition prints it.
func taskDefinition(r *toolfile.Reader, docs []*doctree.Node) []*toolfile.Workload {
	def := r.UnwrapDefinition(docs[0])
	return []*toolfile.Workload{{Names: []string{r.Stem()}, Name: toolfile.TextOf(def.Member("family")), Build: func(*toolfile.Result) *doctree.Node { return def }}}
}

// shortDefinition is a task definition in podtask's short form.
func shortDefinition(r *toolfile.Reader, docs []*doctree.Node) []*toolfile.Workload {
	def, problems := short.Expand(r.File, r.Dir, docs[0])
	r.Problems = append(r.Problems, problems...)
	if def == nil {
		return nil
	}
	return []*toolfile.Workload{{Names: []string{r.Stem()}, Name: toolfile.TextOf(def.Member("family")), Build: func(*toolfile.Result) *doctree.Node { return def }}}
}

// isFamily reports whether a text can be the family of a definition.
func isFamily(s string) bool {
	return s != "" && len(s) <= 255 && !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-')
	})
}

// finish completes the definition.
func finish(r *toolfile.Reader, res *toolfile.Result) {
	def := res.Definition
	if def.Kind != doctree.Object {
		r.Wrong(def, "a task definition is an object, not "+def.Kind.String(), "")
		return
	}
	name := toolfile.TextOf(def.Member("family"))
	if r.Name != "" || !isFamily(name) {
		name = toolfile.Plain(res.Name)
	}
	toolfile.Remove(def, "family")
	def.Fields = slices.Insert(def.Fields, 0, doctree.Field{Key: "family", Line: def.Line, Col: def.Col, Value: r.TextAt(def, name)})
	for _, c := range toolfile.Items(def.Member("containerDefinitions")) {
		withoutReserved(r, c)
	}
	dropEmpty(def)
}

// withoutReserved takes the labels out of a container that podtask sets itself.
func withoutReserved(r *toolfile.Reader, c *doctree.Node) {
	labels := c.Member("dockerLabels")
	for _, f := range slices.Clone(toolfile.Fields(labels)) {
		if strings.HasPrefix(f.Key, "podtask.") || strings.HasPrefix(f.Key, "com.amazonaws.ecs.") {
			r.Lose(f.Value, "the label "+doctree.Quote(f.Key)+": names that begin so are reserved", "rename it")
			toolfile.Remove(labels, f.Key)
		}
	}
}

// dropEmpty takes out members that say nothing. An empty text in a list, or of a name, stays.
func dropEmpty(n *doctree.Node) {
	var kept []doctree.Field
	for _, f := range n.Fields {
		dropEmpty(f.Value)
		if f.Value.Kind == doctree.Null || f.Value.Kind == doctree.List && len(f.Value.Items) == 0 || f.Value.Kind == doctree.Object && len(f.Value.Fields) == 0 {
			continue
		}
		kept = append(kept, f)
	}
	if n.Kind == doctree.Object {
		n.Fields = kept
	}
	for _, item := range n.Items {
		dropEmpty(item)
	}
}
