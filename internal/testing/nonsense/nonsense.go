package nonsense

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// Size is that of a text in bytes.
const Size = 10 << 20

// long is how long the texts are that parsers read to their end, in bytes: less than
// many of them take for too long.
const long = Size / 10

// most is the number of bytes that a parser may take in all, what it drops again included. One
// that refuses what is longer than a mebibyte may still make a node of a hundred bytes
// out of two letters.
const most = 300 << 20

// patterns are what texts are made of, by what they are.
var patterns = map[string]string{
	"blanks": " \t", "lines": "\n", "NUL bytes": "\x00", "words": "nonsense ", "one long word": "x",
	"brackets": "[", "braces": `{"a":`, "lists": "- ", "commas": "[,", "quotes": `"`, "backslashes": `\`, "continued lines": "a\\\n",
	"sections": "[Task]\n", "assignments": "A=b\n", "variables": "${A}", "aliases": "a: &a [*a, *a]\n", "merges": "a: &a {<<: *a}\n",
	"keys of YAML": "a: b\n", "keys of JSON": `{"a": 1,`, "dots": "a.", "colons": "a:", "slashes": "a/", "signs": "@", "comments": "# a\n",
}

// text repeats a pattern up to a size.
func text(pattern string, size int) string {
	return strings.Repeat(pattern, size/len(pattern)+1)[:size]
}

// noise are bytes in no order, the same each time.
func noise(size int) string {
	source := rand.NewChaCha8([32]byte{1})
	out := make([]byte, size)
	_, _ = source.Read(out) // never fails
	return string(out)
}

// numbered are lines that differ: each has its number where the pattern has %d.
func numbered(pattern string, size int) string {
	var b strings.Builder
	b.Grow(size + 64)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, pattern, i)
	}
	return b.String()[:size]
}

// Check gives a parser texts of Size, and shorter ones, which many parsers read to their
// end. It fails the test where one of them costs too much memory; what takes for ever
// meets the time limit of the test run. What the parser answers is its own business. Head
// stands before each text, for parsers that look at the beginning. The caller must not be
// a parallel test: the memory of others would count.
func Check(t *testing.T, head string, parse func(text string)) {
	t.Helper()
	for _, size := range []int{Size, long} {
		measure(t, "noise", head+noise(size), parse)
		for what, pattern := range patterns {
			measure(t, what, head+text(pattern, size), parse)
		}
	}
	for _, pattern := range []string{"a%d = 1\n", "a%d: 1\n", "[a%d]\nb = 1\n"} {
		measure(t, fmt.Sprintf("%q", pattern), head+numbered(pattern, long), parse)
	}
}

func measure(t *testing.T, what, text string, parse func(text string)) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	parse(text)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > most {
		t.Errorf("%s, %d bytes: the parser took %d bytes for it, more than %d", what, len(text), took, most)
	}
}
