package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// purePackages compute values from values. They have no clock, no randomness,
// no goroutines, no I/O: so they can be tested exhaustively, and doing a thing
// twice gives the same twice.
var purePackages = []string{"pkg/taskdef/refs", "pkg/taskdef", "pkg/ports", "pkg/admission", "internal/cli/timeline", "pkg/taskdef/logdriver", "internal/logs/logroute", "internal/logs/firelens", "pkg/fault", "pkg/images/imageage", "pkg/lifecycle", "pkg/service", "internal/notice", "internal/unitfile/taskunit", "internal/define/members", "internal/define/pod", "internal/define/calendar", "internal/define/foreign", "internal/define/foreign/toolfile", "internal/define/foreign/cloudformation", "internal/define/foreign/copilot", "internal/define/foreign/ecspresso", "internal/define/foreign/kubernetes", "internal/define/foreign/terraform", "internal/define/adjust", "internal/define/short", "internal/define/export", "internal/define/stackfile", "internal/aws/datachannel", "pkg/taskdef/doctree", "pkg/taskdef/suggest", "pkg/taskdef/unrendered", "pkg/scaling", "internal/engine/decide/driver", "internal/engine/decide/stack"}

// impureImports are forbidden there, with all below them but the exceptions.
var impureImports = []string{
	"context", "crypto/rand", "log", "math/rand", "net", "os", "runtime", "sync", "syscall", "unsafe", "golang.org/x/sys",
}

var pureExceptions = []string{"net/netip", "net/url"} // parsers of text

func isImpure(path string) bool {
	return !slices.Contains(pureExceptions, path) && slices.ContainsFunc(impureImports, func(bad string) bool {
		return path == bad || strings.HasPrefix(path, bad+"/")
	})
}

var impureTime = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Local", "LoadLocation"}

// impurities returns what a file does that a pure package must not.
func impurities(fset *token.FileSet, file *ast.File) []string {
	var found []string
	report := func(n ast.Node, what string) {
		found = append(found, fmt.Sprintf("%s: %s", fset.Position(n.Pos()), what))
	}
	names := make(map[string]string) // local name of an import to its path
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = path
		if isImpure(path) {
			report(spec, "imports "+path)
		}
		if name == "." {
			report(spec, "imports "+path+" without a name, which hides what is called")
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			report(n, "starts a goroutine")
		case *ast.ChanType:
			report(n, "has a channel")
		case *ast.SelectStmt:
			report(n, "selects")
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			switch {
			case !ok:
			case names[pkg.Name] == "time" && slices.Contains(impureTime, n.Sel.Name):
				report(n, "uses time."+n.Sel.Name)
			case names[pkg.Name] == "fmt" && (strings.HasPrefix(n.Sel.Name, "Print") || strings.HasPrefix(n.Sel.Name, "Scan")):
				report(n, "uses fmt."+n.Sel.Name)
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "print" || f.Name == "println") {
				report(n, "prints")
			}
		}
		return true
	})
	return found
}

// pureLibraries are what other modules' packages may import although a pure package may
// not, because what is called there does no I/O.
var pureLibraries = map[string][]string{
	"go.yaml.in/yaml/v3": {"sync"}, // a cache of what it knows about types
	"github.com/containers/podman/v5/pkg/systemd/parser": {"os", "os/user"}, // search paths of units, never called
}

// TestPurePackagesReachNothingImpure looks at everything the pure packages depend on: our
// own packages must be pure too, those of other modules must import nothing impure.
func TestPurePackagesReachNothingImpure(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, slices.Concat([]string{"-deps"}, paths(purePackages))...) {
		switch {
		case p.Standard, p.name() == "internal/lazy": // it waits for a value, and what makes the value is pure
		case ours(p.ImportPath):
			if !slices.Contains(purePackages, p.name()) {
				t.Errorf("a pure package depends on %s, which is not pure: go list -deps names the way", p.name())
			}
		default:
			for _, imp := range p.Imports {
				if isImpure(imp) && !slices.Contains(pureLibraries[p.ImportPath], imp) {
					t.Errorf("a pure package depends on %s, which imports %s", p.ImportPath, imp)
				}
			}
		}
	}
}

func TestPurePackages(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, p := range packages(t) {
		if !slices.Contains(purePackages, p.name()) {
			continue
		}
		seen++
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			for _, what := range impurities(fset, syntax(t, fset, filepath.Join(p.Dir, name))) {
				t.Error(what)
			}
		}
	}
	if seen != len(purePackages) {
		t.Errorf("%d of the packages %v were seen", seen, purePackages)
	}
}

func TestPurityCheckNoticesViolations(t *testing.T) {
	t.Parallel()
	const nothing = ""
	tests := []struct{ name, src, want string }{
		{"values", `import ("time"; "net/netip"); var t time.Time; var d = 3*time.Second; var a netip.Addr`, nothing},
		{"a method of that name", `type x struct{}; func (x) Now() {}; func f(v x) { v.Now() }`, nothing},
		{"context", `import "context"`, "imports context"},
		{"files", `import "os/exec"`, "imports os/exec"},
		{"randomness", `import r "math/rand/v2"`, "imports math/rand/v2"},
		{"clock", `import "time"; var t = time.Now()`, "uses time.Now"},
		{"renamed clock", `import clock "time"; var t = clock.Since`, "uses time.Since"},
		{"goroutine", `func f() { go f() }`, "starts a goroutine"},
		{"channel", `var c chan int`, "has a channel"},
		{"channel of a parameter", `func f(c <-chan int) {}`, "has a channel"},
		{"print", `func f() { println(1) }`, "prints"},
		{"output", `import "fmt"; func f() { fmt.Println(1) }`, "uses fmt.Println"},
		{"hidden", `import . "time"`, "without a name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, "x.go", "package x; "+tt.src, 0)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(impurities(fset, file), "\n")
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}

// The test runner leaves the race detector out for pure packages, so its list is this one.
func TestRunnerKnowsPurePackages(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root(t), "hack", "suite", "pure.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)var pure = strings.Fields\\(`(.*?)`").FindSubmatch(text)
	if found == nil {
		t.Fatal("hack/suite has no list pure")
	}
	if got := strings.Fields(string(found[1])); !slices.Equal(got, purePackages) {
		t.Errorf("hack/suite has %s,\nwant %s", strings.Join(got, " "), strings.Join(purePackages, " "))
	}
}
