package observe

import (
	"context"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Lister lists the containers of all tasks with one call.
type Lister interface {
	Containers(ctx context.Context) ([]libpod.Found, error)
}

// Unowned says what has become of tasks without an owner: their records are old.
type Unowned struct {
	Podman func(context.Context) (Lister, error)
	// Here returns an error for a task that is in another Podman; nil means that there is none.
	Here func(context.Context, lifecycle.State) error
}

// Look returns the tasks as an owner would see them that took them over now. Nothing is
// saved, and nothing is done. It asks Podman once, and not at all if none of the tasks has
// containers.
func (u *Unowned) Look(ctx context.Context, at time.Time, recorded []lifecycle.State) ([]lifecycle.State, error) {
	wanted := false
	for _, s := range recorded {
		wanted = wanted || s.Sandbox.Dirty
	}
	if !wanted {
		return recorded, nil
	}
	podman, err := u.Podman(ctx)
	if err != nil {
		return recorded, err
	}
	all, err := podman.Containers(ctx)
	if err != nil {
		return recorded, err
	}
	found := make(map[string]libpod.Found, len(all))
	for _, f := range all {
		found[f.Name] = f
	}
	seen := make([]lifecycle.State, len(recorded))
	for i, s := range recorded {
		if u.Here != nil && u.Here(ctx, s) != nil {
			seen[i] = s
			continue
		}
		seen[i] = lookAt(s, at, found)
	}
	return seen, nil
}

// lookAt steps a task as if it had an owner again, which inspects each container.
func lookAt(recorded lifecycle.State, at time.Time, found map[string]libpod.Found) lifecycle.State {
	if !recorded.Sandbox.Dirty {
		return recorded
	}
	s, effects := lifecycle.Step(recorded, at, lifecycle.Restarted{})
	for _, e := range effects {
		if e, ok := e.(lifecycle.InspectContainer); ok {
			f := found[taskspec.ContainerName(recorded, e.Index)]
			result := lifecycle.Result{Seen: observed(recorded, e.Index, f)}
			s, _ = lifecycle.Step(s, at, lifecycle.OpFinished{ID: e.ID, Result: result})
		}
	}
	s.History = recorded.History // what is not saved has not been told to anyone
	return s
}

// observed is what a list tells of a container. Its times are of whole seconds.
func observed(s lifecycle.State, i int, f libpod.Found) lifecycle.Observed {
	if f.TaskID != s.ID {
		return lifecycle.Observed{}
	}
	seen := lifecycle.Observed{ID: f.ID, StartedAt: f.StartedAt, Paused: f.Paused}
	if known := s.Containers[i].StartedAt; known.Unix() == f.StartedAt.Unix() {
		seen.StartedAt = known
	}
	switch f.Status {
	case libpod.Created:
		seen.Presence = lifecycle.Created
	case libpod.Running:
		seen.Presence = lifecycle.Running
	case libpod.Exited:
		seen.Presence = lifecycle.Exited
		seen.ExitCode, seen.FinishedAt = f.ExitCode, f.FinishedAt
		if seen.FinishedAt.Before(seen.StartedAt) {
			seen.FinishedAt = seen.StartedAt
		}
	}
	return seen
}
