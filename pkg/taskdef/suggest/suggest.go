package suggest

import (
	"strconv"
	"strings"

	"github.com/xrash/smetrics"
)

// maxWord limits the work on hostile input.
const maxWord = 64

// Closest returns the candidate that word is most likely a misspelling of: at most a
// third of its letters differ, ignoring case, and "_" is the same as "-". It returns ""
// if no candidate is that close, and the first one of several that are equally close.
func Closest(word string, candidates []string) string {
	if len(word) > maxWord {
		return ""
	}
	word = fold(word)
	best, bound := "", max(1, len(word)/3)+1
	for _, c := range candidates {
		if diff := len(c) - len(word); diff >= bound || -diff >= bound {
			continue
		}
		if d := distance(word, fold(c)); d < bound {
			best, bound = c, d
		}
	}
	return best
}

// Question asks whether the closest candidate was meant: did you mean "follow"? It is empty if none is close.
func Question(word string, candidates []string) string { return Ask(Closest(word, candidates)) }

// Ask asks whether a word was meant; it is empty for an empty word.
func Ask(word string) string {
	if word == "" {
		return ""
	}
	return "did you mean " + strconv.Quote(word) + "?"
}

func fold(word string) string { return strings.ToLower(strings.ReplaceAll(word, "_", "-")) }

// distance counts the letters to insert, remove or replace. Two neighbors that changed
// places count as one.
func distance(a, b string) int {
	if len(a) == len(b) {
		for i := range len(a) - 1 {
			if a[i] != a[i+1] && a[:i]+a[i+1:i+2]+a[i:i+1]+a[i+2:] == b {
				return 1
			}
		}
	}
	return smetrics.WagnerFischer(a, b, 1, 1, 1)
}
