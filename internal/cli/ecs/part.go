package ecs

import (
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/ecsstatus"
	"github.com/podtask/podtask/internal/serve/metrics/ecsmetrics"
)

// Part is the part ecs.
func Part() part.Part {
	return part.Part{
		Name: "ecs",
		Commands: func(p *command.Program) []part.Command {
			return []part.Command{{Command: Command(p), Group: "Amazon ECS and Kubernetes"}}
		},
		Routes: func() map[string]part.Route {
			routes := map[string]part.Route{"ecs join": {Place: part.Here, Why: part.ServerProcess, Passes: true}}
			for _, name := range []string{"activate", "status", "drain", "leave", "check"} {
				routes["ecs "+name] = part.Route{Place: part.Here, Why: "it is about the instance that this machine is: run it on the host itself", Passes: true}
			}
			routes["ecs trial"] = part.Route{Place: part.Here, Why: "it makes this machine an instance for a while: run it on the host itself"}
			return routes
		},
		Explain: newExplainer,
		Agent: func(a *part.Agent) error {
			a.Collect(ecsmetrics.New(func() (*ecsstatus.Status, bool, bool) { return find(a.Getenv) }))
			return nil
		},
	}
}
