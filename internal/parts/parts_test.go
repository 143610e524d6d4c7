//go:build !podtask_core

package parts

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
)

// TestTheTableIsTrue: a build without a part can name all that it lacks, because the table has each part with its commands.
func TestTheTableIsTrue(t *testing.T) {
	t.Parallel()
	whole := Build()
	if len(whole.Absent) > 0 {
		t.Errorf("the whole build lacks %+v", whole.Absent)
	}
	for _, p := range whole.Parts {
		i := slices.IndexFunc(table, func(a part.Absent) bool { return a.Name == p.Name })
		if i < 0 {
			t.Errorf("the table has no row for the part %s", p.Name)
			continue
		}
		var have []string
		if p.Commands != nil {
			for _, c := range p.Commands(&command.Program{Stdout: io.Discard, Stderr: io.Discard}) {
				have = append(have, strings.TrimSpace(c.Under+" "+c.Name))
			}
		}
		slices.Sort(have)
		want := slices.Sorted(slices.Values(table[i].Commands))
		if !slices.Equal(have, want) {
			t.Errorf("part %s has the commands %q, in the table it has %q", p.Name, have, want)
		}
	}
	if len(whole.Parts) != len(table) {
		t.Errorf("%d parts are linked, the table has %d", len(whole.Parts), len(table))
	}
}
