package toolfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// Decision is what becomes of a member of a file.
type Decision string

// The decisions. A member below one that is not honored shares its decision.
const (
	Honored Decision = "honored" // the definition or the command says it
	Refused Decision = "refused" // the file cannot be imported with it
	Dropped Decision = "lost"    // a Lost: line says so
	// NoMeaning is for members that describe AWS, the tool, or what podtask does anyway.
	NoMeaning Decision = "no meaning"
)

// Member is a member of a format with the decision about it.
type Member struct {
	// Path is from the top of the resource, with dots, in the spelling of ECS: deploymentConfiguration.strategy.
	Path     string
	Decision Decision
	// Why is the reason, and what Lost: says; empty for honored ones. Fix is what to do about it; empty for nothing.
	Why, Fix string

	neutral []string // values, in capitals, that lose nothing
	told    bool     // the reader says itself whether something is lost
}

// Table is the decisions about the members of a kind of resource.
type Table struct{ all func() decisions }

type decisions struct {
	rows   map[string]*Member
	parent map[string]bool // paths with rows below them
}

// NewTable returns a table of decisions, which is made at its first use. Two about one member panic then.
func NewTable(parts ...[]Member) Table {
	return Table{lazy.Value(func() decisions { return tabulate(parts) })}
}

func tabulate(parts [][]Member) decisions {
	t := decisions{map[string]*Member{}, map[string]bool{}}
	for _, part := range parts {
		for _, m := range part {
			if t.rows[m.Path] != nil {
				panic("two decisions about " + m.Path)
			}
			t.rows[m.Path] = &m
			for p := m.Path; strings.Contains(p, "."); {
				p = p[:strings.LastIndexByte(p, '.')]
				t.parent[p] = true
			}
		}
	}
	return t
}

// Find returns the decision about a member: its own, or that of the closest one above it that is not honored; nil for
// none.
func (t Table) Find(path string) *Member {
	rows := t.all().rows
	for i := 0; i < len(path); i++ {
		if path[i] == '.' {
			if m := rows[path[:i]]; m != nil && m.Decision != Honored {
				return m
			}
		}
	}
	return rows[path]
}

// Rows returns the decisions in the order of their paths.
func (t Table) Rows() (all []Member) {
	for _, m := range t.all().rows {
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b Member) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// Honors returns the decisions about members that the definition or the command says.
func Honors(paths ...string) (all []Member) {
	for _, p := range paths {
		all = append(all, Member{Path: p, Decision: Honored})
	}
	return all
}

// MeansNothing are members without a meaning here, for one reason.
func MeansNothing(why string, paths ...string) (all []Member) {
	for _, p := range paths {
		all = append(all, Member{Path: p, Decision: NoMeaning, Why: why})
	}
	return all
}

// Drops is a member of which a Lost: line says what is lost. Neutral are values that lose nothing.
func Drops(path, why, fix string, neutral ...string) []Member {
	return []Member{{Path: path, Decision: Dropped, Why: why, Fix: fix, neutral: neutral}}
}

// DropsSometimes is a member about which the reader decides itself what is lost.
func DropsSometimes(path, why, fix string) []Member {
	return []Member{{Path: path, Decision: Dropped, Why: why, Fix: fix, told: true}}
}

// Teller says what becomes of the members of a value.
type Teller struct {
	*Reader
	Table
	What string // of messages: "the service"
	// key spells a name as the table does; nil keeps it.
	Key func(string) string
	// look returns a value without the functions around it, nil for none; nil is for files without functions.
	Look func(*doctree.Node) *doctree.Node
}

// Tell notes what is lost of an object and of what is in it.
func (t Teller) Tell(n *doctree.Node) { t.Object(n, "") }

// Object notes what is lost of the members of an object, whose path is in.
func (t Teller) Object(n *doctree.Node, in string) {
	for _, f := range Fields(n) {
		v, path := f.Value, f.Key
		if t.Key != nil {
			path = t.Key(path)
		}
		switch {
		case t.all().rows[in+".*"] != nil:
			path = in + ".*"
		case in != "":
			path = in + "." + path
		}
		if t.Look != nil {
			v = t.Look(v)
		}
		if v != nil && !unset(v) {
			t.member(v, path)
		}
	}
}

func (t Teller) member(v *doctree.Node, path string) {
	m := t.all().rows[path]
	switch {
	case m == nil:
		t.Lose(v, fmt.Sprintf("%s: podtask does not know this member of %s", path, t.What), "")
	case m.Decision == Refused:
		t.Wrong(v, path+": "+m.Why, m.Fix)
	case m.Decision == Dropped && !m.told && !slices.Contains(m.neutral, strings.ToUpper(TextOf(v))):
		t.Lose(v, path+": "+m.Why, m.Fix)
	case m.Decision != Honored || !t.all().parent[path]:
	case v.Kind == doctree.List:
		for _, item := range v.Items {
			if t.Look != nil {
				item = t.Look(item)
			}
			t.Object(item, path)
		}
	default:
		t.Object(v, path)
	}
}

// unset reports whether a value is what a member has that was not written: nothing, false or zero.
func unset(v *doctree.Node) bool {
	return v.Empty() || v.Kind == doctree.Boolean && v.Text == "false" || v.Kind == doctree.Number && v.Text == "0"
}

// Words about the scaling of services.
const (
	FixedCopies    = "the number of copies does not follow the load by itself"
	ScalesService  = "becomes podtask service scaling of the service that is imported; a stack has none"
	ScalesByTarget = ScalesService + "; metrics of CloudWatch but CPU, memory and requests are lost"
	FollowLoad     = "podtask service scaling set SERVICE --min NUMBER --max NUMBER --cpu PERCENT"
	followSteps    = "podtask service scaling set SERVICE --step 'cpu 70..=+1', with the threshold of the alarm and the bounds of each step added up; or --cpu PERCENT"
	followOwn      = "podtask service scaling set SERVICE --metric 'CONTAINER:PORT/PATH NAME=NUMBER', of a page in the text format of Prometheus"
)
