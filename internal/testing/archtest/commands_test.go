package archtest

import (
	"go/ast"
	"path/filepath"
	"strings"
	"testing"
)

// wholes are the types that have all that commands can use. A command takes what it uses from them in
// its constructor, so that its options name it.
var wholes = []struct {
	name string // in internal/cli/command
	in   func(function string) bool
	use  string
}{
	{"Machine", isConstructor, "a function new..., which WithMachine calls"},
	{"Program", func(f string) bool { return isConstructor(f) || strings.HasSuffix(f, "Command") || f == "Part" }, "a function new..., ...Command or Part"},
}

func isConstructor(function string) bool { return strings.HasPrefix(function, "new") }

// strayWholes returns the positions in a file at which a type of wholes is used where it must not be.
func strayWholes(s source) (stray []string) {
	for _, decl := range s.file.Decls {
		function := ""
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
			function = f.Name.Name
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); !ok || x.Name != "command" {
				return true
			}
			for _, w := range wholes {
				if sel.Sel.Name == w.name && !w.in(function) {
					stray = append(stray, s.fset.Position(n.Pos()).String()+": command."+w.name+" is for "+w.use)
				}
			}
			return true
		})
	}
	return stray
}

func TestCommandsNameWhatTheyUse(t *testing.T) {
	t.Parallel()
	groups := map[string]bool{}
	for _, s := range repoSyntax(t) {
		if !isCommandGroup(s.dir) || strings.HasSuffix(s.fset.Position(s.file.Pos()).Filename, "_test.go") {
			continue
		}
		groups[s.dir] = true
		for _, at := range strayWholes(s) {
			t.Error(at)
		}
	}
	if len(groups) < 7 {
		t.Errorf("only %d groups of commands are seen: %v", len(groups), groups)
	}
}

// A main function calls the package that has the program, so that the code of a program has a place in the
// tree and its tests can be in its package. notags.go is the message for a build without tags.
func TestProgramsAreOneFile(t *testing.T) {
	t.Parallel()
	programs := 0
	for _, s := range repoSyntax(t) {
		name := filepath.Base(s.fset.Position(s.file.Pos()).Filename)
		if !strings.HasPrefix(s.dir, "cmd/") || strings.HasSuffix(name, "_test.go") || name == "notags.go" {
			continue
		}
		if name == "main.go" {
			programs++
		} else {
			t.Errorf("%s/%s: a program has the file main.go only", s.dir, name)
		}
	}
	if programs < 5 {
		t.Errorf("only %d programs are seen", programs)
	}
}
