package run

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/lint"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

// ValidateCommand is `podtask validate`. Documents are the kinds of files that parts add.
func ValidateCommand(p *command.Program, documents []command.Document) *cli.Command {
	return &cli.Command{
		Name:      "validate",
		Usage:     "check task definitions and do nothing else",
		ArgsUsage: "FILE|- ...",
		Description: `All problems of a file are reported at once, with file and line. Settings that a file needs
to run on this host are listed under "needs" with the flag that gives them; they do not
make it invalid. Files with tests, NAME.test.yaml, are checked as such. The exit code is 0 if all files are valid, else 1.

Examples:
  podtask validate web.json
  podtask validate --strict *.yaml
  podtask validate --target fargate web.json
  podtask validate --var IMAGE1_NAME=web:7 --map-volume data=./data web.json
  podtask validate --format json - < web.json
  podtask validate --format sarif *.json > podtask.sarif`,
		Flags: append(command.DefinitionFlags(),
			&cli.StringFlag{Name: "target", Usage: "apply the rules of a launch `TYPE` too: fargate, ec2, external or managed-instances"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print problems only, and nothing about valid files"},
			command.FormatFlag("json, yaml, github (annotations of GitHub Actions) or sarif"),
		),
		Action: validateOptions{out: p.Stdout, errOut: p.Stderr, version: p.Version, definition: p.Definition, documents: documents}.run,
	}
}

type validateOptions struct {
	out, errOut io.Writer
	version     string
	definition  func(c *cli.Context, name string) (command.Definition, error)
	documents   []command.Document
}

func (o validateOptions) run(c *cli.Context) error {
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
		f, err := o.check(c, name, target)
		if err != nil {
			unread = append(unread, err)
			continue
		}
		findings = append(findings, f)
	}
	err := o.print(findings, c.String("format"), c.Bool("quiet"))
	if len(unread) > 0 {
		return errors.Join(unread...)
	}
	return err
}

// check reads and checks one file.
func (o validateOptions) check(c *cli.Context, name string, target taskdef.Target) (command.Finding, error) {
	for _, d := range o.documents {
		if d.Is != nil && d.Is(name) {
			return checkDocument(d, name)
		}
	}
	d, err := o.definition(c, name)
	if err != nil {
		return command.Finding{}, err
	}
	d.Changes.Target = target
	task, f, err := d.Read()
	if f.Valid {
		f.Logs = command.LogsOf(task, d.Logs())
	}
	return f, err
}

// checkDocument reads and checks a file that is no definition.
func checkDocument(d command.Document, name string) (command.Finding, error) {
	f := command.Finding{File: name, Valid: true, Problems: []taskdef.Problem{}, Warnings: []taskdef.Problem{}, Needs: []taskdef.Problem{}}
	src, err := command.ReadSmall(name)
	if err != nil {
		return f, err
	}
	if problems := d.Check(name, src); len(problems) > 0 {
		f.Valid, f.Problems = false, problems
	}
	return f, nil
}

// validateFormats lists the formats other than text.
var validateFormats = []string{console.FormatJSON, console.FormatYAML, "github", "sarif"}

func (o validateOptions) print(findings []command.Finding, format string, quiet bool) error {
	code := 0
	for _, f := range findings {
		if !f.Valid {
			code = command.ExitInvalid
		}
	}
	var err error
	switch format {
	case "":
		o.printText(findings, quiet)
	case console.FormatJSON:
		err = console.WriteJSON(o.out, findings)
	case console.FormatYAML:
		err = console.WriteYAML(o.out, findings)
	case "github":
		err = lint.WriteGitHub(o.out, lintFindings(findings))
	case "sarif":
		err = lint.WriteSARIF(o.out, o.version, lintFindings(findings))
	}
	if err != nil {
		return err
	}
	return command.ExitWith(code)
}

// lintFindings returns the problems, warnings and needs of all files.
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

func (o validateOptions) printText(findings []command.Finding, quiet bool) {
	for _, f := range findings {
		f.Print(o.errOut)
		if f.Valid && !quiet {
			fmt.Fprintf(o.out, "%s: valid\n", f.File)
			for _, l := range f.Logs {
				fmt.Fprintf(o.out, "  %s: %s\n", l.Container, l.Destination)
			}
		}
	}
}
