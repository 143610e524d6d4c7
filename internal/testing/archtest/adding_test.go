package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	quoted     = regexp.MustCompile("`([^`]+)`")
	identifier = regexp.MustCompile(`^[A-Za-z]\w*$`)
	qualified  = regexp.MustCompile(`^[a-z]+\.[A-Z]\w*$`)
	testName   = regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w*$`)
)

// TestAddingNamesWhatIsThere holds the tables of docs/dev/adding.md against the tree: a path exists, a name is a word of the
// files below the path before it, and a test has a function. Words with a placeholder (NAME, KIND) are not looked up.
func TestAddingNamesWhatIsThere(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root(t), "docs/dev/adding.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	for test := range testsByDirectory(t) {
		tests[test[strings.LastIndexAny(test, "/ .")+1:]] = true
	}
	for i, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		path := ""
		for _, m := range quoted.FindAllStringSubmatch(strings.SplitN(line, "|", 3)[1], -1) {
			word := m[1]
			switch {
			case strings.Contains(word, "NAME"), strings.Contains(word, "KIND"), strings.Contains(word, "="), strings.Contains(word, " "):
			case qualified.MatchString(word), path == "" && identifier.MatchString(word):
			case strings.ContainsAny(word, "/."):
				if !strings.Contains(word, "/") && strings.HasSuffix(word, ".go") { // beside the path before it
					word = filepath.Join(path, word)
				}
				if _, err := os.Stat(filepath.Join(root(t), word)); err != nil {
					t.Errorf("line %d: %s is not in the tree", i+1, word)
				}
				path = word
			case identifier.MatchString(word) && !hasWord(t, filepath.Join(root(t), path), word):
				t.Errorf("line %d: %s does not have the name %s", i+1, path, word)
			}
		}
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			if testName.MatchString(m[1]) && !tests[m[1]] {
				t.Errorf("line %d: there is no test %s", i+1, m[1])
			}
		}
	}
}

// hasWord reports whether a file, or a Go file of a directory, has a word.
func hasWord(t *testing.T, path, word string) bool {
	t.Helper()
	files := []string{path}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		var err error
		if files, err = filepath.Glob(filepath.Join(path, "*.go")); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && regexp.MustCompile(`\b`+word+`\b`).Match(text) {
			return true
		}
	}
	return false
}
