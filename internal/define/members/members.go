package members

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// Treatment is what becomes of a member of a format.
type Treatment uint8

// The treatments, from the best to the worst for the one who wrote the member.
const (
	// Honored: it has the effect that its own format gives it.
	Honored Treatment = iota
	// NoMeaning: accepted in silence, because a task on one host loses nothing without it.
	NoMeaning
	// Needed: its effect needs something that only the command line or the host can give.
	Needed
	// Lost: accepted, with a warning or a line of `Lost:` that says what the task loses.
	Lost
	// Refused: a task without it would be wrong, so the document is refused.
	Refused
)

// treatmentWords are those of output and documentation, by treatment.
var treatmentWords = [...]string{Honored: "honored", NoMeaning: "no meaning here", Needed: "needed", Lost: "lost", Refused: "refused"}

// String returns the word for output.
func (t Treatment) String() string { return treatmentWords[t] }

// MarshalText implements encoding.TextMarshaler.
func (t Treatment) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Row is the treatment of one member.
type Row struct {
	// Member is its name in the schema of its format: TYPE.NAME, or SECTION.KEY.
	Member string `json:"member"`
	// Treatment is the same for every legal value that is not the member's default.
	Treatment Treatment `json:"treatment"`
	// Note is Markdown in one line: the values that count, what is lost and why, or why it means nothing here.
	Note string `json:"note,omitempty"`
	// Remedy says what to write or to do instead, as part of a sentence; it may be empty.
	Remedy string `json:"remedy,omitempty"`
}

// Name returns the member without its type or section.
func (r Row) Name() string { return r.Member[strings.LastIndexByte(r.Member, '.')+1:] }

// Format is a format with its table.
type Format struct {
	// Name is its word in commands, in lower case: pod, quadlet, compose.
	Name string
	// Title is its name in text.
	Title string
	// Schema says of which public schema the rows are, with its version or date.
	Schema string
	// Rows are all of its members, in the order of the schema.
	Rows []Row
}

// Counts returns how many rows of each treatment the format has.
func (f Format) Counts() map[Treatment]int {
	counts := make(map[Treatment]int)
	for _, r := range f.Rows {
		counts[r.Treatment]++
	}
	return counts
}

// Find returns the rows of a member: the row with exactly that name, else all rows whose last part or parts it is,
// without regard to upper and lower case: `job.spec.suspend` finds nothing but `JobSpec.suspend` and `suspend` do.
func (f Format) Find(member string) []Row {
	exact := func(r Row) bool { return strings.EqualFold(r.Member, member) }
	if i := slices.IndexFunc(f.Rows, exact); i >= 0 {
		return f.Rows[i : i+1]
	}
	var found []Row
	for _, r := range f.Rows {
		if strings.HasSuffix(strings.ToLower(r.Member), "."+strings.ToLower(member)) {
			found = append(found, r)
		}
	}
	return found
}

// Below returns the rows of a type or section of the format.
func (f Format) Below(typ string) []Row {
	var found []Row
	for _, r := range f.Rows {
		if len(r.Member) > len(typ) && r.Member[len(typ)] == '.' && strings.EqualFold(r.Member[:len(typ)], typ) {
			found = append(found, r)
		}
	}
	return found
}

// Suggest returns the question that helps after a name that the format does not have; empty when none is close.
func (f Format) Suggest(member string) string {
	var names []string
	for _, r := range f.Rows {
		names = append(names, r.Member, r.Name())
	}
	return suggest.Question(member[strings.LastIndexByte(member, '.')+1:], names)
}

// Problems returns what is wrong with a table: a member without a note where one is due, twice, or not among those
// that the schema has, and members of the schema without a row. Tests of formats call it.
func Problems(rows []Row, schema []string) (problems []string) {
	known := make(map[string]bool, len(schema))
	for _, m := range schema {
		known[m] = true
	}
	seen := make(map[string]bool, len(rows))
	for _, r := range rows {
		switch {
		case seen[r.Member]:
			problems = append(problems, r.Member+" has two rows")
		case !known[r.Member]:
			problems = append(problems, r.Member+" is not a member of the schema")
		}
		seen[r.Member] = true
		if r.Note == "" && r.Treatment != Honored && r.Treatment != NoMeaning {
			problems = append(problems, fmt.Sprintf("%s is %s and has no note", r.Member, r.Treatment))
		}
	}
	for _, m := range schema {
		if !seen[m] {
			problems = append(problems, m+" has no row")
		}
	}
	return problems
}

// Plain makes a note, which is Markdown, part of a message.
func Plain(note string) string { return strings.ReplaceAll(note, "`", "\"") }
