package archtest

import (
	"go/ast"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sums are the sealed interfaces and where every variant must be a case of a
// type switch.
var sums = []struct {
	dir    string   // package of the variants
	method string   // the unexported method that seals it
	in     []string // files, or packages ending in "/", with the switch
	but    []string // variants that are handled elsewhere: internal/engine/decide/driver takes CancelOp out
}{
	{"pkg/lifecycle", "event", []string{"pkg/lifecycle/fold.go"}, nil},
	{"pkg/lifecycle", "effect", []string{"internal/engine/act/effects/"}, []string{"CancelOp"}},
	{"pkg/service", "input", []string{"pkg/service/step.go"}, nil},
	{"pkg/service", "effect", []string{"internal/engine/run/services/"}, nil},
}

func TestEveryVariantIsHandled(t *testing.T) {
	t.Parallel()
	for _, sum := range sums {
		want := variants(t, filepath.Join(root(t), sum.dir), sum.method)
		if len(want) == 0 {
			t.Errorf("%s has no type with a method %s", sum.dir, sum.method)
		}
		for _, place := range sum.in {
			files := goFiles(t, filepath.Join(root(t), place))
			if len(files) == 0 {
				t.Logf("%s holds no Go files yet", place)
				continue
			}
			handled := make(map[string]bool)
			for _, file := range files {
				maps.Copy(handled, switchedTypes(syntax(t, token.NewFileSet(), file)))
			}
			if len(handled) == 0 {
				t.Errorf("%s has no type switch", place)
				continue
			}
			for _, v := range want {
				if !handled[v] && !slices.Contains(sum.but, v) {
					t.Errorf("%s has no case for %s.%s", place, filepath.Base(sum.dir), v)
				}
			}
		}
	}
}

// goFiles returns path if it is a file, else the files of the package there,
// tests left out.
func goFiles(t *testing.T, path string) []string {
	t.Helper()
	if strings.HasSuffix(path, ".go") {
		return []string{path}
	}
	files, err := filepath.Glob(filepath.Join(path, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
}

// variants returns the types of a package with the sealing method, sorted.
func variants(t *testing.T, dir, method string) []string {
	t.Helper()
	var names []string
	for _, path := range goFiles(t, dir) {
		for _, decl := range syntax(t, token.NewFileSet(), path).Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Name.Name != method {
				continue
			}
			if name := typeName(f.Recv.List[0].Type); name != "" {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// switchedTypes returns the types named in the cases of type switches.
func switchedTypes(file *ast.File) map[string]bool {
	found := make(map[string]bool)
	ast.Inspect(file, func(n ast.Node) bool {
		sw, ok := n.(*ast.TypeSwitchStmt)
		if !ok {
			return true
		}
		for _, clause := range sw.Body.List {
			for _, expr := range clause.(*ast.CaseClause).List {
				found[typeName(expr)] = true
			}
		}
		return true
	})
	return found
}

// typeName returns the name of a type, without package and star.
func typeName(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.StarExpr:
		return typeName(e.X)
	}
	return ""
}
