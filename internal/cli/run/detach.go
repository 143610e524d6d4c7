package run

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// runDetached starts the task in the background, prints the ID, and waits with --wait.
func (r taskRun) runDetached(ctx context.Context, launch connect.Launch) error {
	st, err := r.launcher.StartDetached(ctx, launch)
	if err != nil {
		return r.ofDocument(err)
	}
	fmt.Fprintln(r.out, st.ID)
	if r.await.until == "" {
		return nil
	}
	if r.await.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.await.timeout)
		defer cancel()
	}
	t, err := r.awaitDetached(ctx, st)
	var missed *connect.MissedError
	switch {
	case errors.Is(ctx.Err(), context.Canceled) && err != nil:
		name := st.DisplayName()
		fmt.Fprintf(r.errOut, "interrupted: task %s continues; `podtask stop %s` stops it\n", name, name)
		return command.ExitStatus(command.ExitInterrupted)
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil:
		return fmt.Errorf("task %s is not %s after %s and continues in the background; see `podtask why %s`", lifecycle.ShortID(st.ID), r.await.until, r.await.timeout, st.DisplayName())
	case errors.As(err, &missed):
		r.reportMissed(ctx, st, missed)
		return command.ExitStatus(max(1, connect.CodeOf(missed.Task)))
	case err != nil:
		return err
	case r.await.until == connect.UntilStopped:
		return command.ExitWith(connect.CodeOf(t))
	}
	return nil
}

// lastLines is how many lines of a container's output are shown after a failure.
const lastLines = 5

// reportMissed prints why a task did not become what --wait asks for, with the last output of the container that
// failed.
func (r taskRun) reportMissed(ctx context.Context, st lifecycle.State, missed *connect.MissedError) {
	fmt.Fprintln(r.errOut, command.OnTerminal(r.errOut, "", "Error: "+missed.Error()))
	i := slices.IndexFunc(missed.Task.Containers, func(c api.Container) bool {
		failed := c.ExitCode != nil && *c.ExitCode != 0 || c.Health != nil && c.Health.Status == lifecycle.HealthUnhealthy.String()
		return c.Essential && failed && !c.StartedAt.IsZero()
	})
	if i < 0 {
		return
	}
	name := missed.Task.Containers[i].Name
	shown := 0
	err := r.logs.Read(ctx, st, name, observe.LogOptions{Tail: lastLines}, func(l observe.LogLine) error {
		if shown++; shown == 1 {
			fmt.Fprintf(r.errOut, "last lines of %s:\n", name)
		}
		fmt.Fprintf(r.errOut, "  | %s\n", term.Line(l.Text))
		return nil
	})
	if err != nil {
		r.log.Debug("the last lines of the container are not known", "task", st.ID, "container", name, "error", err)
	}
}

// awaitDetached shows the progress of a detached task until the condition of --wait holds.
func (r taskRun) awaitDetached(ctx context.Context, st lifecycle.State) (api.Task, error) {
	pulls := console.NewPullView(r.display.pullMode(), r.errOut, r.getenv)
	r.onPull(func(p imagestore.Progress) { pulls.Observe(ownerapi.NewPull(p)) }) // if this process becomes the owner
	stop := func() {}
	defer func() { stop() }()
	owned := func(t *connect.Task) error {
		stop()
		stop = command.FollowPulls(ctx, r.log, t.Client, st.ID, pulls)
		return nil
	}
	show := func(api.Task) {}
	if !r.display.quiet {
		board := console.NewBoard(pulls, r.errOut, console.ColorsFor(r.errOut, r.getenv), st.CreatedAt)
		defer board.End()
		show = board.Show
	}
	return r.owners.Await(ctx, st, r.await.until, owned, show)
}
