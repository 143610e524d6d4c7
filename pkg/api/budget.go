package api

import (
	"context"
	"net/http"
)

// Budget is the share of the host that all tasks together may take.
type Budget struct {
	// CPU is in vCPU, Memory in bytes; absent without a bound.
	CPU    float64 `json:"cpu,omitempty"`
	Memory int64   `json:"memory,omitempty"`
	// Draining: tasks are being stopped, and none is admitted.
	Draining bool `json:"draining,omitempty"`
}

// Budgeter is a Backend that admits tasks: an agent.
type Budgeter interface {
	Budget(ctx context.Context) (Budget, error)
}

// serveBudget serves the budget of a backend that is a Budgeter.
func (s *Server) serveBudget(w http.ResponseWriter, r *http.Request) error {
	b, err := backendAs[Budgeter](s.backend, "this process owns one task and admits no other: `podtask agent` does")
	if err != nil {
		return err
	}
	budget, err := b.Budget(r.Context())
	return reply(w, budget, err)
}

// BudgetOf returns the budget of an agent.
func BudgetOf(ctx context.Context, c *Client) (Budget, error) {
	var b Budget
	return b, c.call(ctx, http.MethodGet, "budget", nil, &b)
}
