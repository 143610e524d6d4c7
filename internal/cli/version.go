package cli

import (
	"fmt"

	"github.com/podtask/podtask/pkg/api"
	"github.com/urfave/cli/v2"
)

func versionCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the version",
		Description: `Examples:
  podtask version
  podtask version --format json
  podtask version --format '{{.Version}}'`,
		Flags: []cli.Flag{formatFlag(itemFormats)},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			v := api.ThisVersion(p.version)
			return printItem(p.stdout, c, v, func() error {
				_, err := fmt.Fprintf(p.stdout, "Version:     %s\nAPI version: %s\nGo version:  %s\nOS/Arch:     %s\n", v.Version, v.APIVersion, v.GoVersion, v.OSArch)
				return err
			})
		},
	}
}

func noArguments(c *cli.Context) error {
	if c.Args().Present() {
		return usagef(commandPath(c), "%s takes no arguments, and there is %q", commandPath(c), c.Args().First())
	}
	return nil
}
