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

// TestBehavioursNameTestsThatExist keeps the list of the ECS agent's behaviours
// honest: a test that is renamed or removed must not stay there as the proof.
func TestBehavioursNameTestsThatExist(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(filepath.Join(root(t), "docs", "ecs-behaviours.md"))
	if err != nil {
		t.Fatal(err)
	}
	exists := make(map[string]bool) // "directory name"
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
	named := 0
	for _, place := range regexp.MustCompile("((?:pkg|internal|test|cmd)/[a-z0-9/]+) (`Test\\w+`(?:, `Test\\w+`)*)").FindAllStringSubmatch(string(doc), -1) {
		for _, name := range strings.Split(place[2], ", ") {
			named++
			if name = strings.Trim(name, "`"); !exists[place[1]+" "+name] {
				t.Errorf("docs/ecs-behaviours.md names %s of %s, which does not exist", name, place[1])
			}
		}
	}
	if rows := strings.Count(string(doc), "\n| ") - 1; rows != 63 {
		t.Errorf("docs/ecs-behaviours.md has %d behaviours, and the ECS agent 63", rows)
	}
	if all := strings.Count(string(doc), "`Test"); named != all {
		t.Errorf("%d of %d tests are named behind their directory", named, all)
	}
}
