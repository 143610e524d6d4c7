package short

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// Is reports whether a document is a definition in the short form: an object with containers. One whose members are containers
// themselves counts too: Expand says what to write.
func Is(root *doctree.Node) bool {
	if root.Member("containerDefinitions") != nil || root.Member("apiVersion") != nil {
		return false
	}
	return root.Member("containers") != nil || bare(root) != nil
}

// bare returns the first member of a document that is a container by itself; nil unless all members but the name are.
func bare(root *doctree.Node) (first *doctree.Node) {
	for _, f := range root.Fields {
		switch {
		case f.Value.Kind == doctree.Object && f.Value.Member("image").IsScalar():
			if first == nil {
				first = f.Value
			}
		case f.Key != "name" && f.Key != "$schema":
			return nil
		}
	}
	return first
}

// Expand returns the ECS task definition that a short one means, and all problems of its form. Relative paths of the host count from
// dir, an absolute path; empty leaves them as they are. The definition is nil if there are no containers in it.
func Expand(file, dir string, root *doctree.Node) (*doctree.Node, []taskdef.Problem) {
	r := &reader{file: file, dir: dir, sources: map[string]string{}, names: map[string]int{}}
	containers := root.Member("containers")
	switch {
	case containers == nil:
		r.wrong(bare(root), "the containers of a short definition are below containers", "write containers: above them, and indent them")
		return nil, r.problems
	case containers.Kind != doctree.Object || len(containers.Fields) == 0:
		r.wrong(containers, "containers is an object: the name of each with what it is", "write containers: {web: {image: IMAGE}}")
		return nil, r.problems
	}
	r.twice(root)
	r.family = containers.Fields[0].Key
	if n := root.Member("name"); n != nil {
		r.family = n.Text
	}
	r.task = object(root)
	r.set(r.task, "family", orElse(root.Member("name"), root), text(r.family))
	r.read(r.task, root, TaskKeys)
	list := &doctree.Node{Kind: doctree.List, Line: containers.Line, Col: containers.Col}
	for _, f := range containers.Fields {
		list.Items = append(list.Items, r.container(f))
	}
	for i, f := range containers.Fields {
		r.order(list.Items[i], f.Value, containers)
	}
	r.set(r.task, "containerDefinitions", containers, list)
	if len(r.volumes) > 0 {
		r.set(r.task, "volumes", r.volumes[0], &doctree.Node{Kind: doctree.List, Items: r.volumes})
	}
	return r.task, r.problems
}

// reader makes one definition.
type reader struct {
	file, dir, family string
	task              *doctree.Node
	volumes           []*doctree.Node
	// sources has the names of volumes by what they are of, names how many volumes wanted each name.
	sources map[string]string
	names   map[string]int
	// ports is the number of ports of ranges so far.
	ports    int
	problems []taskdef.Problem
}

func (r *reader) wrong(at *doctree.Node, message, fix string) {
	r.wrongAt(at.Line, at.Col, message, fix)
}

func (r *reader) wrongAt(line, col int, message, fix string) {
	r.problems = append(r.problems, taskdef.Problem{File: r.file, Line: line, Column: col, Message: message, Fix: fix})
}

// twice reports keys that an object has twice.
func (r *reader) twice(n *doctree.Node) {
	first := map[string]int{}
	for _, f := range n.Fields {
		if line, is := first[f.Key]; is {
			r.wrongAt(f.Line, f.Col, doctree.Quote(f.Key)+" is written twice, first in line "+strconv.Itoa(line), "keep one of them")
		}
		first[f.Key] = f.Line
		r.twice(f.Value)
	}
	for _, item := range n.Items {
		r.twice(item)
	}
}

// read gives to what the keys of an object become. A key that is written wrong is reported, and read as the one that is meant.
func (r *reader) read(to, from *doctree.Node, keys []Key) {
	for _, f := range from.Fields {
		i := slices.IndexFunc(keys, func(k Key) bool { return Canonical(f.Key) == k.Name })
		if i < 0 {
			r.wrongAt(f.Line, f.Col, "there is no key "+doctree.Quote(f.Key)+" here", Instead(f.Key, keys))
			if i = meant(f.Key, keys); i < 0 || from.Member(keys[i].Name) != nil {
				continue
			}
		}
		if f.Value.Kind != doctree.Null && keys[i].put != nil {
			keys[i].put(r, to, f)
		}
	}
}

// meant returns the index of the key that one which is none of keys stands for, or may be a misspelling of; -1 for none.
func meant(key string, keys []Key) int {
	var names []string
	for i, k := range keys {
		if slices.Contains(k.instead, key) {
			return i
		}
		names = append(names, k.Name)
	}
	return slices.Index(names, suggest.Closest(key, names))
}

// Instead returns what to write in the place of a key that is none of keys.
func Instead(key string, keys []Key) string {
	switch i := meant(key, keys); {
	case i < 0:
		return "podtask explain short lists the keys, and a whole task definition has the rest: podtask import FILE writes it"
	case slices.Contains(keys[i].instead, key):
		return "write " + keys[i].Name
	default:
		return suggest.Ask(keys[i].Name)
	}
}

// IsContainerKey reports whether a container has a key.
func IsContainerKey(key string) bool {
	return slices.ContainsFunc(ContainerKeys, func(k Key) bool { return k.Name == Canonical(key) })
}

// container returns the container of a field.
func (r *reader) container(f doctree.Field) *doctree.Node {
	to := &doctree.Node{Kind: doctree.Object, Line: f.Line, Col: f.Col}
	r.set(to, "name", to, text(f.Key))
	if f.Value.Kind != doctree.Object {
		r.wrong(f.Value, "the container "+doctree.Quote(f.Key)+" is an object", "write its image: {image: IMAGE}")
		r.set(to, "image", to, text("localhost/none"))
		return to
	}
	r.read(to, f.Value, ContainerKeys)
	return to
}

// host returns a path of the host, which is relative to the directory of the file.
func (r *reader) host(at *doctree.Node, p string) string {
	switch {
	case strings.HasPrefix(p, "~"):
		r.wrong(at, doctree.Quote(p)+" begins with ~, which only a shell knows", "write the whole path")
		return "/" + p
	case !path.IsAbs(p) && !strings.HasPrefix(p, "$") && r.dir != "":
		return path.Join(r.dir, p)
	}
	return p
}

func orElse(n, other *doctree.Node) *doctree.Node {
	if n == nil {
		return other
	}
	return n
}

func text(s string) *doctree.Node { return &doctree.Node{Kind: doctree.Text, Text: s} }

func number(i int64) *doctree.Node {
	return &doctree.Node{Kind: doctree.Number, Text: strconv.FormatInt(i, 10)}
}

func flag(is bool) *doctree.Node {
	return &doctree.Node{Kind: doctree.Boolean, Text: strconv.FormatBool(is)}
}

func object(at *doctree.Node) *doctree.Node {
	return &doctree.Node{Kind: doctree.Object, Line: at.Line, Col: at.Col}
}

// set gives an object a member; what has no place yet has that of at.
func (r *reader) set(to *doctree.Node, key string, at, value *doctree.Node) {
	place(value, at)
	to.Fields = append(to.Fields, doctree.Field{Key: key, Line: value.Line, Col: value.Col, Value: value})
}

// add adds an item to the list of a member, which is made for the first one.
func (r *reader) add(to *doctree.Node, key string, at, item *doctree.Node) {
	place(item, at)
	list := to.Member(key)
	if list == nil {
		list = &doctree.Node{Kind: doctree.List}
		r.set(to, key, at, list)
	}
	list.Items = append(list.Items, item)
}

// within returns the object of a member, which is made where it is missing.
func (r *reader) within(to *doctree.Node, key string, at *doctree.Node) *doctree.Node {
	n := to.Member(key)
	if n == nil {
		n = object(at)
		r.set(to, key, at, n)
	}
	return n
}

func place(n, at *doctree.Node) {
	if n.Line == 0 {
		n.Line, n.Col = at.Line, at.Col
	}
	for _, item := range n.Items {
		place(item, at)
	}
	for i := range n.Fields {
		place(n.Fields[i].Value, at)
		n.Fields[i].Line, n.Fields[i].Col = n.Fields[i].Value.Line, n.Fields[i].Value.Col
	}
}
