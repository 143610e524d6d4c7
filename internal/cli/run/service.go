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
	"github.com/podtask/podtask/internal/engine/observe"
	"github.com/podtask/podtask/internal/engine/owner"
	"github.com/podtask/podtask/internal/unit/supervise"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// superviseUnit is `run --notify`. Early ends with the first signal before the task is
// created.
func superviseUnit(ctx, early context.Context, s *command.Machine, r request) error {
	signals := make(chan os.Signal, 8)
	s.Program.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	u := &unitTask{session: s, request: r}
	code, err := supervise.New(supervise.Config{
		Unit:   supervise.Unit{Name: r.name, Ready: r.unit.ready, Settle: r.unit.settle, Remove: r.remove, Options: r.options},
		Source: u, Display: u, Host: s.Connector, Images: s.Engine.Images,
		StateDir: s.Connector.StateDir, Signals: signals, Log: s.Log, Warn: s.Program.Warn,
	}).Run(ctx, early)
	if err != nil {
		return err
	}
	return command.ExitWith(code)
}

// unitTask reads, creates and shows the task of a unit: a supervise.Source and
// supervise.Display.
type unitTask struct {
	session *command.Machine
	request request
}

func (u *unitTask) Prepare(ctx context.Context) (taskdef.Task, error) {
	return prepareTask(ctx, u.session, u.request)
}

func (u *unitTask) Reload(ctx context.Context) (taskdef.Task, error) {
	task, err := defineTask(ctx, u.session, u.request)
	if errors.As(err, new(command.ExitStatus)) {
		err = errors.New("the definition is no longer valid") // the log has the findings
	}
	return task, err
}

func (u *unitTask) Create(ctx context.Context, task taskdef.Task) (*owner.Owner, error) {
	return createOwned(ctx, u.session, u.request, task)
}

func (u *unitTask) Progress() func(api.Task) {
	if u.request.display.quiet {
		return func(api.Task) {}
	}
	out := u.session.Program.Stderr
	return console.NewProgress(out, console.ColorsFor(out, u.session.Program.Getenv), time.Now(), 0).Show
}

func (u *unitTask) CopyLogs(ctx context.Context, st lifecycle.State) {
	s := u.session
	printer := console.NewLogPrinter(s.Program.Stdout, s.Program.Stderr, st, s.Program.Getenv).Prefixed()
	err := s.Engine.Logs.Read(ctx, st, "", observe.LogOptions{Follow: true, Tail: -1}, printer.Line)
	var lost *observe.IncompleteError
	switch {
	case errors.As(err, &lost):
		s.Program.Warn("%v", err)
	case err != nil && ctx.Err() == nil:
		s.Program.Warn("the logs end here: %v; `podtask logs %s` shows them", err, st.DisplayName())
	}
}

// replace stops and removes every task of a name.
func replaceTasks(ctx context.Context, s *command.Machine, name string) error {
	states, _ := s.Engine.Tasks.States()
	for _, st := range states {
		if st.Name != name {
			continue
		}
		if st.Status() != lifecycle.StatusStopped {
			fmt.Fprintf(s.Program.Stderr, "replacing task %s (%s)\n", lifecycle.ShortID(st.ID), name)
			if err := s.Connector.StopTask(ctx, st.ID, "podtask run --replace", false, func(api.Task) {}); err != nil {
				return fmt.Errorf("stop the task that is to be replaced: %w", err)
			}
		}
		if err := s.Connector.Remove(ctx, st.ID, "podtask run --replace", true, func(api.Task) {}); err != nil {
			return fmt.Errorf("remove the task that is to be replaced: %w", err)
		}
	}
	return nil
}
