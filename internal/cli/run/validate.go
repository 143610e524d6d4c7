package run

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/lint"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

func ValidateCommand(p *command.Program) *cli.Command {
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
  podtask validate --format json - < web.json
  podtask validate --format sarif *.json > podtask.sarif`,
		Flags: append(command.DefinitionFlags(),
			&cli.StringFlag{Name: "target", Usage: "apply the rules of a launch `TYPE` too: fargate, ec2, external or managed-instances"},
			command.FormatFlag("json, yaml, github (annotations of GitHub Actions) or sarif"),
		),
		Action: func(c *cli.Context) error {
			if format := c.String("format"); format != "" && !slices.Contains(validateFormats, format) {
				return command.Usagef("validate", "no format %q: it is %s", format, strings.Join(validateFormats, ", "))
			}
			if !c.Args().Present() {
				return command.Usagef("validate", "no FILE to validate")
			}
			target := taskdef.Target(c.String("target"))
			if target != taskdef.TargetNone && !slices.Contains(taskdef.Targets, target) {
				return command.Usagef("validate", "no target %q: it is fargate, ec2, external or managed-instances", target)
			}
			var findings []command.Finding
			var unread []error // files that cannot be read do not hide the problems of the others
			for _, name := range c.Args().Slice() {
				f, err := validateFile(p, c, name, target)
				if err != nil {
					unread = append(unread, err)
					continue
				}
				findings = append(findings, f)
			}
			err := printFindings(p, findings, c.String("format"))
			if len(unread) > 0 {
				return errors.Join(unread...)
			}
			return err
		},
	}
}

func validateFile(p *command.Program, c *cli.Context, name string, target taskdef.Target) (command.Finding, error) {
	d, err := p.Definition(c, name)
	if err != nil {
		return command.Finding{}, err
	}
	d.Changes.Target = target
	task, f, err := command.ParseDefinition(p, d)
	if f.Valid {
		f.Logs = command.LogsOf(task, d.Logs())
	}
	return f, err
}

// validateFormats are those besides text.
var validateFormats = []string{console.FormatJSON, console.FormatYAML, "github", "sarif"}

func printFindings(p *command.Program, findings []command.Finding, format string) error {
	code := 0
	for _, f := range findings {
		if !f.Valid {
			code = command.ExitInvalid
		}
	}
	var err error
	switch format {
	case "":
		printFindingsText(p, findings)
	case console.FormatJSON:
		err = console.WriteJSON(p.Stdout, findings)
	case console.FormatYAML:
		err = console.WriteYAML(p.Stdout, findings)
	case "github":
		err = lint.WriteGitHub(p.Stdout, lintFindings(findings))
	case "sarif":
		err = lint.WriteSARIF(p.Stdout, p.Version, lintFindings(findings))
	}
	if err != nil {
		return err
	}
	return command.ExitWith(code)
}

// lintFindings are the problems, warnings and needs of all files.
func lintFindings(findings []command.Finding) (all []lint.Finding) {
	add := func(f command.Finding, level lint.Level, rule string, problems []taskdef.Problem) {
		for _, x := range problems {
			message := x.Message
			if x.Pointer != "" {
				message = x.Pointer + ": " + message
			}
			if x.Fix != "" {
				message += "; " + x.Fix
			}
			all = append(all, lint.Finding{Level: level, File: cmp.Or(x.File, f.File), Line: x.Line, Column: x.Column, Rule: rule, Message: message})
		}
	}
	for _, f := range findings {
		add(f, lint.Error, "invalid", f.Problems)
		add(f, lint.Warning, "warning", f.Warnings)
		add(f, lint.Note, "needs", f.Needs)
	}
	return all
}

func printFindingsText(p *command.Program, findings []command.Finding) {
	for _, f := range findings {
		p.PrintProblems(f)
		if f.Valid {
			fmt.Fprintf(p.Stdout, "%s: valid\n", f.File)
			for _, l := range f.Logs {
				fmt.Fprintf(p.Stdout, "  %s: %s\n", l.Container, l.Destination)
			}
		}
	}
}
