package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/parts"
	"github.com/urfave/cli/v2"
)

// Lists of what runs keep to a width with --format wide, and have a flag to see them whole.
func TestListsOfWhatRunsCanBeSeenWhole(t *testing.T) {
	t.Parallel()
	app := newApp(&command.Program{Stdout: io.Discard, Stderr: io.Discard}, parts.Build())
	for _, name := range []string{"ps", "service ls", "service ps", "service history", "stack ls", "stack ps", "stack history", "schedule ls", "schedule history", "image pending"} {
		commands := app.Commands
		var found *cli.Command
		for word := range strings.FieldsSeq(name) {
			found = nil
			for _, c := range commands {
				if c.Name == word {
					found = c
				}
			}
			if found == nil {
				t.Fatalf("there is no podtask %s", name)
			}
			commands = found.Subcommands
		}
		whole := false
		for _, f := range found.Flags {
			whole = whole || f.Names()[0] == "no-trunc"
		}
		if !whole {
			t.Errorf("podtask %s has no --no-trunc", name)
		}
	}
}
