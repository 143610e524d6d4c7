package owner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/engine/act/admit"
	"github.com/podtask/podtask/internal/engine/act/endpoint"
	"github.com/podtask/podtask/internal/engine/act/leftover"
	"github.com/podtask/podtask/internal/engine/act/preflight"
	"github.com/podtask/podtask/internal/engine/act/tasksecrets"
	"github.com/podtask/podtask/internal/engine/facts/failpoint"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/network/names"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Creator creates the records of new tasks.
type Creator struct {
	Tasks     *record.Tasks
	Ledger    *admit.Ledger
	Preflight *preflight.Checker
	Secrets   *tasksecrets.Store
	Metadata  *endpoint.Factory
	Owners    *Owners
	// LogSize is the most bytes the log of a container may take; 0: no limit.
	LogSize int64
	// Logs says whether log drivers send output to servers.
	Logs string
}

// Launch is a task that is to start.
type Launch struct {
	// ID is the ID that the task gets. No task has it. Empty: a new one.
	ID   string
	Task taskdef.Task
	// Name is the name of the task; empty if it has none. No task that has not stopped may have the name, unless
	// NameOptional starts this one without it.
	Name         string
	NameOptional bool
	Options      lifecycle.Options
}

// UnfitError explains why this host cannot run a task.
type UnfitError struct{ Cause error }

func (e *UnfitError) Error() string { return e.Cause.Error() }
func (e *UnfitError) Unwrap() error { return e.Cause }

// Launch checks that this host can run a task, records it and returns its owner, which the caller runs or hands over.
// Every task starts with it. The error is an *UnfitError if the host cannot run the task, and record.ErrNameTaken,
// admit.ErrDraining or one of Record otherwise.
func (c *Creator) Launch(ctx context.Context, l Launch) (*Owner, error) {
	if err := c.Preflight.Check(ctx, l.Task, l.Options); err != nil {
		return nil, &UnfitError{err}
	}
	owner, err := c.Record(ctx, l)
	if l.NameOptional && errors.Is(err, record.ErrNameTaken) {
		l.Name = ""
		return c.Record(ctx, l)
	}
	return owner, err
}

// Record is Launch without the check. It starts nothing, but stores secrets that only this process can read. It holds
// the task's lock from the start, so that no other process takes the task over. Before it stores credentials in Podman,
// it notes the ID, so that a sweep finds them if the process dies before the record is written. Options.Unapplied of the
// state lists limits that will not be applied. If a task has the ID, the error is record.ErrMade or, while another process
// owns it, state.ErrLocked; if one had it whose Options.Once was set, record.ErrRemoved.
func (c *Creator) Record(ctx context.Context, l Launch) (*Owner, error) {
	id, t := cmp.Or(l.ID, record.NewID()), l.Task
	mine, err := c.Tasks.Locks.Lock(id)
	if err != nil {
		return nil, err
	}
	if err := c.Tasks.New(id); err != nil {
		return nil, errors.Join(err, mine.Unlock())
	}
	noted := c.Secrets.KeepsLogins(t)
	if noted {
		now := time.Now()
		if err := c.Owners.Leftover.Note(id, leftover.Window{Began: now, Ended: now}); err != nil {
			return nil, errors.Join(fmt.Errorf("note the credentials of a new task: %w", err), mine.Remove())
		}
	}
	s, err := c.keepAndRecord(ctx, id, t, l.Name, l.Options)
	if err != nil {
		return nil, errors.Join(err, mine.Remove())
	}
	if noted {
		if err := c.Owners.Leftover.Forget(id); err != nil { // the removal of the task tries again
			c.Owners.Log.Warn("the note about the credentials of a task stays", "task", id, "error", err)
		}
	}
	owner := c.Owners.New(mine, s)
	if err := c.Secrets.PersistLocal(ctx, owner.State()); err != nil {
		return nil, errors.Join(err, owner.Discard())
	}
	return owner, nil
}

// Void has no task made with an ID, as if one had run and was removed. The errors are record.ErrMade if there is a task, and
// state.ErrLocked while one is made.
func (c *Creator) Void(id string) error {
	lock, err := c.Tasks.Locks.Lock(id)
	if err != nil {
		return err
	}
	err = c.Tasks.New(id)
	switch {
	case errors.Is(err, record.ErrMade):
		return errors.Join(err, lock.Unlock())
	case err == nil:
		err = c.Tasks.Leave(id)
	case errors.Is(err, record.ErrRemoved):
		err = nil
	}
	return errors.Join(err, lock.Remove())
}

// keepAndRecord stores the task's credentials and writes its record. If it fails, it removes
// the credentials, or leaves them to the next sweep.
func (c *Creator) keepAndRecord(ctx context.Context, id string, t taskdef.Task, name string, o lifecycle.Options) (lifecycle.State, error) {
	t, err := c.Secrets.KeepLogins(ctx, id, t)
	c.Owners.Fail.At(failpoint.BeforeRecord)
	var s lifecycle.State
	if err == nil {
		s, err = c.record(ctx, id, t, name, o)
	}
	if err == nil {
		return s, nil
	}
	if forgetErr := c.forgetLogins(ctx, id, t); forgetErr != nil {
		return s, errors.Join(err, forgetErr)
	}
	return s, errors.Join(err, c.Owners.Leftover.Forget(id))
}

// forgetLimit bounds the removal of credentials after a creation that failed.
const forgetLimit = 20 * time.Second

// forgetLogins removes the credentials of a task that was not created, also if the creation was
// canceled.
func (c *Creator) forgetLogins(ctx context.Context, id string, t taskdef.Task) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetLimit)
	defer cancel()
	return c.Secrets.ForgetLogins(ctx, id, t)
}

// record gives the task its name and its record. The caller holds the task's lock.
func (c *Creator) record(ctx context.Context, id string, t taskdef.Task, name string, o lifecycle.Options) (s lifecycle.State, err error) {
	lock, err := c.Tasks.Locks.LockWait(ctx, record.AllTasks)
	if err != nil {
		return s, err
	}
	defer lock.Unlock()
	if err := c.Ledger.RefuseDraining(); err != nil {
		return s, err
	}
	if name != "" {
		if s, err := c.Tasks.Find(name); err == nil && s.Name == name && s.Status() != lifecycle.StatusStopped {
			return s, fmt.Errorf("%w: task %s is called %s; stop it or choose another --name", record.ErrNameTaken, s.ID[:12], name)
		}
	}
	if o.Unapplied, _, err = c.Preflight.Unsupported(ctx, t, o); err != nil {
		return s, err
	}
	o.LogSize, o.Logs = c.LogSize, cmp.Or(o.Logs, c.Logs)
	o.Namespace = cmp.Or(o.Namespace, t.Extensions.Namespace)
	if slices.ContainsFunc(t.Containers, func(c taskdef.Container) bool { return c.Extensions.Kube.HostsFile }) {
		o.Namespace = names.OfCluster(taskdef.PodRefOf(t).Namespace)
	}
	s = lifecycle.New(id, name, t, c.Preflight.Defaults(ctx, c.Metadata.Options(t, o)), time.Now().UTC())
	if err := lifecycle.Check(s); err != nil {
		return s, fmt.Errorf("a new task is already broken: %w", err)
	}
	data, err := json.Marshal(s)
	if err != nil {
		return s, err
	}
	return s, c.Tasks.Store.Put(s.ID, data)
}
