package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/podtask/podtask/internal/console"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

func validateCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "validate",
		Usage:     "check task definitions and do nothing else",
		ArgsUsage: "FILE|- ...",
		Description: `All problems of a file are reported at once, with file and line. Settings that a file needs
to run on this host are listed under "needs" with the flag that gives them; they do not
make it invalid. The exit code is 0 if all files are valid, else 1.

Examples:
  podtask validate web.json
  podtask validate --strict *.yaml
  podtask validate --target fargate web.json
  podtask validate --var IMAGE1_NAME=web:7 --map-volume data=./data web.json
  podtask validate --format json - < web.json`,
		Flags: append(definitionFlags(),
			&cli.StringFlag{Name: "target", Usage: "apply the rules of a launch `TYPE` too: fargate or ec2"},
			formatFlag("json prints findings as a JSON array"),
		),
		Action: func(c *cli.Context) error {
			if format := c.String("format"); format != "" && format != "json" {
				return usagef("validate", "no format %q: it is json", format)
			}
			if !c.Args().Present() {
				return usagef("validate", "no FILE to validate")
			}
			target := taskdef.Target(c.String("target"))
			if target != taskdef.TargetNone && !slices.Contains(taskdef.Targets, target) {
				return usagef("validate", "no target %q: it is fargate or ec2", target)
			}
			var findings []finding
			var unread []error // files that cannot be read do not hide the problems of the others
			for _, name := range c.Args().Slice() {
				f, err := validateFile(p, c, name, target)
				if err != nil {
					unread = append(unread, err)
					continue
				}
				findings = append(findings, f)
			}
			err := printFindings(p, findings, c.String("format") == "json")
			if len(unread) > 0 {
				return errors.Join(unread...)
			}
			return err
		},
	}
}

func validateFile(p *program, c *cli.Context, name string, target taskdef.Target) (finding, error) {
	d, err := definitionOf(p, c, name)
	if err != nil {
		return finding{}, err
	}
	d.settings.Target = target
	_, f, err := parseDefinition(p, d)
	return f, err
}

func printFindings(p *program, findings []finding, asJSON bool) error {
	code := 0
	for _, f := range findings {
		if !f.Valid {
			code = exitInvalid
		}
	}
	if asJSON {
		if err := console.WriteJSON(p.stdout, findings); err != nil {
			return err
		}
		return exitWith(code)
	}
	for _, f := range findings {
		p.printProblems(f)
		if f.Valid {
			fmt.Fprintf(p.stdout, "%s: valid\n", f.File)
		}
	}
	return exitWith(code)
}
