package task

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/define/adjust"
	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/podtask/podtask/internal/engine/act/preflight"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// UpdateCommand is `podtask update`.
func UpdateCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "update",
		Usage:     "change the limits of running tasks",
		ArgsUsage: "TASK ...",
		Description: `The limits apply to all containers of a task together. Limits that are not given stay
unchanged; 0 restores the value of the definition. They are read back from the kernel and
apply until the task stops, also under another owner.

If the limit is less than the memory in use, the kernel reclaims memory and may then kill
processes.

Examples:
  podtask update --memory 1g web
  podtask update --cpus 0.5 --pids-limit 200 web`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "memory", Aliases: []string{"m"}, Usage: "all containers together may use `SIZE`: 512m, 2g"},
			&cli.StringFlag{Name: "cpus", Usage: "`NUMBER` of CPUs, such as 1.5"},
			&cli.StringFlag{Name: "pids-limit", Usage: "at most `NUMBER` processes and threads"},
			&cli.StringFlag{Name: "io-weight", Usage: "give the task `WEIGHT` 1 to 10000 where disks are contended; others have 100"},
		},
		Action: command.WithMachine(p, newUpdate),
	}
}

type updateOptions struct {
	selection command.Selection
	owners    *connect.Connector
	tasks     *record.Tasks
	slices    *limits.Slices
	preflight *preflight.Checker
}

func newUpdate(m *command.Machine) updateOptions {
	return updateOptions{
		selection: m.Selection(),
		owners:    m.Connector,
		tasks:     m.Engine.Tasks,
		slices:    m.Engine.Slices,
		preflight: m.Engine.Preflight,
	}
}

// Run implements command.Runner.
func (o updateOptions) Run(ctx context.Context, c *cli.Context) error {
	change, err := parseChange(c)
	if err != nil {
		return err
	}
	return o.selection.ForEach(c, nil, func(st lifecycle.State, _ *console.Progress) error {
		q := change(st.Options.Quota)
		if err := o.preflight.CheckLimits(st, q); err != nil {
			return fmt.Errorf("update %s: %w", lifecycle.ShortID(st.ID), err)
		}
		wanted := st
		wanted.Options.Quota = q
		err := o.owners.Ask(ctx, st.ID,
			func(r *connect.Task) error { return r.Update(ctx, q) },
			func(t api.Task) (bool, error) { return hasQuota(t, wanted.Quota()), nil })
		if err != nil {
			return err
		}
		return o.changeSlice(ctx, st.ID)
	})
}

// changeSlice sets the recorded limits of a task on its slice. The owner of the task may set the previous
// limits at the same time: then they are set again.
func (o updateOptions) changeSlice(ctx context.Context, id string) error {
	const attempts, pause = 4, 250 * time.Millisecond
	for i := 1; ; i++ {
		// The task may have been given its slice meanwhile.
		st, err := o.tasks.Find(id)
		if err != nil {
			return err
		}
		err = o.slices.Change(ctx, st)
		if i == attempts || !errors.As(err, new(*cgroups.NotAppliedError)) {
			return err
		}
		if !sleep.For(ctx, pause) {
			return context.Cause(ctx)
		}
	}
}

// hasQuota reports whether the limits are recorded.
func hasQuota(t api.Task, q lifecycle.Quota) bool {
	return t.CPU == q.CPU && t.Memory == q.Memory && t.TasksMax == q.TasksMax && t.IOWeight == q.IOWeight
}

// parseChange returns the change of a quota that the flags describe.
func parseChange(c *cli.Context) (func(lifecycle.Quota) lifecycle.Quota, error) {
	var to lifecycle.Quota
	var err error
	given := false
	for _, f := range []struct {
		name, takes string
		parse       func(string) error
	}{
		{"memory", "a size of 6m or more such as 512m", func(v string) (err error) { to.Memory, err = parseMemory(v); return err }},
		{"cpus", "a number of CPUs such as 1.5", func(v string) (err error) { to.CPU, err = strconv.ParseFloat(v, 64); return err }},
		{"pids-limit", "a number of processes such as 200", func(v string) (err error) { to.TasksMax, err = strconv.ParseUint(v, 10, 64); return err }},
		{"io-weight", "a share from 1 to 10000 such as 50", func(v string) (err error) { to.IOWeight, err = strconv.ParseUint(v, 10, 64); return err }},
	} {
		if !c.IsSet(f.name) {
			continue
		}
		given = true
		if err = f.parse(c.String(f.name)); err != nil {
			return nil, command.Usagef("update", "--%s is %s, or 0 for what the definition says, not %q", f.name, f.takes, c.String(f.name))
		}
	}
	if !given {
		return nil, command.Usagef("update", "nothing to change: give --memory, --cpus, --pids-limit or --io-weight")
	}
	return func(q lifecycle.Quota) lifecycle.Quota {
		if c.IsSet("memory") {
			q.Memory = to.Memory
		}
		if c.IsSet("cpus") {
			q.CPU = to.CPU
		}
		if c.IsSet("pids-limit") {
			q.TasksMax = to.TasksMax
		}
		if c.IsSet("io-weight") {
			q.IOWeight = to.IOWeight
		}
		return q
	}, nil
}

// parseMemory parses a memory limit; 0 stands for the limit of the definition.
func parseMemory(word string) (int64, error) {
	n, err := adjust.ParseSize(word)
	if err == nil && n != 0 && n < minTaskMemory {
		err = fmt.Errorf("%s is less than 6m", word)
	}
	return n, err
}

// minTaskMemory is the minimum of a definition, as in ECS.
const minTaskMemory = 6 << 20
