package protocol

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// Keep makes members that come back as they were sent. T is their type: a request in which one has another type, or members that T
// does not have, is refused. A json.RawMessage in T is any value.
func Keep[T any](why string, paths ...string) (all []Member) {
	for _, p := range paths {
		all = append(all, Member{Path: p, Answer: Kept, Why: why, shape: reflect.TypeFor[T]()})
	}
	return all
}

// HonorAndKeep makes members of type T that have an effect and come back in answers as they were sent.
func HonorAndKeep[T any](paths ...string) []Member {
	all := Keep[T]("", paths...)
	for i := range all {
		all[i].Answer = Honored
	}
	return all
}

// Shape returns the type of a member that comes back in answers; nil for any other.
func (m Member) Shape() reflect.Type { return m.shape }

// checkShape checks that a value can be decoded into t with all that it has.
func checkShape(n *doctree.Node, t reflect.Type, path string) error {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n.Kind == doctree.Null || t == reflect.TypeFor[json.RawMessage]() {
		return nil
	}
	if n.Kind != kinds[t.Kind()] {
		return Failf(CodeSyntax, "%s cannot be %s", path, n.Kind)
	}
	for i, item := range n.Items {
		if err := checkShape(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	for _, f := range n.Fields {
		if f.Value.Kind == doctree.Null {
			continue
		}
		inside, within := path+"."+f.Key, reflect.Type(nil)
		if t.Kind() == reflect.Map {
			within = t.Elem()
		} else if within = typeOfMember(t, f.Key); within == nil {
			return Invalidf("%s: podtask does not know this member", Shortened(inside))
		}
		if err := checkShape(f.Value, within, inside); err != nil {
			return err
		}
	}
	return nil
}

// typeOfMember returns the type of the field of a structure that has a name in JSON, or nil.
func typeOfMember(t reflect.Type, name string) reflect.Type {
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return f.Type
		}
	}
	return nil
}

var kinds = map[reflect.Kind]doctree.Kind{
	reflect.String: doctree.Text, reflect.Int: doctree.Number, reflect.Bool: doctree.Boolean,
	reflect.Slice: doctree.List, reflect.Map: doctree.Object, reflect.Struct: doctree.Object,
}
