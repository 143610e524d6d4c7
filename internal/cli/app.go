package cli

import (
	"fmt"

	"github.com/podtask/podtask/internal/cli/agent"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/host"
	"github.com/podtask/podtask/internal/cli/image"
	"github.com/podtask/podtask/internal/cli/ingress"
	"github.com/podtask/podtask/internal/cli/lock"
	"github.com/podtask/podtask/internal/cli/run"
	"github.com/podtask/podtask/internal/cli/schedule"
	"github.com/podtask/podtask/internal/cli/service"
	"github.com/podtask/podtask/internal/cli/system"
	"github.com/podtask/podtask/internal/cli/task"
	"github.com/podtask/podtask/internal/cli/tasktest"
	"github.com/podtask/podtask/internal/cli/unit"
	"github.com/urfave/cli/v2"
)

// newApp describes the command line. It handles help, version and unknown commands itself: the library
// keeps them in variables that all apps of a process share, and ends the process.
func newApp(p *command.Program) *cli.App {
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
			return printHelp(p, c.App, nil)
		},
	}
	app.Flags = append(append(app.Flags, command.HostFlag()), command.ConfigFlags("")...)
	app.Commands = []*cli.Command{
		run.Command(p), run.InitCommand(p), run.ValidateCommand(p), run.SchemaCommand(p), run.ExplainCommand(p), run.PlanCommand(p), service.TaskdefCommand(p), service.Command(p), schedule.Command(p),
		task.PsCommand(p), task.TopCommand(p), task.UICommand(p), task.InspectCommand(p), task.WhyCommand(p), task.LogsCommand(p), task.ExecCommand(p), task.EventsCommand(p), task.TimelineCommand(p),
		task.UpdateCommand(p), task.StatsCommand(p), lock.Command(p), lock.PullCommand(p), tasktest.Command(p), image.Command(p), system.DoctorCommand(p), system.InfoCommand(p),
		task.StopCommand(p), task.KillCommand(p), task.RestartCommand(p), task.PortCommand(p), task.CpCommand(p), task.PauseCommand(p), task.UnpauseCommand(p), task.FaultCommand(p), task.RmCommand(p), task.WaitCommand(p), task.DrainCommand(p), task.GCCommand(p),
		unit.Command(p), unit.GenerateCommand(p), unit.ImportCommand(p), unit.AutoUpdateCommand(p),
		agent.Command(p), agent.AWSCommand(p), agent.KubeletCommand(p), ecsCommand(p), ingress.Command(p), system.ConfigCommand(p), completionCommand(p), completeCommand(p), system.VersionCommand(p), run.OwnerCommand(p), task.ExecGuardCommand(p), task.ViewCommand(p), sessionCommand(p),
		host.ContextCommand(p), host.Command(p), host.PushCommand(p), host.PortForwardCommand(p),
	}
	for _, c := range app.Commands {
		prepare(c, c.Name)
	}
	app.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return command.Usagef("", "%v", err) }
	return app
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
