package unit

import (
	"errors"
	"fmt"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"github.com/podtask/podtask/internal/unitfile/unitdir"
	"github.com/urfave/cli/v2"
)

// GenerateCommand is `podtask generate`.
func GenerateCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "generate",
		Usage:     "make services from .task units without a systemd generator",
		ArgsUsage: " ",
		Description: `Systemd runs generators only from directories that root owns. Without
podtask-user-generator there, this command writes the services of all your .task units to
~/.config/systemd/user, removes those of units that are gone, and reloads systemd. Files
that podtask did not generate are not changed.

With --from it does what podtask import does.

Examples:
  podtask generate
  podtask generate --output /tmp/services
  podtask generate --dry-run`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `DIR`, and do not reload systemd"},
			&cli.BoolFlag{Name: "dry-run", Usage: "print what would be written"},
			&cli.StringFlag{Name: "from", Usage: "convert `SOURCE`, a file or a task"},
			&cli.StringFlag{Name: "name", Usage: "with --from: call the unit `NAME`"},
			&cli.BoolFlag{Name: "replace", Usage: "with --from: replace files that are there"},
		},
		Action: newUnits(p).generate,
	}
}

// generate writes the services of all units. The command line with --from is one of `podtask import`.
func (u units) generate(c *cli.Context) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	set, err := u.load()
	if err != nil {
		return err
	}
	u.report(set.problems)
	if err := u.put(c, set.services); err != nil {
		return err
	}
	if taskunit.Errors(set.problems) > 0 {
		return command.ExitStatus(command.ExitInvalid)
	}
	return nil
}

// put prints services or writes them.
func (u units) put(c *cli.Context, services []taskunit.Service) error {
	if c.Bool("dry-run") {
		for _, s := range services {
			fmt.Fprintf(u.out, "---%s---\n%s\n", s.Name, s.Text)
		}
		return nil
	}
	var err error
	switch dir := c.String("output"); {
	case dir != "":
		err = unitdir.Sync(dir, services)
	case unitdir.HasGenerator(u.getenv):
		return errors.New("podtask-user-generator is installed, so systemd makes the services itself: `systemctl --user daemon-reload`")
	default:
		err = u.reload(c.Context)
	}
	if err != nil {
		return err
	}
	for _, s := range services {
		fmt.Fprintln(u.out, s.Name)
	}
	return nil
}
