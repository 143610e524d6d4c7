package strictdoc

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// Limits are what a document may hold: 1 MiB, and so many values and levels.
var Limits = doctree.Limits{Size: 1 << 20, Values: 20_000, Depth: 40}

// Checker is a struct with rules across its members. Check is called after its members were read
// without problems.
type Checker interface{ Check(at Place) }

// Place is a value in a document, to which problems are reported.
type Place struct {
	d    *decoder
	node *doctree.Node
	ptr  string
}

// At returns the place of a member, or that of the object itself if it lacks the member.
func (p Place) At(member string) Place {
	if v := p.node.Member(member); v != nil {
		return Place{p.d, v, p.ptr + "/" + doctree.Escape(member)}
	}
	return p
}

// Item returns the place of an item of a list.
func (p Place) Item(i int) Place {
	if i < len(p.node.Items) {
		return Place{p.d, p.node.Items[i], p.ptr + "/" + strconv.Itoa(i)}
	}
	return p
}

// Problem reports what is wrong with the value, and what to do about it.
func (p Place) Problem(fix, format string, args ...any) {
	p.d.problems = append(p.d.problems, taskdef.Problem{
		File: p.d.file, Pointer: p.ptr, Line: p.node.Line, Column: p.node.Col, Message: fmt.Sprintf(format, args...), Fix: fix,
	})
}

type decoder struct {
	file     string
	problems []taskdef.Problem
}

// Decode reads a document into the struct that into points to, and returns all problems, in the order
// of the document. File is named in them.
func Decode(file string, src []byte, into any) []taskdef.Problem {
	d := &decoder{file: file}
	docs, err := doctree.Documents(src, Limits)
	var syntax *doctree.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return []taskdef.Problem{{File: file, Line: syntax.Line, Column: syntax.Col, Message: syntax.Message, Fix: syntax.Fix}}
	case err != nil:
		return []taskdef.Problem{{File: file, Message: err.Error()}}
	case len(docs) == 0:
		return []taskdef.Problem{{File: file, Message: "the file is empty"}}
	case len(docs) > 1:
		return []taskdef.Problem{{File: file, Line: docs[1].Line, Column: 1, Message: "there is a second document", Fix: "write it into a file of its own"}}
	}
	d.value(Place{d, docs[0], ""}, reflect.ValueOf(into).Elem(), "", nil)
	slices.SortStableFunc(d.problems, func(a, b taskdef.Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return d.problems
}

// value reads the value at a place. Field is the field that it becomes, nil for the root, an item and a
// value of a map.
func (d *decoder) value(at Place, to reflect.Value, name string, field *reflect.StructField) {
	n := at.node
	if n.Kind == doctree.Null {
		return
	}
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	if u, ok := to.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if !scalar(n) {
			at.Problem("", "%sa text is expected here, not %s", label(name), n.Kind)
		} else if err := u.UnmarshalText([]byte(n.Text)); err != nil {
			at.Problem("", "%s%v", label(name), err)
		}
		return
	}
	switch to.Kind() {
	case reflect.String:
		d.text(at, to, name, field)
	case reflect.Bool:
		if n.Kind != doctree.Boolean {
			at.Problem("write true or false", "%strue or false is expected here, not %s", label(name), n.Kind)
			return
		}
		to.SetBool(strings.EqualFold(n.Text, "true"))
	case reflect.Int, reflect.Float64:
		d.number(at, to, name, field)
	case reflect.Slice:
		d.list(at, to, name)
	case reflect.Map:
		if n.Kind != doctree.Object {
			at.Problem("write NAME: VALUE", "%sa mapping of names to values is expected here, not %s", label(name), n.Kind)
			return
		}
		to.Set(reflect.MakeMap(to.Type()))
		for _, f := range n.Fields {
			v := reflect.New(to.Type().Elem()).Elem()
			d.value(Place{d, f.Value, at.ptr + "/" + doctree.Escape(f.Key)}, v, f.Key, nil)
			to.SetMapIndex(reflect.ValueOf(f.Key), v)
		}
	case reflect.Struct:
		d.object(at, to, name)
	default:
		panic("strictdoc: no way to read a " + to.Type().String())
	}
}

func scalar(n *doctree.Node) bool {
	return n.Kind == doctree.Text || n.Kind == doctree.Number || n.Kind == doctree.Boolean
}

// label is the beginning of a message about a member.
func label(name string) string {
	if name == "" {
		return ""
	}
	return name + ": "
}

func (d *decoder) text(at Place, to reflect.Value, name string, field *reflect.StructField) {
	if !scalar(at.node) {
		at.Problem("", "%sa text is expected here, not %s", label(name), at.node.Kind)
		return
	}
	if words := enum(field); words != nil && !slices.Contains(words, at.node.Text) {
		at.Problem(suggest.Question(at.node.Text, words), "%sthe value is one of %s, not %s", label(name), strings.Join(words, ", "), doctree.Quote(at.node.Text))
		return
	}
	to.SetString(at.node.Text)
}

func enum(field *reflect.StructField) []string {
	if field == nil || field.Tag.Get("enum") == "" {
		return nil
	}
	return strings.Split(field.Tag.Get("enum"), "|")
}

func (d *decoder) number(at Place, to reflect.Value, name string, field *reflect.StructField) {
	f, err := strconv.ParseFloat(at.node.Text, 64)
	if !scalar(at.node) || err != nil {
		at.Problem("", "%sa number is expected here, not %s", label(name), at.node.Kind)
		return
	}
	if least, most, bounded := bounds(field); bounded && (f < least || f > most) {
		at.Problem("", "%sthe number is %v to %v, not %v", label(name), least, most, f)
		return
	}
	if to.Kind() == reflect.Float64 {
		to.SetFloat(f)
		return
	}
	if f != float64(int64(f)) {
		at.Problem("", "%sa whole number is expected here, not %v", label(name), f)
		return
	}
	to.SetInt(int64(f))
}

// bounds returns the tags min and max of a field.
func bounds(field *reflect.StructField) (least, most float64, ok bool) {
	if field == nil || field.Tag.Get("max") == "" {
		return 0, 0, false
	}
	least, _ = strconv.ParseFloat(field.Tag.Get("min"), 64) // 0 without the tag
	most, err := strconv.ParseFloat(field.Tag.Get("max"), 64)
	return least, most, err == nil
}

// list reads a list. A single text stands for a list of one.
func (d *decoder) list(at Place, to reflect.Value, name string) {
	items, single := at.node.Items, false
	if at.node.Kind != doctree.List {
		if to.Type().Elem().Kind() != reflect.String || !scalar(at.node) {
			at.Problem("begin each item with a dash", "%sa list is expected here, not %s", label(name), at.node.Kind)
			return
		}
		items, single = []*doctree.Node{at.node}, true
	}
	list := reflect.MakeSlice(to.Type(), len(items), len(items))
	for i, item := range items {
		place := Place{d, item, at.ptr + "/" + strconv.Itoa(i)}
		if single {
			place = at
		}
		d.value(place, list.Index(i), name, nil)
	}
	to.Set(list)
}

func (d *decoder) object(at Place, to reflect.Value, name string) {
	if at.node.Kind != doctree.Object {
		at.Problem("", "%san object with members is expected here, not %s", label(name), at.node.Kind)
		return
	}
	before := len(d.problems)
	fields := fieldsOf(to.Type())
	for _, f := range at.node.Fields {
		place := Place{d, f.Value, at.ptr + "/" + doctree.Escape(f.Key)}
		i := slices.IndexFunc(fields, func(m member) bool { return m.name == f.Key })
		if i < 0 {
			names := namesOf(fields)
			fix := suggest.Question(f.Key, names)
			if fix == "" {
				fix = "the members are " + strings.Join(names, ", ")
			}
			d.problems = append(d.problems, taskdef.Problem{File: d.file, Pointer: place.ptr, Line: f.Line, Column: f.Col, Message: "there is no member " + doctree.Quote(f.Key) + " here", Fix: fix})
			continue
		}
		d.value(place, to.FieldByIndex(fields[i].field.Index), f.Key, &fields[i].field)
	}
	for _, m := range fields {
		if m.field.Tag.Get("need") == "true" && at.node.Member(m.name) == nil {
			at.Problem("", "the member %s is missing", m.name)
		}
	}
	if c, ok := to.Addr().Interface().(Checker); ok && len(d.problems) == before {
		c.Check(at)
	}
}

// member is a field of a struct that is a member of a document.
type member struct {
	name  string
	field reflect.StructField
}

// fieldsOf returns the members of a struct, those of embedded structs included, in their order.
func fieldsOf(t reflect.Type) (all []member) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "" && name != "-" {
			all = append(all, member{name, f})
		}
	}
	return all
}

func namesOf(fields []member) (names []string) {
	for _, m := range fields {
		names = append(names, m.name)
	}
	return names
}

// Position returns the line and the column of the value, which count from 1.
func (p Place) Position() (line, column int) { return p.node.Line, p.node.Col }
