package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/unit/supervise"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// supervise is `podtask run --notify`. Early ends with the first signal before the task is created.
func (r taskRun) supervise(ctx, early context.Context) error {
	signals := make(chan os.Signal, 8)
	r.notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	u := unitTask{r}
	code, err := supervise.New(supervise.Config{
		Unit:   supervise.Unit{Name: r.name, Ready: r.unit.ready, Settle: r.unit.settle, Remove: r.remove, Options: r.options},
		Source: u, Display: u, Host: r.owners, Images: r.images,
		StateDir: r.owners.StateDir, Signals: signals, Log: r.log, Warn: r.warn,
	}).Run(ctx, early)
	if err != nil {
		return err
	}
	return command.ExitWith(code)
}

// unitTask reads, creates and shows the task of a unit: a supervise.Source and
// supervise.Display.
type unitTask struct{ taskRun }

// Prepare implements supervise.Source.
func (u unitTask) Prepare(ctx context.Context) (taskdef.Task, error) {
	task, err := u.read(ctx)
	if err == nil {
		err = u.check(ctx, task)
	}
	return task, err
}

// Reload implements supervise.Source.
func (u unitTask) Reload(ctx context.Context) (taskdef.Task, error) {
	task, err := u.define(ctx)
	if errors.As(err, new(command.ExitStatus)) {
		err = errors.New("the definition is no longer valid") // the log has the findings
	}
	return task, err
}

// Create implements supervise.Source.
func (u unitTask) Create(ctx context.Context, task taskdef.Task) (*owner.Owner, error) {
	return u.create(ctx, record.NewID(), task)
}

// Progress implements supervise.Display.
func (u unitTask) Progress() func(api.Task) {
	if u.display.quiet {
		return func(api.Task) {}
	}
	out := u.errOut
	return console.NewProgress(out, console.ColorsFor(out, u.getenv), time.Now(), 0).Show
}

// CopyLogs implements supervise.Display.
func (u unitTask) CopyLogs(ctx context.Context, st lifecycle.State) {
	printer := console.NewLogPrinter(u.out, u.errOut, st, u.getenv).WithPrefix()
	err := u.logs.Read(ctx, st, "", observe.LogOptions{Follow: true, Tail: -1}, printer.Line)
	var lost *observe.IncompleteError
	switch {
	case errors.As(err, &lost):
		u.warn("%v", err)
	case err != nil && ctx.Err() == nil:
		u.warn("the logs end here: %v; `podtask logs %s` shows them", err, st.DisplayName())
	}
}

// removeReplaced stops and removes the tasks of the same name.
func (r taskRun) removeReplaced(ctx context.Context) error {
	states, _ := r.tasks.States()
	for _, st := range states {
		if st.Name != r.name {
			continue
		}
		if st.Status() != lifecycle.StatusStopped {
			fmt.Fprintf(r.errOut, "replacing task %s (%s)\n", lifecycle.ShortID(st.ID), r.name)
			if err := r.owners.StopTask(ctx, st.ID, "podtask run --replace", false, func(api.Task) {}); err != nil {
				return fmt.Errorf("stop the task that is to be replaced: %w", err)
			}
		}
		if err := r.owners.Remove(ctx, st.ID, "podtask run --replace", true, func(api.Task) {}); err != nil {
			return fmt.Errorf("remove the task that is to be replaced: %w", err)
		}
	}
	return nil
}
