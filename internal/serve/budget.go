package serve

import (
	"context"

	"github.com/podtask/podtask/pkg/admission"
	"github.com/podtask/podtask/pkg/api"
)

// Budget implements api.Budgeter.
func (b AgentBackend) Budget(context.Context) (api.Budget, error) {
	content, err := b.Engine.Ledger.Read()
	if err != nil {
		return api.Budget{}, err
	}
	have := b.Engine.Queue.Budget()
	out := api.Budget{Draining: content.Drain != nil}
	if have.CPU != admission.Unlimited {
		out.CPU = float64(have.CPU) / admission.UnitsPerCPU
	}
	if have.Memory != admission.Unlimited {
		out.Memory = have.Memory
	}
	return out, nil
}

var _ api.Budgeter = AgentBackend{}
