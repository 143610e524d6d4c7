package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

func (p *program) validateCommand() *cli.Command {
	return &cli.Command{
		Name:      "validate",
		Usage:     "check task definitions and do nothing else",
		ArgsUsage: "FILE|- ...",
		Description: `All problems of a file are reported at once, each with its place. The exit code is
0 if all files are valid, else 1.

Examples:
  podtask validate web.json
  podtask validate --strict *.yaml
  podtask validate --format json - < web.json`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "strict", Usage: "take warnings for errors"},
			formatFlag("json prints findings as a JSON array"),
		},
		Action: func(c *cli.Context) error {
			if format := c.String("format"); format != "" && format != "json" {
				return usagef("validate", "no format %q: it is json", format)
			}
			if !c.Args().Present() {
				return usagef("validate", "no FILE to validate")
			}
			var findings []finding
			for _, name := range c.Args().Slice() {
				_, f, err := p.parseFile(name, c.Bool("strict"))
				if err != nil {
					return err
				}
				findings = append(findings, f)
			}
			return p.printFindings(findings, c.String("format") == "json")
		},
	}
}

// finding is what there is to say about one file.
type finding struct {
	File     string            `json:"file"`
	Valid    bool              `json:"valid"`
	Problems []taskdef.Problem `json:"problems"`
	Warnings []taskdef.Problem `json:"warnings"`
	Needs    []taskdef.Problem `json:"needs"`
}

// parseFile reads and parses a definition; "-" is stdin. The error is only for a
// file that cannot be read: what is wrong with its content is in the finding.
func (p *program) parseFile(name string, strict bool) (taskdef.Task, finding, error) {
	var src []byte
	var err error
	if name == "-" {
		name = "stdin"
		src, err = io.ReadAll(p.stdin)
	} else {
		src, err = os.ReadFile(name)
	}
	if err != nil {
		return taskdef.Task{}, finding{}, fmt.Errorf("read the task definition: %w", err)
	}
	task, report, err := taskdef.Parse(name, src)
	f := finding{File: name, Problems: []taskdef.Problem{}, Warnings: orEmpty(report.Warnings), Needs: orEmpty(report.Needs)}
	var invalid *taskdef.InvalidError
	switch {
	case errors.As(err, &invalid):
		f.Problems = invalid.Problems
	case err != nil:
		return taskdef.Task{}, finding{}, err
	}
	if strict {
		f.Problems, f.Warnings = append(f.Problems, f.Warnings...), []taskdef.Problem{}
	}
	f.Valid = len(f.Problems) == 0
	return task, f, nil
}

func orEmpty(problems []taskdef.Problem) []taskdef.Problem {
	return append([]taskdef.Problem{}, problems...)
}

func (p *program) printFindings(findings []finding, asJSON bool) error {
	code := 0
	for _, f := range findings {
		if !f.Valid {
			code = exitInvalid
		}
	}
	if asJSON {
		if err := writeJSON(p.stdout, findings); err != nil {
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

// printProblems writes what is in a finding on stderr, a line for each.
func (p *program) printProblems(f finding) {
	for _, w := range f.Warnings {
		p.warn("%s", w)
	}
	for _, n := range f.Needs {
		fmt.Fprintf(p.stderr, "Needs: %s\n", n)
	}
	for _, e := range f.Problems {
		fmt.Fprintf(p.stderr, "Error: %s\n", e)
	}
}
