package system

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/engine/act/preflight"
	"github.com/podtask/podtask/internal/host/doctor"
	"github.com/podtask/podtask/internal/term"
	"github.com/urfave/cli/v2"
)

// DoctorCommand is `podtask doctor`.
func DoctorCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "check whether tasks can run on this host, and how to fix what prevents it",
		Description: `Prints one line for each check: ok, warn (tasks run without it) or fail (they do not), with
the command that fixes it, and a summary. --verbose adds how to raise limits that are fine now. Changes nothing. The exit code
is 1 if a check fails.

Examples:
  podtask doctor
  podtask doctor --quiet
  podtask doctor --verbose
  podtask doctor --format json | jq '.[] | select(.level != "ok")'`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "show only what is not ok"},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "show all that is known of each check"},
			command.FormatFlag(command.ListFormats),
		},
		Action: command.WithDamagedMachine(p, newDoctor),
	}
}

type doctorOptions struct {
	out                  io.Writer
	getenv               func(string) string
	preflight            *preflight.Checker
	stateDir, runtimeDir string
	damage               error // why the records cannot be opened
}

func newDoctor(m *command.Machine, damage error) doctorOptions {
	return doctorOptions{
		damage:    damage,
		out:       m.Program.Stdout,
		getenv:    m.Program.Getenv,
		preflight: m.Engine.Preflight,
		stateDir:  m.Connector.StateDir, runtimeDir: m.Connector.RuntimeDir,
	}
}

// Run implements command.Runner.
func (o doctorOptions) Run(ctx context.Context, c *cli.Context) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	all, _ := o.preflight.Examine(ctx)
	all = append(all, recordsFinding(o.stateDir, o.damage), agentFinding(o.stateDir, enabledDirs(o.getenv)), ingressFinding(ctx, o.stateDir, o.runtimeDir))
	shown := []doctor.Finding{}
	for _, f := range all {
		if f.Level != doctor.OK || !c.Bool("quiet") {
			shown = append(shown, f)
		}
	}
	text := func(bool) error {
		if err := o.print(shown, c.Bool("verbose")); err != nil || c.Bool("quiet") {
			return err
		}
		_, err := fmt.Fprintln(o.out, command.OnTerminal(o.out, "", summary(all)))
		return err
	}
	if err := command.PrintItems(o.out, c, shown, text); err != nil {
		return err
	}
	if doctor.Worst(all) == doctor.Fail {
		return command.ExitStatus(1)
	}
	return nil
}

// recordsFinding says whether the records of tasks can be opened.
func recordsFinding(dir string, damage error) doctor.Finding {
	f := doctor.Finding{Check: "records", Level: doctor.OK, Text: "the records of tasks are in " + dir}
	if damage != nil {
		f.Level, f.Text = doctor.Fail, damage.Error()
	}
	return f
}

// summary says in one sentence how many checks warn or fail.
func summary(all []doctor.Finding) string {
	names := map[doctor.Level][]string{}
	for _, f := range all {
		names[f.Level] = append(names[f.Level], f.Check)
	}
	warn, fail := names[doctor.Warn], names[doctor.Fail]
	switch {
	case len(warn)+len(fail) == 0:
		return fmt.Sprintf("all %d checks are ok", len(all))
	case len(fail) == 0:
		return fmt.Sprintf("%d of %d checks warn: %s", len(warn), len(all), strings.Join(warn, ", "))
	case len(warn) == 0:
		return fmt.Sprintf("%d of %d checks fail: %s", len(fail), len(all), strings.Join(fail, ", "))
	}
	return fmt.Sprintf("%d of %d checks fail: %s; %d warn: %s", len(fail), len(all), strings.Join(fail, ", "), len(warn), strings.Join(warn, ", "))
}

func (o doctorOptions) print(findings []doctor.Finding, verbose bool) error {
	on := console.ColorsFor(o.out, o.getenv)
	inks := map[doctor.Level]console.Ink{doctor.OK: console.Green, doctor.Fail: console.Red}
	for _, f := range findings {
		if f.Level == doctor.OK && !verbose { // the rest is how to have more of it
			f.Text, _, _ = strings.Cut(f.Text, "; ")
			f.Fix = ""
		}
		level := console.Pad(string(f.Level), 4)
		text := command.OnTerminal(o.out, level+" ", term.Line(f.String()))
		if _, err := fmt.Fprintln(o.out, on.Paint(inks[f.Level], level)+strings.TrimPrefix(text, level)); err != nil {
			return err
		}
	}
	return nil
}
