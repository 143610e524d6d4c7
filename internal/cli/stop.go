package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

func stopCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "stop",
		Usage:     "stop tasks and wait until they have stopped",
		ArgsUsage: "TASK ...",
		Description: `Containers stop in the reverse order of their dependencies, each with the stopTimeout of
its definition between SIGTERM and SIGKILL. --time shortens this: it limits the whole task.
Containers and logs are kept until the task is removed. Prints the IDs of the tasks.

Examples:
  podtask stop web
  podtask stop --time 0 web     # kill
  podtask stop -t 10 web db     # kill those that have not stopped after ten seconds
  podtask stop --filter family=batch
  podtask stop --all`,
		Flags: append([]cli.Flag{
			timeFlag(),
		}, manyTasksFlags("stop", "stop all tasks")...),
		Action: p.withHost(stop),
	}
}

func stop(ctx context.Context, s *session, c *cli.Context) error {
	limit, err := parseGrace(c)
	if err != nil {
		return err
	}
	return s.forEach(c, isRunning, func(st lifecycle.State, show *console.Progress) error {
		return limit.stop(ctx, s, st, "podtask stop", show)
	})
}

func killCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:        "kill",
		Usage:       "kill tasks, as stop --time 0",
		ArgsUsage:   "TASK ...",
		Description: "Prints the IDs of the tasks.\n\nExamples:\n  podtask kill web",
		Flags:       manyTasksFlags("kill", "kill all tasks"),
		Action: p.withHost(func(ctx context.Context, s *session, c *cli.Context) error {
			return s.forEach(c, isRunning, func(st lifecycle.State, show *console.Progress) error {
				return grace{given: true}.stop(ctx, s, st, "podtask kill", show)
			})
		}),
	}
}

func isRunning(st lifecycle.State) bool { return st.Status() != lifecycle.StatusStopped }

// grace is how long a task has to stop before it is killed, if that was given.
type grace struct {
	given bool
	limit time.Duration
}

func timeFlag() cli.Flag {
	return &cli.StringFlag{Name: "time", Aliases: []string{"t"}, Usage: "kill a task that has not stopped after `SECONDS`; 0 kills at once", DefaultText: "the stopTimeout of each container"}
}

func parseGrace(c *cli.Context) (grace, error) {
	text := c.String("time")
	if text == "" {
		return grace{}, nil
	}
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return grace{true, time.Duration(n) * time.Second}, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return grace{}, usagef(commandPath(c), "--time %s: it is a number of seconds, or a duration such as 1m", text)
	}
	return grace{true, d}, nil
}

// stop stops a task, and kills it after the time that was given.
func (g grace) stop(ctx context.Context, s *session, st lifecycle.State, by string, show *console.Progress) error {
	kill := g.given && g.limit == 0
	switch {
	case !isRunning(st):
		return nil
	case !kill && st.Sandbox.Dirty:
		bound := st.Task.StopBound()
		if g.given {
			bound = min(bound, g.limit)
		}
		show.AddStep(fmt.Sprintf("task %s: stopping, within %s; `podtask stop --time 0 %s` kills it", lifecycle.ShortID(st.ID), bound, st.DisplayName()))
	}
	if kill || !g.given {
		return s.StopTask(ctx, st.ID, by, kill, show.Show)
	}
	limited, cancel := context.WithTimeout(ctx, g.limit)
	defer cancel()
	if err := s.StopTask(limited, st.ID, by, false, show.Show); err == nil || limited.Err() == nil || ctx.Err() != nil {
		return err
	}
	return s.StopTask(ctx, st.ID, by, true, show.Show)
}

// forEach does something to the tasks named on the line, all at the same time, or
// with --all to those that fit. It prints the id of each that went well.
func (s *session) forEach(c *cli.Context, fits func(lifecycle.State) bool, do func(lifecycle.State, *console.Progress) error) error {
	return s.exchange(c, fits, func(st lifecycle.State, show *console.Progress) (string, error) { return st.ID, do(st, show) })
}

// exchange is forEach for what makes new tasks: it prints the ids that do returns.
func (s *session) exchange(c *cli.Context, fits func(lifecycle.State) bool, do func(lifecycle.State, *console.Progress) (string, error)) error {
	states, errs := s.named(c, fits)
	if states == nil && errs == nil && !ofMany(c) && !c.Args().Present() {
		return usagef(commandPath(c), "no TASK to %s", commandPath(c))
	}
	return errors.Join(append(errs, s.sideBySide(states, do))...)
}

// sideBySide does something to tasks at the same time and prints the ids that do returns.
func (s *session) sideBySide(states []lifecycle.State, do func(lifecycle.State, *console.Progress) (string, error)) error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex // guards errs and the outputs
		errs []error
	)
	stderr := console.Via{To: s.stderr, Writer: console.WriterFunc(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return s.stderr.Write(b)
	})}
	for _, st := range states {
		wg.Go(func() {
			id, err := do(st, console.NewProgress(stderr, console.ColorsFor(s.stderr, s.getenv), time.Now(), lastSeq(st)))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			fmt.Fprintln(s.stdout, id)
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
		all, bad := s.Engine.Tasks.States()
		for _, st := range all {
			if fits(st) && wanted.match(filterable(s.FromState(st))) {
				states = append(states, st)
			}
		}
		return states, bad
	}
	seen := map[string]bool{}
	for _, ref := range c.Args().Slice() {
		st, err := s.Engine.Tasks.Find(ref)
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
