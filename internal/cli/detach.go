package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/imagestore"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// runDetached makes the task, leaves it to an owner of its own, prints the id and
// waits as long as it was asked to.
func runDetached(ctx context.Context, s *session, r request, task taskdef.Task) error {
	r.options.Remove = r.remove
	st, err := s.create(ctx, r, task)
	if err != nil {
		return err
	}
	if err := s.launcher().HandOver(ctx, st.ID); err != nil {
		return fmt.Errorf("task %s is recorded, but has no owner: %w; `podtask rm -f %s` forgets it", lifecycle.ShortID(st.ID), err, st.DisplayName())
	}
	fmt.Fprintln(s.stdout, st.ID)
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
		fmt.Fprintf(s.stderr, "interrupted: task %s continues; `podtask stop %s` stops it\n", name, name)
		return exitStatus(exitInterrupted)
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil:
		return fmt.Errorf("task %s is not %s after %s; it continues: `podtask why %s` shows what it waits for", lifecycle.ShortID(st.ID), r.await.until, r.await.timeout, st.DisplayName())
	case errors.As(err, &missed):
		fmt.Fprintln(s.stderr, "Error: "+err.Error())
		return exitStatus(max(1, connect.CodeOf(missed.Task)))
	case err != nil:
		return err
	case r.await.until == connect.UntilStopped:
		return exitWith(connect.CodeOf(t))
	}
	return nil
}

// awaitDetached shows how a detached task gets on, until it is as the request wants it.
func awaitDetached(ctx context.Context, s *session, r request, st lifecycle.State) (api.Task, error) {
	pulls := console.NewPullView(r.display.pullMode(), s.stderr, s.getenv)
	s.onPull = func(p imagestore.Progress) { pulls.Observe(serve.NewPull(p)) } // if the task becomes ours
	stop := func() {}
	defer func() { stop() }()
	owned := func(t *connect.Task) error {
		stop()
		stop = followPulls(ctx, s.Log, t.Client, st.ID, pulls)
		return nil
	}
	show := func(api.Task) {}
	if !r.display.quiet {
		show = console.NewProgress(pulls.Above(s.stderr), console.ColorsFor(s.stderr, s.getenv), st.CreatedAt, 0).Show
	}
	return s.Await(ctx, st, r.await.until, owned, show)
}

// launcher starts owners with the configuration of this process.
func (s *session) launcher() *connect.Launcher {
	return &connect.Launcher{Connector: s.Connector, Getenv: s.getenv, Environ: s.environ, Executable: s.executable, Flags: s.config.FlagArgs()}
}
