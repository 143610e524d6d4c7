package taskdef

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// Parse reads an ECS task definition, JSON or YAML, as given to
// RegisterTaskDefinition or as printed by DescribeTaskDefinition (wrapped in
// taskDefinition, with tags beside it and read-only members). Name is as for
// ReadSource.
//
// As tools and people write them, null and empty values count as absent,
// numbers may be text ("512") and text may be a bare number or boolean. A
// source of more than 1.5 MiB, 50000 values or 40 levels is refused.
//
// The error is nil or an *InvalidError with all problems at once, sorted by
// place. The Report holds its warnings in both cases. A valid Task has Revision
// 0, whatever revision a document printed by ECS claims.
//
// What a document leaves to the command line or the host does not make it
// invalid: it is in Report.Needs. The Task then shows what is known, with zero
// values for the rest, and is not fit to run: Task.Check refuses it.
func Parse(name string, src []byte) (Task, Report, error) {
	return Settings{}.Parse(name, src)
}

// Parse is Parse with what a command line adds.
func (s Settings) Parse(name string, src []byte) (Task, Report, error) {
	return s.ParseSource(ReadSource(name, src))
}

// ParseSource is Parse of a document whose text has been read.
func (s Settings) ParseSource(src Source) (Task, Report, error) {
	p := newParser(src.name, s, definitionTable)
	root, err := src.root()
	if err != nil {
		return Task{}, Report{}, err
	}
	if len(s.Vars) > 0 || len(s.Without) > 0 {
		root = root.Clone() // they change it
	}
	t := p.document(root)
	p.problems = append(p.problems, src.problems...)
	for _, found := range [][]Problem{p.problems, p.warnings, p.needs} {
		src.locate(found)
	}
	report, err := p.result()
	if err != nil {
		return Task{}, report, err
	}
	return t, report, nil
}

// ToJSON returns a definition or an override, JSON or YAML, as JSON. The error is an
// *InvalidError.
func ToJSON(name string, src []byte) (json.RawMessage, error) { return ReadSource(name, src).JSON() }

// result returns all that there is to say, and an error if there are problems.
func (p *parser) result() (Report, error) {
	byPlace(p.problems)
	byPlace(p.warnings)
	byPlace(p.needs)
	report := Report{Warnings: p.warnings, Needs: p.needs, References: p.resolved}
	if len(p.problems) > 0 {
		return report, &InvalidError{p.name, p.problems}
	}
	return report, nil
}

// parser gathers what one document has to say.
type parser struct {
	name     string
	settings Settings
	problems []Problem
	warnings []Problem
	needs    []Problem
	// broken holds the pointers of values that could not be decoded, or are not
	// given yet. The task has zero values there, on which the rules have nothing to
	// say.
	broken map[string]bool
	table  memberTable
	used   map[int]bool // rules of settings.Refs that the document has use for
	// resolved are the references of the document.
	resolved []Resolved
}

func newParser(name string, s Settings, table memberTable) *parser {
	return &parser{name: name, settings: s, table: table, broken: make(map[string]bool), used: make(map[int]bool)}
}

// document takes the task out of the whole document.
func (p *parser) document(root *doctree.Node) Task {
	top := cursor{p: p, node: root}
	if root.Kind != doctree.Object {
		notAnObject(top)
		return Task{}
	}
	if isForeign(top) {
		return Task{}
	}
	p.findDuplicates(root, "")
	def := top
	if root.Member("taskDefinition") != nil {
		def = top.at("taskDefinition")
		p.answerWrapper(top)
		if def.node.Kind != doctree.Object {
			notAnObject(def)
			return Task{}
		}
	}
	p.leaveOut(def, "")
	p.answerObject(def, "")
	p.settings.substitute(def.node)
	t := decodeTask(def)
	if def.node != top.node {
		t.Identity.Tags = decodeTags(top.at("tags"))
	}
	p.override(&t)
	lookUpRoles(def, &t)
	t = t.WithEnv(p.settings.Env)
	logs := p.settings.Logs
	logs.AWSLogs = logs.AWSLogs || t.Identity.ExecutionRoleSource != ""
	for _, f := range findingsOf(t, logs) {
		p.addFinding(def, f)
	}
	p.answerTargets(def, t)
	p.answerSettings(t)
	return t
}

// addFinding reports a broken rule at its place, or at the innermost object
// that is there, unless the value has been reported already.
func (p *parser) addFinding(def cursor, f finding) {
	c := def
	if p.broken[c.ptr] {
		return
	}
	for _, step := range f.path {
		next := c.step(step)
		if p.broken[next.ptr] {
			return
		}
		if next.node == nil {
			break
		}
		c = next
	}
	to := &p.problems
	switch f.kind {
	case warning:
		to = &p.warnings
	case need:
		to = &p.needs
	}
	*to = append(*to, p.problem(c.ptr, c.node.Line, c.node.Col, f.message, f.fix))
}

func (p *parser) problem(ptr string, line, col int, message, fix string) Problem {
	return Problem{p.name, ptr, line, col, message, fix}
}

// findDuplicates reports every key that an object holds twice: JSON readers
// differ in which one they take.
func (p *parser) findDuplicates(n *doctree.Node, ptr string) {
	for i, item := range n.Items {
		p.findDuplicates(item, ptr+"/"+strconv.Itoa(i))
	}
	first := make(map[string]int, len(n.Fields))
	for _, f := range n.Fields {
		at := ptr + "/" + doctree.Escape(f.Key)
		if line, twice := first[f.Key]; twice {
			p.problems = append(p.problems, p.problem(at, f.Line, f.Col,
				fmt.Sprintf("%s is written twice, first in line %d", quote(f.Key), line), "keep one of them"))
			continue
		}
		first[f.Key] = f.Line
		p.findDuplicates(f.Value, at)
	}
}

// answerWrapper answers the keys beside taskDefinition.
func (p *parser) answerWrapper(top cursor) {
	for _, f := range top.node.Fields {
		switch f.Key {
		case "taskDefinition", "$schema":
		case "tags": // read with the task
		default:
			p.unknown(top, f, []string{"tags"})
		}
	}
}

// answer applies the table to the value at path and to what is below it.
func (p *parser) answer(c cursor, path string) {
	switch c.node.Kind {
	case doctree.Object:
		p.answerObject(c, path)
	case doctree.List:
		for i := range c.node.Items {
			p.answer(c.step(strconv.Itoa(i)), path+"[]")
		}
	}
}

// answerObject applies the table to the members of an object.
func (p *parser) answerObject(c cursor, path string) {
	names := p.table.names[path]
	if names == nil {
		return // keys of the user's own, such as labels
	}
	for _, f := range c.node.Fields {
		below := f.Key
		if path != "" {
			below = path + "." + f.Key
		}
		m, known := p.table.rows[below]
		switch {
		case below == "$schema": // names the schema of the document, for editors
		case !known:
			p.unknown(c, f, names)
		case m.answer == needed:
		case m.answer == honoured:
			p.answer(cursor{p, f.Value, c.ptr + "/" + doctree.Escape(f.Key)}, below)
		default:
			p.answerField(c, f, m)
		}
	}
}

// answerField gives the answer to a member that is not honoured.
func (p *parser) answerField(c cursor, f doctree.Field, m member) {
	if m.answer == ignored || f.Value.Empty() || m.unless != nil && m.unless(f.Value) {
		return
	}
	ptr := c.ptr + "/" + doctree.Escape(f.Key)
	if m.answer == warned {
		p.warnings = append(p.warnings, p.problem(ptr, f.Line, f.Col, f.Key+" is accepted but has no effect: "+plain(m.note), ""))
		return
	}
	p.problems = append(p.problems, p.problem(ptr, f.Line, f.Col,
		f.Key+" is not supported by this version of podtask: "+plain(m.note), "if the task can do without, remove it or give --without "+f.Key))
}

// plain makes a note of the table, which is Markdown, part of a message.
func plain(note string) string { return strings.ReplaceAll(note, "`", "\"") }

// unknown reports a member that is not in the table. A member that it may be a misspelling of is
// not reported as missing on top.
func (p *parser) unknown(c cursor, f doctree.Field, names []string) {
	ptr, message, fix := c.ptr+"/"+doctree.Escape(f.Key), "unknown member "+quote(f.Key), suggest.Question(f.Key, names)
	if p.settings.Lenient {
		p.warnings = append(p.warnings, p.problem(ptr, f.Line, f.Col, message+": it has no effect", fix))
		return
	}
	if meant := suggest.Closest(f.Key, names); meant != "" && c.node.Member(meant) == nil {
		p.broken[c.ptr+"/"+doctree.Escape(meant)] = true
	}
	p.problems = append(p.problems, p.problem(ptr, f.Line, f.Col, message, cmp.Or(fix, "remove it, or use --lenient to ignore it")))
}
