package failpoint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

func TestEveryEffectHasFailPoints(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../../../../pkg/lifecycle/effect.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	effects := 0
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv == nil || f.Name.Name != "effect" {
			continue
		}
		name := f.Recv.List[0].Type.(*ast.Ident).Name
		if name == "CancelOp" {
			continue // it calls nothing
		}
		effects++
		for _, place := range []string{BeforeEffect, AfterEffect} {
			if !slices.Contains(slices.Concat(Points(), otherPoints), place+name) {
				t.Errorf("no fail point %s", place+name)
			}
		}
	}
	if effects < 5 {
		t.Errorf("only %d effects are seen", effects)
	}
}

func TestFailPointIsArmedByTheEnvironment(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int64{"": 0, BeforeSave: 1, "after-effect/PullImage:3": 3} {
		f, err := Parse(value)
		if err != nil || (f == nil) != (want == 0) || f != nil && f.left.Load() != want {
			t.Errorf("%q: %+v, %v", value, f, err)
		}
	}
	for _, value := range []string{"nowhere", "before-save:0", "before-save:x", "before-save:", ":1"} {
		if _, err := Parse(value); err == nil || !strings.Contains(err.Error(), Env) {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestFailPointLetsOthersPass(t *testing.T) {
	t.Parallel()
	var none *Point
	none.At(BeforeSave) // not armed
	fail := &Point{name: BeforeSave}
	fail.left.Store(2)
	fail.At(AfterSave)
	fail.At(BeforeSave)
	if left := fail.left.Load(); left != 1 {
		t.Errorf("%d visits left, want 1", left)
	}
}
