package cli

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/testfile"
	"github.com/podtask/podtask/internal/parts"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"github.com/urfave/cli/v2"
)

var (
	shellWord = regexp.MustCompile(`(?:[^\s'"]|'[^']*'|"[^"]*")+`)
	quotes    = strings.NewReplacer("'", "", `"`, "")
)

// commandLine is the first command line of podtask in a line of shell; nil for none.
func commandLine(line string) (words []string) {
	line, _, _ = strings.Cut(line, " # ")
	for _, w := range shellWord.FindAllString(line, -1) {
		switch {
		case strings.TrimLeft(w, "$(<") == "podtask":
			words = []string{"podtask"}
		case words == nil:
		case w == "|" || w == "&&" || w == ";" || w == "&" || strings.ContainsAny(w[:1], "<>"):
			return words
		default:
			words = append(words, quotes.Replace(strings.TrimSuffix(w, ")")))
		}
	}
	return words
}

// What the help shows can be typed: the commands and flags of every example exist, and
// every command has one.
func TestExamplesOfTheHelpAreCommandLines(t *testing.T) {
	t.Parallel()
	p := &command.Program{Stdout: io.Discard, Stderr: io.Discard}
	for _, c := range leaves(newApp(p, parts.Build()).Commands) {
		_, examples, found := strings.Cut(c.Description, "Examples:\n")
		n := 0
		for line := range strings.Lines(examples) {
			words := commandLine(line)
			if words == nil {
				continue
			}
			n++
			if arranged, err := arrange(newApp(p, parts.Build()), parts.Build(), words); err != nil {
				t.Errorf("%s: %s: %v", c.Name, strings.TrimSpace(line), err)
			} else if len(arranged) < 2 {
				t.Errorf("%s: %s: no command", c.Name, strings.TrimSpace(line))
			}
		}
		if !found || n == 0 {
			t.Errorf("the help of %s has no example", c.Name)
		}
	}
}

// leaves are all commands, groups and the commands in them.
func leaves(commands []*cli.Command) (all []*cli.Command) {
	for _, c := range visible(commands) {
		all = append(append(all, c), leaves(c.Subcommands)...)
	}
	return all
}

// inline is a command line within a sentence.
var inline = regexp.MustCompile("`(podtask [^`]+)`")

// incomplete are the errors about what a sentence names without its rest.
var incomplete = regexp.MustCompile(`needs a (command|value)`)

// documented are the command lines of podtask in a line of a document: an indented line, with
// or without a prompt, a comment of an example, and what stands in a sentence.
func documented(line string) (shown []string) {
	for _, m := range inline.FindAllStringSubmatch(line, -1) {
		shown = append(shown, m[1])
	}
	code, indented := strings.CutPrefix(line, "    ")
	if !indented {
		code, indented = strings.CutPrefix(line, "#   ") // in a comment of an example
	}
	code = strings.TrimPrefix(strings.TrimLeft(code, " "), "$ ")
	if indented && strings.HasPrefix(code, "podtask ") {
		shown = append(shown, strings.Split(code, "&&")...)
	}
	return slices.DeleteFunc(shown, func(one string) bool {
		return strings.Contains(one, "COMMAND") || strings.Contains(one, "[flags]") || strings.HasSuffix(strings.TrimSpace(one), "--help")
	})
}

// The same for what the documents show.
func TestCommandLinesOfTheDocumentsExist(t *testing.T) {
	t.Parallel()
	p := &command.Program{Stdout: io.Discard, Stderr: io.Discard}
	files := []string{"../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md", "../../ARCHITECTURE.md", "../../CHANGELOG.md", "../../examples/README.md"}
	for _, pattern := range []string{"../../docs/*.md", "../../docs/commands/*.md", "../../examples/*/*.yaml", "../../examples/*/*.task"} {
		more, err := filepath.Glob(pattern)
		if err != nil || len(more) == 0 {
			t.Fatal(pattern, err)
		}
		files = append(files, more...)
	}
	n := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			for _, shown := range documented(line) {
				n++
				_, err := arrange(newApp(p, parts.Build()), parts.Build(), commandLine(shown))
				if err != nil && !(strings.Contains(line, "`") && incomplete.MatchString(err.Error())) {
					t.Errorf("%s: %s: %v", name, strings.TrimSpace(shown), err)
				}
			}
		}
	}
	if n < 400 {
		t.Errorf("only %d command lines were found", n)
	}
}

// All files in examples are valid, without a warning, and the units make services.
func TestExampleFilesAreValid(t *testing.T) {
	t.Parallel()
	n := 0
	err := filepath.WalkDir("../../examples", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Base(path) == "mistakes.json" || !slices.Contains([]string{".json", ".yaml", ".task"}, filepath.Ext(path)) {
			return err
		}
		n++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if testfile.IsTestFile(path) {
			if _, err := testfile.Parse(path, text); err != nil {
				t.Error(err)
			}
			return nil
		}
		if filepath.Ext(path) == taskunit.Extension {
			source := taskunit.Source{Name: filepath.Base(path), File: taskunit.Read(path, string(text))}
			if services, problems := taskunit.Generate([]taskunit.Source{source}, taskunit.Options{Program: "podtask"}); len(services) != 1 || len(problems) > 0 {
				t.Errorf("%s makes %d services: %v", path, len(services), problems)
			}
			if _, inline := taskunit.DefinitionText(string(text)); !inline {
				return nil
			}
		}
		_, f, err := command.Definition{Document: path, Changes: define.Changes{Strict: true}}.Read()
		if err != nil || !f.Valid {
			t.Errorf("%s: %v, %v", path, err, f.Problems)
		}
		return nil
	})
	if err != nil || n < 10 {
		t.Errorf("%d examples: %v", n, err)
	}
}
