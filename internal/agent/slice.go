package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// sliceGroup is where the task's slice lies in the cgroup tree; empty for a task
// without one.
func sliceGroup(s lifecycle.State) string {
	if s.Sandbox.Slice == "" {
		return ""
	}
	return cgroups.Path(os.Getuid(), s.Sandbox.Slice)
}

// memoryUse is what the slice says about memory; zero where it says nothing.
func (c *Slices) memoryUse(s lifecycle.State) lifecycle.MemoryUse {
	group := sliceGroup(s)
	if group == "" {
		return lifecycle.MemoryUse{}
	}
	u, err := cgroups.ReadUsage(hostRoot, group)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Warn("the slice does not tell its use of memory", "task", s.ID, "error", err)
	}
	if u.Memory == nil {
		return lifecycle.MemoryUse{}
	}
	return lifecycle.MemoryUse{Kills: u.Memory.Kills, Full: u.Memory.Full, Peak: int64(u.Memory.Peak), Limit: int64(u.Memory.Limit)}
}

// limitsNotApplied reads the hard limits of a container that runs back from the kernel.
// The result is the zero value when it has those it should, and when that cannot
// be told: no slice, or a container that ended just now.
func limitsNotApplied(s lifecycle.State, i int, id string) lifecycle.Failure {
	group := sliceGroup(s)
	c := s.Task.Containers[i]
	l := applicable(cgroups.Limits{CPU: c.Extensions.CPULimit, Memory: c.Memory}, s.Options)
	if group == "" || len(l.Controllers()) == 0 {
		return lifecycle.Failure{}
	}
	scope, found := cgroups.Scopes(hostRoot, group)[id]
	if !found {
		return lifecycle.Failure{}
	}
	bad := cgroups.CheckContainer(hostRoot, scope, l)
	if len(bad) == 0 || cgroups.Process(hostRoot, scope) == 0 {
		return lifecycle.Failure{}
	}
	err := &cgroups.NotAppliedError{Unit: "container " + c.Name, Mismatches: bad}
	return lifecycle.Failure{Class: lifecycle.Permanent, Name: lifecycle.ErrLimitsNotApplied, Message: err.Error()}
}

// resetScope makes systemd forget that an earlier run of the container failed:
// one that was killed for memory may leave a failed unit behind, with which the
// next start would collide. It is no reason not to try the start.
func (c *Slices) resetScope(ctx context.Context, s lifecycle.State, i int) {
	id := s.Containers[i].ID
	if s.Sandbox.Slice == "" || id == "" {
		return
	}
	user, err := c.user.Get(ctx)
	if err == nil {
		err = user.ResetFailed(ctx, cgroups.ScopeName(id))
	}
	if err != nil {
		c.log.Warn("a failed unit may be left of the container", "task", s.ID, "container", s.Task.Containers[i].Name, "error", err)
	}
}

// limits are the limits that the task's slice gets here.
func (c *Slices) limits(ctx context.Context, s lifecycle.State) (cgroups.Limits, error) {
	facts, err := c.facts.Get(ctx)
	if err != nil {
		return cgroups.Limits{}, err
	}
	curve := cgroups.CurveOf(facts.Runtime, facts.RuntimeVersion)
	return applicable(taskLimits(s.Task, s.Options.Quota, curve), s.Options), nil
}

// Change applies the quota of a state to its slice and reads it back. A
// task that has no slice yet gets it with the slice. Call it when the quota has
// been recorded.
func (c *Slices) Change(ctx context.Context, s lifecycle.State) error {
	if s.Sandbox.Slice == "" || s.Goal != lifecycle.Up {
		return nil
	}
	user, err := c.user.Get(ctx)
	if err != nil {
		return err
	}
	l, err := c.limits(ctx, s)
	if err != nil {
		return err
	}
	if err := user.Change(ctx, s.Sandbox.Slice, l); err != nil {
		return err
	}
	return user.ReadBack(ctx, s.Sandbox.Slice, l)
}

// CheckLimits says why the quota cannot be applied to the task here, or is more than this
// host has; nothing has been changed then.
func (p *Preflight) CheckLimits(s lifecycle.State, q lifecycle.Quota) error {
	if err := checkQuota(s.Task, q); err != nil {
		return err
	}
	if s.Options.Limits == LimitsOff {
		return errors.New("it runs with --limits off: run it again with limits")
	}
	wanted := s
	wanted.Options.Quota = q
	if err := p.queue.Budget().Refuse(wanted.Need()); err != nil {
		return err
	}
	host := cgroups.Detect(hostRoot, os.Getuid(), p.getenv)
	asked := changed(s.Options.Quota, q)
	if missing := host.Missing(asked); len(missing) > 0 {
		return fmt.Errorf("this host cannot apply %s limits: %s", strings.Join(missing, ", "), host.ReasonFor(asked))
	}
	return nil
}

// changed are the limits that q sets anew: what a task does without already is
// no reason to refuse it others.
func changed(old, q lifecycle.Quota) (l cgroups.Limits) {
	if q.CPU != old.CPU {
		l.CPU = q.CPU
	}
	if q.Memory != old.Memory {
		l.Memory = q.Memory
	}
	if q.TasksMax != old.TasksMax {
		l.TasksMax = q.TasksMax
	}
	if q.IOWeight != old.IOWeight {
		l.IOWeight = q.IOWeight
	}
	return l
}
