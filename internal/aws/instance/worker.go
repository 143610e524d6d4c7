package instance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/awscall"
	"github.com/podtask/podtask/internal/aws/instance/payload"
	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/internal/ecsstatus"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// taskWorker runs one task of ECS: it has the agent make the task, records and sends what ECS is to be
// told of it, stops it when ECS wants that, and removes it some time after its end.
type taskWorker struct {
	node  *node
	roles *roles
	name  string // the ARN, which never changes

	mu   sync.Mutex
	rec  record
	last api.Task // as the agent last had it; empty ID: not seen
	// wake is closed when rec changes.
	wake chan struct{}
}

func newTaskWorker(n *node, rec record) *taskWorker {
	return &taskWorker{node: n, name: rec.Task.ARN, rec: rec, wake: make(chan struct{}), roles: newRoles(n.valueDir(rec.Task.ARN))}
}

// get returns the record, and a channel that is closed when it changes.
func (w *taskWorker) get() (record, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rec, w.wake
}

// seen is the task as the agent last had it, and its record.
func (w *taskWorker) seen() (api.Task, record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, w.rec
}

// update changes the record and makes that durable. If it cannot be written, nothing has changed.
func (w *taskWorker) update(change func(*record)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := w.rec
	next.Queue, next.Told.Containers = slices.Clone(next.Queue), maps.Clone(next.Told.Containers)
	change(&next)
	if err := w.node.records.put(next); err != nil {
		return err
	}
	w.rec = next
	close(w.wake)
	w.wake = make(chan struct{})
	return nil
}

// persist is update that tries again until it succeeds: what ECS is to be told must not be lost.
func (w *taskWorker) persist(ctx context.Context, change func(*record)) bool {
	for failures := 1; ; failures++ {
		err := w.update(change)
		if err == nil {
			if failures > 1 {
				w.done(ecsstatus.WaitDisk)
			}
			return true
		}
		w.waits(ecsstatus.WaitDisk, "a record that can be written: "+err.Error())
		w.node.Log.Error("the record of a task cannot be written", "task", w.arn(), "error", err)
		if !sleep.For(ctx, w.node.Pace.Agent.pause(failures)) {
			return false
		}
	}
}

func (w *taskWorker) arn() string { return w.name }

// stop notes that ECS wants the task to have stopped.
func (w *taskWorker) stop() error {
	if rec, _ := w.get(); rec.Stop {
		return nil
	}
	return w.update(func(r *record) { r.Stop = true })
}

// run drives the task until it is removed, or ctx ends.
func (w *taskWorker) run(ctx context.Context) {
	sending, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { w.send(sending) })
	defer wg.Wait()
	defer cancel()
	if rec, _ := w.get(); rec.Ended.IsZero() && !w.drive(ctx) {
		return
	}
	if err := w.roles.end(); err != nil {
		w.node.Log.Warn("the values of a task cannot be removed", "task", w.arn(), "error", err)
	}
	if !w.sent(ctx) {
		return
	}
	rec, _ := w.get()
	if !sleep.For(ctx, time.Until(rec.Ended.Add(w.node.Cleanup))) {
		return
	}
	w.remove(ctx, rec)
}

// drive makes the task and follows it to its end. It returns false if ctx ends before.
func (w *taskWorker) drive(ctx context.Context) bool {
	rec, _ := w.get()
	if rec.Agent == "" {
		made, err := w.create(ctx)
		w.done(ecsstatus.WaitAgent, ecsstatus.WaitCredentials, ecsstatus.WaitValue)
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil:
			return w.refuse(ctx, err)
		case !made:
			return w.end(ctx, "", nil)
		}
	}
	return w.follow(ctx)
}

// refusal explains why the host does not run a task.
type refusal struct {
	reason     string            // of the task
	containers map[string]string // of containers, by name
}

func (r *refusal) Error() string {
	if r.reason != "" {
		return r.reason
	}
	for _, name := range slices.Sorted(maps.Keys(r.containers)) {
		return r.containers[name]
	}
	return "the task cannot run"
}

func refusalOf(problems []payload.Problem) *refusal {
	out := &refusal{containers: make(map[string]string)}
	for _, p := range problems {
		text := strings.TrimPrefix(p.Name+": "+p.Text, ": ")
		switch {
		case p.Container == "":
			out.reason = strings.TrimPrefix(out.reason+"; "+text, "; ")
		case out.containers[p.Container] == "":
			out.containers[p.Container] = text
		default:
			out.containers[p.Container] += "; " + text
		}
	}
	return out
}

// refuse tells ECS that the task ended before it ran.
func (w *taskWorker) refuse(ctx context.Context, err error) bool {
	w.node.Log.Warn("a task of ECS cannot run", "task", w.arn(), "error", err)
	if r, ok := errors.AsType[*refusal](err); ok {
		return w.end(ctx, r.reason, r.containers)
	}
	return w.end(ctx, err.Error(), nil)
}

// end records the end of a task that never ran.
func (w *taskWorker) end(ctx context.Context, reason string, containers map[string]string) bool {
	now := time.Now()
	return w.persist(ctx, func(r *record) {
		r.Ended = now
		if !r.Told.Stopped {
			r.Told.Stopped = true
			r.Queue = append(r.Queue, never(r.Task, w.node.cluster(), reason, containers, now))
		}
	})
}

// create has the agent make the task. Made is false if ECS wants it to have stopped; an error is a
// reason for which it will never run.
func (w *taskWorker) create(ctx context.Context) (made bool, err error) {
	for failures := 1; ; failures++ {
		rec, wake := w.get()
		if rec.Stop {
			// A task of an earlier process, which could not note it any more, is there to be stopped. Its request may still be
			// on the way: before ECS is told that the task never ran, nothing can be made of it.
			t, found, err := w.find(ctx, rec)
			if err == nil && !found {
				err = w.void(ctx)
			}
			switch {
			case found:
				return w.note(ctx, t), nil
			case err == nil:
				return false, nil
			}
			w.waits(ecsstatus.WaitAgent, "the agent to forget it: "+err.Error())
		} else {
			t, wait, err := w.tryCreate(ctx, rec)
			var refused *refusal
			switch {
			case err == nil && wait == nil:
				return w.note(ctx, t), nil
			case errors.As(err, &refused):
				return false, err
			case err == nil:
				w.done(ecsstatus.WaitAgent, ecsstatus.WaitValue)
				w.waits(ecsstatus.WaitCredentials, "the credentials of its execution role, which ECS has not sent")
				if !w.await(ctx, wait, wake) {
					return false, ctx.Err()
				}
				failures = 0
				continue
			}
			w.done(ecsstatus.WaitCredentials)
			if errors.As(err, new(*valueError)) {
				w.done(ecsstatus.WaitAgent)
				w.waits(ecsstatus.WaitValue, "a value of AWS: "+err.Error())
			} else {
				w.done(ecsstatus.WaitValue)
				w.waits(ecsstatus.WaitAgent, "the agent to make it: "+err.Error())
			}
			w.node.Log.Warn("a task of ECS cannot be made yet", "task", w.arn(), "error", err)
		}
		if !w.await(ctx, time.After(w.node.Pace.Agent.pause(failures)), wake) {
			return false, ctx.Err()
		}
	}
}

// note records the agent's task.
func (w *taskWorker) note(ctx context.Context, t api.Task) bool {
	return w.persist(ctx, func(r *record) { r.Agent = t.ID })
}

// waits shows what the task waits for, done that it does not.
func (w *taskWorker) waits(kind ecsstatus.Kind, text string) { w.node.status.wait(kind, w.arn(), text) }

func (w *taskWorker) done(kinds ...ecsstatus.Kind) { w.node.status.done(w.arn(), kinds...) }

// await waits for one of two events; false if ctx ends before.
func (w *taskWorker) await(ctx context.Context, events any, wake <-chan struct{}) bool {
	switch c := events.(type) {
	case <-chan time.Time:
		select {
		case <-c:
			return true
		case <-wake:
			return true
		case <-ctx.Done():
			return false
		}
	case <-chan struct{}:
		select {
		case <-c:
			return true
		case <-wake:
			return true
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// tryCreate makes the task. If it must wait for credentials, it returns a channel that is closed when
// there are new ones.
func (w *taskWorker) tryCreate(ctx context.Context, rec record) (t api.Task, wait <-chan struct{}, err error) {
	plan, problems := w.node.plan(ctx, rec.Task)
	if len(problems) > 0 {
		return t, nil, refusalOf(problems)
	}
	_, has, changed := w.roles.get(wire.RoleExecution)
	if !has && slices.ContainsFunc(plan.Needs, func(n payload.Need) bool { return n.Kind != payload.Role && n.Kind != payload.LogRole && !n.Instance }) {
		if rec.Task.ExecutionRole == nil {
			return t, nil, &refusal{reason: "ResourceInitializationError: the task needs secrets, but has no execution role"}
		}
		return t, changed, nil
	}
	references, err := w.references(ctx, plan.Needs)
	if value, ok := errors.AsType[*valueError](err); ok && awscall.Refused(value.err) && !awscall.Outdated(value.err) {
		return t, nil, &refusal{reason: cut(err.Error(), maxReason)}
	}
	if err != nil {
		return t, nil, err
	}
	t, err = w.node.Agent.Create(ctx, api.NewTask{
		Definition: plan.Definition, Name: nameOf(w.arn()), ClientToken: w.arn(), GiveUp: true,
		TaskSettings: api.TaskSettings{References: references},
	})
	switch {
	case err == nil:
		return t, nil, nil
	case api.Is(err, api.BadRequest):
		return t, nil, &refusal{reason: "HostConfigError: " + err.Error()}
	case api.Is(err, api.Gone):
		return t, nil, gone(rec)
	case !api.Is(err, api.Conflict):
		return t, nil, err
	}
	if found, ok, findErr := w.find(ctx, rec); ok || findErr != nil {
		return found, nil, findErr
	}
	return t, nil, &refusal{reason: "HostConfigError: " + err.Error()}
}

// void has the agent make no task of this one any more. An agent of an earlier version cannot be asked for that.
func (w *taskWorker) void(ctx context.Context) error {
	err := w.node.Agent.Void(ctx, w.arn())
	if api.Is(err, api.Unsupported) {
		return nil
	}
	return err
}

// nameOf is the name of the agent's task.
func nameOf(arn string) string { return "ecs-" + path.Base(arn) }

// find looks for the agent's task of this one: that of its client token, or one that an earlier version has made.
func (w *taskWorker) find(ctx context.Context, rec record) (t api.Task, found bool, err error) {
	t, err = w.node.Agent.Task(ctx, api.TaskID(rec.Task.ARN))
	if api.Is(err, api.NotFound) {
		t, err = w.node.Agent.Task(ctx, nameOf(rec.Task.ARN))
	}
	switch {
	case api.Is(err, api.NotFound):
		return t, false, nil
	case err != nil:
		return t, false, err
	}
	return t, t.Tags[arn.TagTask] == rec.Task.ARN, nil
}

// follow watches the task to its end, and stops it when ECS wants that.
func (w *taskWorker) follow(ctx context.Context) bool {
	for failures := 1; ; failures++ {
		rec, _ := w.get()
		stopping, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		wg.Go(func() { w.stopWhenAsked(stopping, rec.Agent) })
		ended, err := w.watch(ctx, rec.Agent)
		cancel()
		wg.Wait()
		if ctx.Err() == nil && (err == nil || api.Is(err, api.NotFound)) {
			w.done(ecsstatus.WaitAgent)
		}
		switch {
		case ended:
			return true
		case ctx.Err() != nil:
			return false
		case api.Is(err, api.NotFound):
			return w.vanished(ctx)
		case err != nil:
			w.waits(ecsstatus.WaitAgent, "the agent to tell of it: "+err.Error())
			w.node.Log.Debug("the task cannot be watched", "task", w.arn(), "error", err)
		}
		if !sleep.For(ctx, w.node.Pace.Agent.pause(failures)) {
			return false
		}
	}
}

// stopWhenAsked asks the agent to stop the task once ECS wants that.
func (w *taskWorker) stopWhenAsked(ctx context.Context, id string) {
	for failures := 0; ctx.Err() == nil; {
		rec, wake := w.get()
		if !rec.Stop {
			select {
			case <-wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		err := w.node.Agent.Stop(ctx, id, ByECS, false)
		if err == nil || api.Is(err, api.NotFound) {
			return
		}
		failures++
		w.waits(ecsstatus.WaitAgent, "the agent to stop it: "+err.Error())
		w.node.Log.Warn("a task of ECS cannot be stopped yet", "task", w.arn(), "error", err)
		if !sleep.For(ctx, w.node.Pace.Agent.pause(failures)) {
			return
		}
	}
}

// watch records what ECS is to be told at each change of the task. Ended: it has stopped.
func (w *taskWorker) watch(ctx context.Context, id string) (ended bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tasks := make(chan api.Task)
	failed := make(chan error, 1)
	go func() {
		failed <- w.node.Agent.Watch(ctx, id, func(t api.Task) bool {
			select {
			case tasks <- t:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	var last api.Task
	var gather <-chan time.Time
	for {
		gathered := false
		select {
		case last = <-tasks:
			w.done(ecsstatus.WaitAgent)
		case <-gather:
			gathered, gather = true, nil
		case err := <-failed:
			return false, err
		}
		waiting, ok := w.see(ctx, last, gathered)
		switch {
		case !ok:
			return false, ctx.Err()
		case last.Status == wire.StatusStopped:
			return true, nil
		case !waiting:
			gather = nil
		case gather == nil:
			gather = time.After(w.node.Pace.Gather)
		}
	}
}

// see records what ECS is to be told of a task.
func (w *taskWorker) see(ctx context.Context, t api.Task, gathered bool) (waiting, ok bool) {
	w.showStart(t)
	w.mu.Lock()
	w.last = t
	next := w.rec.Told
	next.Containers = maps.Clone(next.Containers)
	changes, waiting := next.changes(w.rec.Task, w.node.cluster(), t, gathered)
	w.mu.Unlock()
	if len(changes) == 0 && t.Status != wire.StatusStopped {
		return waiting, true
	}
	return waiting, w.persist(ctx, func(r *record) {
		r.Told = next
		r.Queue = append(r.Queue, changes...)
		if t.Status == wire.StatusStopped && r.Ended.IsZero() {
			r.Ended = time.Now()
		}
	})
}

// startWaits are the waits of a task that has not started.
var startWaits = []ecsstatus.Kind{ecsstatus.WaitImage, ecsstatus.WaitPort, ecsstatus.WaitRoom}

// showStart shows what keeps a task from starting, as the agent says it.
func (w *taskWorker) showStart(t api.Task) {
	kind, text := startWait(t)
	for _, k := range startWaits {
		if k == kind {
			w.waits(k, text)
		} else {
			w.done(k)
		}
	}
}

// startWait returns the wait that keeps a task from starting; the kind is empty if nothing does, or only its own work.
func startWait(t api.Task) (kind ecsstatus.Kind, text string) {
	if t.Status == wire.StatusRunning || t.Status == wire.StatusStopped || len(t.Why) == 0 {
		return "", ""
	}
	why := t.Why[0]
	switch {
	case why.Code == lifecycle.WhyQueued && strings.Contains(why.Text, "port "):
		return ecsstatus.WaitPort, strings.TrimPrefix(why.Text, "it waits for ")
	case why.Code == lifecycle.WhyQueued:
		return ecsstatus.WaitRoom, strings.TrimPrefix(why.Text, "it waits for ")
	case why.Code != lifecycle.WhyRetry:
		return "", ""
	}
	for _, c := range t.Containers {
		if c.Name == why.Container && (c.Status == "NONE" || c.Status == "MANIFEST_PULLED") {
			return ecsstatus.WaitImage, "an image: " + why.Text
		}
	}
	return "", ""
}

// vanished records the end of a task that was removed on this host, with podtask rm for instance.
func (w *taskWorker) vanished(ctx context.Context) bool {
	rec, _ := w.get()
	return w.refuse(ctx, gone(rec))
}

// gone is the refusal with which ECS is told of a task that ran and was removed on the host.
func gone(rec record) *refusal {
	reasons := make(map[string]string)
	for _, c := range rec.Task.Containers {
		reasons[c.Name] = "ContainerVanishedError: the task was removed on the host"
	}
	return &refusal{containers: reasons}
}

// sent waits until ECS has accepted all changes; false if ctx ends before.
func (w *taskWorker) sent(ctx context.Context) bool {
	for {
		rec, wake := w.get()
		if len(rec.Queue) == 0 {
			return true
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return false
		}
	}
}

// remove removes the agent's task, its values and the record.
func (w *taskWorker) remove(ctx context.Context, rec record) {
	for failures := 1; rec.Agent != ""; failures++ {
		err := w.node.Agent.Remove(ctx, rec.Agent, ByECS, true)
		if err == nil || api.Is(err, api.NotFound) {
			break
		}
		w.waits(ecsstatus.WaitAgent, "the agent to remove it: "+err.Error())
		w.node.Log.Warn("a task of ECS cannot be removed yet", "task", w.arn(), "error", err)
		if !sleep.For(ctx, w.node.Pace.Agent.pause(failures)) {
			return
		}
	}
	if err := w.roles.remove(); err != nil {
		w.node.Log.Warn("the values of a task cannot be removed", "task", w.arn(), "error", err)
	}
	if err := w.node.records.remove(w.arn()); err != nil {
		w.node.Log.Error("the record of a task cannot be removed", "task", w.arn(), "error", err)
	}
	w.done(ecsstatus.Kinds()...)
	w.node.forget(w.arn())
}

// send sends the queued changes, one after the other. Each task has a queue of its own, so that one
// that ECS refuses holds up no other.
func (w *taskWorker) send(ctx context.Context) {
	for failures := 0; ; {
		rec, wake := w.get()
		if len(rec.Queue) == 0 {
			select {
			case <-wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		err := w.node.submit(ctx, rec.Queue[0])
		if ctx.Err() != nil {
			return
		}
		code := awscall.CodeOf(err)
		if err == nil || code == "InvalidParameterException" {
			if err != nil {
				w.node.Log.Error("ECS never accepts a state of a task", "task", w.arn(), "status", rec.Queue[0].Status, "error", err)
			}
			if failures > 0 {
				w.done(ecsstatus.WaitState)
			}
			failures = 0
			if !w.persist(ctx, func(r *record) { r.Queue = r.Queue[1:] }) {
				return
			}
			continue
		}
		failures++
		w.waits(ecsstatus.WaitState, fmt.Sprintf("ECS to take the state %s: %v", rec.Queue[0].Status, err))
		pause := w.node.Pace.Busy
		if awscall.Refused(err) {
			pause = w.node.Pace.Refused
		}
		w.node.Log.Warn("a state of a task could not be sent", "task", w.arn(), "status", rec.Queue[0].Status, "attempts", failures, "error", err)
		if !sleep.For(ctx, pause.pause(failures)) {
			return
		}
	}
}

// String is for messages.
func (w *taskWorker) String() string { return fmt.Sprintf("task %s", w.arn()) }
