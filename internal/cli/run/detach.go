package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/imagestore"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// runDetached makes the task, leaves it to an owner of its own, prints the id and
// waits as long as it was asked to.
func runDetached(ctx context.Context, s *command.Machine, r request, task taskdef.Task) error {
	r.options.Remove = r.remove
	o, err := createOwned(ctx, s, r, task)
	if err != nil {
		return err
	}
	st := o.State()
	if err := s.Launcher().HandOver(ctx, o); err != nil {
		return fmt.Errorf("task %s is recorded, but has no owner: %w; `podtask rm -f %s` forgets it", lifecycle.ShortID(st.ID), err, st.DisplayName())
	}
	fmt.Fprintln(s.Program.Stdout, st.ID)
	if r.await.until == "" {
		return nil
	}
	if r.await.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.await.timeout)
		defer cancel()
	}
	t, err := awaitDetached(ctx, s, r, st)
	var missed *connect.MissedError
	switch {
	case errors.Is(ctx.Err(), context.Canceled) && err != nil:
		name := st.DisplayName()
		fmt.Fprintf(s.Program.Stderr, "interrupted: task %s continues; `podtask stop %s` stops it\n", name, name)
		return command.ExitStatus(command.ExitInterrupted)
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil:
		return fmt.Errorf("task %s is not %s after %s; it continues: `podtask why %s` shows what it waits for", lifecycle.ShortID(st.ID), r.await.until, r.await.timeout, st.DisplayName())
	case errors.As(err, &missed):
		fmt.Fprintln(s.Program.Stderr, "Error: "+err.Error())
		return command.ExitStatus(max(1, connect.CodeOf(missed.Task)))
	case err != nil:
		return err
	case r.await.until == connect.UntilStopped:
		return command.ExitWith(connect.CodeOf(t))
	}
	return nil
}

// awaitDetached shows how a detached task gets on, until it is as the request wants it.
func awaitDetached(ctx context.Context, s *command.Machine, r request, st lifecycle.State) (api.Task, error) {
	pulls := console.NewPullView(r.display.pullMode(), s.Program.Stderr, s.Program.Getenv)
	s.OnPull = func(p imagestore.Progress) { pulls.Observe(ownerapi.NewPull(p)) } // if the task becomes ours
	stop := func() {}
	defer func() { stop() }()
	owned := func(t *connect.Task) error {
		stop()
		stop = command.FollowPulls(ctx, s.Log, t.Client, st.ID, pulls)
		return nil
	}
	show := func(api.Task) {}
	if !r.display.quiet {
		show = console.NewProgress(pulls.Above(s.Program.Stderr), console.ColorsFor(s.Program.Stderr, s.Program.Getenv), st.CreatedAt, 0).Show
	}
	return s.Connector.Await(ctx, st, r.await.until, owned, show)
}
