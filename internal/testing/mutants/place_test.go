package mutants

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the directory of the module, absolute as overlays need it.
var root = func() string {
	dir, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		panic(err)
	}
	return dir
}()

func TestEveryMutantHasItsPlace(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	s := newSources(root)
	for _, m := range mutants {
		if seen[m.property] || m.by.tests == "" {
			t.Errorf("%s: the name is there twice, or no test is named", m.property)
		}
		seen[m.property] = true
		if _, err := s.find(m); err != nil {
			t.Errorf("%s: %v", m.property, err)
		}
	}
}

// Otherwise only the run of all mutants would notice that a test has another name now.
func TestEveryTestThatIsNamedExists(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`Test\w+`)
	for _, m := range mutants {
		files, err := filepath.Glob(filepath.Join(root, m.by.pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var text []byte
		for _, file := range files {
			one, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, one...)
		}
		for _, test := range name.FindAllString(m.by.tests+" "+m.by.first, -1) {
			if !strings.Contains(string(text), "\nfunc "+test+"(") {
				t.Errorf("%s: %s has no %s", m.property, m.by.pkg, test)
			}
		}
	}
}

// The page about the methods of testing names mutants as examples.
func TestDocumentedMutantsExist(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "dev", "proof.md"))
	if err != nil {
		t.Fatal(err)
	}
	lists := regexp.MustCompile(`mutants ("[^"]+"(?:, "[^"]+")*)`).FindAllStringSubmatch(string(page), -1)
	if len(lists) == 0 {
		t.Error("the page names no mutant")
	}
	for _, list := range lists {
		for _, name := range strings.Split(strings.Trim(list[1], `"`), `", "`) {
			if !slices.ContainsFunc(mutants, func(m mutant) bool { return m.property == name }) {
				t.Errorf("there is no mutant %q", name)
			}
		}
	}
}

const example = `package x

func (t T) f(a, b int) error {
	if a > 1 && b > 2 {
		a++
	}
	n := limit(a)
	for range n {
		b++
	}
	return save(b)
}

func (u U) f() {}
`

func write(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestOperationsChangeTheirPlace(t *testing.T) {
	t.Parallel()
	s := newSources(write(t))
	tests := []struct {
		mutant
		want string
	}{
		{mutant{operation: always, mentions: "a 1"}, "if (mutantOn == 7 || a > 1) && b > 2 {"},
		{mutant{operation: never, mentions: "a b"}, "if (mutantOn != 7 && a > 1 && b > 2) {"},
		{mutant{operation: skip, mentions: "a ++"}, ""},
		{mutant{operation: skip, mentions: "n b"}, "if mutantOn != 7 { for range n {\n\t\tb++\n\t} }"},
		{mutant{operation: value, mentions: "limit", other: "9"}, "n := mutantValue(7, limit(a), 9)"},
		{mutant{operation: omit, mentions: "save"}, "return mutantCall(7, func() error { return save(b) })"},
	}
	for _, tt := range tests {
		tt.function = ". T.f"
		p, err := s.find(tt.mutant)
		if (err == nil) != (tt.want != "") {
			t.Errorf("%q: %v", tt.mentions, err)
		}
		if err != nil {
			continue
		}
		if got := string(apply([]byte(example), edits(7, tt.mutant, p))); !strings.Contains(got, tt.want) {
			t.Errorf("%q: want %q in\n%s", tt.mentions, tt.want, got)
		}
	}
}

func TestPlaceThatIsNotThereOnceIsRefused(t *testing.T) {
	t.Parallel()
	s := newSources(write(t))
	for want, m := range map[string]mutant{
		"0 functions": {function: ". g", mentions: "a"},
		"2 functions": {function: ". f", mentions: "a"},
		"0 places":    {function: ". T.f", mentions: "z"},
		"2 places":    {function: ". T.f", mentions: ">"},
	} {
		if _, err := s.find(m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", m, err, want)
		}
	}
}

func TestSeveralMutantsOfOnePlaceAreNested(t *testing.T) {
	t.Parallel()
	s := newSources(write(t))
	var all []edit
	for i, m := range []mutant{{operation: always, mentions: "a 1"}, {operation: never, mentions: "a b"}} {
		m.function = ". T.f"
		p, err := s.find(m)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, edits(i+1, m, p)...)
	}
	want := "if (mutantOn != 2 && (mutantOn == 1 || a > 1) && b > 2) {"
	if got := string(apply([]byte(example), all)); !strings.Contains(got, want) {
		t.Errorf("want %q in\n%s", want, got)
	}
}
