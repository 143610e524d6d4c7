package taskdef

import "testing"

func TestFold(t *testing.T) {
	t.Parallel()
	all := []Problem{{File: "a", Line: 9, Column: 1, Message: "x"}, {File: "a", Line: 1, Column: 2, Message: "y"}, {File: "a", Message: "x"}, {File: "b", Line: 3, Column: 1, Message: "x"}}
	for line := 2; line < 20; line += 3 {
		all = append(all, Problem{File: "a", Line: line, Column: 7, Message: "y", Fix: ""}, Problem{File: "a", Line: line, Column: 8, Message: "y"})
	}
	want := []string{"a:9:1: x", "a:1:2: y (also line 2, 5, 8, 11, 14, ...)", "a: x (also b:3)"}
	got := Fold(all)
	if len(got) != len(want) {
		t.Fatal(got)
	}
	for i, p := range got {
		if p.String() != want[i] {
			t.Errorf("%q, want %q", p, want[i])
		}
	}
}
