package cli

import (
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/parts"
	"github.com/urfave/cli/v2"
)

// The help of every command fits into 80 columns, and each placeholder is in capitals.
func TestHelpFitsATerminal(t *testing.T) {
	t.Parallel()
	p := &command.Program{Stdout: io.Discard, Stderr: io.Discard}
	app := newApp(p, parts.Build())
	var check func(path []*cli.Command)
	check = func(path []*cli.Command) {
		page := programPage(app)
		commands := app.Commands
		if len(path) > 0 {
			page, commands = commandPage(path), path[len(path)-1].Subcommands
		}
		page.Examples = nil // they are lines to copy
		for line := range strings.Lines(page.Text(80, nil)) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s: %d columns: %s", page.Summary, n, line)
			}
		}
		for _, g := range page.Groups {
			for _, item := range g.Items {
				if strings.HasSuffix(item.Name, " VALUE") {
					t.Errorf("%s: %s has no placeholder", page.Summary, item.Name)
				}
			}
		}
		for _, c := range visible(commands) {
			check(append(slices.Clone(path), c))
		}
	}
	check(nil)
	n := 0
	for _, g := range firstPage(programPage(app)).Groups {
		n += len(g.Items)
	}
	if n != len(everyday) {
		t.Errorf("the first screen has %d of the commands %v", n, everyday)
	}
	for _, c := range visible(app.Commands) {
		if c.Category == "" {
			t.Errorf("%s is in no group of the help", c.Name)
		}
	}
}
