package importer

import (
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/define/convert/compose"
	"github.com/podtask/podtask/internal/define/convert/quadlet"
	"github.com/podtask/podtask/internal/define/foreign"
	"github.com/podtask/podtask/internal/define/members"
)

// Part is the part import.
func Part() part.Part {
	return part.Part{
		Name: "import",
		Commands: func(p *command.Program) []part.Command {
			return []part.Command{
				{Command: ImportCommand(p), Group: "Services and systemd", After: "unit"},
				{Command: ECSImportCommand(p), Under: "ecs"},
				{Command: ECSDiffCommand(p), Under: "ecs"},
			}
		},
		Convert: newComposeDocument,
		Formats: func() []members.Format {
			return append(foreign.Formats(), compose.Members(), compose.ECSParams(), quadlet.Members())
		},
		Routes: func() map[string]part.Route {
			return map[string]part.Route{
				"import":     {Place: part.Special},
				"ecs import": {Place: part.Here, Why: "it reads an account with the aws command of this machine and writes files here"},
				"ecs diff":   {Place: part.Refused, Why: "it reads an account with the aws command of one machine and the service of another: run it on the host itself"},
			}
		},
	}
}
