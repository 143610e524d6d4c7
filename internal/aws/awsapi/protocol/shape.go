package protocol

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// Keep makes members that come back as they were sent. T is their type: a request in which one has another type, or members that T
// does not have, is refused. A json.RawMessage in T is any value. "PATH=A|B" is a member that can only be A or B, and so is a field of T
// with the tag words:"A|B".
func Keep[T any](why string, paths ...string) []Member {
	all := HonorAndKeep[T](paths...)
	for i := range all {
		all[i].Answer, all[i].Why = Kept, why
	}
	return all
}

// HonorAndKeep makes members of type T that have an effect and come back in answers as they were sent.
func HonorAndKeep[T any](paths ...string) []Member {
	all := Honor(paths...)
	for i := range all {
		all[i].shape = reflect.TypeFor[T]()
	}
	return all
}

// Shape returns the type of a member that comes back in answers, nil for any other, and the words that it can be.
func (m Member) Shape() (t reflect.Type, words string) { return m.shape, m.words }

// checkWords checks text, or the text of a list.
func checkWords(n *doctree.Node, words, path string) error {
	if words == "" {
		return nil
	}
	for _, item := range n.Items {
		if err := checkWords(item, words, path); err != nil {
			return err
		}
	}
	if n.Kind != doctree.Text {
		return nil
	}
	return OneOf(path, n.Text, strings.Split(words, "|")...)
}

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
	if _, err := strconv.ParseInt(n.Text, 10, 32); t.Kind() == reflect.Int && err != nil {
		return Failf(CodeSyntax, "%s cannot be %s: it is a whole number of 32 bits", path, Shortened(n.Text))
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
		inside, within := path+"."+f.Key, reflect.StructField{}
		if t.Kind() == reflect.Map {
			within.Type = t.Elem()
		} else if within = fieldOf(t, f.Key); within.Type == nil {
			return Invalidf("%s: podtask does not know this member", Shortened(inside))
		}
		if err := checkShape(f.Value, within.Type, inside); err != nil {
			return err
		}
		if err := checkWords(f.Value, within.Tag.Get("words"), inside); err != nil {
			return err
		}
	}
	return nil
}

// fieldOf returns the field of a structure that has a name in JSON; one without a type if there is none.
func fieldOf(t reflect.Type, name string) reflect.StructField {
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return f
		}
	}
	return reflect.StructField{}
}

var kinds = map[reflect.Kind]doctree.Kind{
	reflect.String: doctree.Text, reflect.Int: doctree.Number, reflect.Bool: doctree.Boolean,
	reflect.Slice: doctree.List, reflect.Map: doctree.Object, reflect.Struct: doctree.Object,
}
