package command

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Launcher starts owners with the configuration of this process.
func (s *Machine) Launcher() *connect.Launcher {
	return &connect.Launcher{Connector: s.Connector, Getenv: s.Program.Getenv, Environ: s.Program.Environ, Executable: s.Program.Executable, Flags: s.Config.FlagArgs()}
}

// FollowPulls shows the pulls that another process does for a task, until stop is called.
// Those of our own are shown anyway.
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

// InspectTask asks the owner of the task; without an owner it reads the record, and asks
// Podman what has become of its containers.
func (s *Machine) InspectTask(ctx context.Context, ref string) (api.Task, error) {
	st, err := s.Engine.Tasks.Find(ref)
	if err != nil {
		return api.Task{}, err
	}
	for _, socket := range []string{s.Connector.Socket(st.ID), s.Connector.AgentSocket} {
		c, err := api.Dial(ctx, socket)
		if err != nil {
			continue
		}
		t, err := c.Task(ctx, st.ID)
		c.Close()
		if err == nil {
			return t, nil
		}
	}
	now := time.Now()
	return ownerapi.WithLogs(s.ObservedTasks(ctx, []lifecycle.State{st}, now)[0], s.Engine.Delivery, st, now), nil
}

// ObservedTasks returns tasks as recorded, but those without an owner as Podman says now.
// It asks Podman once, if there is such a task.
func (s *Machine) ObservedTasks(ctx context.Context, states []lifecycle.State, now time.Time) []api.Task {
	tasks := make([]api.Task, len(states))
	var unowned []lifecycle.State
	var at []int
	for i, st := range states {
		st, tasks[i] = s.Connector.Recorded(st)
		if st.Sandbox.Dirty && !tasks[i].Settled && !tasks[i].Owner.Alive {
			unowned, at = append(unowned, st), append(at, i)
		}
	}
	if len(unowned) == 0 {
		return tasks
	}
	seen, err := s.Engine.Unowned.Look(ctx, now, unowned)
	if err != nil {
		s.Program.Warn("tasks without an owner are shown as last recorded: %v", err)
		return tasks
	}
	for k, st := range seen {
		// Without an owner, only the record says what the task waited for.
		why := tasks[at[k]].Why
		tasks[at[k]] = s.Connector.FromState(st)
		tasks[at[k]].Observed, tasks[at[k]].Why = true, why
	}
	return tasks
}

// RunAgain stops a task and runs its definition again; it returns the ID of the new task.
func RunAgain(ctx context.Context, s *Machine, st lifecycle.State, limit Grace, show *console.Progress) (string, error) {
	if err := connect.Restartable(st); err != nil {
		return "", err
	}
	if missing := s.Engine.Secrets.Missing(st); len(missing) > 0 {
		return "", fmt.Errorf("task %s takes secrets from where it was started: set %v here, or run its definition again", st.DisplayName(), missing)
	}
	if err := s.Engine.Preflight.Check(ctx, st.Task, st.Options); err != nil {
		return "", err
	}
	if err := limit.Stop(ctx, s, st, "podtask restart", show); err != nil {
		return "", err
	}
	again, err := s.Engine.Creator.CreateOwned(ctx, st.Task, st.Name, st.Options)
	if err != nil {
		return "", fmt.Errorf("task %s has stopped, and was not started again: %w", st.DisplayName(), err)
	}
	return again.ID(), s.Launcher().HandOver(ctx, again)
}
