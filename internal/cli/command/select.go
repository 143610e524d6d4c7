package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// IsRunning reports whether a task has not stopped.
func IsRunning(st lifecycle.State) bool { return st.Status() != lifecycle.StatusStopped }

// Grace is the grace period of --time: how long a task has to stop before it is killed.
type Grace struct {
	Given bool
	limit time.Duration
}

// TimeFlag returns --time, which ParseGrace parses.
func TimeFlag() cli.Flag {
	return &cli.StringFlag{Name: "time", Aliases: []string{"t"}, Usage: "kill a task that has not stopped after `SECONDS`; 0 kills at once", DefaultText: "the stopTimeout of each container"}
}

// ParseGrace parses --time.
func ParseGrace(c *cli.Context) (Grace, error) {
	text := c.String("time")
	if text == "" {
		return Grace{}, nil
	}
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return Grace{true, time.Duration(n) * time.Second}, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return Grace{}, Usagef(Path(c), "--time %s: it is a number of seconds, or a duration such as 1m", text)
	}
	return Grace{true, d}, nil
}

// Stop stops a task through its owner, and kills it when the time has passed.
func (g Grace) Stop(ctx context.Context, owners *connect.Connector, st lifecycle.State, by string, show *console.Progress) error {
	kill := g.Given && g.limit == 0
	switch {
	case !IsRunning(st):
		return nil
	case !kill && st.Sandbox.Dirty:
		bound := st.Task.StopBound()
		if g.Given {
			bound = min(bound, g.limit)
		}
		show.AddStep(fmt.Sprintf("task %s: stopping, within %s; `podtask stop --time 0 %s` kills it", lifecycle.ShortID(st.ID), bound, st.DisplayName()))
	}
	if kill || !g.Given {
		return owners.StopTask(ctx, st.ID, by, kill, show.Show)
	}
	limited, cancel := context.WithTimeout(ctx, g.limit)
	defer cancel()
	if err := owners.StopTask(limited, st.ID, by, false, show.Show); err == nil || limited.Err() == nil || ctx.Err() != nil {
		return err
	}
	return owners.StopTask(ctx, st.ID, by, true, show.Show)
}

// Selection finds the tasks that a command line names or filters, and acts on them.
type Selection struct {
	Tasks    *record.Tasks
	Owners   *connect.Connector
	Out, Err io.Writer // IDs, and progress
	Getenv   func(string) string
}

// Selection returns the selection of this host's tasks.
func (m *Machine) Selection() Selection {
	p := m.Program
	return Selection{Tasks: m.Engine.Tasks, Owners: m.Connector, Out: p.Stdout, Err: p.Stderr, Getenv: p.Getenv}
}

// ForEach calls do for the selected tasks concurrently, and prints the ID of each for which it succeeds. With
// --all or --filter, only tasks that fit are selected.
func (s Selection) ForEach(c *cli.Context, fits func(lifecycle.State) bool, do func(lifecycle.State, *console.Progress) error) error {
	return s.Replace(c, fits, func(st lifecycle.State, show *console.Progress) (string, error) { return st.ID, do(st, show) })
}

// Replace is ForEach for commands that replace tasks: do returns the ID of the new task, which is printed.
func (s Selection) Replace(c *cli.Context, fits func(lifecycle.State) bool, do func(lifecycle.State, *console.Progress) (string, error)) error {
	states, errs := s.Select(c, fits)
	if states == nil && errs == nil && !IsFiltered(c) && !c.Args().Present() {
		return Usagef(Path(c), "no TASK to %s", Path(c))
	}
	return errors.Join(append(errs, s.Concurrently(states, do))...)
}

// Concurrently calls do for the tasks concurrently and prints the IDs that it returns.
func (s Selection) Concurrently(states []lifecycle.State, do func(lifecycle.State, *console.Progress) (string, error)) error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex // guards errs and the outputs
		errs []error
	)
	stderr := console.TerminalWriter{To: s.Err, Writer: console.WriterFunc(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return s.Err.Write(b)
	})}
	for _, st := range states {
		wg.Go(func() {
			show := console.NewProgress(stderr, console.ColorsFor(s.Err, s.Getenv), time.Now(), LastSeq(st))
			if len(states) > 1 {
				show = show.Of(st.DisplayName())
			}
			id, err := do(st, show)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			fmt.Fprintln(s.Out, id)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// IsFiltered reports whether tasks are selected by --all or --filter instead of by name.
func IsFiltered(c *cli.Context) bool { return c.Bool("all") || len(c.StringSlice("filter")) > 0 }

// Select returns the tasks that the command line names, each once, or with --all or --filter those
// that fit.
func (s Selection) Select(c *cli.Context, fits func(lifecycle.State) bool) (states []lifecycle.State, errs []error) {
	if IsFiltered(c) {
		if c.Args().Present() {
			return nil, []error{Usagef(Path(c), "--all or --filter and a TASK exclude each other")}
		}
		wanted, err := ParseTaskFilters(c)
		if err != nil {
			return nil, []error{err}
		}
		all, bad := s.Tasks.States()
		for _, st := range all {
			if fits(st) && wanted.Match(FilterValues(s.Owners.FromState(st))) {
				states = append(states, st)
			}
		}
		return states, bad
	}
	seen := map[string]bool{}
	for _, ref := range c.Args().Slice() {
		st, err := s.Tasks.Find(ref)
		switch {
		case err == nil && !seen[st.ID]:
			seen[st.ID] = true
			states = append(states, st)
		case err != nil && !(c.Bool("ignore") && connect.IsGone(err)):
			errs = append(errs, err)
		}
	}
	return states, errs
}

// LastSeq returns the number of the last recorded transition of a task.
func LastSeq(st lifecycle.State) uint64 {
	if n := len(st.History); n > 0 {
		return st.History[n-1].Seq
	}
	return 0
}
