package cli

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/helptext"
	"github.com/podtask/podtask/internal/parts"
	"github.com/urfave/cli/v2"
)

// TestCommandReference holds docs/commands against the commands; UPDATE_GOLDEN=1 writes it.
// The man pages are made of these files.
func TestCommandReference(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "docs", "commands")
	p := &command.Program{Stdout: io.Discard, Stderr: io.Discard}
	app := newApp(p, parts.Build())
	pages := map[string]string{"podtask.md": markdown(programPage(app), true), "README.md": commandIndex(app)}
	for _, path := range paths(app.Commands, nil) {
		name := "podtask"
		for _, c := range path {
			name += "-" + c.Name
		}
		pages[name+".md"] = markdown(commandPage(path), isGroup(path[len(path)-1]))
	}
	update := os.Getenv("UPDATE_GOLDEN") != ""
	if update {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	have, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range have {
		if _, ok := pages[filepath.Base(path)]; ok {
			continue
		}
		if !update {
			t.Errorf("%s is of no command: run UPDATE_GOLDEN=1 go test ./internal/cli", path)
		} else if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		path := filepath.Join(dir, name)
		if old, err := os.ReadFile(path); err == nil && string(old) == pages[name] {
			continue
		}
		if !update {
			t.Errorf("%s differs: run UPDATE_GOLDEN=1 go test ./internal/cli", path)
		} else if err := os.WriteFile(path, []byte(pages[name]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// paths are all visible commands, each with the groups that contain it before it.
func paths(commands []*cli.Command, before []*cli.Command) (all [][]*cli.Command) {
	for _, c := range visible(commands) {
		path := append(slices.Clone(before), c)
		all = append(append(all, path), paths(c.Subcommands, path)...)
	}
	return all
}

const generated = "<!-- Generated from the code: UPDATE_GOLDEN=1 go test ./internal/cli -->\n\n"

// commandIndex lists all commands.
func commandIndex(app *cli.App) string {
	var b strings.Builder
	b.WriteString(generated + "# Commands\n\nThe same pages are the man pages `podtask`(1), `podtask-run`(1) and so on.\n" +
		"[Flags of all commands](podtask.md)\n")
	for _, g := range programPage(app).Groups {
		if strings.HasPrefix(g.Title, "Flags") {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n| command | purpose |\n|---|---|\n", g.Title)
		for _, item := range g.Items {
			fmt.Fprintf(&b, "| [podtask %[1]s](podtask-%[1]s.md) | %[2]s |\n", item.Name, item.Text)
			c := app.Command(item.Name)
			for _, sub := range visible(c.Subcommands) {
				fmt.Fprintf(&b, "| [podtask %[1]s %[2]s](podtask-%[1]s-%[2]s.md) | %[3]s |\n", item.Name, sub.Name, sub.Usage)
			}
		}
	}
	return b.String()
}

// markdown is the help of a command as a page; of a group, the commands are links.
func markdown(page helptext.Page, group bool) string {
	var b strings.Builder
	title, _, _ := strings.Cut(page.Summary, ": ")
	fmt.Fprintf(&b, "%s# %s\n\n## Usage\n\n    %s\n", generated, page.Summary, page.Usage)
	if page.Body != "" {
		b.WriteString("\n## Description\n\n" + helptext.Wrap(literal(page.Body), 100))
	}
	for _, g := range page.Groups {
		fmt.Fprintf(&b, "\n## %s\n\n", g.Title)
		for _, item := range g.Items {
			name := strings.TrimSpace(item.Name)
			if group && !strings.HasPrefix(name, "-") {
				fmt.Fprintf(&b, "* [%s %s](%s-%s.md): %s\n", title, name, strings.ReplaceAll(title, " ", "-"), name, item.Text)
				continue
			}
			fmt.Fprintf(&b, "* `%s`: %s\n", name, literal(item.Text))
		}
	}
	if len(page.Examples) > 0 {
		b.WriteString("\n## Examples\n\n")
		for _, line := range page.Examples {
			b.WriteString("    " + line + "\n")
		}
	}
	if page.Footer != "" {
		b.WriteString("\n" + page.Footer + "\n")
	}
	return b.String()
}

// literal keeps what is no markup as it is; indented lines are literal already.
func literal(text string) string {
	var b strings.Builder
	for line := range strings.SplitAfterSeq(text, "\n") {
		if strings.HasPrefix(line, " ") {
			b.WriteString("  " + line)
			continue
		}
		b.WriteString(strings.NewReplacer("<", "&lt;", "*", `\*`, "[", `\[`).Replace(line))
	}
	return b.String()
}

// The pages about states, events and errors have each name that the code has.
func TestNamesAreInTheReference(t *testing.T) {
	t.Parallel()
	pages := map[string]string{}
	for _, name := range []string{"states", "exit-codes"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", name+".md"))
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = string(text)
	}
	wants := map[string]*regexp.Regexp{
		"states":     regexp.MustCompile(`"([A-Z]+(?:_[A-Z]+)*)"`),
		"exit-codes": regexp.MustCompile(`\bErr\w+ += "(\w+)"`),
	}
	files := map[string][]string{"states": {"enum.go"}, "exit-codes": {"retry.go"}}
	for page, names := range files {
		n := 0
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join("..", "..", "pkg", "lifecycle", name))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range wants[page].FindAllStringSubmatch(string(text), -1) {
				n++
				if slices.Contains([]string{"UP", "DOWN", "GONE"}, m[1]) {
					continue // goals, which users do not see
				}
				if !strings.Contains(pages[page], m[1]) {
					t.Errorf("docs/%s.md has no %s", page, m[1])
				}
			}
		}
		if n < 5 {
			t.Errorf("only %d names for docs/%s.md were found", n, page)
		}
	}
}
