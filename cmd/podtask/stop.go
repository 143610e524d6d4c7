package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/console"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

func stopCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "stop",
		Usage:     "stop tasks and wait until they have stopped",
		ArgsUsage: "TASK ...",
		Description: `Containers stop in the reverse order of their dependencies, each with the
stopTimeout of its definition between SIGTERM and SIGKILL. Containers and logs are
kept until the task is removed. Prints the IDs of the tasks.

Examples:
  podtask stop web
  podtask stop --time 0 web    # kill
  podtask stop --filter family=batch
  podtask stop --all`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "time", Aliases: []string{"t"}, Usage: "0 kills at once; other times are set in the definition (stopTimeout)"},
		}, manyTasksFlags("stop", "stop all tasks")...),
		Action: p.withHost(stop),
	}
}

func stop(ctx context.Context, s *session, c *cli.Context) error {
	grace := c.String("time")
	if grace != "" && grace != "0" {
		return usagef("stop", "--time %s: only 0, kill at once, can be asked for; the time each container has is its stopTimeout in the task definition", grace)
	}
	return s.forEach(c, func(st lifecycle.State) bool { return st.Status() != lifecycle.StatusStopped }, func(st lifecycle.State, show *console.Progress) error {
		if st.Status() == lifecycle.StatusStopped {
			return nil
		}
		if grace != "0" && st.Sandbox.Dirty {
			show.AddStep(fmt.Sprintf("task %s: stopping, within %s; `podtask stop --time 0 %s` kills it", console.ShortID(st.ID), st.Task.StopBound(), connect.NameOf(st)))
		}
		return s.StopTask(ctx, st.ID, "podtask stop", grace == "0", show.Show)
	})
}

// forEach does something to the tasks named on the line, all at the same time, or
// with --all to those that fit. It prints the id of each that went well.
func (s *session) forEach(c *cli.Context, fits func(lifecycle.State) bool, do func(lifecycle.State, *console.Progress) error) error {
	states, errs := s.named(c, fits)
	if states == nil && errs == nil && !ofMany(c) && !c.Args().Present() {
		return usagef(commandPath(c), "no TASK to %s", commandPath(c))
	}
	return errors.Join(append(errs, s.sideBySide(states, do))...)
}

// sideBySide does something to tasks at the same time and prints the id of each that
// went well.
func (s *session) sideBySide(states []lifecycle.State, do func(lifecycle.State, *console.Progress) error) error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex // guards errs and the outputs
		errs []error
	)
	stderr := console.WriterFunc(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return s.stderr.Write(b)
	})
	for _, st := range states {
		wg.Go(func() {
			err := do(st, console.NewProgress(stderr, console.ColorsFor(s.stderr, s.getenv), time.Now(), lastSeq(st)))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			fmt.Fprintln(s.stdout, st.ID)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// ofMany reports whether tasks are chosen by what they are, and not by name.
func ofMany(c *cli.Context) bool { return c.Bool("all") || len(c.StringSlice("filter")) > 0 }

// named finds the tasks of the line, each once; with --all or --filter those that fit.
func (s *session) named(c *cli.Context, fits func(lifecycle.State) bool) (states []lifecycle.State, errs []error) {
	if ofMany(c) {
		if c.Args().Present() {
			return nil, []error{usagef(commandPath(c), "--all or --filter and a TASK exclude each other")}
		}
		wanted, err := parseTaskFilters(c)
		if err != nil {
			return nil, []error{err}
		}
		all, bad := s.Agent.Tasks.States()
		for _, st := range all {
			if fits(st) && wanted.match(filterable(s.FromState(st))) {
				states = append(states, st)
			}
		}
		return states, bad
	}
	seen := map[string]bool{}
	for _, ref := range c.Args().Slice() {
		st, err := s.Agent.Tasks.Find(ref)
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

// lastSeq is the number of the last transition that is recorded.
func lastSeq(st lifecycle.State) uint64 {
	if n := len(st.History); n > 0 {
		return st.History[n-1].Seq
	}
	return 0
}
