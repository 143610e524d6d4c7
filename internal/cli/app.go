package cli

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// app describes the command line. It handles help, version and unknown
// commands itself: the library keeps them in variables that all apps of a process share,
// and ends the process.
func (p *program) app() *cli.App {
	app := &cli.App{
		Name:            "podtask",
		Usage:           "run ECS-style tasks on rootless Podman",
		UsageText:       "podtask COMMAND [flags] [arguments]",
		Description:     "Flags may stand anywhere on the line; -- ends them. NO_COLOR turns colors off.",
		Writer:          p.stdout,
		ErrWriter:       p.stderr,
		HideHelp:        true,
		HideHelpCommand: true,
		HideVersion:     true,
		// Values of variables and labels hold commas.
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {},
		Flags: []cli.Flag{
			helpFlag(),
			&cli.BoolFlag{Name: "version", Usage: "print the version"},
		},
		Action: func(c *cli.Context) error {
			if c.Bool("version") {
				_, err := fmt.Fprintln(p.stdout, "podtask version "+p.version)
				return err
			}
			return p.printHelp(c.App, nil)
		},
	}
	app.Flags = append(app.Flags, configFlags("")...)
	app.Commands = []*cli.Command{
		runCommand(p), initCommand(p), validateCommand(p), schemaCommand(p), planCommand(p), taskdefCommand(p), serviceCommand(p),
		psCommand(p), topCommand(p), uiCommand(p), inspectCommand(p), whyCommand(p), logsCommand(p), execCommand(p), eventsCommand(p), timelineCommand(p),
		updateCommand(p), statsCommand(p), imageCommand(p), doctorCommand(p), infoCommand(p),
		stopCommand(p), killCommand(p), restartCommand(p), portCommand(p), cpCommand(p), pauseCommand(p), unpauseCommand(p), rmCommand(p), waitCommand(p), drainCommand(p), gcCommand(p),
		unitCommand(p), generateCommand(p), importCommand(p), autoUpdateCommand(p),
		agentCommand(p), awsCommand(p), kubeletCommand(p), configCommand(p), completionCommand(p), completeCommand(p), versionCommand(p), ownerCommand(p), execGuardCommand(p),
	}
	for _, c := range app.Commands {
		prepare(c, c.Name)
	}
	app.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return usagef("", "%v", err) }
	return app
}

// prepare gives a command and those in it what all commands have. Path is the command as
// users write it.
func prepare(c *cli.Command, path string) {
	c.HideHelp, c.HideHelpCommand = true, true
	c.Flags = append(c.Flags, helpFlag())
	c.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return usagef(path, "%v", err) }
	if isGroup(c) {
		c.UsageText = "podtask " + path + " COMMAND [flags] [arguments]"
	}
	for _, sub := range c.Subcommands {
		prepare(sub, path+" "+sub.Name)
	}
}

// commandPath is the running command as users write it, without the name of the program.
func commandPath(c *cli.Context) string { return strings.TrimPrefix(c.Command.HelpName, "podtask ") }

func helpFlag() cli.Flag {
	return &cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show this help"}
}

// optionalFlag is a flag whose value may be left out: --wait is --wait=BARE.
type optionalFlag struct {
	*cli.StringFlag
	bare string
}

// Flags that several verbs have.

func ignoreFlag() cli.Flag {
	return &cli.BoolFlag{Name: "ignore", Aliases: []string{"i"}, Usage: "no error for a task that does not exist"}
}

// manyTasksFlags are those of verbs that do something to one task or many.
func manyTasksFlags(verb, all string) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: all},
		&cli.StringSliceFlag{Name: "filter", Usage: verb + " the tasks that fit `KEY=VALUE`; keys are " + taskFilterKeys + "; values of one key add up, different keys narrow down"},
		ignoreFlag(),
	}
}

func quietFlag(what string) cli.Flag {
	return &cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print " + what + " only"}
}

func noTruncFlag(what string) cli.Flag {
	return &cli.BoolFlag{Name: "no-trunc", Usage: "do not shorten " + what}
}

// formatFlag is for lists and documents; words are the formats besides Go templates.
func formatFlag(words string) cli.Flag {
	return &cli.StringFlag{Name: "format", Aliases: []string{"output", "o"}, Usage: "print in `FORMAT` " + words}
}

// The formats of lists, and of what is no list.
const (
	listFormats = "table, wide, json, yaml, a Go template, or table with a Go template"
	itemFormats = "json, yaml or a Go template"
)

func sortFlag() cli.Flag {
	return &cli.StringFlag{Name: "sort", Usage: "sort by `COLUMN`, the header in small letters"}
}

func filterFlag(keys string) cli.Flag {
	return &cli.StringSliceFlag{Name: "filter", Usage: "show only what fits `KEY=VALUE`; keys are " + keys + "; values of one key add up, different keys narrow down"}
}
