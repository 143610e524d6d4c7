package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"testing"
)

// TestExpressionsAreCompiledWhenTheyAreUsed: each command would pay for an expression that its start compiles. Those of
// package lazy are compiled here instead.
func TestExpressionsAreCompiledWhenTheyAreUsed(t *testing.T) {
	t.Parallel()
	compiled := 0
	for _, p := range packages(t) {
		if matchesAny(support, p.name()) {
			continue
		}
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			for _, d := range syntax(t, fset, p.Dir+"/"+name).Decls {
				if v, ok := d.(*ast.GenDecl); ok && v.Tok == token.VAR {
					compiled += expressionsIn(t, fset, v)
				}
			}
		}
	}
	if compiled < 100 {
		t.Errorf("only %d expressions were seen", compiled)
	}
}

// expressionsIn looks at the expressions of a declaration of variables, and returns how many of package lazy it has.
func expressionsIn(t *testing.T, fset *token.FileSet, v *ast.GenDecl) (compiled int) {
	t.Helper()
	ast.Inspect(v, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			_, isFunction := n.(*ast.FuncLit)
			return !isFunction
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || f.Sel.Name != "MustCompile" || len(call.Args) != 1 {
			return true
		}
		if of, ok := f.X.(*ast.Ident); !ok || of.Name != "lazy" {
			t.Errorf("%s: use lazy.MustCompile", fset.Position(call.Pos()))
			return true
		}
		compiled++
		if text, ok := call.Args[0].(*ast.BasicLit); ok {
			pattern, err := strconv.Unquote(text.Value)
			if err == nil {
				_, err = regexp.Compile(pattern)
			}
			if err != nil {
				t.Errorf("%s: %v", fset.Position(call.Pos()), err)
			}
		}
		return true
	})
	return compiled
}

func TestExpressionsOfVariablesAreSeen(t *testing.T) {
	t.Parallel()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "x.go", "package x\nvar a = lazy.MustCompile(`b`)\nvar c, d = form{lazy.MustCompile(`e`), 1}, func() any { return regexp.MustCompile(`f`) }", 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, d := range file.Decls {
		seen += expressionsIn(t, fset, d.(*ast.GenDecl))
	}
	if seen != 2 {
		t.Errorf("%d expressions instead of two", seen)
	}
}
