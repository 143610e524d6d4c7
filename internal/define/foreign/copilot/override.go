package copilot

import (
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// maxIndex is the highest index in the path of an override.
const maxIndex = 100

// overrides applies taskdef_overrides of Copilot: each has a path in the spelling of CloudFormation, in which [-]
// appends to a list, and a value.
func overrides(r *toolfile.Reader, def, list *doctree.Node) {
	for _, o := range toolfile.Items(list) {
		path, value := o.Member("path"), o.Member("value")
		if toolfile.TextOf(path) == "" || value == nil {
			r.Wrong(o, "an override has a path and a value", "")
			continue
		}
		last, _, _ := strings.Cut(path.Text[strings.LastIndexByte(path.Text, '.')+1:], "[")
		if problem := override(r, def, path, r.LowerTree(value, last)); problem != "" {
			r.Wrong(path, "the override "+doctree.Quote(path.Text)+": "+problem, "")
		}
	}
}

// override sets the value at a path. It returns what is wrong with the path.
func override(r *toolfile.Reader, def, path, value *doctree.Node) (problem string) {
	at, in := def, ""
	steps := strings.Split(path.Text, ".")
	for i, step := range steps {
		name, indexes, _ := strings.Cut(step, "[")
		key := name
		if !toolfile.IsMap(in) {
			key = toolfile.LowerKey(name)
		}
		if key == "" || at.Kind != doctree.Object {
			return "it leads to no member"
		}
		in = name
		last := i == len(steps)-1
		if indexes == "" {
			if last {
				toolfile.Set(at, key, value)
				return ""
			}
			if at = child(r, at, key, doctree.Object, path); at == nil {
				return name + " has no members"
			}
			continue
		}
		if at = child(r, at, key, doctree.List, path); at == nil {
			return name + " is no list"
		}
		words := strings.Split(indexes, "[")
		for k, word := range words {
			index, closed := strings.CutSuffix(word, "]")
			n, err := strconv.Atoi(index)
			if index == "-" && at.Kind == doctree.List {
				n, err = len(at.Items), nil
			}
			if !closed || err != nil || n < 0 || n > maxIndex || at.Kind != doctree.List || n > len(at.Items) {
				return "there is no item [" + word
			}
			if n == len(at.Items) {
				at.Items = append(at.Items, r.Object(path))
			}
			if last && k == len(words)-1 {
				at.Items[n] = value
				return ""
			}
			at = at.Items[n]
		}
	}
	return ""
}

// child returns a member that is a list or an object, and makes one that is absent; nil for a member of another kind.
func child(r *toolfile.Reader, n *doctree.Node, key string, kind doctree.Kind, at *doctree.Node) *doctree.Node {
	if v := n.Member(key); v != nil {
		if v.Kind != kind {
			return nil
		}
		return v
	}
	v := r.Put(&doctree.Node{Kind: kind}, at)
	toolfile.Set(n, key, v)
	return v
}
