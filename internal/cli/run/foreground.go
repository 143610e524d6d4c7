package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/internal/signalname"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// runForeground runs the task until it has stopped: through the agent if one runs, else owned by this
// process. Signals and a closed output stop it. Early ends with the first signal before the task is
// created.
func (r taskRun) runForeground(ctx, early context.Context, launch connect.Launch) error {
	pulls := console.NewPullView(r.display.pullMode(), r.errOut, r.getenv)
	r.onPull(func(p imagestore.Progress) { pulls.Observe(ownerapi.NewPull(p)) })
	owned, st, unlock, err := r.owners.StartAttended(early, launch)
	if err != nil && early.Err() != nil {
		return command.ExitStatus(command.ExitInterrupted)
	}
	if err != nil {
		return r.ofDocument(err)
	}
	defer func() {
		if err := unlock(); err != nil {
			r.log.Debug("the lock of who shows the task stays", "task", st.ID, "error", err)
		}
	}()
	f := &foregroundRun{taskRun: r, pulls: pulls, first: st, last: api.FromState(st), task: owned}
	stopPassing := f.passSignals(ctx)
	if early.Err() != nil {
		f.stop(ctx, os.Interrupt)
	}
	err = f.run(ctx)
	stopPassing()
	if err != nil {
		return fmt.Errorf("podtask no longer manages task %s, whose containers keep running (stop it with `podtask stop %s`): %w", lifecycle.ShortID(st.ID), st.DisplayName(), err)
	}
	return f.finish(ctx)
}

// ofDocument names the definition in an error about the name of its task.
func (r taskRun) ofDocument(err error) error {
	if errors.Is(err, record.ErrNameTaken) {
		return fmt.Errorf("run %s: %w", r.Document, err)
	}
	return err
}

// foregroundRun is a task that runs in the foreground.
type foregroundRun struct {
	taskRun
	pulls *console.PullView
	first lifecycle.State // the state at its creation
	// signal is the first one that was received; 0 for none.
	signal atomic.Int32
	// stopLogs ends the logs before all of them are written.
	stopLogs context.CancelFunc

	mu   sync.Mutex    // guards the fields below
	task *connect.Task // the handle of the current owner
	last api.Task      // the latest state
	// by and force are those of the latest request to stop; by is empty if there was none.
	by    string
	force bool
}

// passSignals turns signals into requests: the first stops the task, later ones kill it. SIGPIPE is
// caught so that a closed output is an error of the write and does not end the process.
func (f *foregroundRun) passSignals(ctx context.Context) (stop func()) {
	signals := make(chan os.Signal, 8)
	f.notify(signals, append(stopSignals(), syscall.SIGPIPE)...)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case sig := <-signals:
				if sig != syscall.SIGPIPE {
					f.stop(ctx, sig)
				}
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// stopSignals returns the signals that stop a task. Those that were ignored when the
// process started stay ignored, as nohup and the background jobs of scripts intend.
func stopSignals() []os.Signal {
	signals := []os.Signal{syscall.SIGTERM}
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if !signal.Ignored(sig) {
			signals = append(signals, sig)
		}
	}
	return signals
}

// stop handles one signal.
func (f *foregroundRun) stop(ctx context.Context, sig os.Signal) {
	number, _ := sig.(syscall.Signal)
	if f.seen().Settled { // only its logs are still to come
		f.stopLogs()
		return
	}
	if f.signal.CompareAndSwap(0, int32(number)) {
		again := "a second signal kills it"
		if number == syscall.SIGINT {
			again = "press Ctrl-C again to kill it"
		}
		fmt.Fprintf(f.pulls.Above(f.errOut), "stopping, up to %s; %s\n", f.first.Task.StopBound(), again)
		f.ask(ctx, signalname.Of(number), false)
		return
	}
	fmt.Fprintln(f.pulls.Above(f.errOut), "killing")
	f.ask(ctx, signalname.Of(number), true)
}

// ask requests the task to stop. Follow repeats the request if the owner dies.
func (f *foregroundRun) ask(ctx context.Context, by string, force bool) {
	f.mu.Lock()
	f.by, f.force = by, f.force || force
	task := f.task
	f.mu.Unlock()
	if err := task.Stop(ctx, by, force); err != nil {
		f.log.Debug("the owner went away", "task", f.first.ID, "error", err)
	}
}

func (f *foregroundRun) seen() api.Task {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// run shows progress and logs until the task has settled and all logs are written.
func (f *foregroundRun) run(ctx context.Context) error {
	var wg sync.WaitGroup
	logCtx, stopLogs := context.WithCancel(ctx)
	defer stopLogs()
	f.stopLogs = stopLogs
	wg.Go(func() { f.copyLogs(ctx, logCtx) })
	show := func(api.Task) {}
	if !f.display.quiet {
		board := console.NewBoard(f.pulls, f.errOut, console.ColorsFor(f.errOut, f.getenv), time.Now())
		defer board.End()
		show = board.Show
	}
	err := f.follow(ctx, show)
	if !f.seen().Settled {
		stopLogs() // the task continues without this process
	}
	wg.Wait()
	return err
}

// follow watches the task until it has settled or is removed. If its owner ends before, it continues
// with the next one, which may be this process.
func (f *foregroundRun) follow(ctx context.Context, show func(api.Task)) error {
	for {
		local := f.task.Owner != nil
		stopPulls := command.FollowPulls(ctx, f.log, f.task.Client, f.first.ID, f.pulls)
		err := f.task.Watch(ctx, func(t api.Task) bool {
			f.mu.Lock()
			f.last = t
			f.mu.Unlock()
			show(t)
			return !t.Settled
		})
		stopPulls()
		f.task.Close()
		if f.seen().Settled || local || ctx.Err() != nil {
			return err
		}
		f.log.Debug("the owner went away", "task", f.first.ID, "error", err)
		next, err := f.owners.Connect(ctx, f.first.ID)
		if connect.IsGone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		f.mu.Lock()
		f.task = next
		by, force := f.by, f.force
		f.mu.Unlock()
		if by != "" {
			f.ask(ctx, by, force)
		}
	}
}

// copyLogs prints the output of the containers, and stops the task if it cannot. It reads from Podman
// and not from the owner, so that no line is lost when the owner ends.
func (f *foregroundRun) copyLogs(ctx, logCtx context.Context) {
	printer := console.NewLogPrinter(f.out, f.errOut, f.first, f.getenv).WithPrefix()
	printer.Out, printer.Err = f.pulls.Above(printer.Out), f.pulls.Above(printer.Err)
	var closed error
	err := f.logs.Read(logCtx, f.first, "", observe.LogOptions{Follow: true, Tail: -1}, func(l observe.LogLine) error {
		closed = printer.Line(l)
		return closed
	})
	var lost *observe.IncompleteError
	switch {
	case closed != nil:
		f.ask(ctx, "the end of its output", false)
	case errors.As(err, &lost):
		f.warn("%v", err)
	case err != nil && logCtx.Err() == nil:
		f.warn("the logs end here: %v; `podtask logs %s` shows them", err, f.first.DisplayName())
	}
}

// finish removes the task with --rm, and returns the exit code.
func (f *foregroundRun) finish(ctx context.Context) error {
	t := f.seen()
	removed := t.Goal == lifecycle.Gone.String()
	if f.remove && !removed {
		if err := f.owners.Remove(ctx, t.ID, "podtask run --rm", true, func(api.Task) {}); err != nil {
			return err
		}
	}
	reason, name := term.Line(cmp.Or(t.StoppedReason, "unknown reason")), f.first.DisplayName()
	switch {
	case f.display.quiet && t.FailedStart != "":
		// Without progress it was not printed, and after --rm no command can show it.
		fmt.Fprintf(f.errOut, "Error: task %s did not start: %s\n", lifecycle.ShortID(t.ID), reason)
	case !f.display.quiet && !f.remove && !removed:
		text := fmt.Sprintf("task %s stopped: %s; `podtask logs %s` or `podtask rm %s`", lifecycle.ShortID(t.ID), reason, name, name)
		fmt.Fprintln(f.errOut, command.OnTerminal(f.errOut, "", text))
	}
	return command.ExitWith(exitCode(t, syscall.Signal(f.signal.Load())))
}

// exitCode returns the exit code of the task, or 128 + n if signal n stopped it before an essential
// container ran.
func exitCode(t api.Task, sig syscall.Signal) int {
	if sig == 0 || t.StopCode != lifecycle.StopUserInitiated {
		return connect.CodeOf(t)
	}
	for _, c := range t.Containers {
		if c.Essential && !c.StartedAt.IsZero() {
			return connect.CodeOf(t)
		}
	}
	return 128 + int(sig)
}
