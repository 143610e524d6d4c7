package taskdef

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// with returns a definition that has a value at a path of the table, and the
// pointer of that value.
func with(path, value string) (src []byte, pointer string) {
	pointer = "/" + strings.ReplaceAll(strings.ReplaceAll(path, "[]", ".0"), ".", "/")
	steps := strings.Split(path, ".")
	container := steps[0] == "containerDefinitions[]"
	if container {
		steps = steps[1:]
	}
	for i := len(steps) - 1; i > 0; i-- {
		value = `{"` + strings.TrimSuffix(steps[i], "[]") + `": ` + value + `}`
		if strings.HasSuffix(steps[i-1], "[]") {
			value = "[" + value + "]"
		}
	}
	member := `"` + strings.TrimSuffix(steps[0], "[]") + `": ` + value + `,`
	if container {
		return []byte(minimal("", member)), pointer
	}
	return []byte(minimal(member, "")), pointer
}

func pointers(ps []Problem) []string {
	var out []string
	for _, p := range ps {
		out = append(out, p.Pointer)
	}
	return out
}

func TestEachRowGivesItsAnswer(t *testing.T) {
	t.Parallel()
	for _, m := range members {
		if m.answer == honoured || m.answer == needed {
			continue
		}
		src, pointer := with(m.path, `["something"]`)
		_, report, err := Parse("f", src)
		var invalid *InvalidError
		problem := errors.As(err, &invalid) && slices.Contains(pointers(invalid.Problems), pointer)
		warning := slices.Contains(pointers(report.Warnings), pointer)
		if problem != (m.answer == refused) || warning != (m.answer == warned) {
			t.Errorf("%s: problem %v, warning %v: %v %v", m.path, problem, warning, err, report.Warnings)
		}
	}
}

func TestEmptyValuesAskForNothing(t *testing.T) {
	t.Parallel()
	for _, m := range members {
		if m.answer == honoured || m.answer == needed {
			continue
		}
		for _, empty := range []string{`null`, `""`, `[]`, `{}`} {
			src, pointer := with(m.path, empty)
			_, report, err := Parse("f", src)
			var invalid *InvalidError
			if errors.As(err, &invalid) && slices.Contains(pointers(invalid.Problems), pointer) || len(report.Warnings) > 0 {
				t.Errorf("%s: %s: %v %v", m.path, empty, err, report.Warnings)
			}
		}
	}
}

func TestHarmlessValuesAskForNothing(t *testing.T) {
	t.Parallel()
	harmless := []struct{ path, value string }{}
	for _, h := range harmless {
		src, _ := with(h.path, h.value)
		if _, report, err := Parse("f", src); err != nil || len(report.Warnings) > 0 {
			t.Errorf("%s: %s: %v %v", h.path, h.value, err, report.Warnings)
		}
	}
	for _, m := range members {
		listed := slices.ContainsFunc(harmless, func(h struct{ path, value string }) bool { return h.path == m.path })
		if (m.unless != nil) != listed {
			t.Errorf("%s: has a rule for harmless values %v, is tested %v", m.path, m.unless != nil, listed)
		}
	}
}

// TestEveryHonouredMemberIsDecoded holds the table against the decoder: a
// value of the wrong kind can only be noticed by code that reads it.
func TestEveryHonouredMemberIsDecoded(t *testing.T) {
	t.Parallel()
	for _, m := range slices.Concat(members, extensions) {
		if m.answer != honoured && m.answer != needed {
			continue
		}
		value := `[{"x": [[]]}]`
		if len(definitionTable.names[m.path+"[]"]) > 0 || m.path == "containerDefinitions[].command" || m.path == "containerDefinitions[].entryPoint" {
			value = `"x"`
		}
		src, pointer := with(m.path, value)
		_, _, err := Parse("f", src)
		var invalid *InvalidError
		if !errors.As(err, &invalid) || !slices.ContainsFunc(invalid.Problems, func(p Problem) bool { return strings.HasPrefix(p.Pointer, pointer) }) {
			t.Errorf("%s: a value of the wrong kind passes: %v", m.path, err)
		}
	}
}

func TestRowsAreCompleteAndUnique(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, m := range slices.Concat(members, extensions) {
		if seen[m.path] {
			t.Errorf("%s has two rows", m.path)
		}
		seen[m.path] = true
		if m.note == "" && m.answer != honoured {
			t.Errorf("%s has no note", m.path)
		}
		parent := m.path[:max(0, strings.LastIndexByte(m.path, '.'))]
		if row, ok := definitionTable.rows[strings.TrimSuffix(parent, "[]")]; parent != "" && (!ok || row.answer != honoured) {
			t.Errorf("%s is below a member that is not honoured, so its row is never read", m.path)
		}
	}
}

// TestTableKnowsTheWholeModel walks the types of the AWS SDK: no member of the
// ECS model may lack an answer, and no row may be the table's own invention.
func TestTableKnowsTheWholeModel(t *testing.T) {
	t.Parallel()
	inModel, table := make(map[string]bool), definitionTable
	var walk func(path string, typ reflect.Type)
	walk = func(path string, typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			if !f.IsExported() || f.Name == "ResultMetadata" {
				continue
			}
			at := path + strings.ToLower(f.Name[:1]) + f.Name[1:]
			inModel[at] = true
			m, known := table.rows[at]
			if !known {
				t.Errorf("%s has no row", at)
				continue
			}
			below, item := f.Type, ""
			for below.Kind() == reflect.Pointer || below.Kind() == reflect.Slice {
				if below.Kind() == reflect.Slice {
					item = "[]"
				}
				below = below.Elem()
			}
			if m.answer == honoured && below.Kind() == reflect.Struct && below != reflect.TypeFor[time.Time]() {
				walk(at+item+".", below)
			}
		}
	}
	walk("", reflect.TypeFor[ecs.RegisterTaskDefinitionInput]())
	walk("", reflect.TypeFor[types.TaskDefinition]())
	for _, m := range members {
		if !inModel[m.path] {
			t.Errorf("%s is no member of the ECS model", m.path)
		}
	}
	table = overrideTable
	clear(inModel)
	walk("", reflect.TypeFor[types.TaskOverride]())
	for _, m := range overrideMembers {
		if !inModel[m.path] {
			t.Errorf("%s is no member of an override of the ECS model", m.path)
		}
	}
}

func TestDocumentationHoldsTheTables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, part, want string }{
		{"../../docs/task-definition.md", "not honored", membersNotHonored()},
		{"../../docs/task-definition-members.md", "members", memberTables()},
	} {
		begin, end := "<!-- "+c.part+": begin -->\n", "<!-- "+c.part+": end -->"
		doc, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		head, rest, ok := strings.Cut(string(doc), begin)
		_, tail, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no markers for the table", c.file)
		}
		golden(t, c.file, head+begin+c.want+end+tail)
	}
}

// answerWords are those of the documentation.
var answerWords = [...]string{honoured: "honored", ignored: "accepted", warned: "accepted with a warning", needed: "needs a flag or a rule", refused: "refused"}

// membersNotHonored writes the rows that a reader looks for first.
func membersNotHonored() string {
	var b strings.Builder
	b.WriteString("\n| member | answer | |\n|---|---|---|\n")
	for _, m := range members {
		if m.answer != honoured && m.answer != ignored {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.path, answerWords[m.answer], m.note)
		}
	}
	for _, m := range overrideMembers {
		if m.answer != honoured && m.answer != ignored {
			fmt.Fprintf(&b, "| override: `%s` | %s | %s |\n", m.path, answerWords[m.answer], m.note)
		}
	}
	b.WriteString("\n")
	return b.String()
}

// memberTables writes the rows as Markdown, after how many have which answer.
func memberTables() string {
	var b strings.Builder
	count := func(rows []member) string {
		var n [len(answerWords)]int
		for _, m := range rows {
			n[m.answer]++
		}
		var parts []string
		for a, w := range answerWords {
			if n[a] > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n[a], w))
			}
		}
		return strings.Join(parts, ", ")
	}
	fmt.Fprintf(&b, "\nOf the %d members of a definition: %s. Of the %d of an override: %s.\n", len(members), count(members), len(overrideMembers), count(overrideMembers))
	table := func(title, trim string, rows []member, in func(path string) bool) {
		fmt.Fprintf(&b, "\n### %s\n\n| member | answer | |\n|---|---|---|\n", title)
		for _, m := range rows {
			if in(m.path) {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.TrimPrefix(m.path, trim), answerWords[m.answer], m.note)
			}
		}
	}
	all := func(string) bool { return true }
	ofContainer := func(path string) bool { return strings.HasPrefix(path, inContainer) }
	table("The task", "", members, func(path string) bool { return !ofContainer(path) })
	table("A container", inContainer, members, ofContainer)
	table("An override", "", overrideMembers, all)
	table("Extensions", "", extensions, all)
	b.WriteString("\n")
	return b.String()
}
