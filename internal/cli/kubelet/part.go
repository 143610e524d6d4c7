package kubelet

import (
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
)

// Part is the part kubelet.
func Part() part.Part {
	return part.Part{
		Name: "kubelet",
		Commands: func(p *command.Program) []part.Command {
			return []part.Command{{Command: Command(p), Group: "Amazon ECS and Kubernetes"}}
		},
		Routes: func() map[string]part.Route {
			return map[string]part.Route{"kubelet": {Place: part.Here, Why: part.ServerProcess, Passes: true}}
		},
	}
}
