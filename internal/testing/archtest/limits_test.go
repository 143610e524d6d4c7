package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// limits are what is counted, and the most there may be of it. They hold for product
// code, test machinery and tests alike, except that a test function may have any length:
// its table is data. There is no limit on the methods or fields of a type, nor on the length of
// a file: a type or a file ends where its idea ends.
var limits = map[string]int{
	"parameters": 5,  // of a function
	"lines":      60, // of a function
}

// exception allows one place more than the limit, for a reason.
type exception struct {
	what  string // a key of limits
	place string // directory.Name, directory.Type.Method for a method
	most  int
	why   string
}

// finding is a place beyond a limit.
type finding struct {
	what, place, at string
	n               int
}

func TestLimits(t *testing.T) {
	t.Parallel()
	allowed := make(map[string]exception)
	for _, e := range limitExceptions {
		key := e.what + " " + e.place
		if allowed[key].what != "" || e.why == "" || limits[e.what] == 0 || e.most <= limits[e.what] {
			t.Errorf("the exception for %s is there twice, has no reason, or allows no more than the limit", key)
		}
		allowed[key] = e
	}
	used := make(map[string]int)
	for _, f := range beyondLimits(repoSyntax(t)) {
		key := f.what + " " + f.place
		used[key] = max(used[key], f.n)
		if most := max(allowed[key].most, limits[f.what]); f.n > most {
			t.Errorf("%s: %s has %d %s; the limit is %d (limitexceptions_test.go lists exceptions)", f.at, f.place, f.n, f.what, most)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(allowed)) {
		switch n := used[key]; {
		case n == 0:
			t.Errorf("the exception for %s is not needed: remove it", key)
		case n < allowed[key].most:
			t.Errorf("the exception for %s allows %d, there are %d: lower it", key, allowed[key].most, n)
		}
	}
}

// source is a parsed Go file of the directory dir below the root.
type source struct {
	dir  string
	file *ast.File
	fset *token.FileSet
}

// repoSyntax parses all Go files of the repository.
func repoSyntax(t *testing.T) (all []source) {
	t.Helper()
	fset := token.NewFileSet()
	for _, name := range trackedFiles(t) {
		full := filepath.Join(root(t), name)
		if _, err := os.Stat(full); !strings.HasSuffix(name, ".go") || err != nil {
			continue
		}
		all = append(all, source{path.Dir(filepath.ToSlash(name)), syntax(t, fset, full), fset})
	}
	if len(all) < 50 {
		t.Fatalf("only %d Go files are seen", len(all))
	}
	return all
}

// beyondLimits returns every place beyond a limit, sorted.
func beyondLimits(all []source) []finding {
	var c counter
	for _, s := range all {
		c.count(s)
	}
	slices.SortFunc(c.found, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.what, b.what), cmp.Compare(a.place, b.place))
	})
	return c.found
}

// counter counts what has a limit.
type counter struct {
	found []finding
}

func (c *counter) add(f finding) {
	if f.n > limits[f.what] {
		c.found = append(c.found, f)
	}
}

// count counts in one file. A function literal and an anonymous type belong to the
// declaration around them.
func (c *counter) count(s source) {
	for _, decl := range s.file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			place := s.dir + "." + d.Name.Name
			if d.Recv != nil {
				place = s.dir + "." + receiverName(d) + "." + d.Name.Name
			}
			if !isTest(d) {
				c.add(finding{"lines", place, s.at(d), s.line(d.End()) - s.line(d.Pos()) + 1})
			}
			c.within(s, place, d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				c.within(s, s.dir+"."+specName(spec), spec)
			}
		}
	}
}

// within counts in the declaration of place. Named types inside have places of their own.
func (c *counter) within(s source, place string, decl ast.Node) {
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			if n != decl {
				c.within(s, place+"."+n.Name.Name, n.Type)
				return false
			}
		case *ast.FuncType:
			c.add(finding{"parameters", place, s.at(n), fields(n.Params)})
		}
		return true
	})
}

func (s source) line(p token.Pos) int { return s.fset.Position(p).Line }

func (s source) at(n ast.Node) string {
	p := s.fset.Position(n.Pos())
	return fmt.Sprintf("%s/%s:%d", s.dir, filepath.Base(p.Filename), p.Line)
}

// isTest tells whether a function is called by "go test", which gives it its only parameter.
func isTest(f *ast.FuncDecl) bool {
	for _, prefix := range []string{"Test", "Fuzz", "Benchmark"} {
		if f.Recv == nil && strings.HasPrefix(f.Name.Name, prefix) && fields(f.Type.Params) == 1 {
			return true
		}
	}
	return false
}

// fields counts names; a field or parameter without one is one.
func fields(list *ast.FieldList) (n int) {
	for _, f := range list.List {
		n += max(1, len(f.Names))
	}
	return n
}

// receiverName is the name of a method's type, without star and type parameters.
func receiverName(f *ast.FuncDecl) string {
	expr := f.Recv.List[0].Type
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	switch e := expr.(type) {
	case *ast.IndexExpr:
		expr = e.X
	case *ast.IndexListExpr:
		expr = e.X
	}
	return typeName(expr)
}

func specName(spec ast.Spec) string {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		return s.Name.Name
	case *ast.ValueSpec:
		return s.Names[0].Name
	}
	return ""
}

func TestLimitCheckNoticesViolations(t *testing.T) {
	t.Parallel()
	many := func(format string, n int) (text string) {
		for i := range n {
			text += fmt.Sprintf(format, i)
		}
		return text
	}
	tests := []struct{ name, src, want string }{
		{"nothing", "func f(a, b, c, d, e int) {}", ""},
		{"parameters", "func f(a, b, c, d, e, g int) {}", "parameters x.f 6"},
		{"parameters of a literal", "var f = func(_, _, _, _, _, _ int) {}", "parameters x.f 6"},
		{"lines", "func f() {" + many("\n_ = %d", 60) + "\n}", "lines x.f 62"},
		{"a test's table", "func TestF(t *testing.T) {" + many("\n_ = %d", 60) + "\n}", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, "x.go", "package x; "+tt.src, 0)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range beyondLimits([]source{{"x", file, fset}}) {
				got = append(got, fmt.Sprint(f.what, " ", f.place, " ", f.n))
			}
			if strings.Join(got, "; ") != tt.want {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}
