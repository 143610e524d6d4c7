package run

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/facts/record"
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
		Unit:       supervise.Unit{Name: r.name, Ready: r.unit.ready, Settle: r.unit.settle, Remove: r.remove, Options: r.options},
		Definition: u, Display: u, Host: r.owners, Images: r.images,
		StateDir: r.owners.StateDir, Signals: signals, Log: r.log, Warn: r.warn, Report: r.report,
	}).Run(ctx, early)
	if err != nil {
		return r.ofDocument(err)
	}
	return command.ExitWith(code)
}

// report adds to the event log how an update of the unit went.
func (r taskRun) report(status, reason string) {
	t := lifecycle.Transition{At: time.Now().UTC(), Status: status, Reason: reason}
	if err := r.events.Report(context.Background(), record.UnitUpdate, r.name, "", t); err != nil {
		r.warn("%v", err)
	}
}

// unitTask reads and shows the task of a unit: a supervise.Definition and supervise.Display.
type unitTask struct{ taskRun }

// Launch implements supervise.Definition.
func (u unitTask) Launch(ctx context.Context) (connect.Launch, error) {
	task, err := u.read(ctx)
	return u.launch(task), err
}

// Reload implements supervise.Definition.
func (u unitTask) Reload(ctx context.Context) (taskdef.Task, error) {
	task, err := u.define(ctx)
	if errors.As(err, new(command.ExitStatus)) {
		err = errors.New("the definition is no longer valid") // the log has the findings
	}
	return task, err
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
func (u unitTask) CopyLogs(ctx context.Context, st lifecycle.State) (missing string) {
	printer := console.NewLogPrinter(u.out, u.errOut, st, u.getenv).WithPrefix()
	err := u.logs.Read(ctx, st, "", observe.LogOptions{Follow: true, Tail: -1}, printer.Line)
	var lost *observe.IncompleteError
	switch {
	case errors.As(err, &lost):
		u.warn("%v", err)
		return lost.Brief()
	case err != nil && ctx.Err() == nil:
		u.warn("the logs end here: %v; `podtask logs %s` shows them", err, st.DisplayName())
	}
	return ""
}
