package run

import (
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/define/lockfile"
	"github.com/podtask/podtask/internal/define/testfile"
	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

// SchemaCommand is `podtask schema`.
func SchemaCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "schema",
		Usage:     "print a JSON Schema of task definitions and other files",
		ArgsUsage: "[definition|override|lock|test|schedule]",
		Description: `The JSON Schema (2020-12) is for editors and other programs. It has every member with its
type, values and range. Only podtask validate checks rules across members. That of schedule is
of what podtask schedule ls and history print as JSON.

Examples:
  podtask schema > task-definition.schema.json
  podtask schema --strict override`,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "strict", Usage: "members that the ECS model does not have are errors"}},
		Action: func(c *cli.Context) error {
			if n := c.Args().Len(); n > 1 {
				return command.Usagef("schema", "schema takes definition, override, lock, test or schedule, not %d arguments", n)
			}
			switch c.Args().First() {
			case "", "definition":
				return console.WriteJSON(p.Stdout, taskdef.Schema(c.Bool("strict")))
			case "override":
				return console.WriteJSON(p.Stdout, taskdef.OverrideSchema(c.Bool("strict")))
			case "lock":
				return console.WriteJSON(p.Stdout, lockfile.Schema())
			case "test":
				return console.WriteJSON(p.Stdout, testfile.Schema())
			case "schedule":
				return console.WriteJSON(p.Stdout, schedule.Schema())
			}
			return command.Usagef("schema", "no schema of %q: it is definition, override, lock, test or schedule", c.Args().First())
		},
	}
}
