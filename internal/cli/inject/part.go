package inject

import (
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/pkg/fault"
)

// Part is the part faults.
func Part() part.Part {
	return part.Part{
		Name: "faults",
		Commands: func(p *command.Program) []part.Command {
			return []part.Command{{Command: FaultCommand(p), Group: "Run tasks", After: "unpause"}}
		},
		Routes: func() map[string]part.Route {
			return map[string]part.Route{"fault start": {}, "fault stop": {}, "fault status": {}}
		},
		FlagValues: map[string][]string{"direction": {fault.Ingress, fault.Egress}},
		Complete:   complete,
	}
}

// complete returns the kinds of faults behind a task.
func complete(q part.Completion) ([]string, bool) {
	if q.Path[0] != "fault" || len(q.Arguments) == 0 {
		return nil, false
	}
	if len(q.Arguments) > 1 {
		return nil, true
	}
	return kindNames(), true
}
