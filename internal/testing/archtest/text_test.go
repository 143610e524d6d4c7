package archtest

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEveryPackageHasADoc(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 && strings.TrimSpace(p.Doc) == "" {
			t.Errorf("%s has no package documentation", p.name())
		}
	}
}

// A test that sleeps is slow when it passes and flaky when it fails: wait for
// the thing itself, or use testing/synctest.
func TestNoTestSleeps(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, path := range trackedFiles(t) {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		full := filepath.Join(root(t), path)
		if _, err := os.Stat(full); err != nil {
			continue // removed and not yet committed
		}
		seen++
		fset := token.NewFileSet()
		ast.Inspect(syntax(t, fset, full), func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Sleep" {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" {
				t.Errorf("%s: sleeps", fset.Position(n.Pos()))
			}
			return true
		})
	}
	if seen < 5 {
		t.Errorf("only %d test files were seen", seen)
	}
}

// machinePath finds paths that exist only on a developer's machine.
// Inside a longer path the names mean nothing.
var machinePath = regexp.MustCompile(`(^|[^A-Za-z0-9_.$}/-])/(work|root|home/[a-z]+)/[A-Za-z0-9_.]`)

// machinePathExceptions are files that name such a path for a reason.
var machinePathExceptions = map[string]string{
	"internal/testing/archtest/text_test.go": "the check's own test",
}

func TestNoFileNamesAMachinesPaths(t *testing.T) {
	t.Parallel()
	for _, path := range trackedFiles(t) {
		if machinePathExceptions[path] != "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root(t), path))
		if err != nil || bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
			continue // removed and not yet committed, or not text
		}
		for i, line := range strings.Split(string(text), "\n") {
			if m := machinePath.FindString(line); m != "" {
				t.Errorf("%s:%d names %q, a path of one machine", path, i+1, strings.TrimSpace(m))
			}
		}
	}
}

func TestMachinePathCheck(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"see /work/main/x":           true,
		`"/root/go/bin"`:             true,
		"/home/x/podman":             true,
		"a clone may lie in /root":   false,
		"/proc/$pid/root/run":        false,
		"https://host/work/list":     false,
		"$HOME/work/x and ./work/x":  false,
		"/homes/work/x, /network/id": false,
	} {
		if got := machinePath.MatchString(line); got != want {
			t.Errorf("%q: %v, want %v", line, got, want)
		}
	}
}

// requirement is a module that go.mod asks for.
type requirement struct {
	Path, Version string
	Indirect      bool
}

// requirements returns those of the product's go.mod.
func requirements(t *testing.T) []requirement {
	t.Helper()
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var mod struct{ Require []requirement }
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	return mod.Require
}

func TestEveryDirectDependencyIsExplained(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root(t), "docs/dev/dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requirements(t) {
		mentioned := regexp.MustCompile(`(^|[^A-Za-z0-9/.-])` + regexp.QuoteMeta(r.Path) + `($|[^A-Za-z0-9/-])`)
		if !r.Indirect && !mentioned.Match(text) {
			t.Errorf("docs/dev/dependencies.md has no line on %s: say why it is needed", r.Path)
		}
	}
}
