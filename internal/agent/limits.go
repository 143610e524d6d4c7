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
	"github.com/podtask/podtask/pkg/ports"
	"github.com/podtask/podtask/pkg/taskdef"
)

// The values of lifecycle.Options.Limits.
const (
	LimitsEnforce    = "enforce"           // refuse a task whose limits this host cannot apply
	LimitsBestEffort = "best-effort"       // apply what can be applied, and say what cannot
	LimitsOff        = lifecycle.LimitsOff // apply none
)

// Check finds out whether this host can run the task, before anything is
// made: limits, the budget of all tasks, ports, devices, secrets and Podman. A port
// that another task has is no problem: the task will wait for it. The error holds all
// problems.
func (p *Preflight) Check(ctx context.Context, t taskdef.Task, o lifecycle.Options) error {
	errs := []error{p.ledger.RefuseDraining()}
	errs = append(errs, p.queue.Budget().Refuse(lifecycle.State{Task: t, Options: o}.Need()))
	missing, reason, err := p.Unsupported(ctx, t, o)
	if err != nil {
		errs = append(errs, p.explain(ctx, err))
	}
	if len(missing) > 0 && o.Limits == LimitsEnforce {
		errs = append(errs, &LimitsError{Controllers: missing, Reason: reason})
	}
	errs = append(errs, checkQuota(t, o.Quota))
	if _, err := ports.Plan(ports.OfTask(t), ports.Host{
		UnprivilegedStart: netns.UnprivilegedStart(), Free: netns.FreePort, Taken: p.queue.PortIsTaken(),
	}); err != nil {
		errs = append(errs, p.ports.ExplainPlan(err, ports.OfTask(t)))
	}
	errs = append(errs, checkHost(t))
	if err == nil {
		var podman Podman
		if podman, err = p.podman(ctx); err == nil {
			err = errors.Join(tooOld(podman), checkNetwork(ctx, podman, t), p.checkHostReady(ctx, podman, t, o), p.secrets.Check(ctx, t))
		}
		errs = append(errs, p.explain(ctx, err))
	}
	return errors.Join(errs...)
}

// checkQuota refuses numbers that no host can apply, and less memory than a
// container of the task may use.
func checkQuota(t taskdef.Task, q lifecycle.Quota) error {
	errs := []error{taskLimits(t, q, cgroups.Curve{}).Check()}
	for _, c := range t.Containers {
		if most := max(c.Memory, c.MemoryReservation); q.Memory > 0 && most > q.Memory {
			errs = append(errs, fmt.Errorf("the task's memory of %d bytes is less than the %d of its container %s: give the task more", q.Memory, most, c.Name))
		}
	}
	return errors.Join(errs...)
}

// DefaultTasksMax bounds the processes and threads of a task that asks for no
// other number: enough for ten containers of big servers, and far below what
// stops a host. It is applied where the host can, and not missed elsewhere.
const DefaultTasksMax = 4096

// Defaults adds to the quota what a task gets without asking.
func (p *Preflight) Defaults(o lifecycle.Options) lifecycle.Options {
	able := slices.Contains(cgroups.Detect(hostRoot, os.Getuid(), p.getenv).Controllers, "pids")
	if o.Quota.TasksMax == 0 && o.Limits != LimitsOff && able {
		o.Quota.TasksMax = DefaultTasksMax
	}
	return o
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

// Unsupported returns the controllers that the definition asks for and this host
// does not give, and why.
func (p *Preflight) Unsupported(ctx context.Context, t taskdef.Task, o lifecycle.Options) (missing []string, reason string, err error) {
	wanted := taskLimits(t, o.Quota, cgroups.Curve{})
	for _, c := range t.Containers {
		// Container limits need the same controllers; the numbers do not matter here.
		wanted.Memory = max(wanted.Memory, c.Memory)
		wanted.MemoryLow = max(wanted.MemoryLow, c.MemoryReservation)
		if c.CPU > 0 || c.Extensions.CPULimit > 0 {
			wanted.CPUWeight = 100
		}
	}
	if o.Limits == LimitsOff || len(wanted.Controllers()) == 0 {
		return nil, "", nil
	}
	host := cgroups.Detect(hostRoot, os.Getuid(), p.getenv)
	if missing := host.Missing(wanted); len(missing) > 0 {
		return missing, host.ReasonFor(wanted), nil
	}
	facts, err := p.facts.Get(ctx)
	if err != nil {
		return nil, "", err
	}
	if facts.CgroupManager != "systemd" {
		return wanted.Controllers(), fmt.Sprintf("Podman's cgroup manager is %s, which applies no limits rootless; set cgroup_manager = \"systemd\" in containers.conf", facts.CgroupManager), nil
	}
	return nil, "", nil
}

// taskLimits are the limits of the task's slice. Without a hard cpu limit its
// weight is the sum of its containers' shares (ECS agent, task_linux.go), by the curve
// that the containers' own weights follow. A task with a memory limit may swap as much
// again, as Podman's containers may.
//
// What the containers reserve is protected (memory.low), and throttling begins
// nine tenths of the way from there to the limit (memory.high), so that a task
// that grows is slowed before it is killed.
func taskLimits(t taskdef.Task, q lifecycle.Quota, curve cgroups.Curve) cgroups.Limits {
	q = q.Over(t)
	l := cgroups.Limits{
		CPU: q.CPU, CPUPeriod: q.CPUPeriod, Memory: q.Memory, SwapMax: q.Memory,
		TasksMax: q.TasksMax, IOWeight: q.IOWeight,
	}
	var shares uint64
	for _, c := range t.Containers {
		shares += cpuShares(c.CPU)
		l.MemoryLow += c.MemoryReservation
	}
	if q.CPU == 0 {
		l.CPUWeight = curve.Weight(shares)
	}
	if q.Memory > 0 && l.MemoryLow > 0 {
		l.MemoryLow = min(l.MemoryLow, q.Memory)
		l.MemoryHigh = l.MemoryLow + (q.Memory-l.MemoryLow)/10*9
	}
	return l
}

// cpuShares are a container's cpu units as shares, which go from 2 to 262144; 0
// means none given (ECS agent: 1 becomes 2).
func cpuShares(units int64) uint64 {
	if units <= 0 {
		return 0
	}
	return min(max(uint64(units), minShares), maxShares)
}

const (
	minShares = 2
	maxShares = 262144
)

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
	if slices.Contains(o.Unapplied, "io") {
		l.IOWeight = 0
	}
	return l
}
