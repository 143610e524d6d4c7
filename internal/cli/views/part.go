package views

import (
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
)

// Part is the part views.
func Part() part.Part {
	const group = "Look at tasks"
	return part.Part{
		Name: "views",
		Commands: func(p *command.Program) []part.Command {
			return []part.Command{
				{Command: TopCommand(p), Group: group, After: "ps"},
				{Command: UICommand(p), Group: group, After: "top"},
				{Command: TimelineCommand(p), Group: group, After: "stats"},
				{Command: ViewCommand(p)},
			}
		},
		Routes: func() map[string]part.Route {
			return map[string]part.Route{
				"top":      {Place: part.Special},
				"ui":       {Place: part.Special},
				"view":     {Place: part.Here, Why: part.ServerProcess},
				"timeline": {Output: "svg"},
			}
		},
	}
}
