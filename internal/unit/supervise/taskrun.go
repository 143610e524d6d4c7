package supervise

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/signalname"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// taskRun is one task of a unit, from its creation until it has stopped. It passes news
// and requests between the task, the service manager and the terminal.
type taskRun struct {
	*Supervisor
	owner *owner.Owner
	task  taskdef.Task
	// next replaces the task when it has stopped.
	next      *taskdef.Task
	show      func(api.Task)
	reloads   chan reload
	reloading bool
	status    string // the last STATUS
	announced bool   // READY=1 was sent
	trial     trial
}

// reload is the result of a reload.
type reload struct {
	next *taskdef.Task // nil: nothing differs
	err  error
}

// supervise returns when the task has settled.
func (r *taskRun) supervise(ctx context.Context, changed <-chan struct{}, done <-chan error) (next *taskdef.Task, err error) {
	settled := time.NewTimer(r.Settle)
	settled.Stop()
	for {
		select {
		case <-changed:
		case <-settled.C:
		case sig := <-r.Signals:
			r.handleSignal(ctx, sig)
		case result := <-r.reloads:
			r.finishReload(result)
		case err := <-done:
			r.handleEnd()
			return r.next, err
		}
		if wait := r.report(time.Now()); wait > 0 {
			settled.Reset(wait)
		}
	}
}

// handleSignal reloads or stops.
func (r *taskRun) handleSignal(ctx context.Context, sig os.Signal) {
	switch sig {
	case syscall.SIGPIPE:
	case syscall.SIGHUP:
		if r.reloading || r.stopped || r.next != nil {
			return
		}
		r.startReload(ctx)
	default:
		number, _ := sig.(syscall.Signal)
		r.owner.Send(lifecycle.StopRequested{By: signalname.Of(number), Force: r.stopped})
		r.stopped, r.next = true, nil
	}
}

// startReload reads the definition and resolves its images again, in a goroutine.
func (r *taskRun) startReload(ctx context.Context) {
	r.reloading = true
	Notify(r.Log, daemon.SdNotifyReloading, daemon.SdNotifyMonotonicUsec(), "STATUS=reloading: looking up the images")
	st, differ := r.owner.State(), r.updates.checker()
	go func() {
		task, err := r.Definition.Reload(ctx)
		changed := err == nil && !sameTask(task, r.task)
		if err == nil && !changed {
			changed, err = differ(ctx, task, st)
		}
		result := reload{err: err}
		if changed {
			result.next = &task
		}
		r.reloads <- result
	}()
}

// finishReload acts on the result of a reload.
func (r *taskRun) finishReload(result reload) {
	r.reloading = false
	r.status = "" // send the status again
	switch {
	case r.stopped:
	case result.err != nil:
		Notify(r.Log, daemon.SdNotifyReady, "STATUS=reload failed, the task runs on unchanged: "+term.Line(result.err.Error()))
		r.Warn("reload failed, the task runs on unchanged: %v", result.err)
		r.status = statusLine(api.FromState(r.owner.State()))
	case result.next == nil:
		Notify(r.Log, daemon.SdNotifyReady)
	default:
		r.next = result.next
		r.owner.Send(lifecycle.StopRequested{By: "reload"})
	}
}

// handleEnd decides what follows a task that has stopped.
func (r *taskRun) handleEnd() {
	st := r.owner.State()
	r.show(api.FromState(st))
	switch {
	case st.Stop.Code == lifecycle.StopUserInitiated:
	case r.next != nil:
		r.next = nil // the task stopped by itself first
	case !r.announced && r.updates.failed(r.task, st):
		r.next = &r.task
	}
}

// mayRollBack reports whether another task may follow one that stops. After STOPPING=1 systemd
// (262) ignores READY=1.
func (r *taskRun) mayRollBack(st lifecycle.State) bool {
	return !r.announced && !r.stopped && st.Stop.Code != lifecycle.StopUserInitiated && r.updates.onTrial(r.task, st)
}

// report tells the manager how the task is. It must be called again when the task has
// changed, and after wait unless that is 0.
func (r *taskRun) report(now time.Time) (wait time.Duration) {
	st := r.owner.State()
	t := api.FromState(st)
	r.show(t)
	p := phaseOf(t, r.Ready)
	line := statusLine(t)
	if p != stopping && !r.announced && r.updates.onTrial(r.task, st) {
		var left time.Duration
		if p, left = r.trial.judge(p, restartsOf(t), now, r.Settle); left > 0 {
			wait = left
			line += fmt.Sprintf("; the new images must stay ready for %v", r.Settle)
		}
	}
	r.heartbeat.enter(p, r.owner, now, st.Task.StopBound())
	var lines []string
	if p == ready && !r.announced && !r.reloading {
		r.announced = true
		lines = append(lines, daemon.SdNotifyReady)
		r.updates.succeeded(r.task, st)
	}
	if p == unhealthy && !r.announced && r.next == nil && r.updates.failed(r.task, st) {
		r.next = &r.task
		r.owner.Send(lifecycle.StopRequested{By: "rollback to the previous images"})
	}
	if line != r.status && !r.reloading {
		r.status = line
		lines = append(lines, "STATUS="+line)
	}
	if p == stopping && r.next == nil && !r.mayRollBack(st) {
		lines = append(lines, daemon.SdNotifyStopping)
	}
	if len(lines) > 0 {
		Notify(r.Log, lines...)
	}
	return wait
}
