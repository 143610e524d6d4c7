package tasktest

import (
	"errors"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/define/strictdoc"
	"github.com/podtask/podtask/internal/define/testfile"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Part is the part test.
func Part() part.Part {
	return part.Part{
		Name: "test",
		Commands: func(p *command.Program) []part.Command {
			return []part.Command{{Command: Command(p), Group: "Task definitions", After: "pull"}}
		},
		Routes: func() map[string]part.Route {
			return map[string]part.Route{
				"test": {Place: part.Refused, Why: "a test reads files beside it, sends requests to ports of the machine it runs on and changes files while it runs: run it on the host itself, or in its CI"},
			}
		},
		Documents: []command.Document{{Name: "test", Schema: func() any { return testfile.Schema() }, Is: testfile.IsTestFile, Check: checkFile}},
	}
}

// checkFile returns the problems of a file with tests. Its definition is a file of its own.
func checkFile(name string, src []byte) []taskdef.Problem {
	_, err := testfile.Parse(name, src)
	var invalid *strictdoc.InvalidError
	switch {
	case errors.As(err, &invalid):
		return invalid.Problems
	case err != nil:
		return []taskdef.Problem{{Message: err.Error()}}
	}
	return nil
}
