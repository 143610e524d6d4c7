package main

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/podtask/podtask/internal/console"
	"github.com/podtask/podtask/internal/owner"
	"github.com/podtask/podtask/internal/rollback"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// attendance passes news and requests between one task, the service manager and the
// terminal.
type attendance struct {
	*service
	owner *owner.Owner
	task  taskdef.Task
	// next takes the task's place when it has stopped.
	next      *taskdef.Task
	show      func(api.Task)
	reloads   chan reload
	reloading bool
	said      string // the last STATUS
	announced bool   // that the service is ready
	trial     trial
}

// attend returns when the task has settled.
func (v *service) attend(ctx context.Context, o *owner.Owner, task taskdef.Task, changed <-chan struct{}, done <-chan error) (next *taskdef.Task, err error) {
	a := &attendance{service: v, owner: o, task: task, show: func(api.Task) {}, reloads: make(chan reload, 1)}
	if !v.request.quiet {
		a.show = console.NewProgress(v.stderr, console.ColorsFor(v.stderr, v.getenv), time.Now(), 0).Show
	}
	settled := time.NewTimer(v.request.settle)
	settled.Stop()
	for {
		select {
		case <-changed:
		case <-settled.C:
		case sig := <-v.signals:
			a.signalled(ctx, sig)
		case r := <-a.reloads:
			a.reloaded(r)
		case err := <-done:
			a.ended()
			return a.next, err
		}
		if wait := a.look(time.Now()); wait > 0 {
			settled.Reset(wait)
		}
	}
}

// signalled reloads or stops.
func (a *attendance) signalled(ctx context.Context, sig os.Signal) {
	switch sig {
	case syscall.SIGPIPE:
	case syscall.SIGHUP:
		if a.reloading || a.stopped || a.next != nil {
			return
		}
		a.reloading = true
		a.tell(daemon.SdNotifyReloading, daemon.SdNotifyMonotonicUsec(), "STATUS=reloading: looking the images up")
		st := a.owner.State()
		go func() { a.reloads <- a.reload(ctx, a.task, st) }()
	default:
		number, _ := sig.(syscall.Signal)
		a.owner.Send(lifecycle.StopRequested{By: signalName(number), Force: a.stopped})
		a.stopped, a.next = true, nil
	}
}

// reloaded acts on what a reload found.
func (a *attendance) reloaded(r reload) {
	a.reloading = false
	a.said = "" // say again how things stand
	switch {
	case a.stopped:
	case r.err != nil:
		a.tell(daemon.SdNotifyReady, "STATUS=reload failed, the task runs on as it is: "+console.OneLine(r.err.Error()))
		a.warn("reload failed, the task runs on as it is: %v", r.err)
		a.said = statusLine(api.FromState(a.owner.State()))
	case r.next == nil:
		a.tell(daemon.SdNotifyReady)
	default:
		a.next = r.next
		a.owner.Send(lifecycle.StopRequested{By: "reload"})
	}
}

// ended decides what comes after a task that has stopped.
func (a *attendance) ended() {
	st := a.owner.State()
	a.show(api.FromState(st))
	switch {
	case st.Stop.Code == lifecycle.StopUserInitiated:
	case a.next != nil:
		a.next = nil // it ended by itself before
	case !a.announced && a.goBack(a.task, st):
		a.next = &a.task
	}
}

// look tells the manager how the task is. It is to be called again at news, and after
// wait if that is not 0.
func (a *attendance) look(now time.Time) (wait time.Duration) {
	st := a.owner.State()
	t := api.FromState(st)
	a.show(t)
	p := a.phaseOf(t)
	line := statusLine(t)
	if p != stopping && !a.announced && a.record.Differs(rollback.DigestsOf(a.task, st)) {
		if p, wait = a.trial.judge(p, restartsOf(t), now, a.request.settle); wait > 0 {
			line += fmt.Sprintf("; new images have to stay so for %v", a.request.settle)
		}
	}
	a.enter(p, a.owner, now, st.Task.StopBound())
	var lines []string
	if p == ready && !a.announced && !a.reloading {
		a.announced = true
		lines = append(lines, daemon.SdNotifyReady)
		a.keep(a.task, st)
	}
	if p == sick && !a.announced && a.next == nil && a.goBack(a.task, st) {
		a.next = &a.task
		a.owner.Send(lifecycle.StopRequested{By: "going back to the images of before"})
	}
	if line != a.said && !a.reloading {
		a.said = line
		lines = append(lines, "STATUS="+line)
	}
	if p == stopping && a.next == nil {
		lines = append(lines, daemon.SdNotifyStopping)
	}
	if len(lines) > 0 {
		a.tell(lines...)
	}
	return wait
}

// trial is the time in which new images must prove themselves: the service is ready
// with them when the task has been so without a break, and no container restarted.
// The zero value is one that has not begun.
type trial struct {
	begun    time.Time
	restarts int
}

// judge returns the phase p of a task on trial as the service is to take it, and when
// to ask again if nothing happens before; 0 for never.
func (t *trial) judge(p phase, restarts int, now time.Time, settle time.Duration) (phase, time.Duration) {
	if t.begun.IsZero() {
		if p != ready || settle == 0 {
			return p, 0
		}
		t.begun, t.restarts = now, restarts
	}
	left := settle - now.Sub(t.begun)
	switch {
	case p != ready || restarts != t.restarts:
		return sick, 0
	case left > 0:
		return starting, left
	}
	return ready, 0
}

// restartsOf counts how often the policies of a task's containers restarted them.
func restartsOf(t api.Task) (n int) {
	for _, c := range t.Containers {
		n += c.RestartCount
	}
	return n
}
