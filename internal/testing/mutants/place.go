package mutants

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// operation is how a mutant changes the code at its place.
type operation int

const (
	always operation = iota // a condition holds
	never                   // a condition does not hold
	skip                    // a statement is not executed
	value                   // an expression has another value
	omit                    // a call that returns only an error does not happen
)

// mutant is one fault.
type mutant struct {
	property string // that it breaks; its name
	// function is where it is: a directory, with all below it, and the name of a
	// function or method, "Type.name" where the name alone is there twice.
	function string
	operation
	// mentions are identifiers, literals and operators, separated by spaces. The place
	// is the innermost condition, statement or expression with all of them.
	mentions string
	other    string // the value that an expression gets
	by       check
}

// check names tests of a package, one of which must fail.
type check struct {
	pkg   string
	tests string // a regular expression
	first string // of quick tests, which are tried before; may be empty
	flag  string // of the test program; may be empty
}

// file is a parsed source file.
type file struct {
	path string
	text []byte
	tree *ast.File
	fset *token.FileSet
}

func (f *file) offset(p token.Pos) int { return f.fset.Position(p).Offset }

// sources parses Go files once. It is for one goroutine.
type sources struct {
	root  string
	dirs  map[string][]*file
	files map[string]*file // by path: a file is below several directories
}

func newSources(root string) *sources {
	return &sources{root: root, dirs: make(map[string][]*file), files: make(map[string]*file)}
}

// below returns the files of a directory and of those below it, tests left out.
func (s *sources) below(dir string) ([]*file, error) {
	if files, ok := s.dirs[dir]; ok {
		return files, nil
	}
	var files []*file
	err := filepath.WalkDir(filepath.Join(s.root, dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := s.parse(path)
		files = append(files, f)
		return err
	})
	s.dirs[dir] = files
	return files, err
}

// parse returns a file, parsed once.
func (s *sources) parse(path string) (f *file, err error) {
	if f := s.files[path]; f != nil {
		return f, nil
	}
	f = &file{path: path, fset: token.NewFileSet()}
	s.files[path] = f
	if f.text, err = os.ReadFile(path); err != nil {
		return f, err
	}
	f.tree, err = parser.ParseFile(f.fset, path, f.text, parser.SkipObjectResolution|parser.ParseComments)
	return f, err
}

// place is where a mutant changes a file.
type place struct {
	file *file
	node ast.Node
}

// find returns the only place of a mutant.
func (s *sources) find(m mutant) (place, error) {
	dir, name, ok := strings.Cut(m.function, " ")
	if !ok {
		return place{}, fmt.Errorf("%q is no directory and function", m.function)
	}
	files, err := s.below(dir)
	if err != nil {
		return place{}, err
	}
	var found []place
	functions := 0
	for _, f := range files {
		for _, decl := range f.tree.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil || fn.Name.Name != name && receiver(fn)+"."+fn.Name.Name != name {
				continue
			}
			functions++
			for _, n := range innermost(candidates(fn.Body, m.operation), strings.Fields(m.mentions)) {
				found = append(found, place{f, n})
			}
		}
	}
	switch {
	case functions != 1:
		return place{}, fmt.Errorf("%d functions %s below %s, want one: bring the list up to date", functions, name, dir)
	case len(found) != 1:
		return place{}, fmt.Errorf("%d places in %s mention %q, want one: bring the list up to date", len(found), name, m.mentions)
	}
	return found[0], nil
}

// receiver is the name of a method's type.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	expr := f.Recv.List[0].Type
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	if id, ok := expr.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// candidates returns the nodes of a function that an operation can change.
func candidates(body *ast.BlockStmt, op operation) (all []ast.Node) {
	switch op {
	case skip:
		return statements(body)
	case value, omit:
		return expressions(body)
	}
	return conditions(body)
}

// conditions are those of if, for and switch without a value, with their operands,
// and what is compared or joined elsewhere.
func conditions(body *ast.BlockStmt) (all []ast.Node) {
	add := func(e ast.Expr) {
		if e != nil {
			all = append(all, e)
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			add(n.Cond)
		case *ast.ForStmt:
			add(n.Cond)
		case *ast.SwitchStmt:
			if n.Tag == nil {
				for _, clause := range n.Body.List {
					for _, e := range clause.(*ast.CaseClause).List {
						add(e)
					}
				}
			}
		case *ast.BinaryExpr:
			switch n.Op {
			case token.LAND, token.LOR:
				add(n)
				add(n.X)
				add(n.Y)
			case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
				add(n)
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				add(n)
			}
		}
		return true
	})
	return all
}

// statements are those that may be put into a block of their own.
func statements(body *ast.BlockStmt) (all []ast.Node) {
	list := func(stmts []ast.Stmt) {
		for _, s := range stmts {
			if assign, ok := s.(*ast.AssignStmt); ok && assign.Tok == token.DEFINE {
				continue
			}
			switch s.(type) {
			case *ast.DeclStmt, *ast.ReturnStmt, *ast.LabeledStmt, *ast.BranchStmt:
				continue
			}
			all = append(all, s)
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			list(n.List)
		case *ast.CaseClause:
			list(n.Body)
		case *ast.CommClause:
			list(n.Body)
		}
		return true
	})
	return all
}

// expressions are those that are returned, assigned, passed or compared.
func expressions(body *ast.BlockStmt) (all []ast.Node) {
	add := func(exprs []ast.Expr) {
		for _, e := range exprs {
			all = append(all, e)
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ReturnStmt:
			add(n.Results)
		case *ast.AssignStmt:
			add(n.Rhs)
		case *ast.CallExpr:
			add(n.Args)
		case *ast.BinaryExpr:
			add([]ast.Expr{n.X, n.Y})
		}
		return true
	})
	return all
}

// innermost returns the nodes that mention all names and have no other such node inside.
func innermost(all []ast.Node, names []string) (found []ast.Node) {
	for _, n := range all {
		if mentions(n, names) && !slices.Contains(found, n) {
			found = append(found, n)
		}
	}
	matching := slices.Clone(found)
	return slices.DeleteFunc(found, func(n ast.Node) bool {
		return slices.ContainsFunc(matching, func(in ast.Node) bool {
			return in != n && n.Pos() <= in.Pos() && in.End() <= n.End()
		})
	})
}

// mentions tells whether all names are identifiers, literals or operators in n.
func mentions(n ast.Node, names []string) bool {
	seen := make(map[string]bool)
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			seen[n.Name] = true
		case *ast.BasicLit:
			seen[n.Value] = true
		case *ast.BinaryExpr:
			seen[n.Op.String()] = true
		}
		return true
	})
	return !slices.ContainsFunc(names, func(name string) bool { return !seen[name] })
}
