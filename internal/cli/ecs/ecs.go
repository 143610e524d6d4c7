package ecs

import (
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/urfave/cli/v2"
)

// Program is the program of an instance of an ECS cluster. It is not linked here, so that podtask
// stays without a client of AWS.
const Program = "podtask-ecs"

// Command is `podtask ecs`.
func Command(p *command.Program) *cli.Command {
	pass := func(name, usage, description, example string) *cli.Command {
		return &cli.Command{
			Name: name, Usage: usage,
			Description: description + ` It executes
the program podtask-ecs, which is installed beside podtask, with all arguments. "podtask ecs ` + name + `
--help" lists its flags; podtask.toml may have them in the table [ecs]. See
docs/ecs-anywhere.md.

Examples:
  ` + example,
			Action: func(c *cli.Context) error {
				return p.Execute(Program, append([]string{name}, c.Args().Slice()...)...)
			},
		}
	}
	return &cli.Command{
		Name:  "ecs",
		Usage: "read services from Amazon ECS, or make this host a container instance",
		Description: `import and diff make definitions of services that run on ECS, and compare them with those of
this host. The account is read with your aws command, and nothing in it changes. See
docs/importing.md.

ECS schedules, podtask runs: the host joins a cluster as an external instance
(ECS Anywhere), without root. This was shown offline and was not tried against AWS. See
docs/ecs-anywhere.md.

Examples:
  podtask ecs join --cluster edge --region eu-central-1
  podtask ecs status
  podtask ecs import web --cluster shop
  podtask ecs diff web --cluster shop`,
		Subcommands: []*cli.Command{
			pass("join", "register this host, and run the tasks that ECS places on it", `Registers this host and runs the tasks that ECS places on it, until it is ended. Tasks
continue then, and are found again. It needs an agent.`,
				"podtask ecs join --cluster edge --region eu-central-1"),
			pass("activate", "make this host a managed instance of Systems Manager", `Uses a hybrid activation of Systems Manager (aws ssm create-activation): the host then gets
credentials of the activation's role, which renew themselves. The code is read from a file or the
standard input.`,
				"podtask ecs activate --region eu-central-1 --activation-id 0a1b2c3d-0000-1111-2222-0123456789ab --activation-code-file code.txt"),
			pass("status", "show the instance, its links and its tasks", `Shows the instance, its links to ECS, and the tasks that came from ECS with what ECS was told
of them last. --format json prints all of it.`,
				"podtask ecs status"),
			pass("drain", "have ECS place no more tasks on this host", `Sets the instance to DRAINING: ECS places no more tasks here and moves those of services.
--undo ends it.`,
				"podtask ecs drain"),
			pass("leave", "deregister this host from its cluster", `Deregisters the instance and forgets it. While tasks of ECS run it refuses; --force stops them.
--local forgets it without asking ECS, when the cluster or the account is gone.`,
				"podtask ecs leave"),
			pass("check", "check what an instance needs, and change nothing", `Tries what can be tried without changing anything, before the host joins and after it: whether
the services of AWS can be reached and their certificates are trusted, the clock, whom AWS takes the
credentials for, and the calls that change nothing. The exit code is 125 if something that is needed
fails.`,
				"podtask ecs check --cluster edge --region eu-central-1"),
			trialCommand(p),
		},
	}
}
