package taskdef

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/xrash/smetrics"
)

// closest returns the candidate that word most likely is a misspelling of: a
// third of its letters may differ, the case of all of them. Empty when none is
// that close. The first of equals wins.
func closest(word string, candidates []string) string {
	const longest = 64 // bounds the work on hostile input
	if len(word) > longest {
		return ""
	}
	best, bound := "", max(1, len(word)/3)+1
	for _, c := range candidates {
		if diff := len(c) - len(word); diff >= bound || -diff >= bound {
			continue
		}
		if d := smetrics.WagnerFischer(strings.ToLower(word), strings.ToLower(c), 1, 1, 1); d < bound {
			best, bound = c, d
		}
	}
	return best
}

// didYouMean is the fix for a word that is none of the candidates.
func didYouMean(word string, candidates []string) string {
	if best := closest(word, candidates); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return ""
}

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
func quote(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return fmt.Sprintf("%q...", string(r[:most]))
	}
	return fmt.Sprintf("%q", s)
}
