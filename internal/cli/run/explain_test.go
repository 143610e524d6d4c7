package run

import (
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/members"
)

func TestExplainChoosesRows(t *testing.T) {
	t.Parallel()
	f := members.Format{Title: "Files", Name: "f", Rows: []members.Row{{Member: "A.one"}, {Member: "A.two", Treatment: members.Lost, Note: "n"}, {Member: "B.one", Treatment: members.Refused, Note: "n"}}}
	for member, want := range map[string]int{"": 2, "one": 2, "A": 2, "a.two": 1} {
		if rows, err := chosen(f, member, false); err != nil || len(rows) != want {
			t.Errorf("%q: %v, %v", member, rows, err)
		}
	}
	if rows, _ := chosen(f, "", true); len(rows) != 3 {
		t.Error(rows)
	}
	if _, err := chosen(f, "tow", false); err == nil || !strings.Contains(err.Error(), "two") {
		t.Error(err)
	}
}

// TestFormatsAreWhole: names can be typed and completed, and no two formats share one.
func TestFormatsAreWhole(t *testing.T) {
	t.Parallel()
	var seen []string
	for _, f := range explained(nil) {
		if strings.Trim(f.Name, "abcdefghijklmnopqrstuvwxyz") != "" || slices.Contains(seen, f.Name) || f.Title == "" || f.Schema == "" || len(f.Rows) == 0 {
			t.Errorf("%+v", f)
		}
		seen = append(seen, f.Name)
	}
	if len(ExplainedMembers(seen[0], nil)) == 0 || ExplainedMembers("none", nil) != nil {
		t.Error("completion lists no members")
	}
}
