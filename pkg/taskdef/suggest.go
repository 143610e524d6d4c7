package taskdef

import (
	"strconv"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// printable returns s as it is where a terminal shows it as it is, and else
// with escapes: a document must not steer the terminal of its reader.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		q := strconv.Quote(s)
		return q[1 : len(q)-1]
	}
	return s
}

// quote quotes text of the document for a message, cut to a readable length.
func quote(s string) string { return doctree.Quote(s) }
