package limits

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Slices are the systemd slices of tasks, with their limits.
type Slices struct {
	Log   *slog.Logger
	Root  fs.FS // the host's files
	User  *conn.UserManager
	Facts *conn.Facts
	// Getenv reads the environment.
	Getenv func(string) string
}

// Here returns a state without the implicit shares of containers if this host no longer
// has the cpu controller that the shares need. The task did not ask for them, so it runs
// without.
func (c *Slices) Here(s lifecycle.State) lifecycle.State {
	if s.Options.Quota.ImplicitShares && !slices.Contains(cgroups.Detect(c.Root, os.Getuid(), c.Getenv).Controllers, "cpu") {
		s.Options.Quota.ImplicitShares = false
	}
	return s
}

// Ensure makes the task's slice and reads its limits back from the kernel.
// Without a user manager, or when Podman does not use it, there is no slice.
func (c *Slices) Ensure(ctx context.Context, s lifecycle.State) (string, error) {
	user, err := c.User.Get(ctx)
	if err != nil {
		c.Log.Info("no slice for the task", "task", s.ID, "reason", err)
		return "", nil
	}
	host, err := c.Facts.Get(ctx)
	if err != nil {
		return "", err
	}
	if host.CgroupManager != "systemd" {
		return "", nil
	}
	name, err := cgroups.SliceName(s.ID)
	if err != nil {
		return "", err
	}
	l, err := c.limits(ctx, s)
	if err != nil {
		return "", err
	}
	if err := user.EnsureSlice(ctx, name, l); err != nil {
		return "", err
	}
	return name, user.ReadBack(ctx, name, l)
}

// SliceGroup is where the task's slice lies in the cgroup tree; empty for a task
// without one.
func SliceGroup(s lifecycle.State) string {
	if s.Sandbox.Slice == "" {
		return ""
	}
	return cgroups.Path(os.Getuid(), s.Sandbox.Slice)
}

// MemoryUse is what the slice says about memory; zero where it says nothing.
func (c *Slices) MemoryUse(s lifecycle.State) lifecycle.MemoryUse {
	group := SliceGroup(s)
	if group == "" {
		return lifecycle.MemoryUse{}
	}
	u, err := cgroups.ReadUsage(c.Root, group)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.Log.Warn("the slice does not tell its use of memory", "task", s.ID, "error", err)
	}
	if u.Memory == nil {
		return lifecycle.MemoryUse{}
	}
	return lifecycle.MemoryUse{Kills: u.Memory.Kills, Full: u.Memory.Full, Peak: int64(u.Memory.Peak), Limit: int64(u.Memory.Limit)}
}

// NotApplied reads the hard limits of a container that runs back from the kernel.
// The result is the zero value when it has those it should, and when that cannot
// be told: no slice, or a container that ended just now.
func (c *Slices) NotApplied(s lifecycle.State, i int, id string) lifecycle.Failure {
	group := SliceGroup(s)
	def := s.Task.Containers[i]
	l := taskspec.Applicable(cgroups.Limits{CPU: def.Extensions.CPULimit, Memory: def.Memory}, s.Options)
	if group == "" || len(l.Controllers()) == 0 {
		return lifecycle.Failure{}
	}
	scope, found := cgroups.Scopes(c.Root, group)[id]
	if !found {
		return lifecycle.Failure{}
	}
	bad := cgroups.CheckContainer(c.Root, scope, l)
	if len(bad) == 0 || cgroups.Process(c.Root, scope) == 0 {
		return lifecycle.Failure{}
	}
	err := &cgroups.NotAppliedError{Unit: "container " + def.Name, Mismatches: bad}
	return lifecycle.Failure{Class: lifecycle.Permanent, Name: lifecycle.ErrLimitsNotApplied, Message: err.Error()}
}

// CorrectSwap gives a container that runs the swap that its definition says, if its OCI
// runtime gave it more: crun 1.21 adds the memory. A container that ended just now has none.
func (c *Slices) CorrectSwap(ctx context.Context, s lifecycle.State, i int, id string) {
	group, swap := SliceGroup(s), s.Task.Containers[i].Linux.MaxSwap
	l := taskspec.Applicable(cgroups.Limits{Memory: s.Task.Containers[i].Memory}, s.Options)
	if group == "" || swap == nil || l.Memory == 0 {
		return
	}
	scope, found := cgroups.Scopes(c.Root, group)[id]
	if !found {
		return
	}
	want := strconv.FormatInt(*swap, 10)
	if have, ok := cgroups.SwapLimit(c.Root, scope); !ok || have == want {
		return
	}
	user, err := c.User.Get(ctx)
	if err == nil {
		err = cgroups.LimitSwap(ctx, user, path.Base(scope), uint64(*swap))
	}
	have, ok := cgroups.SwapLimit(c.Root, scope)
	if ok && have != want && cgroups.Process(c.Root, scope) != 0 {
		c.Log.Warn("the container may use more swap than its maxSwap", "task", s.ID, "container", s.Task.Containers[i].Name, "have", have, "want", want, "error", err)
	}
}

// ResetScope makes systemd forget that an earlier run of the container failed:
// one that was killed for memory may leave a failed unit behind, with which the
// next start would collide. It is no reason not to try the start.
func (c *Slices) ResetScope(ctx context.Context, s lifecycle.State, i int) {
	id := s.Containers[i].ID
	if s.Sandbox.Slice == "" || id == "" {
		return
	}
	user, err := c.User.Get(ctx)
	if err == nil {
		err = user.ResetFailed(ctx, cgroups.ScopeName(id))
	}
	if err != nil {
		c.Log.Warn("a failed unit may be left of the container", "task", s.ID, "container", s.Task.Containers[i].Name, "error", err)
	}
}

// limits are the limits that the task's slice gets here.
func (c *Slices) limits(ctx context.Context, s lifecycle.State) (cgroups.Limits, error) {
	facts, err := c.Facts.Get(ctx)
	if err != nil {
		return cgroups.Limits{}, err
	}
	s = c.Here(s)
	curve := cgroups.CurveOf(facts.Runtime, facts.RuntimeVersion)
	return taskspec.Applicable(taskspec.TaskLimits(s.Task, s.Options.Quota, curve), s.Options), nil
}

// ApplyResources gives a container that runs the limits of its definition if they were changed since
// the task was created: Podman starts it with those that it was created with. A container that ended just
// now has none. NotApplied reads them back.
func (c *Slices) ApplyResources(ctx context.Context, s lifecycle.State, i int, id string) error {
	group := SliceGroup(s)
	if s.Resizes == 0 || group == "" {
		return nil
	}
	scope, found := cgroups.Scopes(c.Root, group)[id]
	if !found {
		return nil
	}
	c.setOOMScore(ctx, s, i, scope)
	user, err := c.User.Get(ctx)
	if err != nil {
		return err
	}
	facts, err := c.Facts.Get(ctx)
	if err != nil {
		return err
	}
	l := taskspec.ContainerLimits(c.Here(s), i, cgroups.CurveOf(facts.Runtime, facts.RuntimeVersion))
	if len(l.Controllers()) == 0 && s.Options.Limits == Off {
		return nil
	}
	err = cgroups.LimitContainer(ctx, user, scope, l)
	if cgroups.Process(c.Root, scope) == 0 {
		return nil
	}
	return err
}

// setOOMScore gives the processes of a container the oom_score_adj that goes with its changed resources, as far as this user may: not
// below the value of his session. Those of other users of the container are only reached from within Podman's user namespace.
func (c *Slices) setOOMScore(ctx context.Context, s lifecycle.State, i int, scope string) {
	want := s.Task.Containers[i].Extensions.Kube.OOMScoreAdj
	if want == 0 {
		return
	}
	if own, known := libpod.OOMScoreAdj(os.Getpid()); known {
		want = max(want, own)
	}
	var refused []string
	for _, pid := range cgroups.Processes(c.Root, scope) {
		file := fmt.Sprintf("/proc/%d/oom_score_adj", pid)
		if err := os.WriteFile(file, []byte(strconv.Itoa(want)), 0); errors.Is(err, fs.ErrPermission) {
			refused = append(refused, file)
		}
	}
	if len(refused) == 0 || os.Getuid() == 0 {
		return
	}
	cmd := exec.CommandContext(ctx, "podman", append([]string{"unshare", "tee"}, refused...)...)
	cmd.Stdin, cmd.Dir = strings.NewReader(strconv.Itoa(want)), "/"
	if out, err := cmd.CombinedOutput(); err != nil {
		c.Log.Info("processes keep the oom_score_adj that they had before their resources were changed", "task", s.ID, "container", s.Task.Containers[i].Name, "error", err, "output", string(out))
	}
}

// applyAll is ApplyResources for all containers that run, each of which is read back.
func (c *Slices) applyAll(ctx context.Context, s lifecycle.State) error {
	if s.Resizes == 0 {
		return nil
	}
	var errs []error
	for i, now := range s.Containers {
		if now.ID == "" || now.Ended || now.Presence != lifecycle.Running {
			continue
		}
		err := c.ApplyResources(ctx, s, i, now.ID)
		if f := c.NotApplied(s, i, now.ID); err == nil && f.Class != lifecycle.OK {
			err = errors.New(f.Message)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// CheckMemory returns an error if a container or the task uses more memory now than it may with these resources:
// the kernel would kill its processes. What a container uses that is restarted for them does not count.
func (c *Slices) CheckMemory(s lifecycle.State, r lifecycle.Resources) error {
	group := SliceGroup(s)
	if group == "" {
		return nil
	}
	used := func(group string) uint64 {
		u, _ := cgroups.ReadContainer(c.Root, group) // what cannot be read is not known
		if u.Memory == nil {
			return 0
		}
		return u.Memory.Used
	}
	var errs []error
	check := func(what string, was, to int64, used uint64) {
		if to != 0 && (was == 0 || to < was) && used > uint64(to) {
			errs = append(errs, fmt.Errorf("%s uses %d bytes of memory now, and the new limit is %d", what, used, to))
		}
	}
	scopes, whole := cgroups.Scopes(c.Root, group), used(group)
	for i, to := range r.Containers {
		scope, found := scopes[s.Containers[i].ID]
		switch {
		case !found:
		case slices.Contains(r.Restart, i):
			whole -= min(whole, used(scope))
		default:
			check("container "+s.Task.Containers[i].Name, s.Task.Containers[i].Memory, to.Memory, used(scope))
		}
	}
	check("the task", s.Task.Memory, r.Memory, whole)
	return errors.Join(errs...)
}

// Change applies the quota of a state to its slice and reads it back, and changed resources to its containers. A
// task that has no slice yet gets it with the slice, and one whose slice went with a restart of the host has
// ended. Call it when the quota has
// been recorded.
func (c *Slices) Change(ctx context.Context, s lifecycle.State) error {
	if s.Sandbox.Slice == "" || s.Goal != lifecycle.Up {
		return nil
	}
	user, err := c.User.Get(ctx)
	if err != nil {
		return err
	}
	l, err := c.limits(ctx, s)
	if err != nil {
		return err
	}
	if active, err := user.Change(ctx, s.Sandbox.Slice, l); err != nil || !active {
		return err
	}
	return errors.Join(user.ReadBack(ctx, s.Sandbox.Slice, l), c.applyAll(ctx, s))
}

// Remove removes the slice of the task with the id.
func (c *Slices) Remove(ctx context.Context, id string) error {
	user, err := c.User.Get(ctx)
	if err != nil {
		return nil // without a user manager no slice was made
	}
	slice, err := cgroups.SliceName(id)
	if err != nil {
		return err
	}
	return user.StopSlice(ctx, slice)
}
