package run

import (
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/define/lockfile"
	"github.com/podtask/podtask/internal/define/short"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

// SchemaCommand is `podtask schema`. Documents are the kinds of files that parts add.
func SchemaCommand(p *command.Program, documents []command.Document) *cli.Command {
	names := []string{"definition", "short", "override", "lock"}
	for _, d := range documents {
		names = append(names, d.Name)
	}
	listed := strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
	return &cli.Command{
		Name:      "schema",
		Usage:     "print a JSON Schema of task definitions and other files",
		ArgsUsage: "[" + strings.Join(names, "|") + "]",
		Description: `The JSON Schema (2020-12) is for editors and other programs. It has every member with its
type, values and range. Only podtask validate checks rules across members. That of schedule is
of what podtask schedule ls and history print as JSON.

Examples:
  podtask schema > task-definition.schema.json
  podtask schema --strict override`,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "strict", Usage: "members that the ECS model does not have are errors"}},
		Action: func(c *cli.Context) error {
			if n := c.Args().Len(); n > 1 {
				return command.Usagef("schema", "schema takes %s, not %d arguments", listed, n)
			}
			switch c.Args().First() {
			case "", "definition":
				return console.WriteJSON(p.Stdout, taskdef.Schema(c.Bool("strict")))
			case "short":
				return console.WriteJSON(p.Stdout, short.Schema())
			case "override":
				return console.WriteJSON(p.Stdout, taskdef.OverrideSchema(c.Bool("strict")))
			case "lock":
				return console.WriteJSON(p.Stdout, lockfile.Schema())
			}
			i := slices.IndexFunc(documents, func(d command.Document) bool { return d.Name == c.Args().First() })
			if i < 0 {
				return command.Usagef("schema", "no schema of %q: it is %s", c.Args().First(), listed)
			}
			return console.WriteJSON(p.Stdout, documents[i].Schema())
		},
	}
}
