package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/agent"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// exitInterrupted is the exit code after Ctrl-C before anything ran: 128 + SIGINT.
const exitInterrupted = 130

// foreground runs the task as its owner until it has stopped. Signals and a closed
// output stop it. Early ends with the first signal that comes before the task is ours.
func (s *session) foreground(ctx, early context.Context, r request, task taskdef.Task) error {
	st, err := s.create(early, r, task)
	if err != nil && early.Err() != nil {
		return exitStatus(exitInterrupted)
	}
	if err != nil {
		return err
	}
	o, err := s.host.Own(st.ID)
	if err != nil {
		return err
	}
	f := &foregroundRun{session: s, owner: o, started: time.Now()}
	stopSignals := f.passSignals()
	if early.Err() != nil {
		f.stop(os.Interrupt)
	}
	err = f.run(ctx, r.quiet)
	stopSignals()
	if closeErr := o.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("task %s is left as it is, `podtask stop %s` takes it on: %w", shortID(st.ID), nameOf(st), err)
	}
	return f.finish(ctx, r)
}

// foregroundRun is a task that runs in the foreground.
type foregroundRun struct {
	*session
	owner   *agent.Owner
	started time.Time
	// signal is the first that came; 0 for none.
	signal atomic.Int32
	// stopLogs gives up on logs that are still to come.
	stopLogs context.CancelFunc
}

// passSignals turns signals into requests to stop: the first asks, each later one
// kills. SIGPIPE is caught so that a closed output is an error of the write, not
// the end of us.
func (f *foregroundRun) passSignals() (stop func()) {
	signals := make(chan os.Signal, 8)
	f.notify(signals, append(heeded(), syscall.SIGPIPE)...)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case sig := <-signals:
				if sig != syscall.SIGPIPE {
					f.stop(sig)
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

// heeded are the signals that stop a task. Those that were ignored when we started
// stay so: nohup, and the background jobs of scripts, mean it.
func heeded() []os.Signal {
	signals := []os.Signal{syscall.SIGTERM}
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if !signal.Ignored(sig) {
			signals = append(signals, sig)
		}
	}
	return signals
}

// stop passes one signal on.
func (f *foregroundRun) stop(sig os.Signal) {
	number, _ := sig.(syscall.Signal)
	if f.signal.CompareAndSwap(0, int32(number)) {
		bound := f.owner.State().Task.StopBound()
		fmt.Fprintf(f.stderr, "stopping, within %s; again to kill\n", bound)
		f.owner.Send(lifecycle.StopRequested{By: signalName(number)})
		return
	}
	fmt.Fprintln(f.stderr, "killing")
	f.owner.Send(lifecycle.StopRequested{By: signalName(number), Force: true})
	if f.owner.State().Settled() {
		f.stopLogs()
	}
}

func signalName(sig syscall.Signal) string {
	switch sig {
	case syscall.SIGINT:
		return "Ctrl-C (SIGINT)"
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGHUP:
		return "the loss of its terminal (SIGHUP)"
	}
	return sig.String()
}

// run drives the task and shows progress and logs. It returns when the task has
// settled and all logs are written.
func (f *foregroundRun) run(ctx context.Context, quiet bool) error {
	var wg sync.WaitGroup
	logCtx, stopLogs := context.WithCancel(ctx)
	defer stopLogs()
	f.stopLogs = stopLogs
	st := f.owner.State()
	wg.Go(func() { f.copyLogs(logCtx, st) })

	var failed error
	wg.Go(func() { failed = f.carry(ctx, f.owner, f.listen(st.ID)) })
	show := func(api.Task) {}
	if !quiet {
		show = newProgress(f.stderr, coloursFor(f.stderr, f.getenv), f.started, 0).show
	}
	err := f.owner.Watch(ctx, func(st lifecycle.State) bool {
		show(api.FromState(st))
		return true
	})
	if !f.owner.State().Settled() {
		stopLogs() // the task runs on, but not under us
	}
	wg.Wait()
	return errors.Join(failed, err)
}

// copyLogs writes what the containers write. When the output is closed, nobody
// wants the task any more.
func (f *foregroundRun) copyLogs(ctx context.Context, st lifecycle.State) {
	printer := f.newLogPrinter(st, true, false)
	var closed error
	err := f.host.Logs(ctx, st, "", agent.LogOptions{Follow: true, Tail: -1}, func(l agent.LogLine) error {
		closed = printer.line(l)
		return closed
	})
	switch {
	case closed != nil:
		f.owner.Send(lifecycle.StopRequested{By: "the end of its output"})
	case err != nil && ctx.Err() == nil:
		f.warn("the logs end here: %v; `podtask logs %s` shows them", err, nameOf(st))
	}
}

// finish removes the task if it should be, and gives the exit code.
func (f *foregroundRun) finish(ctx context.Context, r request) error {
	st := f.owner.State()
	if r.remove && st.Goal != lifecycle.Gone {
		if err := f.remove(ctx, st.ID, "podtask run --rm", true, func(api.Task) {}); err != nil {
			return err
		}
	}
	if !r.quiet && !r.remove && st.Goal != lifecycle.Gone {
		name := nameOf(st)
		fmt.Fprintf(f.stderr, "task %s stopped: %s; `podtask logs %s` or `podtask rm %s`\n",
			shortID(st.ID), oneLine(firstOf(st.Stop.Reason, "no reason is known")), name, name)
	}
	return exitWith(exitCode(st, syscall.Signal(f.signal.Load())))
}

// exitCode is that of the task, or 128 + n when a signal stopped it before any
// essential container ran, so that there is none.
func exitCode(st lifecycle.State, sig syscall.Signal) int {
	if sig == 0 || st.Stop.Code != lifecycle.StopUserInitiated {
		return st.ExitCode()
	}
	for i, c := range st.Containers {
		if st.Task.Containers[i].Essential && !c.StartedAt.IsZero() {
			return st.ExitCode()
		}
	}
	return 128 + int(sig)
}
