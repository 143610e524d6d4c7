package services

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
)

// hookTaskID is the id of the task that answers a call, the same each time: after a restart of
// the agent the task is found, not run again.
func hookTaskID(call string) string {
	sum := sha256.Sum256([]byte("podtask task of hook " + call))
	return hex.EncodeToString(sum[:16])
}

// callTask runs the task of a hook and waits for its end. It succeeds if all essential containers end
// with 0, and is to be removed then; one that fails stays for its logs. It is stopped if the call is given up,
// and continues if the agent ends.
func (l *runner) callTask(ctx context.Context, s service.State, r service.HookRequest) service.HookAnswered {
	in, id := service.HookAnswered{ID: r.ID, Number: r.Number, Status: service.HookFailed}, hookTaskID(r.ID)
	if err := l.startHookTask(ctx, s, r, id); err != nil {
		in.Reason = fmt.Sprintf("the task of %s cannot be run: %v", r.Config.Target.Value, err)
		return in
	}
	var last lifecycle.State
	err := l.all.Fleet.Follow(ctx, id, func(t lifecycle.State) bool {
		last = t
		return t.Status() != lifecycle.StatusStopped
	})
	switch {
	case ctx.Err() != nil:
		if l.all.ctx.Err() == nil {
			l.stopHookTask(id, r)
		}
		in.Reason = "the call was given up"
	case err != nil:
		in.Reason = fmt.Sprintf("the task %s is not seen any more: %v", id, err)
	default:
		if in.Reason = taskFailure(last); in.Reason == "" {
			in.Status = service.HookSucceeded
		}
	}
	return in
}

// startHookTask makes the task of a hook, unless it has a record already.
func (l *runner) startHookTask(ctx context.Context, s service.State, r service.HookRequest, id string) error {
	if _, err := l.all.Tasks.Get(id); !errors.As(err, new(*record.NotFoundError)) {
		return err
	}
	if l.all.HookSpec == nil {
		return errors.New("this agent runs no tasks for hooks")
	}
	spec, err := l.all.HookSpec(ctx, r.Config.Target.Value)
	if err != nil {
		return err
	}
	l.all.provide(spec)
	options, err := l.all.OptionsOf(spec)
	if err != nil {
		return err
	}
	options.Cluster, options.Once = s.Config.Cluster, true
	o, err := l.all.Creator.Launch(ctx, owner.Launch{ID: id, Task: spec.Task, Name: s.Name + "-" + r.Hook, NameOptional: true, Options: options})
	if err != nil {
		return err
	}
	return l.all.Fleet.Take(ctx, o)
}

// removeHookTask removes the task of a call that has succeeded, unless the agent ends.
func (l *runner) removeHookTask(s service.State, id string) {
	err := l.remove(l.all.ctx, id, "service "+s.Name)
	if l.all.ctx.Err() == nil && !errors.As(err, new(*record.NotFoundError)) {
		l.all.Log.Warn("the task of a hook is not removed", "service", s.Name, "task", id, "error", err)
	}
}

// stopHookTask asks a task to stop whose call was given up.
func (l *runner) stopHookTask(id string, r service.HookRequest) {
	err := l.all.Fleet.Send(l.all.ctx, id, lifecycle.StopRequested{By: fmt.Sprintf("service %s: the hook %s was given up", l.name, r.Hook)})
	if err != nil && !errors.As(err, new(*record.NotFoundError)) {
		l.all.Log.Warn("the task of a hook is not stopped", "service", l.name, "task", id, "error", err)
	}
}

// taskFailure explains why a task that has stopped has failed; "" if all its essential containers have
// ended with 0.
func taskFailure(t lifecycle.State) string {
	if t.Stop.Code != lifecycle.StopEssentialContainerExited {
		return fmt.Sprintf("the task %s stopped: %s", t.ID, t.Stop.Reason)
	}
	for i, c := range t.Containers {
		if name := t.Task.Containers[i].Name; t.Task.Containers[i].Essential && c.HasExit && c.ExitCode != 0 {
			return fmt.Sprintf("the container %s of the task %s ended with %d; `podtask logs %s` shows what it wrote", name, t.ID, c.ExitCode, t.ID)
		}
	}
	return ""
}

// checkHookTasks finds out whether the tasks of hooks can be run here.
func (a *Services) checkHookTasks(ctx context.Context, m service.Method) error {
	var errs []error
	for _, h := range m.Hooks {
		if h.Target.Kind != service.HookTask || a.HookSpec == nil {
			continue
		}
		spec, err := a.HookSpec(ctx, h.Target.Value)
		if err == nil {
			a.provide(spec)
			err = a.preflight(ctx, spec)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("the hook %s: %w", h.Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &BadServiceError{err}
	}
	return nil
}
