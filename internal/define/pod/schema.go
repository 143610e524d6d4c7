package pod

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/define/members"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// property is a member of a type of the Kubernetes API: its name and the word of its
// type, which is a type's name, string, bool, int32, int64, quantity, intOrString, time,
// bytes (text in base64), any, "[]" and a word, "map " and a word, or "string=A|B" for text that can only be A or B.
type property struct{ name, word string }

var (
	schema    = lazy.Value(func() map[string][]property { return readSchema(schemaText) })
	ruleTable = lazy.Value(func() map[string]rule { return tabulate(allRules()) })
)

// allRules are the rules of Pods and of the documents around them.
func allRules() []rule { return slices.Concat(rules, controllerRules) }

// readSchema reads lines of a type, a colon and its members.
func readSchema(text string) map[string][]property {
	types := make(map[string][]property)
	for line := range strings.Lines(text) {
		name, members, _ := strings.Cut(strings.TrimSpace(line), ": ")
		for _, m := range strings.Split(members, ", ") {
			if key, word, ok := strings.Cut(m, " "); ok {
				types[name] = append(types[name], property{key, word})
			}
		}
	}
	return types
}

func tabulate(rules []rule) map[string]rule {
	table := make(map[string]rule, len(rules))
	for _, r := range rules {
		table[r.member] = r
	}
	return table
}

// checker holds a document against the schema and the rules.
type checker struct {
	report *report
	// treat is off below a member that is not honored, where only names and kinds count.
	treat bool
}

// check reports everything about a value that is not of a type.
func (c checker) check(v value, word string) {
	if v.node == nil || v.node.Kind == doctree.Null {
		return
	}
	if elem, ok := strings.CutPrefix(word, "[]"); ok {
		if c.want(v, doctree.List) {
			for _, item := range v.items() {
				c.check(item, elem)
			}
		}
		return
	}
	if elem, ok := strings.CutPrefix(word, "map "); ok {
		if c.want(v, doctree.Object) {
			c.duplicates(v)
			for _, f := range v.node.Fields {
				c.check(v.field(f), elem)
			}
		}
		return
	}
	if members, ok := schema()[word]; ok {
		if c.want(v, doctree.Object) {
			c.duplicates(v)
			c.object(v, word, members)
		}
		return
	}
	word, only, _ := strings.Cut(word, "=")
	c.scalar(v, word)
	if words := strings.Split(only, "|"); only != "" && v.str() != "" && !slices.Contains(words, v.str()) {
		c.unknown(v, "this cannot be "+doctree.Quote(v.str()), cmp.Or(suggest.Question(v.str(), words), "use "+strings.Join(words, ", ")))
	}
}

func (c checker) want(v value, kind doctree.Kind) bool {
	if v.node.Kind == kind {
		return true
	}
	v.wrong("this must be "+kind.String()+", not "+v.node.Kind.String(), "")
	return false
}

// duplicates reports a key that is written twice.
func (c checker) duplicates(v value) {
	first := make(map[string]int, len(v.node.Fields))
	for _, f := range v.node.Fields {
		if line, twice := first[f.Key]; twice {
			v.field(f).atKey(f).wrong(doctree.Quote(f.Key)+" is written twice, first in line "+strconv.Itoa(line), "keep one of them")
			continue
		}
		first[f.Key] = f.Line
	}
}

func (c checker) object(v value, typ string, members []property) {
	for _, f := range v.node.Fields {
		in := v.field(f)
		i := slices.IndexFunc(members, func(p property) bool { return p.name == f.Key })
		if i < 0 {
			var names []string
			for _, p := range members {
				names = append(names, p.name)
			}
			c.unknown(in.atKey(f), "unknown field "+doctree.Quote(f.Key)+" of "+typ, suggest.Question(f.Key, names))
			continue
		}
		below := c
		if c.treat {
			below.treat = c.member(in.atKey(f), f, typ)
		}
		below.check(in, members[i].word)
	}
}

// unknown reports a name or a word that this version of Kubernetes' API does not have: an error, or a warning in a document of a server,
// which may be newer.
func (c checker) unknown(at value, message, fix string) {
	if c.report.lenient {
		at.warn(message, fix)
		return
	}
	at.wrong(message, fix)
}

// member gives a member its treatment, and reports whether those below it get theirs.
func (c checker) member(at value, f doctree.Field, typ string) bool {
	r, known := ruleTable()[typ+"."+f.Key]
	if !known || r.treatment == honored {
		return known
	}
	if f.Value.Empty() || f.Value.Kind == doctree.Boolean && f.Value.Text == "false" || slices.Contains(r.harmless, f.Value.Text) {
		return false
	}
	note := members.Plain(r.note)
	switch r.treatment {
	case warned:
		at.warn(f.Key+" has no effect: "+note, "")
	case refused:
		at.wrong(f.Key+" is not supported: "+note, "remove it if the Pod can do without")
	}
	return false
}

func (c checker) scalar(v value, word string) {
	k := v.node.Kind
	ok, want := true, ""
	switch word {
	case "any":
	case "string", "time":
		ok, want = k == doctree.Text, "text"
		if k == doctree.Number || k == doctree.Boolean {
			v.wrong("this must be text, not "+k.String(), "put it in quotes")
			return
		}
	case "bytes":
		ok, want = k == doctree.Text, "text in base64"
		if _, err := base64.StdEncoding.DecodeString(squeeze(v.node.Text)); ok && err != nil {
			v.wrong("this is not base64", "encode it, or write it under stringData")
		}
	case "bool":
		ok, want = k == doctree.Boolean, "true or false"
	case "int32", "int64":
		ok, want = k == doctree.Number, "a whole number"
		bits := 64
		if word == "int32" {
			bits = 32
		}
		if _, err := strconv.ParseInt(v.node.Text, 0, bits); ok && err != nil {
			v.wrong(doctree.Quote(v.node.Text)+" is not a whole number, or out of range", "")
		}
	case "quantity":
		ok, want = k == doctree.Text || k == doctree.Number, "a quantity"
		if _, err := parseQuantity(v.node.Text); ok && err != nil {
			v.wrong(doctree.Quote(v.node.Text)+" is not a quantity", `write it as in "500m" or "64Mi"`)
		}
	case "intOrString":
		ok, want = k == doctree.Text || k == doctree.Number, "a number or text"
	}
	if !ok {
		v.wrong("this must be "+want+", not "+k.String(), "")
	}
}

// squeeze removes the white space that base64 may be wrapped with.
func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }
