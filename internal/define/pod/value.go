package pod

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/refs"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// report gathers what a file has to say.
type report struct {
	file                      string
	lenient                   bool // unknown fields are warnings
	without                   []string
	problems, warnings, needs []taskdef.Problem
	references                []taskdef.Resolved
}

func (r *report) result() taskdef.Report {
	for _, list := range [][]taskdef.Problem{r.problems, r.warnings, r.needs} {
		slices.SortStableFunc(list, func(a, b taskdef.Problem) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	}
	r.problems = slices.CompactFunc(r.problems, func(a, b taskdef.Problem) bool { return a == b }) // of values that are read twice
	return taskdef.Report{Warnings: r.warnings, Needs: r.needs, References: r.references}
}

// answer looks up what the file leaves to this host.
func answer(v value, table refs.Table, kind refs.Kind, r refs.Reference) (source string, ok bool) {
	answer, seen, ok, err := taskdef.Resolve(table, kind, r, v.pointer)
	if err != nil {
		v.wrong(err.Error(), "put a rule for this reference in front of it")
	}
	v.report.references = append(v.report.references, seen)
	return answer.Source, ok
}

// value is a place in a document. A nil node means absent; line and column are then
// those of the object that lacks it.
type value struct {
	report    *report
	node      *doctree.Node
	pointer   string
	line, col int
}

// at returns the member with a name.
func (v value) at(name string) value {
	in := value{v.report, v.node.Member(name), v.pointer + "/" + doctree.Escape(name), v.line, v.col}
	if in.node != nil {
		in.line, in.col = in.node.Line, in.node.Col
	}
	return in
}

// field returns the value of a field.
func (v value) field(f doctree.Field) value {
	return value{v.report, f.Value, v.pointer + "/" + doctree.Escape(f.Key), f.Value.Line, f.Value.Col}
}

// atKey is the same place, pointing at the key of the field.
func (v value) atKey(f doctree.Field) value {
	v.line, v.col = f.Line, f.Col
	return v
}

// items returns the items of a list, null ones too.
func (v value) items() []value {
	if v.node == nil || v.node.Kind != doctree.List {
		return nil
	}
	out := make([]value, len(v.node.Items))
	for i, n := range v.node.Items {
		out[i] = value{v.report, n, v.pointer + "/" + strconv.Itoa(i), n.Line, n.Col}
	}
	return out
}

// entries returns the members of an object that are not null.
func (v value) entries() []doctree.Field {
	if v.node == nil || v.node.Kind != doctree.Object {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(v.node.Fields), func(f doctree.Field) bool { return f.Value.Kind == doctree.Null })
}

func (v value) present() bool { return v.node != nil && v.node.Kind != doctree.Null }

// filled reports whether the value is there and says something.
func (v value) filled() bool { return v.node != nil && !v.node.Empty() }

// str returns a text; empty for an absent one or one of another kind, which check has
// reported.
func (v value) str() string {
	if v.node == nil || v.node.Kind != doctree.Text {
		return ""
	}
	if strings.ContainsRune(v.node.Text, 0) {
		v.wrong("this text holds a NUL character, which no program can be given", "remove it")
		return ""
	}
	return v.node.Text
}

// texts returns a list of texts.
func texts(v value) []string {
	var out []string
	for _, item := range v.items() {
		out = append(out, item.str())
	}
	return out
}

// flag returns a boolean, and unset for an absent one.
func (v value) flag(unset bool) bool {
	if v.node == nil || v.node.Kind != doctree.Boolean {
		return unset
	}
	return v.node.Text == "true"
}

// integer returns a whole number between two bounds, and unset for an absent one.
func (v value) integer(least, most, unset int64) int64 {
	if v.node == nil || v.node.Kind != doctree.Number {
		return unset
	}
	i, err := strconv.ParseInt(v.node.Text, 0, 64)
	if err != nil {
		return unset
	}
	if i < least || i > most {
		v.wrong("out of range: it must be "+strconv.FormatInt(least, 10)+" to "+strconv.FormatInt(most, 10), "")
		return unset
	}
	return i
}

// word returns one of some words, and unset for an absent one.
func (v value) word(unset string, words ...string) string {
	s := v.str()
	if s == "" {
		return unset
	}
	if slices.Contains(words, s) {
		return s
	}
	if !slices.ContainsFunc(v.report.problems, func(p taskdef.Problem) bool { return p.Pointer == v.pointer }) { // the schema has its words too
		v.wrong("this cannot be "+doctree.Quote(s), cmp.Or(suggest.Question(s, words), "use "+strings.Join(words, ", ")))
	}
	return unset
}

func (v value) problem(message, fix string) taskdef.Problem {
	return taskdef.Problem{File: v.report.file, Pointer: v.pointer, Line: v.line, Column: v.col, Message: message, Fix: fix}
}

func (v value) wrong(message, fix string) {
	v.report.problems = append(v.report.problems, v.problem(message, fix))
}

func (v value) warn(message, fix string) {
	v.report.warnings = append(v.report.warnings, v.problem(message, fix))
}

func (v value) need(message, fix string) {
	v.report.needs = append(v.report.needs, v.problem(message, fix))
}
