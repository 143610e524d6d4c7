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
	"github.com/podtask/podtask/internal/engine/imagestore"
	"github.com/podtask/podtask/internal/engine/observe"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// foreground runs the task until it has stopped: the agent does where there is one,
// else we own it. Signals and a closed output stop it. Early ends with the first
// signal that comes before the task is made.
func runForeground(ctx, early context.Context, s *command.Machine, r request, task taskdef.Task) error {
	pulls := console.NewPullView(r.display.pullMode(), s.Program.Stderr, s.Program.Getenv)
	s.OnPull = func(p imagestore.Progress) { pulls.Observe(ownerapi.NewPull(p)) }
	r.options.Remove = r.remove
	owned, st, leave, err := createHere(early, s, r, task)
	if err != nil && early.Err() != nil {
		return command.ExitStatus(command.ExitInterrupted)
	}
	if err != nil {
		return err
	}
	defer func() {
		if err := leave(); err != nil {
			s.Log.Debug("the lock of who shows the task stays", "task", st.ID, "error", err)
		}
	}()
	f := &foregroundRun{Machine: s, pulls: pulls, first: st, last: api.FromState(st), task: owned}
	stopPassing := f.passSignals(ctx)
	if early.Err() != nil {
		f.stop(ctx, os.Interrupt)
	}
	err = f.run(ctx, r)
	stopPassing()
	if err != nil {
		return fmt.Errorf("task %s is left as it is, `podtask stop %s` takes it on: %w", lifecycle.ShortID(st.ID), st.DisplayName(), err)
	}
	return f.finish(ctx, r)
}

// createHere records a task, takes the lock of who shows it, which leave releases, and returns the
// task: owned by the agent if there is one, else by this process. The agent receives it with its
// lock. It does not create the task, because the definition is read with the files, the
// environment and the configuration of this process.
func createHere(ctx context.Context, s *command.Machine, r request, task taskdef.Task) (owned *connect.Task, st lifecycle.State, leave func() error, err error) {
	o, err := createOwned(ctx, s, r, task)
	if err != nil {
		return nil, st, nil, err
	}
	st = o.State()
	if leave, err = s.Engine.Tasks.LockForeground(st.ID); err != nil {
		return nil, st, nil, errors.Join(err, o.Close())
	}
	if !s.Connector.GiveToAgent(ctx, o) {
		return connect.Local(s.Connector, o), st, leave, nil
	}
	// After a signal the task has to be reached, too: to stop it.
	if owned, err = s.Connector.Connect(context.WithoutCancel(ctx), st.ID); err != nil {
		return nil, st, nil, errors.Join(err, leave())
	}
	return owned, st, leave, nil
}

// foregroundRun is a task that runs in the foreground.
type foregroundRun struct {
	*command.Machine
	pulls *console.PullView
	first lifecycle.State // as it was created
	// signal is the first that came; 0 for none.
	signal atomic.Int32
	// stopLogs gives up on logs that are still to come.
	stopLogs context.CancelFunc

	mu   sync.Mutex    // guards the fields below
	task *connect.Task // who has the task now
	last api.Task      // as it was last seen
	// by and force are what was asked for with the latest request to stop; by is
	// empty when there was none.
	by    string
	force bool
}

// passSignals turns signals into requests to stop: the first asks, each later one
// kills. SIGPIPE is caught so that a closed output is an error of the write, not
// the end of us.
func (f *foregroundRun) passSignals(ctx context.Context) (stop func()) {
	signals := make(chan os.Signal, 8)
	f.Program.Notify(signals, append(stopSignals(), syscall.SIGPIPE)...)
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

// stop passes one signal on.
func (f *foregroundRun) stop(ctx context.Context, sig os.Signal) {
	number, _ := sig.(syscall.Signal)
	if f.seen().Settled { // only its logs are still to come
		f.stopLogs()
		return
	}
	if f.signal.CompareAndSwap(0, int32(number)) {
		fmt.Fprintf(f.pulls.Above(f.Program.Stderr), "stopping, within %s; again to kill\n", f.first.Task.StopBound())
		f.ask(ctx, console.SignalName(number), false)
		return
	}
	fmt.Fprintln(f.pulls.Above(f.Program.Stderr), "killing")
	f.ask(ctx, console.SignalName(number), true)
}

// ask requests the task to stop. Should its owner die, the next one is asked again.
func (f *foregroundRun) ask(ctx context.Context, by string, force bool) {
	f.mu.Lock()
	f.by, f.force = by, f.force || force
	task := f.task
	f.mu.Unlock()
	if err := task.Stop(ctx, by, force); err != nil {
		f.Log.Debug("the owner went away", "task", f.first.ID, "error", err)
	}
}

func (f *foregroundRun) seen() api.Task {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// run shows progress and logs until the task has settled and all logs are written.
func (f *foregroundRun) run(ctx context.Context, r request) error {

	var wg sync.WaitGroup
	logCtx, stopLogs := context.WithCancel(ctx)
	defer stopLogs()
	f.stopLogs = stopLogs
	wg.Go(func() { f.copyLogs(ctx, logCtx) })
	show := func(api.Task) {}
	if !r.display.quiet {
		show = console.NewProgress(f.pulls.Above(f.Program.Stderr), console.ColorsFor(f.Program.Stderr, f.Program.Getenv), time.Now(), 0).Show
	}
	err := f.follow(ctx, show)
	if !f.seen().Settled {
		stopLogs() // the task runs on, but not under us
	}
	wg.Wait()
	return err
}

// follow watches the task until it has settled or is gone. When its owner ends
// before, it continues with the next one, which may be us.
func (f *foregroundRun) follow(ctx context.Context, show func(api.Task)) error {
	for {
		local := f.task.Owner != nil
		stopPulls := command.FollowPulls(ctx, f.Log, f.task.Client, f.first.ID, f.pulls)
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
		f.Log.Debug("the owner went away", "task", f.first.ID, "error", err)
		next, err := f.Connector.Connect(ctx, f.first.ID)
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

// copyLogs writes what the containers write. When the output is closed,
// the task stops. The lines come from Podman, not from the owner, so that none is lost when
// the owner ends.
func (f *foregroundRun) copyLogs(ctx, logCtx context.Context) {
	printer := console.NewLogPrinter(f.Program.Stdout, f.Program.Stderr, f.first, f.Program.Getenv).Prefixed()
	printer.Out, printer.Err = f.pulls.Above(printer.Out), f.pulls.Above(printer.Err)
	var closed error
	err := f.Engine.Logs.Read(logCtx, f.first, "", observe.LogOptions{Follow: true, Tail: -1}, func(l observe.LogLine) error {
		closed = printer.Line(l)
		return closed
	})
	var lost *observe.IncompleteError
	switch {
	case closed != nil:
		f.ask(ctx, "the end of its output", false)
	case errors.As(err, &lost):
		f.Program.Warn("%v", err)
	case err != nil && logCtx.Err() == nil:
		f.Program.Warn("the logs end here: %v; `podtask logs %s` shows them", err, f.first.DisplayName())
	}
}

// finish removes the task if it should be, and gives the exit code.
func (f *foregroundRun) finish(ctx context.Context, r request) error {
	t := f.seen()
	gone := t.Goal == lifecycle.Gone.String()
	if r.remove && !gone {
		if err := f.Connector.Remove(ctx, t.ID, "podtask run --rm", true, func(api.Task) {}); err != nil {
			return err
		}
	}
	reason, name := term.Line(cmp.Or(t.StoppedReason, "unknown reason")), f.first.DisplayName()
	switch {
	case r.display.quiet && t.StopCode == lifecycle.StopTaskFailedToStart:
		// Without progress it was not shown, and after --rm it cannot be looked up.
		fmt.Fprintf(f.Program.Stderr, "Error: task %s did not start: %s\n", lifecycle.ShortID(t.ID), reason)
	case !r.display.quiet && !r.remove && !gone:
		fmt.Fprintf(f.Program.Stderr, "task %s stopped: %s; `podtask logs %s` or `podtask rm %s`\n", lifecycle.ShortID(t.ID), reason, name, name)
	}
	return command.ExitWith(exitCode(t, syscall.Signal(f.signal.Load())))
}

// exitCode is that of the task, or 128 + n when a signal stopped it before any
// essential container ran, so that there is none.
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
