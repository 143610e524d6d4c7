package archtest

import (
	"bufio"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var updateLanguage = flag.Bool("update-language", false, "write the counts of testdata/language.txt, if none grows")

// riddle matches the first sentence of a comment that defines a name by a question or a bare pronoun instead of a noun:
// "place is where it is", "said says what was said", "statuses are those of states".
var riddle = regexp.MustCompile(`^[A-Za-z]+ (?:(?:is|are|was|were) (?:what|who|how|where|why|when|that|those|one that|of)|(?:says|tells|knows|has|holds) (?:what|who|how|where|why|that|those|which))\b`)

// riddlesOf counts the comments of declarations, fields and methods in a file that are riddles.
func riddlesOf(file *ast.File) (n int) {
	count := func(doc *ast.CommentGroup) {
		if doc != nil && riddle.MatchString(doc.Text()) {
			n++
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncDecl:
			count(node.Doc)
		case *ast.GenDecl:
			count(node.Doc)
		case *ast.TypeSpec:
			count(node.Doc)
		case *ast.ValueSpec:
			count(node.Doc)
		case *ast.Field:
			count(node.Doc)
		}
		return true
	})
	return n
}

// TestCommentsDefineByNouns compares the number of riddles of each group with testdata/language.txt. A number may only
// fall: rewrite a new comment so that it says what the thing is for, and after others were rewritten run the test with
// -update-language.
func TestCommentsDefineByNouns(t *testing.T) {
	t.Parallel()
	counts := map[string]int{}
	for _, path := range trackedFiles(t) {
		if !strings.HasSuffix(path, ".go") || strings.Contains(path, "testdata/") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), path), nil, parser.ParseComments|parser.SkipObjectResolution)
		if os.IsNotExist(err) {
			continue // removed and not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		group := filepath.Dir(path)
		if in, _ := groupOf(group); in != "" {
			group = in
		} else if parts := strings.Split(path, "/"); len(parts) > 2 {
			group = strings.Join(parts[:2], "/")
		}
		counts[group] += riddlesOf(file)
	}
	limits := map[string]int{}
	const list = "testdata/language.txt"
	f, err := os.Open(list)
	if err != nil && !*updateLanguage {
		t.Fatal(err)
	}
	if err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var group string
			var n int
			if _, err := fmt.Sscan(lines.Text(), &group, &n); err != nil {
				t.Fatalf("%s: %q: %v", list, lines.Text(), err)
			}
			limits[group] = n
		}
		for group, n := range counts {
			if n > limits[group] {
				t.Errorf("%s: %d comments define a name by a question or a pronoun (%s), %d are allowed: say what the thing is for, with a noun", group, n, riddle, limits[group])
			}
		}
	}
	if t.Failed() || !*updateLanguage {
		return
	}
	var text strings.Builder
	for _, group := range slices.Sorted(maps.Keys(counts)) {
		if counts[group] > 0 {
			fmt.Fprintln(&text, group, counts[group])
		}
	}
	if err := os.WriteFile(list, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRiddleCheck(t *testing.T) {
	t.Parallel()
	for comment, want := range map[string]bool{
		"place is where a container is in a task":              true,
		"statuses are those of states.":                        true,
		"said says what an instance said":                      true,
		"Free is how many messages of output may be sent.":     true,
		"Lease retains resources until they are referenced.":   false,
		"Request lists the fields to update.":                  false,
		"maxLeaves is the number of certificates in memory.":   false,
		"valid reports whether the name is what a task may be": false,
	} {
		if got := riddle.MatchString(comment); got != want {
			t.Errorf("%q: %v, want %v", comment, got, want)
		}
	}
}
