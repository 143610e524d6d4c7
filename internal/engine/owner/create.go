package owner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/podtask/podtask/internal/engine/admit"
	"github.com/podtask/podtask/internal/engine/endpoint"
	"github.com/podtask/podtask/internal/engine/preflight"
	"github.com/podtask/podtask/internal/engine/record"
	"github.com/podtask/podtask/internal/engine/tasksecrets"
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

// Create records a new task and returns its state. It starts nothing, but stores secrets that
// only this process can read. Call Preflight.Check before; Options.Unapplied of the state lists
// limits that will not be applied.
func (c *Creator) Create(ctx context.Context, t taskdef.Task, name string, o lifecycle.Options) (lifecycle.State, error) {
	owner, err := c.CreateOwned(ctx, t, name, o)
	if err != nil {
		return lifecycle.State{}, err
	}
	return owner.State(), owner.Close()
}

// CreateOwned is Create for a caller that owns the task from the start, so that no other
// process takes it over. The caller runs and closes the owner.
func (c *Creator) CreateOwned(ctx context.Context, t taskdef.Task, name string, o lifecycle.Options) (*Owner, error) {
	return c.CreateAs(ctx, record.NewID(), t, name, o)
}

// CreateAs is CreateOwned under a given id that no task has.
func (c *Creator) CreateAs(ctx context.Context, id string, t taskdef.Task, name string, o lifecycle.Options) (*Owner, error) {
	t, err := c.Secrets.KeepLogins(ctx, id, t)
	if err != nil {
		return nil, err
	}
	owner, err := c.record(ctx, id, t, name, o)
	if err != nil {
		return nil, errors.Join(err, c.Secrets.ForgetLogins(ctx, id, t))
	}
	if err := c.Secrets.PersistLocal(ctx, owner.State()); err != nil {
		return nil, errors.Join(err, owner.Discard())
	}
	return owner, nil
}

// record gives the task its name and its record.
func (c *Creator) record(ctx context.Context, id string, t taskdef.Task, name string, o lifecycle.Options) (*Owner, error) {
	lock, err := c.Tasks.Locks.LockWait(ctx, record.AllTasks)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	if err := c.Ledger.RefuseDraining(); err != nil {
		return nil, err
	}
	if name != "" {
		if s, err := c.Tasks.Find(name); err == nil && s.Name == name && s.Status() != lifecycle.StatusStopped {
			return nil, fmt.Errorf("%w: task %s is called %s; stop it or choose another --name", record.ErrNameTaken, s.ID[:12], name)
		}
	}
	if o.Unapplied, _, err = c.Preflight.Unsupported(ctx, t, o); err != nil {
		return nil, err
	}
	o.LogSize, o.Logs = c.LogSize, c.Logs
	s := lifecycle.New(id, name, t, c.Preflight.Defaults(ctx, c.Metadata.Options(t, o)), time.Now().UTC())
	if err := lifecycle.Check(s); err != nil {
		return nil, fmt.Errorf("a new task is already broken: %w", err)
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	mine, err := c.Tasks.Locks.Lock(s.ID)
	if err != nil {
		return nil, err
	}
	if err := c.Tasks.Store.Put(s.ID, data); err != nil {
		return nil, errors.Join(err, mine.Remove())
	}
	return c.Owners.New(mine, s), nil
}

// CreateNamed is CreateAs, without a name if another task has that name.
func (c *Creator) CreateNamed(ctx context.Context, id string, t taskdef.Task, name string, o lifecycle.Options) (*Owner, error) {
	owner, err := c.CreateAs(ctx, id, t, name, o)
	if errors.Is(err, record.ErrNameTaken) {
		return c.CreateAs(ctx, id, t, "", o)
	}
	return owner, err
}
