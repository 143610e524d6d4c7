package stack

import (
	"context"
	"fmt"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/internal/engine/run/stacks"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api"
)

// newExplainer returns the reasons of services of stacks.
func newExplainer(m *command.Machine) part.Explainer {
	return part.Explainer{Service: func(ctx context.Context, now api.Service) []api.Reason {
		store, err := stacks.Open(m.Connector.StateDir, state.OS{})
		if err != nil || now.RunningCount > 0 || now.DesiredCount == 0 {
			return nil
		}
		client := m.Connector.DialAgent(ctx)
		if client == nil {
			return nil
		}
		defer client.Close()
		all, _ := store.All() // `podtask stack ls` tells what cannot be read
		for _, s := range all {
			for _, one := range s.Current.Members {
				if one.Object == now.ServiceName && s.Have[one.Name].Object == one.Object {
					return whyWaits(ctx, client, s, one.Name, now)
				}
			}
		}
		return nil
	}}
}

// whyWaits returns the reasons of a member without a copy that are other members for which its first copy waits.
func whyWaits(ctx context.Context, agent stacks.Agent, s stack.State, name string, now api.Service) (all []api.Reason) {
	m := s.Current.Find(name)
	if m == nil || now.RunningCount > 0 || now.DesiredCount == 0 {
		return nil
	}
	for _, d := range s.Current.Awaits(*m) {
		of, err := agent.Service(ctx, s.Current.Find(d.Name).Object)
		if err != nil || of.DesiredCount == 0 {
			continue
		}
		if !d.Met(of.RunningCount, of.HealthyCount, of.DesiredCount) {
			all = append(all, api.Reason{Code: api.WhyStackOrder, Text: fmt.Sprintf("%s of the stack %s, after which it starts, is not %s; after a start of the agent its first copy waits for that, ten minutes at most", d.Name, s.Name, d.Is)})
		}
	}
	return all
}
