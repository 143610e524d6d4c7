package unit

import (
	"errors"
	"fmt"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"github.com/podtask/podtask/internal/unitfile/unitdir"
	"github.com/urfave/cli/v2"
)

// GenerateCommand is `podtask generate`. Export writes files of other tools; nil if the part is not linked.
func GenerateCommand(p *command.Program, export func(*command.Program, *cli.Context) error) *cli.Command {
	return &cli.Command{
		Name:      "generate",
		Usage:     "write Quadlet, Compose or Kubernetes files of a task, or services of .task units",
		ArgsUsage: "[quadlet|compose|kubernetes FILE|FAMILY|TASK|SERVICE]",
		Description: `With a target, writes files for it: .container files and a .pod for quadlet, compose.yaml for
compose, a Pod, or for a service a Deployment, for kubernetes. The task is that of a definition,
or what runs here as TASK or SERVICE, with all that its command line changed. What the target cannot
say is listed as lost, with what to do instead, and stands in the files as comments. Values of secrets
are not written. podtask explain tocompose says what becomes of each member.

Without a target, writes the services of all your .task units to ~/.config/systemd/user, where
podtask-user-generator is not installed: systemd runs generators only from directories that root
owns. It removes those of units that are gone, and reloads systemd. Files that podtask did not
generate are not changed.

With --from it does what podtask import does. With --host, TASK, SERVICE or FAMILY and the files
are of the host: add --dry-run to see them here.

Examples:
  podtask generate quadlet shop.yaml --output ~/.config/containers/systemd
  podtask generate compose web --dry-run
  podtask generate kubernetes shop.yaml
  podtask generate
  podtask generate --dry-run`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `DIR`, and do not reload systemd"},
			&cli.BoolFlag{Name: "dry-run", Usage: "print what would be written"},
			&cli.StringFlag{Name: "from", Usage: "convert `SOURCE`, a file or a task"},
			&cli.StringFlag{Name: "name", Usage: "with a target or --from: call the task `NAME`"},
			&cli.BoolFlag{Name: "replace", Usage: "with a target or --from: replace files that are there"},
			&cli.StringFlag{Name: "format", Usage: "with a target: print what was made and lost in `FORMAT` " + command.ItemFormats},
		}, command.DefinitionFlags()...),
		Action: func(c *cli.Context) error {
			switch {
			case !c.Args().Present():
				return newUnits(p).generate(c)
			case export == nil:
				return errors.New("files of other tools: not in this build: it is the core of podtask without the part export; install the whole podtask")
			}
			return export(p, c)
		},
	}
}

// generate writes the services of all units. The command line with --from is one of `podtask import`.
func (u units) generate(c *cli.Context) error {
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
