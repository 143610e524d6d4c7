// Package export is the part with `podtask generate TARGET`: a definition, a task or a service as files of Quadlet, Compose or Kubernetes.
package export

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/atomicfile"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/define/export"
	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// Part is the part export.
func Part() part.Part {
	return part.Part{
		Name: "export", Formats: export.Formats,
		Generate: func(p *command.Program, c *cli.Context) error { return newExporter(p).generate(c) },
		Complete: func(q part.Completion) ([]string, bool) {
			if !slices.Equal(q.Path, []string{"generate"}) || len(q.Arguments) > 0 {
				return nil, false
			}
			return targets(), true
		},
	}
}

func targets() (names []string) {
	for _, t := range export.Targets {
		names = append(names, string(t))
	}
	return names
}

// exporter has the means of `podtask generate TARGET SOURCE`.
type exporter struct {
	out, errOut io.Writer
	openEngine  func(*cli.Context) (*engine.Engine, error)
	definition  func(c *cli.Context, name string) (command.Definition, error)
}

func newExporter(p *command.Program) exporter {
	return exporter{out: p.Stdout, errOut: p.Stderr, openEngine: p.OpenEngine, definition: p.Definition}
}

func (e exporter) generate(c *cli.Context) error {
	target := export.Target(c.Args().First())
	switch {
	case !slices.Contains(export.Targets, target):
		return command.Usagef("generate", "no target %q: it is %s", string(target), strings.Join(targets(), ", "))
	case c.Args().Len() != 2:
		return command.Usagef("generate", "generate %s takes one FILE, TASK or SERVICE, not %d arguments", target, c.Args().Len()-1)
	case c.IsSet("from"):
		return command.Usagef("generate", "--from makes a task definition of a file, and %s makes a file of a task: give one of the two", target)
	}
	if err := command.CheckFormat(c); err != nil {
		return err
	}
	source, err := e.source(c, c.Args().Get(1))
	if err != nil {
		return err
	}
	if name := c.String("name"); name != "" {
		source.Name = name
	}
	if !serve.ValidTaskName(source.Name) {
		return command.Usagef("generate", "--name %q: a name has letters, digits, dots, dashes and underscores, and begins with a letter or a digit", source.Name)
	}
	made, err := export.Write(target, source)
	if err != nil {
		return err
	}
	return e.report(c, target, source, made)
}

// source finds the task of a name: a file or a registered definition, else the copies of a service, else a task.
func (e exporter) source(c *cli.Context, name string) (export.Source, error) {
	_, err := os.Stat(name)
	if err != nil && !strings.ContainsAny(name, "/.:") && name != "-" {
		if s, found, err := e.running(c, name); found || err != nil {
			return s, err
		}
	}
	d, err := e.definition(c, name)
	if err != nil {
		return export.Source{}, err
	}
	task, finding, err := d.Read()
	if err != nil {
		return export.Source{}, err
	}
	if !finding.Runnable(e.errOut) {
		return export.Source{}, command.ExitStatus(command.ExitInvalid)
	}
	return export.Source{Name: task.Family, Task: task}, nil
}

// running finds a service or a task of this host by its record, which has all that its command line changed.
func (e exporter) running(c *cli.Context, name string) (s export.Source, found bool, err error) {
	here, err := e.openEngine(c)
	if err != nil {
		return s, false, err
	}
	defer here.Close()
	if copies := here.Tasks.Copies(name); len(copies) > 0 {
		up := slices.DeleteFunc(slices.Clone(copies), func(st lifecycle.State) bool { return st.Goal != lifecycle.Up })
		newest := copies[len(copies)-1]
		if len(up) > 0 {
			newest = up[len(up)-1]
		}
		return export.Source{Name: name, Task: newest.Task, Copies: max(1, len(up))}, true, nil
	}
	st, err := here.Tasks.Find(name)
	if err != nil {
		return s, false, nil // it may be a registered definition
	}
	return export.Source{Name: name, Task: st.Task}, true, nil
}

// written is a file that was made.
type written struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// result is the output of `podtask generate TARGET --format json`.
type result struct {
	Target export.Target `json:"target"`
	Name   string        `json:"name"`
	Files  []written     `json:"files"`
	Lost   []export.Loss `json:"lost"`
	// Commands run the files.
	Commands []string `json:"commands"`
}

// report writes the files, and tells what they do not say.
func (e exporter) report(c *cli.Context, target export.Target, s export.Source, made export.Result) error {
	dir := c.String("output")
	r := result{Target: target, Name: s.Name, Lost: append([]export.Loss{}, made.Lost...), Commands: commands(target, dir, made.Files)}
	for _, f := range made.Files {
		text, err := textOf(f, c.Args().Get(1), target, made.Lost)
		if err != nil {
			return err
		}
		r.Files = append(r.Files, written{filepath.Join(dir, f.Name), text})
	}
	plain := c.String("format") == ""
	if plain {
		for _, l := range r.Lost {
			fmt.Fprintln(e.errOut, "Lost: "+term.Line(l.String()))
		}
	}
	switch {
	case !c.Bool("dry-run"):
		if err := write(r.Files, dir, c.Bool("replace")); err != nil {
			return err
		}
	case plain:
		for _, f := range r.Files {
			fmt.Fprintf(e.out, "---%s---\n%s\n", filepath.Base(f.Path), f.Content)
		}
	}
	if !plain {
		return command.PrintItem(e.out, c, r, func() error { return nil })
	}
	if !c.Bool("dry-run") {
		for _, f := range r.Files {
			if _, err := fmt.Fprintln(e.out, f.Path); err != nil {
				return err
			}
		}
	}
	for _, line := range r.Commands {
		fmt.Fprintln(e.errOut, "Next: "+line)
	}
	return nil
}

// textOf is the text of a file, with what it does not say in comments.
func textOf(f export.File, from string, target export.Target, lost []export.Loss) (string, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Written by podtask generate %s of %s.\n", target, term.Line(from))
	for _, l := range lost {
		fmt.Fprintf(&out, "# Lost: %s\n", term.Line(l.String()))
	}
	out.WriteString(f.Text)
	for i, d := range f.Documents {
		if i > 0 {
			out.WriteString("---\n")
		}
		if err := console.WriteYAML(&out, d); err != nil {
			return "", err
		}
	}
	return out.String(), nil
}

// commands returns command lines that run the files.
func commands(target export.Target, dir string, files []export.File) []string {
	file := toolfile.ShellWord(filepath.Join(dir, files[0].Name))
	switch target {
	case export.Compose:
		return []string{"podman compose -f " + file + " up -d"}
	case export.Kubernetes:
		return []string{"kubectl apply -f " + file + ", or podman kube play " + file}
	}
	stem, isPod := strings.CutSuffix(files[0].Name, ".pod")
	if isPod {
		stem += "-pod"
	}
	return []string{"move them to ~/.config/containers/systemd, then systemctl --user daemon-reload && systemctl --user start " + strings.TrimSuffix(stem, ".container")}
}

// write writes the files, or none if one of them is there.
func write(files []written, dir string, replace bool) error {
	for _, f := range files {
		if _, err := os.Lstat(f.Path); err == nil && !replace {
			return fmt.Errorf("%s already exists: overwrite it with --replace, or write elsewhere with --output DIR", f.Path)
		}
	}
	var errs []error
	if dir != "" {
		errs = append(errs, os.MkdirAll(dir, 0o755))
	}
	for _, f := range files {
		errs = append(errs, atomicfile.Write(f.Path, []byte(f.Content), 0o600)) // variables may hold secrets
	}
	return errors.Join(errs...)
}
