package archtest

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// behaviors are the lists of what others prove, and how many rows each has.
var behaviors = map[string]int{"ecs-behaviors.md": 63, "other-behaviors.md": 16}

var (
	namedTests  = regexp.MustCompile("((?:pkg|internal|test|cmd)/[a-z0-9/]+) (`Test\\w+`(?:, `Test\\w+`)*)")
	ruleOfTable = regexp.MustCompile(`^\|[-|]+\|$`)
)

// TestBehaviorsNameTestsThatExist keeps the lists of others' behaviors honest: a
// test that is renamed or removed must not stay there as the proof, and a row without
// one says why it is not here.
func TestBehaviorsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	exists := testsByDirectory(t)
	for name, want := range behaviors {
		doc, err := os.ReadFile(filepath.Join(root(t), "docs", "dev", name))
		if err != nil {
			t.Fatal(err)
		}
		rows, head := 0, true
		for line := range strings.Lines(string(doc)) {
			line = strings.TrimSpace(line)
			switch {
			case ruleOfTable.MatchString(line):
				head = false
			case !head && strings.HasPrefix(line, "|"):
				rows++
				checkRow(t, name, line, exists)
			}
		}
		if rows != want {
			t.Errorf("docs/dev/%s has %d behaviors, want %d", name, rows, want)
		}
	}
}

// checkRow holds a row against the tests that there are.
func checkRow(t *testing.T, doc, row string, exists map[string]bool) {
	t.Helper()
	named := 0
	for _, place := range namedTests.FindAllStringSubmatch(row, -1) {
		for _, name := range strings.Split(place[2], ", ") {
			named++
			if name = strings.Trim(name, "`"); !exists[place[1]+" "+name] {
				t.Errorf("docs/dev/%s names %s of %s, which does not exist", doc, name, place[1])
			}
		}
	}
	if all := strings.Count(row, "`Test"); named != all {
		t.Errorf("docs/dev/%s: %d of %d tests are named behind their directory: %s", doc, named, all, row)
	}
	if named == 0 && !strings.Contains(row, "| not here: ") {
		t.Errorf("docs/dev/%s: no test, and no reason why not: %s", doc, row)
	}
}

// testsByDirectory are all tests there are, as "directory name".
func testsByDirectory(t *testing.T) map[string]bool {
	t.Helper()
	exists := make(map[string]bool)
	for _, path := range trackedFiles(t) {
		full := filepath.Join(root(t), path)
		if _, err := os.Stat(full); !strings.HasSuffix(path, "_test.go") || err != nil {
			continue
		}
		for _, decl := range syntax(t, token.NewFileSet(), full).Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				exists[filepath.ToSlash(filepath.Dir(path))+" "+f.Name.Name] = true
			}
		}
	}
	return exists
}
