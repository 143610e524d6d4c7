package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/taskdef"
)

// The values of lifecycle.Options.Limits.
const (
	LimitsEnforce    = "enforce"     // refuse a task whose limits this host cannot apply
	LimitsBestEffort = "best-effort" // apply what can be applied, and say what cannot
	LimitsOff        = "off"         // apply none
)

// Preflight finds out whether this host can run the task, before anything is
// made: limits, ports and Podman. The error holds all problems.
func (h *Host) Preflight(ctx context.Context, t taskdef.Task, o lifecycle.Options) error {
	var errs []error
	missing, reason, err := h.unapplied(ctx, t, o)
	if err != nil {
		errs = append(errs, err)
	}
	if len(missing) > 0 && o.Limits == LimitsEnforce {
		errs = append(errs, &LimitsError{Controllers: missing, Reason: reason})
	}
	if _, err := netns.MakePlan(wantedPorts(t), netns.Host{
		UnprivilegedStart: netns.UnprivilegedStart(), Free: netns.FreePort, Taken: netns.InUse,
	}); err != nil {
		errs = append(errs, nameHolders(err, wantedPorts(t)))
	}
	if err == nil {
		_, err = h.Podman(ctx)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// nameHolders adds to the problems with host ports who has them.
func nameHolders(err error, ports []netns.Port) error {
	var plan *netns.PlanError
	if !errors.As(err, &plan) {
		return err
	}
	for i, problem := range plan.Problems {
		p := ports[problem.Index]
		if holder, found := netns.FindHolder(p.Protocol, p.HostPort); found && p.HostPort != 0 {
			plan.Problems[i].Message += fmt.Sprintf("; %s has it", holder)
		}
	}
	return err
}

// LimitsError says that the task has limits which this host cannot apply.
type LimitsError struct {
	Controllers []string
	Reason      string
}

func (e *LimitsError) Error() string {
	msg := fmt.Sprintf("this host cannot apply the task's %s limits", strings.Join(e.Controllers, ", "))
	if e.Reason != "" {
		msg += ": " + e.Reason
	}
	return msg + "; or run without them: --limits best-effort"
}

// unapplied returns the controllers that the definition asks for and this host
// does not give, and why.
func (h *Host) unapplied(ctx context.Context, t taskdef.Task, o lifecycle.Options) (missing []string, reason string, err error) {
	wanted := taskLimits(t)
	for _, c := range t.Containers {
		// Container limits need the same controllers; the numbers do not matter here.
		wanted.Memory = max(wanted.Memory, c.Memory)
		wanted.MemoryLow = max(wanted.MemoryLow, c.MemoryReservation)
		if c.CPU > 0 {
			wanted.CPUWeight = 100
		}
	}
	if o.Limits == LimitsOff || len(wanted.Controllers()) == 0 {
		return nil, "", nil
	}
	host := cgroups.Detect(hostRoot, os.Getuid(), h.cfg.Getenv)
	if missing := host.Missing(wanted); len(missing) > 0 {
		return missing, host.Reason, nil
	}
	podman, err := h.Podman(ctx)
	if err != nil {
		return nil, "", err
	}
	facts, err := podman.Host(ctx)
	if err != nil {
		return nil, "", err
	}
	if facts.CgroupManager != "systemd" {
		return wanted.Controllers(), fmt.Sprintf("Podman's cgroup manager is %s, which applies no limits rootless; set cgroup_manager = \"systemd\" in containers.conf", facts.CgroupManager), nil
	}
	return nil, "", nil
}

// taskLimits are the limits of the task's slice. Without a hard cpu limit its
// weight is the sum of its containers' shares (ECS agent, task_linux.go).
func taskLimits(t taskdef.Task) cgroups.Limits {
	l := cgroups.Limits{CPU: t.CPU, Memory: t.Memory}
	if t.CPU == 0 {
		var shares uint64
		for _, c := range t.Containers {
			if c.CPU > 0 {
				shares += max(uint64(c.CPU), 2)
			}
		}
		l.CPUWeight = cgroups.WeightFromShares(shares)
	}
	return l
}

// applicable leaves out what the user chose to do without.
func applicable(l cgroups.Limits, o lifecycle.Options) cgroups.Limits {
	if o.Limits == LimitsOff {
		return cgroups.Limits{}
	}
	if slices.Contains(o.Unapplied, "cpu") {
		l.CPU, l.CPUWeight = 0, 0
	}
	if slices.Contains(o.Unapplied, "memory") {
		l.Memory, l.MemoryHigh, l.MemoryLow, l.SwapMax = 0, 0, 0, 0
	}
	if slices.Contains(o.Unapplied, "pids") {
		l.TasksMax = 0
	}
	return l
}

// wantedPorts are the host ports a task publishes; none in host mode, where
// containers listen on the host themselves.
func wantedPorts(t taskdef.Task) []netns.Port {
	var out []netns.Port
	if t.Network == taskdef.NetworkHost || t.Network == taskdef.NetworkNone {
		return nil
	}
	for _, c := range t.Containers {
		for _, p := range c.Ports {
			out = append(out, netns.Port{Container: c.Name, ContainerPort: p.ContainerPort, HostPort: p.HostPort, Protocol: p.Protocol, HostIP: p.HostIP})
		}
	}
	return out
}
