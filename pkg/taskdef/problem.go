package taskdef

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is one finding about a document, with its place.
type Problem struct {
	// File is the name given to Parse; empty for a problem found by Task.Check.
	File string `json:"file,omitempty"`
	// Pointer is the RFC 6901 pointer of the value in the document as written, a
	// wrapper included. A missing member is reported at the object that lacks it.
	Pointer string `json:"pointer"`
	// Line and Column count from 1, columns in characters; 0 means unknown.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Message describes the problem and its cause. It never holds the value of an environment variable, an argument or a
	// log option.
	Message string `json:"message"`
	// Fix describes the remedy; empty where the message leaves one choice only.
	Fix string `json:"fix,omitempty"`
}

// String returns the problem on one line, as in
//
//	web.json:12:7: /containerDefinitions/1/dependsOn/0/containerName: no container named "dbb"; did you mean "db"?
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File + ":")
	}
	if p.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", p.Line, p.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if p.Pointer != "" {
		b.WriteString(printable(p.Pointer) + ": ")
	}
	b.WriteString(p.Message)
	if p.Fix != "" {
		b.WriteString("; " + p.Fix)
	}
	return b.String()
}

// maxFolded limits the places that Fold names.
const maxFolded = 5

// Fold returns problems for people to read: those that differ only in where they are become one, which has the place of the first
// and names the others, FILE:LINE in another file. The order stays.
func Fold(all []Problem) (out []Problem) {
	type text struct{ message, fix string }
	at, places := map[text]int{}, map[text][]string{}
	for _, p := range all {
		k := text{p.Message, p.Fix}
		i, ok := at[k]
		if !ok || p.Line == 0 {
			at[k] = len(out)
			out = append(out, p)
			continue
		}
		place := strconv.Itoa(p.Line)
		switch {
		case p.File != out[i].File:
			place = p.File + ":" + place
		case len(places[k]) == 0:
			place = "line " + place
		}
		if (p.File != out[i].File || p.Line != out[i].Line) && !slices.Contains(places[k], place) && !slices.Contains(places[k], "line "+place) {
			places[k] = append(places[k], place)
		}
	}
	for k, more := range places {
		if len(more) > maxFolded {
			more = append(more[:maxFolded:maxFolded], "...")
		}
		out[at[k]].Message += " (also " + strings.Join(more, ", ") + ")"
	}
	return out
}

// Report holds the findings of Parse besides the Task. The lists are in the order of the document.
type Report struct {
	// Warnings name what the task loses: members that are accepted but not used,
	// and members that are not known.
	Warnings []Problem
	// Needs name what the document leaves to the command line or the host, each
	// with the flag that gives it as its Fix.
	Needs []Problem
	// References lists the names of AWS resources in the document, each with its place on this host.
	References []Resolved
}

// InvalidError is the error of Parse and Task.Check: every problem at once.
type InvalidError struct {
	// Name is the name given to Parse, or the family for Task.Check.
	Name string
	// Problems are in the order of the document and never empty.
	Problems []Problem
}

// Error returns all problems, one a line when there are several.
func (e *InvalidError) Error() string {
	if len(e.Problems) == 1 {
		return "invalid task definition: " + e.Problems[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "invalid task definition %s: %d problems", e.Name, len(e.Problems))
	for _, p := range e.Problems {
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

// byPlace sorts problems into the order of the document. It is stable, so that
// two problems of one value keep the order in which they were found.
func byPlace(ps []Problem) {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column)
	})
}
