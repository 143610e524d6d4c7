package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryMutantHasItsPlace(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, m := range mutants {
		if seen[m.name] || m.old == m.new {
			t.Errorf("%s: the name is taken, or it changes nothing", m.name)
		}
		seen[m.name] = true
		if _, err := m.overlay(root, filepath.Join(t.TempDir(), "m")); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

func TestTextThatIsNotThereOnceIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("x y y"), 0o600); err != nil {
		t.Fatal(err)
	}
	for old, want := range map[string]string{"z": "0 times", "y": "2 times", "x": ""} {
		path, err := mutant{file: "a.go", old: old, new: "n"}.overlay(dir, filepath.Join(dir, old))
		if want == "" && (err != nil || path == "") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", old, err, want)
		}
	}
}

func TestCatcherNamesWhatFailed(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		"--- FAIL: TestA (0.1s)\n    x_test.go:1: broken: a rule\nmore":                "a rule",
		"panic: lifecycle: no [recovered]\n":                                           "lifecycle: no [recovered]",
		"--- FAIL: TestA (0s)\n    --- FAIL: TestA/b (0s)\n--- FAIL: TestC (0s)\nFAIL": "TestA/b",
		"ok": "",
	} {
		if got := catcher(output); got != want {
			t.Errorf("%q: %q, want %q", output, got, want)
		}
	}
}

func TestEachMutantIsToldByName(t *testing.T) {
	t.Parallel()
	var lines, events strings.Builder
	r := report{lines: &lines, events: json.NewEncoder(&events)}
	r.tell("no rename", "TestStore", "", nil)
	r.tell("no sync", "", "much", errors.New("all tests pass"))
	if want := "caught no rename (TestStore)\nSURVIVED no sync: all tests pass\n"; lines.String() != want {
		t.Errorf("it says %q, want %q", &lines, want)
	}
	want := `{"Action":"run","Package":"mutants","Test":"no rename"}
{"Action":"output","Package":"mutants","Test":"no rename","Output":"caught no rename (TestStore)\n"}
{"Action":"pass","Package":"mutants","Test":"no rename"}
{"Action":"run","Package":"mutants","Test":"no sync"}
{"Action":"output","Package":"mutants","Test":"no sync","Output":"SURVIVED no sync: all tests pass\n"}
{"Action":"fail","Package":"mutants","Test":"no sync"}
`
	if events.String() != want {
		t.Errorf("the events are\n%swant\n%s", &events, want)
	}
}

func TestMutantsAreOfCoreStoreAndAgent(t *testing.T) {
	t.Parallel()
	count := map[string]int{}
	for _, m := range mutants {
		count[filepath.Dir(m.file)]++
	}
	for _, dir := range []string{"pkg/lifecycle", "pkg/state"} {
		if count[dir] < 5 {
			t.Errorf("%d mutants of %s: %v", count[dir], dir, count)
		}
	}
}
