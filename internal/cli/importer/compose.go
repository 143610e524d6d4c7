package importer

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/composecall"
	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/internal/define/convert/compose"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/taskdef"
)

// ComposeProgram converts Compose files.
const ComposeProgram = composecall.Program

func (i importer) caller() composecall.Caller {
	return composecall.Caller{Find: i.findProgram, Environ: i.environ}
}

// compose converts a Compose file with podtask-compose.
func (i importer) compose(ctx context.Context, r compose.Request) (result convert.Result, err error) {
	return result, i.caller().Convert(ctx, r, &result)
}

// request returns the conversion of a Compose file with the variables that Compose would take.
func (i importer) request(file, task string, source []byte) (compose.Request, error) {
	vars, shell, err := i.composeVariables(filepath.Dir(file))
	if err != nil {
		return compose.Request{}, err
	}
	if task == "" {
		task = projectName(file, vars)
	}
	r := compose.Request{File: file, Task: task, Source: source, Variables: vars, Shell: shell}
	if vars["COMPOSE_FILE"] == "" {
		r.Override = compose.Override(file)
	}
	return r, nil
}

// composeMembers begin a line of every Compose file, and of no task definition.
var composeMembers = lazy.MustCompile(`(?m)^(services|include)[ \t]*:`)

// newComposeDocument makes a task definition of a Compose file, as import does, without writing anything.
func newComposeDocument(ctx context.Context, p *command.Program, doc define.Document) (define.Document, error) {
	if !composeMembers.Get().Match(doc.Source) || taskdef.ReadSource(doc.Name, doc.Source).Manifest() {
		return doc, nil
	}
	i := newImporter(p)
	file := filepath.Join(doc.Dir, filepath.Base(doc.Name))
	if doc.Name == "stdin" {
		file = filepath.Join(doc.Dir, "compose.yaml") // by which the project has the name of the directory
	}
	r, err := i.request(file, "", doc.Source)
	if err != nil {
		return doc, err
	}
	result, err := i.compose(ctx, r)
	if err != nil {
		return doc, err
	}
	if len(result.Files) > 0 {
		return doc, fmt.Errorf("%s has values that a definition does not hold, and that `podtask import %[1]s` writes beside it (%s); `podtask stack up %[1]s` keeps them itself", doc.Name, fileNames(result.Files))
	}
	lost := result.Lost
	for _, n := range result.Needs {
		doc.Lost = append(doc.Lost, taskdef.Problem{Message: "Needs: " + term.Line(n)})
	}
	if len(result.RunFlags) > 0 {
		lost = append(lost, "to limit it as the file does, add "+strings.Join(result.RunFlags, " "))
	}
	if result.Copies > 1 {
		lost = append(lost, fmt.Sprintf("the file asks for %d copies: a service has them (podtask service create NAME %s --count %[1]d), a task is one", result.Copies, doc.Name))
	}
	for _, l := range lost {
		doc.Lost = append(doc.Lost, taskdef.Problem{Message: "Lost: " + term.Line(l)})
	}
	doc.Source = result.Definition
	return doc, nil
}

func fileNames(files []convert.File) string {
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}
