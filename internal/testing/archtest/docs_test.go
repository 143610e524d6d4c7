package archtest

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// Each package has a row in the table of ARCHITECTURE.md, so that a reader finds its place.
func TestEachPackageIsInTheArchitecture(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root(t), "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n| package | purpose |\n")
	if !found {
		t.Fatal("ARCHITECTURE.md has no table of packages")
	}
	var rows strings.Builder
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		rows.WriteString(line)
	}
	for _, p := range packages(t) {
		name := p.name()
		switch top, _, _ := strings.Cut(name, "/"); top {
		case "internal", "pkg", "cmd":
			if !strings.Contains(rows.String(), "`"+name+"`") && !strings.Contains(rows.String(), "`"+path.Base(name)+"`") {
				t.Errorf("ARCHITECTURE.md has no row for %s", name)
			}
		}
	}
}
