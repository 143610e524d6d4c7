package main

import (
	"fmt"

	"github.com/podtask/podtask/internal/console"
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
		Flags: []cli.Flag{formatFlag("json or a Go template")},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			v := api.ThisVersion(p.version)
			switch format := c.String("format"); format {
			case "":
				_, err := fmt.Fprintf(p.stdout, "Version:     %s\nAPI version: %s\nGo version:  %s\nOS/Arch:     %s\n", v.Version, v.APIVersion, v.GoVersion, v.OSArch)
				return err
			case "json":
				return console.WriteJSON(p.stdout, v)
			default:
				return formatted(p.stdout, "version", format, []api.Version{v})
			}
		},
	}
}

func noArguments(c *cli.Context) error {
	if c.Args().Present() {
		return usagef(commandPath(c), "%s takes no arguments, and there is %q", commandPath(c), c.Args().First())
	}
	return nil
}
