package agent

import (
	"context"
	"time"

	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// await keeps one wait open for each container that is watched, and none for others.
func (r *run) await(s lifecycle.State) {
	running := s.Watches()
	wanted := make(map[int]bool, len(running))
	for _, i := range running {
		wanted[i] = true
		if r.waits[i] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(r.ctx)
		r.waits[i] = cancel
		name := libpod.InfraName(podName(s))
		if i != lifecycle.InfraIndex {
			name = containerName(s, i)
		}
		r.wg.Go(func() {
			defer cancel()
			r.host.Runtime.WaitEnd(ctx, name)
			if ctx.Err() == nil {
				r.send(lifecycle.Hinted{Index: i})
			}
		})
	}
	for i := range r.waits {
		if !wanted[i] {
			r.unwait(i)
		}
	}
}

// unwait ends the wait for a container, if there is one.
func (r *run) unwait(i int) {
	if cancel := r.waits[i]; cancel != nil {
		cancel()
		delete(r.waits, i)
	}
}

// lookAgain asks for a look at everything that runs: waits may be lost without an
// error, and nobody waits for what users pause and resume.
func lookAgain(s lifecycle.State) (hints []lifecycle.Event) {
	for _, i := range s.Watches() {
		hints = append(hints, lifecycle.Hinted{Index: i})
	}
	return hints
}

// lookInterval is how often that happens (ECS agent: steady-state poll, 5 min).
const lookInterval = 5 * time.Minute

// WaitEnd returns when the container has ended, or when Podman could not say.
func (r *Runtime) WaitEnd(ctx context.Context, name string) {
	podman, err := r.podman(ctx)
	if err == nil {
		err = podman.WaitContainer(ctx, name)
	}
	if err != nil && ctx.Err() == nil {
		r.log.Warn("wait was cut off", "container", name, "error", err)
		// The inspection that follows has a back-off of its own; this keeps a
		// service that answers inspections and refuses waits from being asked in a loop.
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// awaitTurn watches what tasks share for as long as the task is queued.
func (r *run) awaitTurn(s lifecycle.State) {
	switch {
	case s.Queued() && r.unqueue == nil:
		ctx, cancel := context.WithCancel(r.ctx)
		r.unqueue = cancel
		r.wg.Go(func() {
			defer cancel()
			err := r.host.Ledger.store.Follow(ctx, func() { r.send(lifecycle.QueueMoved{}) })
			if ctx.Err() == nil {
				r.host.log.Info("the task hears of its turn only by asking again", "task", r.id, "error", err)
			}
		})
	case !s.Queued() && r.unqueue != nil:
		r.unqueue()
		r.unqueue = nil
	}
}
