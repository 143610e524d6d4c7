package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/act/logdelivery"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/act/preflight"
	"github.com/podtask/podtask/internal/engine/act/tasksecrets"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Launcher starts owners with the configuration of this process.
func (m *Machine) Launcher() *connect.Launcher {
	p := m.Program
	return &connect.Launcher{Connector: m.Connector, Getenv: p.Getenv, Environ: p.Environ, Executable: p.Executable, Flags: m.Config.FlagArgs()}
}

// FollowPulls shows the pulls of another process for a task, until stop is called.
// Machine.OnPull reports those of this process.
func FollowPulls(ctx context.Context, log *slog.Logger, client *api.Client, id string, view *console.PullView) (stop func()) {
	if client == nil || view.Mode == "none" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		err := client.Pulls(ctx, id, true, func(p api.Pull) error { view.Observe(p); return nil })
		if ctx.Err() == nil {
			log.Debug("the owner no longer reports pulls", "task", id, "error", err)
		}
		view.Forget()
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// TaskReader reads the current state of tasks, from their owners or from records and Podman.
type TaskReader struct {
	Tasks    *record.Tasks
	Owners   *connect.Connector
	Unowned  *observe.Unowned
	Delivery *logdelivery.Deliverer
	Warn     func(format string, args ...any)
}

// TaskReader returns a reader of this host's tasks.
func (m *Machine) TaskReader() TaskReader {
	e := m.Engine
	return TaskReader{Tasks: e.Tasks, Owners: m.Connector, Unowned: e.Unowned, Delivery: e.Delivery, Warn: m.Program.Warn}
}

// Inspect asks the owner of a task. Without an owner it reads the record and asks Podman for the
// state of the containers.
func (r TaskReader) Inspect(ctx context.Context, ref string) (api.Task, error) {
	st, err := r.Tasks.FindToShow(ref)
	if err != nil {
		return api.Task{}, err
	}
	if t, err := r.askOwner(ctx, st.ID); err == nil {
		return t, nil
	}
	now := time.Now()
	return ownerapi.WithLogs(r.Observe(ctx, []lifecycle.State{st}, now)[0], r.Delivery, st, now), nil
}

// RenewReasons asks the owners of tasks that do not run yet, of at most most of them, what they wait for now: records have only what was
// saved last. What an owner does not answer stays.
func (r TaskReader) RenewReasons(ctx context.Context, tasks []api.Task, most int) {
	for i, t := range tasks {
		if t.Settled || !t.Owner.Alive || t.Status == lifecycle.StatusRunning.String() {
			continue
		}
		if most--; most < 0 {
			return
		}
		if now, err := r.askOwner(ctx, t.ID); err == nil {
			tasks[i].Why = now.Why
		}
	}
}

// askOwner returns a task as its owner has it.
func (r TaskReader) askOwner(ctx context.Context, id string) (t api.Task, err error) {
	for _, socket := range []string{r.Owners.Socket(id), r.Owners.AgentSocket} {
		var c *api.Client
		if c, err = api.Dial(ctx, socket); err != nil {
			continue
		}
		t, err = c.Task(ctx, id)
		c.Close()
		if err == nil {
			return t, nil
		}
	}
	return t, err
}

// recordSpace is more than the record of most tasks takes.
const recordSpace = 64 << 10

// writable reports whether records can be written. If not, they may be older than what the
// owners of the tasks know.
func writable(dir string) bool {
	f, err := os.CreateTemp(dir, ".space-")
	if err != nil {
		return false
	}
	defer os.Remove(f.Name())
	_, err = f.Write(make([]byte, recordSpace))
	return errors.Join(err, f.Close()) == nil
}

// Observe returns tasks as recorded. For running tasks without an owner it asks Podman, once for
// all of them, and if nothing can be recorded, it asks the owners of the others.
func (r TaskReader) Observe(ctx context.Context, states []lifecycle.State, now time.Time) []api.Task {
	tasks := make([]api.Task, len(states))
	var unowned []lifecycle.State
	var at []int
	stale := !writable(r.Owners.StateDir)
	for i, st := range states {
		st, tasks[i] = r.Owners.Recorded(st)
		if stale && tasks[i].Owner.Alive && !tasks[i].Settled {
			if t, err := r.askOwner(ctx, st.ID); err == nil {
				tasks[i] = t
			}
		}
		if st.Sandbox.Dirty && !tasks[i].Settled && !tasks[i].Owner.Alive {
			unowned, at = append(unowned, st), append(at, i)
		}
	}
	if len(unowned) == 0 {
		return tasks
	}
	seen, err := r.Unowned.Look(ctx, now, unowned)
	if err != nil {
		r.Warn("tasks without an owner are shown as last recorded: %v", err)
		return tasks
	}
	for k, st := range seen {
		// Without an owner, only the record has what the task waited for.
		why := tasks[at[k]].Why
		tasks[at[k]] = r.Owners.FromState(st)
		tasks[at[k]].Observed, tasks[at[k]].Why = true, why
	}
	return tasks
}

// Restarter runs the definitions of tasks again.
type Restarter struct {
	Owners    *connect.Connector
	Launcher  *connect.Launcher
	Creator   *owner.Creator
	Secrets   *tasksecrets.Store
	Preflight *preflight.Checker
}

// Restarter returns a restarter of this host's tasks.
func (m *Machine) Restarter() Restarter {
	e := m.Engine
	return Restarter{Owners: m.Connector, Launcher: m.Launcher(), Creator: e.Creator, Secrets: e.Secrets, Preflight: e.Preflight}
}

// Restart stops a task and runs its definition again; it returns the ID of the new task.
func (r Restarter) Restart(ctx context.Context, st lifecycle.State, limit Grace, show *console.Progress) (string, error) {
	if err := connect.Restartable(st); err != nil {
		return "", err
	}
	if missing := r.Secrets.Missing(st); len(missing) > 0 {
		return "", fmt.Errorf("task %s takes secrets from where it was started: set %v here, or run its definition again", st.DisplayName(), missing)
	}
	if err := r.Preflight.Check(ctx, st.Task, st.Options); err != nil {
		return "", err
	}
	if err := limit.Stop(ctx, r.Owners, st, "podtask restart", show); err != nil {
		return "", err
	}
	options := st.Options
	options.Logs, options.Once = "", false                                                            // as configured now; a new ID
	again, err := r.Creator.Record(ctx, owner.Launch{Task: st.Task, Name: st.Name, Options: options}) // checked before the stop
	if err != nil {
		return "", fmt.Errorf("task %s has stopped, and was not started again: %w", st.DisplayName(), err)
	}
	return again.ID(), r.Launcher.HandOver(ctx, again)
}
