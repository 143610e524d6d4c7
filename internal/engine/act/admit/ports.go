package admit

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/admission"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/ports"
	"github.com/podtask/podtask/pkg/taskdef"
)

// PortHolders finds out who uses a host port, and chooses free ones.
type PortHolders struct {
	Tasks *record.Tasks
	Queue *Queue // for what is reserved; nil for nothing

	mu sync.Mutex
	// chosen are host ports that were chosen for a task and may not be open yet.
	chosen map[string][]ports.HostPort
}

// find names the holder of a host port: a task other than id, according to the records,
// else a process, if the kernel shows it. It returns "" if it finds none.
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

// Choose returns a function that chooses the host ports of a pod or container that cannot
// be left to Podman; nil if all can. What it chose is not chosen for another task of this
// process until Release.
func (h *PortHolders) Choose(id string, wanted []ports.Mapping) func([]libpod.Port) ([]libpod.Port, error) {
	if !ports.NeedsPlan(wanted) {
		return nil
	}
	return func([]libpod.Port) ([]libpod.Port, error) { return h.choose(id, wanted) }
}

// Release forgets the ports that were chosen for a task, once Podman has opened them or failed to.
func (h *PortHolders) Release(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.chosen, id)
}

// choose chooses the host ports that are 0. It does not check the fixed ones: they may
// belong to this task's pod, which exists already.
func (h *PortHolders) choose(id string, wanted []ports.Mapping) ([]libpod.Port, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	reserved, budget := h.reserved(id)
	fixed := func(protocol string, port uint16) bool {
		return slices.ContainsFunc(wanted, func(m ports.Mapping) bool { return m.HostPort == port && m.Protocol == protocol })
	}
	planned, err := ports.Plan(wanted, ports.Host{
		UnprivilegedStart: netns.UnprivilegedStart(),
		Free:              netns.FreePort,
		Taken: func(protocol, ip string, port uint16) bool {
			p := ports.HostPort{Number: port, Protocol: protocol, HostIP: ip}
			return !fixed(protocol, port) && (budget.Reserves(p) || slices.ContainsFunc(reserved, p.Conflicts) || netns.InUse(protocol, ip, port))
		},
	})
	if err != nil {
		return nil, err
	}
	if h.chosen == nil {
		h.chosen = make(map[string][]ports.HostPort)
	}
	h.chosen[id] = ports.Hosts(planned)
	return taskspec.Publish(planned), nil
}

// reserved returns the host ports that are reserved or chosen for other tasks and may not be
// open yet, and the budget, which reserves more for programs outside of tasks.
func (h *PortHolders) reserved(id string) (reserved []ports.HostPort, budget admission.Budget) {
	for task, chosen := range h.chosen {
		if task != id {
			reserved = append(reserved, chosen...)
		}
	}
	if h.Queue == nil {
		return reserved, budget
	}
	if l, err := h.Queue.Ledger.Read(); err == nil {
		for _, e := range l.Queue.Entries {
			if e.Held && e.Task != id {
				reserved = append(reserved, e.Need.Ports...)
			}
		}
	}
	return reserved, h.Queue.Budget()
}

// ExplainPlan adds the users of host ports to the problems of a plan.
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

// Explain adds the user of the port to an error about a port in use of the task with the id.
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
