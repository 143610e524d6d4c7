package foreign

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/define/short"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// stem is the name of the file without its directory and extensions.
func (r *reader) stem() string {
	base := path.Base(r.File)
	for _, ext := range []string{".json", ".yaml", ".yml", ".template"} {
		base = strings.TrimSuffix(base, ext)
	}
	if plain(base) == "" {
		return "task"
	}
	return base
}

// containerList is a list of containers, as in container_definitions of Terraform.
func (r *reader) containerList(docs []*doctree.Node) []*workload {
	root := docs[0]
	return []*workload{{names: []string{r.stem()}, build: func(*Result) *doctree.Node {
		return r.object(root, "containerDefinitions", root)
	}}}
}

// readOnly are the members that DescribeTaskDefinition adds.
var readOnly = []string{"taskDefinitionArn", "revision", "status", "requiresAttributes", "compatibilities", "registeredAt", "registeredBy", "deregisteredAt", "deleteRequestedAt"}

// taskDefinition is a task definition as RegisterTaskDefinition takes or DescribeTaskDefinition prints it.
func (r *reader) taskDefinition(docs []*doctree.Node) []*workload {
	def := r.unwrapDefinition(docs[0])
	return []*workload{{names: []string{r.stem()}, name: textOf(def.Member("family")), build: func(*Result) *doctree.Node { return def }}}
}

// shortDefinition is a task definition in podtask's short form.
func (r *reader) shortDefinition(docs []*doctree.Node) []*workload {
	def, problems := short.Expand(r.File, r.Dir, docs[0])
	r.problems = append(r.problems, problems...)
	if def == nil {
		return nil
	}
	return []*workload{{names: []string{r.stem()}, name: textOf(def.Member("family")), build: func(*Result) *doctree.Node { return def }}}
}

// unwrapDefinition returns a task definition without its wrapper and what is read-only.
func (r *reader) unwrapDefinition(n *doctree.Node) *doctree.Node {
	def := n
	if inner := n.Member("taskDefinition"); inner != nil && inner.Kind == doctree.Object {
		def = inner
		if tags := n.Member("tags"); tags != nil {
			set(def, "tags", tags)
		}
	}
	for _, member := range readOnly {
		remove(def, member)
	}
	return def
}

// unwrapService returns a service without the wrapper of DescribeServices.
func unwrapService(n *doctree.Node) *doctree.Node {
	if list := n.Member("services"); list != nil && len(list.Items) == 1 {
		return list.Items[0]
	}
	if inner := n.Member("service"); inner != nil && inner.Kind == doctree.Object {
		return inner
	}
	return n
}

// isFamily reports whether a text can be the family of a definition.
func isFamily(s string) bool {
	return s != "" && len(s) <= 255 && !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-')
	})
}

// finish completes the definition.
func (r *reader) finish(res *Result) {
	def := res.Definition
	if def.Kind != doctree.Object {
		r.wrong(def, "a task definition is an object, not "+def.Kind.String(), "")
		return
	}
	name := textOf(def.Member("family"))
	if r.Name != "" || !isFamily(name) {
		name = plain(res.Name)
	}
	remove(def, "family")
	def.Fields = slices.Insert(def.Fields, 0, doctree.Field{Key: "family", Line: def.Line, Col: def.Col, Value: r.textAt(def, name)})
	for _, c := range items(def.Member("containerDefinitions")) {
		r.withoutReserved(c)
	}
	dropEmpty(def)
}

// withoutReserved takes the labels out of a container that podtask sets itself.
func (r *reader) withoutReserved(c *doctree.Node) {
	labels := c.Member("dockerLabels")
	for _, f := range slices.Clone(fields(labels)) {
		if strings.HasPrefix(f.Key, "podtask.") || strings.HasPrefix(f.Key, "com.amazonaws.ecs.") {
			r.lose(f.Value, "the label "+doctree.Quote(f.Key)+": names that begin so are reserved", "rename it")
			remove(labels, f.Key)
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

// Locate places a problem of the produced text where its value stands in the file.
func (r Result) Locate(p taskdef.Problem, text []byte) taskdef.Problem {
	n := r.Definition
	if n == nil {
		lines := strings.Split(string(text), "\n")
		doc := 0
		for _, line := range lines[:min(max(p.Line-1, 0), len(lines))] {
			if line == "---" {
				doc++
			}
		}
		if doc >= len(r.Documents) {
			return p
		}
		n = r.Documents[doc]
	}
	place := n
	for token := range strings.SplitSeq(strings.TrimPrefix(p.Pointer, "/"), "/") {
		key := strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		var next *doctree.Node
		if n.Kind == doctree.List {
			for i, item := range n.Items {
				if fmt.Sprint(i) == key {
					next = item
				}
			}
		} else {
			next = n.Member(key)
		}
		if next == nil {
			break
		}
		n = next
		if n.Line > 0 {
			place = n
		}
	}
	if place.Line > 0 {
		p.File, p.Line, p.Column = cmp.Or(r.files[place], r.file), place.Line, place.Col
	}
	return p
}
