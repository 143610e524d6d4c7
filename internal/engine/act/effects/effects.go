package effects

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine/act/admit"
	"github.com/podtask/podtask/internal/engine/act/endpoint"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/podtask/podtask/internal/engine/act/prober"
	"github.com/podtask/podtask/internal/engine/act/tasksecrets"
	"github.com/podtask/podtask/internal/engine/facts/failpoint"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Interpreter executes the effects that tasks' state machines request.
type Interpreter struct {
	Log      *slog.Logger
	StateDir string
	Settings *config.Settings
	Fail     *failpoint.Point
	Podman   func(context.Context) (Podman, error)
	// Storage returns the directory in which Podman keeps containers.
	Storage  func(context.Context) (string, error)
	Images   *imagestore.Resolver
	Puller   *imagestore.Puller
	Queue    *admit.Queue
	Ports    *admit.PortHolders
	Slices   *limits.Slices
	Secrets  *tasksecrets.Store
	Metadata *endpoint.Factory
	Prober   *prober.Prober
}

// deadline returns how long an operation may take before it counts as failed. The numbers
// are those of the ECS agent; a stop also gets its grace period. All attempts to resolve a
// digest share one limit, and so do all attempts to pull an image, whose limit is configured.
func deadline(pull time.Duration, s lifecycle.State, e lifecycle.Effect) time.Duration {
	left := func(i int, limit time.Duration) time.Duration {
		if s.Options.Persistent {
			return limit
		}
		return s.Containers[i].Retry.Left(limit, time.Now())
	}
	switch e := e.(type) {
	case lifecycle.ResolveImage:
		return left(e.Index, s.Options.ResolveLimit())
	case lifecycle.PullImage:
		return left(e.Index, pull)
	case lifecycle.AdmitTask, lifecycle.ReleaseTask:
		return time.Minute
	case lifecycle.CreateContainer, lifecycle.CreateSandbox, lifecycle.RunSandbox:
		return 4 * time.Minute
	case lifecycle.StartContainer:
		return endpoint.StartLimit
	case lifecycle.StopContainer:
		return e.Grace + 2*time.Minute
	case lifecycle.InspectContainer, lifecycle.InspectSandbox:
		return 30 * time.Second
	case lifecycle.StopSandbox:
		return 2 * time.Minute
	case lifecycle.RunHook:
		return e.Limit + 30*time.Second
	case lifecycle.CheckHealth:
		// lifecycle.Step enforces the timeout of the check; this limit is for a Podman that hangs.
		return time.Hour
	default:
		return 5 * time.Minute
	}
}

// Apply executes an effect for the state that requested it and returns the outcome. It is
// safe for concurrent use. The owner handles CancelOp and FlushLogs.
func (r *Interpreter) Apply(ctx context.Context, s lifecycle.State, e lifecycle.Effect) lifecycle.OpFinished {
	ctx, cancel := context.WithTimeout(ctx, deadline(r.Settings.Images.PullLimit, s, e))
	defer cancel()
	result, err := r.apply(ctx, s, e)
	return lifecycle.OpFinished{ID: e.Op(), Failure: Failure(err), Result: result}
}

// ApplyWith applies an effect together with the steps of the task's metadata endpoint that
// belong to it. If the endpoint is not available, Result.Tolerated says why, and the container
// runs without it. A container whose network cannot be set up is not started.
func (r *Interpreter) ApplyWith(ctx context.Context, to *endpoint.Endpoint, s lifecycle.State, e lifecycle.Effect) lifecycle.OpFinished {
	var missing lifecycle.Failure
	if e, ok := e.(lifecycle.StartContainer); ok {
		var err error
		if missing, err = r.enter(ctx, to, s, e); err != nil {
			return lifecycle.OpFinished{ID: e.Op(), Failure: Failure(err)}
		}
		to.Describe(ctx, s, e.Index)
		r.Fail.AtEffect(failpoint.MidEffect, e)
	}
	answer := r.Apply(ctx, s, e)
	if answer.Failure.Class != lifecycle.OK {
		return answer
	}
	switch e.(type) {
	case lifecycle.CreateSandbox:
		answer.Result.Metadata, missing = to.Plan(ctx, s)
	case lifecycle.RunSandbox:
		missing = to.Provide(ctx, s)
	}
	if missing.Class != lifecycle.OK {
		answer.Result.Tolerated = missing
	}
	return answer
}

func (r *Interpreter) apply(ctx context.Context, s lifecycle.State, e lifecycle.Effect) (lifecycle.Result, error) {
	switch e := e.(type) {
	case lifecycle.ResolveImage:
		return r.Images.Resolve(ctx, s, e)
	case lifecycle.PullImage:
		return r.Puller.Pull(ctx, s, e)
	case lifecycle.AdmitTask:
		return r.Queue.Admit(ctx, s, e)
	case lifecycle.ReleaseTask:
		return lifecycle.Result{}, r.Queue.Release(ctx, s.ID)
	}
	podman, err := r.Podman(ctx)
	if err != nil {
		return lifecycle.Result{}, err
	}
	if err := r.CheckStorage(ctx, s); err != nil {
		return lifecycle.Result{}, err
	}
	switch e := e.(type) {
	case lifecycle.CreateSandbox:
		return r.createSandbox(ctx, podman, s)
	case lifecycle.RunSandbox:
		return r.runSandbox(ctx, podman, s)
	case lifecycle.InspectSandbox:
		return inspectInfra(ctx, podman, s)
	case lifecycle.StopSandbox:
		return lifecycle.Result{}, r.stopSandbox(ctx, podman, s)
	case lifecycle.RemoveSandbox:
		return lifecycle.Result{}, r.removeSandbox(ctx, podman, s)
	case lifecycle.CreateContainer:
		return r.create(ctx, podman, s, e)
	case lifecycle.StartContainer:
		return r.start(ctx, podman, s, e)
	case lifecycle.StopContainer:
		if err := podman.StopContainer(ctx, taskspec.ContainerName(s, e.Index), e.Grace); err != nil {
			return lifecycle.Result{}, err
		}
		return r.inspect(ctx, podman, s, e.Index)
	case lifecycle.InspectContainer:
		if o, ok := podman.SeenExit(taskspec.ContainerName(s, e.Index), s.Containers[e.Index].StartedAt); ok {
			return r.resultOf(s, o)
		}
		return r.inspect(ctx, podman, s, e.Index)
	case lifecycle.CheckHealth:
		result, err := r.check(ctx, podman, s, e)
		return lifecycle.Result{Probe: result}, err
	case lifecycle.FlushLogs:
		return lifecycle.Result{}, nil // the owner flushes the logs
	case lifecycle.RunHook:
		result, err := r.hook(ctx, podman, s, e)
		return lifecycle.Result{Probe: result}, err
	default:
		panic(fmt.Sprintf("effects: no implementation of %T", e))
	}
}
