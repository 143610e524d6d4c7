package effects

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// check runs a check of a container once. Podman runs the command that it knows as the
// container's health check. Any other command runs as an exec session, which is killed at the
// timeout of the check.
func (r *Interpreter) check(ctx context.Context, podman Podman, s lifecycle.State, e lifecycle.CheckHealth) (lifecycle.ProbeResult, error) {
	def, name := s.Task.Containers[e.Index], taskspec.ContainerName(s, e.Index)
	p := def.Extensions.Probes.Of(e.Probe.String())
	if p == nil || len(p.Action.Exec) > 0 && slices.Equal(p.Action.Exec, taskspec.CheckCommand(def)) {
		seen, err := podman.Probe(ctx, name)
		return lifecycle.ProbeResult{Healthy: seen.Healthy, ExitCode: seen.ExitCode, Output: seen.Output}, err
	}
	return r.act(ctx, podman, s, action{index: e.Index, do: p.Action, limit: p.Timeout})
}

// hook runs a hook of a container.
func (r *Interpreter) hook(ctx context.Context, podman Podman, s lifecycle.State, e lifecycle.RunHook) (lifecycle.ProbeResult, error) {
	return r.act(ctx, podman, s, action{index: e.Index, do: e.Action(s.Task), limit: e.Limit, hook: true})
}

// action is the command, request or pause of a check or a hook.
type action struct {
	index int
	do    taskdef.Action
	limit time.Duration
	hook  bool
}

// act executes an action and returns whether it succeeded.
func (r *Interpreter) act(ctx context.Context, podman Podman, s lifecycle.State, a action) (lifecycle.ProbeResult, error) {
	switch {
	case a.do.Sleep > 0:
		select {
		case <-time.After(a.limit):
			return lifecycle.ProbeResult{Healthy: true}, nil
		case <-ctx.Done():
			return lifecycle.ProbeResult{}, ctx.Err()
		}
	case len(a.do.Exec) > 0:
		end, err := podman.RunExec(ctx, taskspec.ContainerName(s, a.index), a.do.Exec, a.limit)
		if errors.Is(err, libpod.Timeout) && a.hook {
			return lifecycle.ProbeResult{ExitCode: -1, Output: "it did not end within " + a.limit.String()}, nil
		}
		return lifecycle.ProbeResult{Healthy: err == nil && end.ExitCode == 0, ExitCode: end.ExitCode, Output: end.Output}, err
	}
	limited, cancel := context.WithTimeout(ctx, a.limit)
	defer cancel()
	found, err := r.Prober.Do(limited, s, a.index, a.do, a.hook)
	out := lifecycle.ProbeResult{Healthy: found.Healthy, Output: found.Output}
	if !out.Healthy {
		out.ExitCode = -1 // no process has ended
	}
	return out, err
}
