package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/console"
	"github.com/podtask/podtask/internal/observe"
	"github.com/podtask/podtask/internal/owner"
	"github.com/podtask/podtask/internal/rollback"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// notifyNo as request.notify: tell the service manager everything but that the
// service is ready.
const notifyNo connect.Condition = "no"

// service runs a task as the main process of a systemd service (`run --notify`):
//
//	READY=1                when the task is what request.notify asks for
//	STATUS=                a line for `systemctl status`
//	EXTEND_TIMEOUT_USEC=   while it is on its way up or down, so that a long pull or
//	                       a stop in order is not taken for a hang
//	WATCHDOG=1             as long as the owner is alive
//	SIGHUP                 reads the definition and resolves the images again, and
//	                       replaces the task if anything differs
//	SIGTERM                stops the task in order; a second one kills
//
// The exit code is that of the task, and 0 after a stop that was asked for.
type service struct {
	*session
	request request
	signals chan os.Signal
	// record is nil without automatic updates.
	record *rollback.Record
	// stopped is set by the first signal to stop.
	stopped bool

	mu    sync.Mutex // guards the fields below
	phase phase
	owner *owner.Owner // nil between two tasks
	// stopBy is when a stop in order is over at the latest; set while stopping.
	stopBy time.Time
	// entered has a value when the phase has changed: a time-out that begins then may be
	// shorter than a pulse. Room for one.
	entered chan struct{}
}

// phase is how far the service is.
type phase int

const (
	starting phase = iota
	ready
	sick     // not ready, and a health check says why: the time-out may come
	stopping // or making way for the next task
)

// Pace of the messages. A manager that has heard nothing for extension while a
// time-out has passed ends the service.
const (
	pulse     = 5 * time.Second
	extension = 30 * time.Second
	// cleanUp is what a stop takes besides the grace of the containers.
	cleanUp = time.Minute
	// stuck is how long a live owner never works on one batch of events.
	stuck = 30 * time.Second
)

// service is `run --notify`. Early ends with the first signal before the task is made.
func (s *session) service(ctx, early context.Context, r request) error {
	v := &service{session: s, request: r, signals: make(chan os.Signal, 8), entered: make(chan struct{}, 1)}
	v.notify(v.signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	beating, stopBeating := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stopBeating()
	wg.Go(func() { v.beat(beating) })

	task, err := s.prepare(early, r)
	if early.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	if r.options.AutoUpdate != "" {
		if v.record, err = rollback.Open(s.StateDir, r.name); err != nil {
			v.warn("%v", err)
		}
	}
	for {
		end, next, err := v.life(ctx, task)
		if err != nil {
			return err
		}
		if next == nil {
			v.tell(daemon.SdNotifyStopping, "STATUS="+endLine(end))
			if end.Stop.Code == lifecycle.StopUserInitiated {
				return nil
			}
			return exitWith(end.ExitCode())
		}
		task = *next
	}
}

// beat feeds the watchdog and extends time-outs, at each pulse and at each new phase, until
// ctx ends.
func (v *service) beat(ctx context.Context) {
	every := pulse
	if limit, err := daemon.SdWatchdogEnabled(false); err == nil && limit > 0 {
		every = min(every, limit/3)
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		if lines := v.signs(time.Now()); len(lines) > 0 {
			v.tell(lines...)
		}
		select {
		case <-t.C:
		case <-v.entered:
		case <-ctx.Done():
			return
		}
	}
}

// signs are the messages that are due now.
func (v *service) signs(now time.Time) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var lines []string
	if v.owner == nil || v.owner.Busy(now) < stuck {
		lines = append(lines, daemon.SdNotifyWatchdog)
	}
	if v.phase == starting || v.phase == stopping && now.Before(v.stopBy) {
		lines = append(lines, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", extension.Microseconds()))
	}
	return lines
}

// enter notes how far the service is; bound is how long a stop in order may take.
func (v *service) enter(p phase, o *owner.Owner, now time.Time, bound time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case p != stopping:
		v.stopBy = time.Time{}
	case v.stopBy.IsZero():
		v.stopBy = now.Add(bound + cleanUp)
	}
	if p != v.phase {
		select {
		case v.entered <- struct{}{}:
		default:
		}
	}
	v.phase, v.owner = p, o
}

// life runs one task until it has stopped and is removed. Next is the task that
// takes its place, if one does.
func (v *service) life(ctx context.Context, task taskdef.Task) (end lifecycle.State, next *taskdef.Task, err error) {
	o, err := v.createOwned(ctx, v.request, v.choose(ctx, task))
	if err != nil {
		return end, nil, err
	}
	st := o.State()
	v.enter(starting, o, time.Now(), 0)
	var wg sync.WaitGroup
	done := make(chan error, 1)
	changed := make(chan struct{}, 1)
	wg.Go(func() { done <- v.Drive(ctx, o, v.Listen(st.ID)) })
	wg.Go(func() {
		o.Watch(ctx, func(lifecycle.State) bool {
			select {
			case changed <- struct{}{}:
			default:
			}
			return true
		})
	})
	wg.Go(func() { v.copyServiceLogs(ctx, st) })
	next, err = v.attend(ctx, o, task, changed, done)
	v.enter(stopping, nil, time.Now(), st.Task.StopBound())
	wg.Wait()
	if closed := o.Close(); err == nil {
		err = closed
	}
	end = o.State()
	if err != nil {
		return end, nil, fmt.Errorf("task %s is left as it is, `podtask stop %s` takes it on: %w", console.ShortID(st.ID), connect.NameOf(st), err)
	}
	if v.request.remove && end.Goal != lifecycle.Gone {
		err = v.Remove(ctx, end.ID, "podtask run --rm", true, func(api.Task) {})
	}
	return end, next, err
}

// phaseOf tells how far a task is.
func (v *service) phaseOf(t api.Task) phase {
	what := v.request.notify
	if what == notifyNo {
		what = connect.UntilRunning
	}
	if t.Goal != lifecycle.Up.String() {
		return stopping
	}
	if met, _ := what.Met(t); met {
		return ready
	}
	for _, c := range t.Containers {
		if c.Essential && c.Health != nil && c.Health.Status == lifecycle.HealthUnhealthy.String() {
			return sick
		}
	}
	return starting
}

// statusLine says in one line how a task is.
func statusLine(t api.Task) string {
	count := func(fits func(api.Container) bool) (n int) {
		for _, c := range t.Containers {
			if fits(c) {
				n++
			}
		}
		return n
	}
	if t.Goal != lifecycle.Up.String() {
		return "stopping: " + console.OneLine(cmp.Or(t.StoppedReason, "as asked"))
	}
	for _, c := range t.Containers {
		if c.Retry != nil {
			return fmt.Sprintf("%s: trying again: %s", c.Name, console.OneLine(c.Retry.Error))
		}
	}
	all := len(t.Containers)
	if n := count(func(c api.Container) bool { return c.Status == lifecycle.StatusNone.String() }); n > 0 {
		return fmt.Sprintf("looking up images: %d of %d found", all-n, all)
	}
	if n := count(func(c api.Container) bool { return c.Status == lifecycle.StatusManifestPulled.String() }); n > 0 {
		return fmt.Sprintf("pulling images: %d of %d are here", all-n, all)
	}
	for _, c := range t.Containers {
		if len(c.WaitingFor) > 0 {
			return fmt.Sprintf("%s waits for %s to be %s", c.Name, c.WaitingFor[0].ContainerName, c.WaitingFor[0].Condition)
		}
	}
	running := count(func(c api.Container) bool { return c.Status == lifecycle.StatusRunning.String() })
	line := fmt.Sprintf("%d of %d containers run", running, all)
	if t.Health != lifecycle.HealthUnknown.String() {
		line += ", " + strings.ToLower(t.Health)
	}
	return line
}

func endLine(st lifecycle.State) string {
	return fmt.Sprintf("stopped, exit code %d: %s", st.ExitCode(), console.OneLine(cmp.Or(st.Stop.Reason, "no reason is known")))
}

// reload is what a reload found.
type reload struct {
	next *taskdef.Task // nil: nothing differs
	err  error
}

// reload reads the definition again and looks its images up.
func (v *service) reload(ctx context.Context, old taskdef.Task, st lifecycle.State) reload {
	task, err := v.define(v.request)
	if errors.As(err, new(exitStatus)) {
		err = errors.New("the definition is not valid any more") // the log has the rest
	}
	if err != nil {
		return reload{err: err}
	}
	if !sameTask(task, old) {
		return reload{next: &task}
	}
	running := rollback.DigestsOf(task, st)
	for _, ref := range rollback.References(task) {
		digest, err := v.Agent.Images.Digest(ctx, st, ref)
		if err != nil {
			return reload{err: err}
		}
		if digest != running[ref] && !v.record.Avoids(ref, digest) {
			return reload{next: &task}
		}
	}
	return reload{}
}

// choose keeps the task from images that it failed with before.
func (v *service) choose(ctx context.Context, task taskdef.Task) taskdef.Task {
	if v.record == nil || len(v.record.Bad) == 0 {
		return task
	}
	now := make(map[string]string)
	for ref := range v.record.Bad {
		if digest, err := v.Agent.Images.Digest(ctx, lifecycle.State{Options: v.request.options}, ref); err == nil {
			now[ref] = digest
		}
	}
	return v.record.Avoid(task, now)
}

// keep remembers what the service is ready with.
func (v *service) keep(task taskdef.Task, st lifecycle.State) {
	if v.record != nil && v.record.Succeeded(rollback.DigestsOf(task, st)) {
		v.saveDigests()
	}
}

// goBack remembers what the service failed with, and reports whether to try again
// with what was good.
func (v *service) goBack(task taskdef.Task, st lifecycle.State) bool {
	if v.record == nil || !v.record.Failed(rollback.DigestsOf(task, st)) {
		return false
	}
	v.saveDigests()
	v.warn("the service was not ready with its new images, with which it has to do well for %v: going back to those of before", v.request.settle)
	return true
}

func (v *service) saveDigests() {
	if err := v.record.Save(v.StateDir, v.request.name); err != nil {
		v.warn("%v", err)
	}
}

// sameTask compares two tasks by what a record keeps of them.
func sameTask(a, b taskdef.Task) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// copyServiceLogs writes what the containers write.
func (v *service) copyServiceLogs(ctx context.Context, st lifecycle.State) {
	err := v.Agent.Logs.Read(ctx, st, "", observe.LogOptions{Follow: true, Tail: -1}, console.NewLogPrinter(v.stdout, v.stderr, st, v.getenv).Prefixed().Line)
	if err != nil && ctx.Err() == nil {
		v.warn("the logs end here: %v; `podtask logs %s` shows them", err, connect.NameOf(st))
	}
}

// replace stops and removes every task of a name.
func (s *session) replace(ctx context.Context, name string) error {
	states, _ := s.Agent.Tasks.States()
	for _, st := range states {
		if st.Name != name {
			continue
		}
		if st.Status() != lifecycle.StatusStopped {
			fmt.Fprintf(s.stderr, "replacing task %s (%s)\n", console.ShortID(st.ID), name)
			if err := s.StopTask(ctx, st.ID, "podtask run --replace", false, func(api.Task) {}); err != nil {
				return fmt.Errorf("stop the task that is to be replaced: %w", err)
			}
		}
		if err := s.Remove(ctx, st.ID, "podtask run --replace", true, func(api.Task) {}); err != nil {
			return fmt.Errorf("remove the task that is to be replaced: %w", err)
		}
	}
	return nil
}
