package importer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/connect/sshhost"
	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

// namesTask reports whether a source is a task and no file.
func namesTask(from string) bool {
	if from == "-" || strings.ContainsAny(from, "/.") {
		return false
	}
	_, err := os.Stat(from)
	return errors.Is(err, fs.ErrNotExist)
}

// importThere writes the definition of a task of another host here. podtask there makes it of the record. All else, also the unit,
// is made here: a host must not choose what systemd runs on this machine.
func (i importer) importThere(c *cli.Context, host command.ChosenHost, from string) error {
	req, err := i.parse(c, from)
	if err != nil {
		return err
	}
	answer, err := i.definitionOf(c, host.Host, from, req.name)
	if err != nil {
		return err
	}
	ext := ".json"
	if c.Bool("yaml") {
		ext = ".yaml"
		if answer.Result, err = yamlDefinition(answer.Result); err != nil {
			return err
		}
	}
	unit, err := unitFor(req.name, ext)
	if err != nil {
		return err
	}
	file := filepath.Join(req.dir, req.name+ext)
	report := importReport{Kind: "a task", Name: req.name, Files: []outputFile{
		{file, answer.Definition}, {filepath.Join(req.dir, req.name+taskunit.Extension), []byte(unit)},
	}}
	for _, l := range answer.Lost {
		report.Lost = append(report.Lost, taskdef.Problem{Message: term.Line(l)})
	}
	program := "podtask"
	if host.Asked {
		program += " --host " + host.Word
	}
	report.Commands = []string{fmt.Sprintf("%s run -d --wait=healthy --name %s %s", program, req.name, shellWord(file))}
	return i.finish(c, req, report)
}

// definitionOf returns the definition of a task of a host.
func (i importer) definitionOf(c *cli.Context, host sshhost.Host, task, name string) (r conversion, err error) {
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	defer func() {
		if ctx.Err() != nil && c.Context.Err() == nil {
			err = command.ExitStatus(command.ExitInterrupted)
		}
	}()
	link, err := sshhost.Dial(ctx, host, i.hostOptions())
	if err != nil {
		return r, err
	}
	defer link.Close()
	text, err := command.AnswerOf(ctx, link, i.errOut, "import", "--dry-run", "--format=json", "--name="+name, "--", task)
	if err != nil {
		return r, err
	}
	return readImport(text, host, name+".json")
}

// readImport reads what `podtask import --format json` of a host has printed.
func readImport(text []byte, host sshhost.Host, file string) (r conversion, err error) {
	var answer struct {
		Files []struct{ Path, Content string }
		Lost  []struct{ Message string }
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return r, fmt.Errorf("the answer of %s: %w", host, err)
	}
	var document []byte
	for _, f := range answer.Files {
		if filepath.Base(f.Path) == file {
			document = []byte(f.Content)
		}
	}
	task, _, err := taskdef.Parse(file, document)
	if err != nil {
		return r, fmt.Errorf("the answer of %s has no valid definition: %w", host, err)
	}
	// It is written again, so that it names no file or variable of this machine, which a run with it would send to the host.
	again, err := convert.Task(strings.TrimSuffix(file, ".json"), task, convert.OfOneMachine)
	if err != nil {
		return r, fmt.Errorf("the answer of %s: %w", host, err)
	}
	r.Definition, r.Lost = again.Definition, again.Lost
	for _, l := range answer.Lost {
		r.Lost = append(r.Lost, l.Message)
	}
	return r, nil
}
