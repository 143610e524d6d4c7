package cli

import (
	"github.com/podtask/podtask/internal/cli/agent"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/unit"
	"github.com/urfave/cli/v2"
)

// ecsCommand is `podtask ecs`: the commands of an instance, and those that read an account.
func ecsCommand(p *command.Program) *cli.Command {
	c := agent.ECSCommand(p)
	c.Usage = "read services from Amazon ECS, or make this host a container instance"
	c.Description = `import and diff make definitions of services that run on ECS, and compare them with those of
this host. The account is read with your aws command, and nothing in it changes. See
docs/importing.md.

` + c.Description + `
  podtask ecs import web --cluster shop
  podtask ecs diff web --cluster shop`
	c.Subcommands = append([]*cli.Command{unit.ECSImportCommand(p), unit.ECSDiffCommand(p)}, c.Subcommands...)
	return c
}
