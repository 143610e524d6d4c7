package queue

import (
	"errors"
	"fmt"
	"slices"

	"github.com/podtask/podtask/internal/record"
	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/ports"
	"github.com/podtask/podtask/pkg/taskdef"
)

// PortHolders finds out who uses a host port.
type PortHolders struct {
	Tasks *record.Tasks
}

// find says who has a host port: another task than that with the id, by what the
// records say, else a process, as far as the system tells. Empty for nobody.
func (h *PortHolders) find(id, protocol string, port uint16) string {
	if port == 0 {
		return ""
	}
	states, _ := h.Tasks.States()
	for _, s := range states {
		bound := func(p taskdef.Port) bool { return p.HostPort == port && p.Protocol == protocol }
		if s.ID == id || s.Status() == lifecycle.StatusStopped || !slices.ContainsFunc(s.Ports(), bound) {
			continue
		}
		if s.Name == "" {
			return "task " + s.ID[:12]
		}
		return fmt.Sprintf("task %s (%s)", s.Name, s.ID[:12])
	}
	if holder, found := netns.FindHolder(protocol, port); found {
		return holder.String()
	}
	return ""
}

// ExplainPlan adds to the problems with host ports who has them.
func (h *PortHolders) ExplainPlan(err error, mappings []ports.Mapping) error {
	var plan *ports.PlanError
	if !errors.As(err, &plan) {
		return err
	}
	for i, problem := range plan.Problems {
		p := mappings[problem.Index]
		if holder := h.find("", p.Protocol, p.HostPort); holder != "" {
			plan.Problems[i].Message += fmt.Sprintf("; %s has it", holder)
		}
	}
	return err
}

// Explain adds to an error about a port in use, of the task with the id, who uses
// it.
func (h *PortHolders) Explain(err error, id string, ports []libpod.Port) error {
	if !errors.Is(err, libpod.PortInUse) {
		return err
	}
	for _, p := range ports {
		if holder := h.find(id, p.Protocol, p.HostPort); holder != "" {
			return fmt.Errorf("%w: port %d is held by %s", err, p.HostPort, holder)
		}
	}
	return err
}
