package cli

import (
	"fmt"
	"slices"

	"github.com/podtask/podtask/internal/cli/agent"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/host"
	"github.com/podtask/podtask/internal/cli/image"
	"github.com/podtask/podtask/internal/cli/ingress"
	"github.com/podtask/podtask/internal/cli/lock"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/cli/run"
	"github.com/podtask/podtask/internal/cli/service"
	"github.com/podtask/podtask/internal/cli/system"
	"github.com/podtask/podtask/internal/cli/task"
	"github.com/podtask/podtask/internal/cli/unit"
	"github.com/podtask/podtask/pkg/api"
	"github.com/urfave/cli/v2"
)

// newApp describes the command line. It handles help, version and unknown commands itself: the library
// keeps them in variables that all apps of a process share, and ends the process.
func newApp(p *command.Program, build part.Build) *cli.App {
	p.ServiceSettings = func(words []string) (*int, api.ServiceSettings, error) {
		return service.Settings(p.CallerEnviron, words)
	}
	app := &cli.App{
		Name:            "podtask",
		Usage:           "run ECS-style tasks on rootless Podman",
		UsageText:       "podtask COMMAND [flags] [arguments]",
		Description:     "Flags may stand anywhere on the line; -- ends them. NO_COLOR turns colors off.",
		Writer:          p.Stdout,
		ErrWriter:       p.Stderr,
		HideHelp:        true,
		HideHelpCommand: true,
		HideVersion:     true,
		// Values of variables and labels hold commas.
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {},
		Flags: []cli.Flag{
			command.HelpFlag(),
			&cli.BoolFlag{Name: "version", Usage: "print the version"},
		},
		Action: func(c *cli.Context) error {
			if c.Bool("version") {
				_, err := fmt.Fprintln(p.Stdout, "podtask version "+p.Version)
				return err
			}
			return printHelp(p, c.App, nil, false)
		},
	}
	app.Flags = append(append(app.Flags, command.HostFlag()), command.ConfigFlags("")...)
	var added []part.Command
	for _, x := range build.Parts {
		if x.Commands != nil {
			added = append(added, x.Commands(p)...)
		}
	}
	for _, g := range coreCommands(p, build) {
		for _, c := range g.with(added) {
			c.Category = g.title
			for _, x := range slices.Backward(added) {
				if x.Under == c.Name {
					after := slices.IndexFunc(c.Subcommands, func(s *cli.Command) bool { return s.Name == x.After })
					c.Subcommands = slices.Insert(c.Subcommands, after+1, x.Command)
				}
			}
			prepare(c, c.Name)
			app.Commands = append(app.Commands, c)
		}
	}
	app.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return command.Usagef("", "%v", err) }
	return app
}

// commandGroup is a group of commands in the help.
type commandGroup struct {
	title    string
	commands []*cli.Command
}

// coreCommands returns the commands of the core in the groups and the order of the help. Those of the last group are hidden.
func coreCommands(p *command.Program, build part.Build) []commandGroup {
	documents := build.Documents()
	return []commandGroup{
		{"Run tasks", []*cli.Command{
			run.Command(p), task.StopCommand(p), task.KillCommand(p), task.RestartCommand(p), task.PauseCommand(p), task.UnpauseCommand(p),
			task.UpdateCommand(p), task.WaitCommand(p), task.RmCommand(p),
		}},
		{"Look at tasks", []*cli.Command{
			task.PsCommand(p), task.LogsCommand(p, build), task.WhyCommand(p, build), task.StatsCommand(p),
			task.EventsCommand(p), task.InspectCommand(p), task.PortCommand(p),
		}},
		{"Work in containers", []*cli.Command{task.ExecCommand(p, build), task.CpCommand(p)}},
		{"Task definitions", []*cli.Command{
			run.InitCommand(p), run.ValidateCommand(p, documents), run.PlanCommand(p), lock.Command(p), lock.PullCommand(p),
			service.TaskdefCommand(p), run.SchemaCommand(p, documents), run.ExplainCommand(p, build.Formats),
		}},
		{"Services and systemd", []*cli.Command{
			service.Command(p), unit.Command(p), unit.GenerateCommand(p, build.Generate()), unit.AutoUpdateCommand(p),
			agent.Command(p, build), ingress.Command(p),
		}},
		{"Hosts", []*cli.Command{host.ContextCommand(p), host.Command(p), host.PushCommand(p), host.PortForwardCommand(p)}},
		{"This host", []*cli.Command{
			image.Command(p), system.DoctorCommand(p), system.InfoCommand(p), system.ConfigCommand(p), task.GCCommand(p), task.DrainCommand(p),
			completionCommand(p), system.VersionCommand(p),
		}},
		{"Amazon ECS and Kubernetes", nil},
		{"", []*cli.Command{completeCommand(p, build), run.OwnerCommand(p), task.ExecGuardCommand(p), sessionCommand(p, build)}},
	}
}

// with returns the commands of the group with those that parts add to it.
func (g commandGroup) with(added []part.Command) (all []*cli.Command) {
	var add func(c *cli.Command)
	add = func(c *cli.Command) {
		all = append(all, c)
		for _, x := range added {
			if x.Under == "" && x.Group == g.title && x.After == c.Name {
				add(x.Command)
			}
		}
	}
	for _, c := range g.commands {
		add(c)
	}
	for _, x := range added {
		if x.Under == "" && x.Group == g.title && !slices.Contains(all, x.Command) {
			add(x.Command)
		}
	}
	return all
}

// prepare adds to a command, and to those in it, what all commands have. Path is the command as users
// write it.
func prepare(c *cli.Command, path string) {
	c.HideHelp, c.HideHelpCommand = true, true
	c.Flags = append(c.Flags, command.HelpFlag())
	c.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return command.Usagef(path, "%v", err) }
	if isGroup(c) {
		c.UsageText = "podtask " + path + " COMMAND [flags] [arguments]"
	}
	for _, sub := range c.Subcommands {
		prepare(sub, path+" "+sub.Name)
	}
}
