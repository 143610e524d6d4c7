package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each group of packages has a row in the table of ARCHITECTURE.md, so that a reader finds its place.
func TestEachGroupIsInTheArchitecture(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root(t), "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n| group | purpose | may import |\n")
	if !found {
		t.Fatal("ARCHITECTURE.md has no table of groups")
	}
	var rows strings.Builder
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		rows.WriteString(line)
	}
	for _, p := range packages(t) {
		top, rest, _ := strings.Cut(p.name(), "/")
		group := top + "/"
		if top == "internal" {
			name, _, _ := strings.Cut(rest, "/")
			group = top + "/" + name
		}
		switch top {
		case "internal", "pkg", "cmd":
			if !strings.Contains(rows.String(), "`"+group+"`") {
				t.Errorf("%s: ARCHITECTURE.md has no row for %s", p.name(), group)
			}
		}
	}
}
