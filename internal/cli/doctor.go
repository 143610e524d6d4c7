package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/host/doctor"
	"github.com/podtask/podtask/internal/term"
	"github.com/urfave/cli/v2"
)

func doctorCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "check whether tasks can run on this host, and how to fix what prevents it",
		Description: `Prints one line for each check: ok, warn (tasks run without it) or fail (they do not), with
the command that fixes it. Changes nothing. The exit code is 1 if a check fails.

Examples:
  podtask doctor
  podtask doctor --quiet
  podtask doctor --format json | jq '.[] | select(.level != "ok")'`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "show only what is not ok"},
			formatFlag(listFormats),
		},
		Action: p.withHost(examine),
	}
}

func examine(ctx context.Context, s *session, c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	all, _ := s.Engine.Preflight.Examine(ctx)
	shown := []doctor.Finding{}
	for _, f := range all {
		if f.Level != doctor.OK || !c.Bool("quiet") {
			shown = append(shown, f)
		}
	}
	if err := printItems(s.stdout, c, shown, func(bool) error { return printDoctorFindings(s, shown) }); err != nil {
		return err
	}
	if doctor.Worst(all) == doctor.Fail {
		return exitStatus(1)
	}
	return nil
}

func printDoctorFindings(s *session, findings []doctor.Finding) error {
	on := console.ColorsFor(s.stdout, s.getenv)
	inks := map[doctor.Level]console.Ink{doctor.OK: console.Green, doctor.Fail: console.Red}
	for _, f := range findings {
		level := console.Pad(string(f.Level), 4)
		text := onTerminal(s.stdout, level+" ", term.Line(f.String()))
		if _, err := fmt.Fprintln(s.stdout, on.Paint(inks[f.Level], level)+strings.TrimPrefix(text, level)); err != nil {
			return err
		}
	}
	return nil
}
