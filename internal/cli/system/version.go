package system

import (
	"fmt"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/pkg/api"
	"github.com/urfave/cli/v2"
)

// VersionCommand is `podtask version`.
func VersionCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the version",
		Description: `Examples:
  podtask version
  podtask version --format json
  podtask version --format '{{.Version}}'`,
		Flags: []cli.Flag{command.FormatFlag(command.ItemFormats)},
		Action: func(c *cli.Context) error {
			if err := command.NoArguments(c); err != nil {
				return err
			}
			v := api.ThisVersion(p.Version)
			return command.PrintItem(p.Stdout, c, v, func() error {
				_, err := fmt.Fprintf(p.Stdout, "Version:     %s\nAPI version: %s\nGo version:  %s\nOS/Arch:     %s\n", v.Version, v.APIVersion, v.GoVersion, v.OSArch)
				return err
			})
		},
	}
}
