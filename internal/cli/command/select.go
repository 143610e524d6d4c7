package command

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

func IsRunning(st lifecycle.State) bool { return st.Status() != lifecycle.StatusStopped }

// Grace is how long a task has to stop before it is killed, if that was given.
type Grace struct {
	Given bool
	limit time.Duration
}

func TimeFlag() cli.Flag {
	return &cli.StringFlag{Name: "time", Aliases: []string{"t"}, Usage: "kill a task that has not stopped after `SECONDS`; 0 kills at once", DefaultText: "the stopTimeout of each container"}
}

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
		return Grace{}, Usagef(CommandPath(c), "--time %s: it is a number of seconds, or a duration such as 1m", text)
	}
	return Grace{true, d}, nil
}

// Stop stops a task, and kills it after the time that was given.
func (g Grace) Stop(ctx context.Context, s *Machine, st lifecycle.State, by string, show *console.Progress) error {
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
		return s.Connector.StopTask(ctx, st.ID, by, kill, show.Show)
	}
	limited, cancel := context.WithTimeout(ctx, g.limit)
	defer cancel()
	if err := s.Connector.StopTask(limited, st.ID, by, false, show.Show); err == nil || limited.Err() == nil || ctx.Err() != nil {
		return err
	}
	return s.Connector.StopTask(ctx, st.ID, by, true, show.Show)
}

// ForEach does something to the tasks named on the line, all at the same time, or
// with --all to those that fit. It prints the id of each that went well.
func (s *Machine) ForEach(c *cli.Context, fits func(lifecycle.State) bool, do func(lifecycle.State, *console.Progress) error) error {
	return s.Exchange(c, fits, func(st lifecycle.State, show *console.Progress) (string, error) { return st.ID, do(st, show) })
}

// Exchange is forEach for what makes new tasks: it prints the ids that do returns.
func (s *Machine) Exchange(c *cli.Context, fits func(lifecycle.State) bool, do func(lifecycle.State, *console.Progress) (string, error)) error {
	states, errs := s.Named(c, fits)
	if states == nil && errs == nil && !OfMany(c) && !c.Args().Present() {
		return Usagef(CommandPath(c), "no TASK to %s", CommandPath(c))
	}
	return errors.Join(append(errs, s.SideBySide(states, do))...)
}

// SideBySide does something to tasks at the same time and prints the ids that do returns.
func (s *Machine) SideBySide(states []lifecycle.State, do func(lifecycle.State, *console.Progress) (string, error)) error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex // guards errs and the outputs
		errs []error
	)
	stderr := console.Via{To: s.Program.Stderr, Writer: console.WriterFunc(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return s.Program.Stderr.Write(b)
	})}
	for _, st := range states {
		wg.Go(func() {
			id, err := do(st, console.NewProgress(stderr, console.ColorsFor(s.Program.Stderr, s.Program.Getenv), time.Now(), LastSeq(st)))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			fmt.Fprintln(s.Program.Stdout, id)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// OfMany reports whether tasks are chosen by what they are, and not by name.
func OfMany(c *cli.Context) bool { return c.Bool("all") || len(c.StringSlice("filter")) > 0 }

// Named finds the tasks of the line, each once; with --all or --filter those that fit.
func (s *Machine) Named(c *cli.Context, fits func(lifecycle.State) bool) (states []lifecycle.State, errs []error) {
	if OfMany(c) {
		if c.Args().Present() {
			return nil, []error{Usagef(CommandPath(c), "--all or --filter and a TASK exclude each other")}
		}
		wanted, err := ParseTaskFilters(c)
		if err != nil {
			return nil, []error{err}
		}
		all, bad := s.Engine.Tasks.States()
		for _, st := range all {
			if fits(st) && wanted.Match(Filterable(s.Connector.FromState(st))) {
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

// LastSeq is the number of the last transition that is recorded.
func LastSeq(st lifecycle.State) uint64 {
	if n := len(st.History); n > 0 {
		return st.History[n-1].Seq
	}
	return 0
}
