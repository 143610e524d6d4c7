package helptext

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestPageIsLaidOutForAWidth(t *testing.T) {
	t.Parallel()
	p := Page{
		Summary: "run a task", Usage: "program run [flags] FILE",
		Body: "In the foreground, progress is written to stderr and\nthe logs to stdout.\n\n  kept   as it is\n",
		Groups: []Group{{"Flags", []Item{
			{"-d, --detach", "run the task in the background and print its ID"},
			{"-p, --publish [[IP:]HOST:]CONTAINER[/PROTOCOL] ...", "publish a port"},
		}}},
		Examples: []string{"program run web.json"},
		Footer:   "See the manual.",
	}
	const want = `run a task

Usage:
  program run [flags] FILE

In the foreground, progress is written to stderr
and the logs to stdout.

  kept   as it is

Flags:
  -d, --detach  run the task in the background
                and print its ID
  -p, --publish [[IP:]HOST:]CONTAINER[/PROTOCOL] ...
                publish a port

Examples:
  program run web.json

See the manual.
`
	if diff := cmp.Diff(want, p.Text(48, nil)); diff != "" {
		t.Error(diff)
	}
}

func FuzzWrap(f *testing.F) {
	f.Add("some words in a line\n\n  an example\nmore", 20)
	f.Add("ä wörd", -1)
	f.Fuzz(func(t *testing.T, text string, width int) {
		got := Wrap(text, width)
		if diff := cmp.Diff(strings.Fields(text), strings.Fields(got)); diff != "" {
			t.Fatalf("words are lost:\n%s", diff)
		}
		for line := range strings.Lines(got) {
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); n > max(width, 0) && line[0] != ' ' && len(strings.Fields(line)) > 1 {
				t.Errorf("%q has %d columns, not %d", line, n, width)
			}
		}
	})
}
