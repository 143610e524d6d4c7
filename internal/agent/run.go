package agent

import (
	"context"
	"sync"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// run is what one call of Run needs.
type run struct {
	*Owner
	ctx       context.Context // of the operations; ends with the run
	wg        sync.WaitGroup  // every goroutine of the run
	ops       map[lifecycle.OpID]context.CancelFunc
	waits     map[int]context.CancelFunc // containers whose end is waited for
	endpoint  *endpoint
	unqueue   context.CancelFunc // ends the watch of the queue; nil: none
	limits    chan struct{}      // wakes who applies limits; nil: there were none to apply
	applied   lifecycle.Quota    // those that were last to be applied
	saved     []byte
	published uint64 // Seq of the last transition in the event log
	removing  bool   // --rm asks once: a removal that proved impossible is the user's
}

// Run drives the task until it has settled: stopped, or removed. It returns nil
// then. When ctx ends before, the task is left as it is: containers run on and
// whoever owns the task next continues.
func (o *Owner) Run(ctx context.Context) error {
	opCtx, cancel := context.WithCancel(ctx)
	r := &run{Owner: o, ctx: opCtx, ops: map[lifecycle.OpID]context.CancelFunc{}, waits: map[int]context.CancelFunc{}}
	r.endpoint = &endpoint{metadata: o.host.Metadata, owner: o}
	defer r.endpoint.close()
	r.published = o.host.Events.LastPublished(ctx, o.State())
	sweep := o.host.Ledger.SweepIsDue(ctx)
	r.wg.Go(func() {
		if sweep {
			o.host.Orphans.SweepAndLog(ctx)
		}
		o.host.Pruner.Rounds(ctx, opCtx)
	})
	err := r.loop(ctx)
	cancel()
	r.wg.Wait()
	o.mu.Lock()
	o.done = true
	close(o.changed)
	o.mu.Unlock()
	return err
}

func (r *run) loop(ctx context.Context) error {
	timer := time.NewTimer(0)
	timer.Stop()
	defer timer.Stop()
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	batch := []lifecycle.Event{lifecycle.Restarted{}}
	defer r.asleep()
	for {
		at := time.Now().UTC()
		r.busy()
		s, effects := r.step(at, batch)
		if err := r.commit(ctx, s); err != nil {
			return err
		}
		for _, e := range effects {
			r.begin(s, e)
		}
		r.await(s)
		r.serve(s)
		r.limit(s)
		r.awaitTurn(s)
		if s.Settled() {
			var over bool
			if batch, over = r.leftToDo(s); !over {
				continue
			}
			if s.Goal == lifecycle.Gone {
				return r.erase()
			}
			return nil
		}
		if wake := s.Wake(at); !wake.IsZero() {
			timer.Reset(time.Until(wake))
		}
		r.asleep()
		select {
		case ev := <-r.mailbox:
			batch = append(batch[:0], ev)
		case <-timer.C:
			batch = append(batch[:0], lifecycle.TimerFired{})
		case <-look.C:
			batch = append(batch[:0], lookAgain(s)...)
		case <-ctx.Done():
			return ctx.Err()
		}
		batch = r.drain(batch)
		timer.Stop()
	}
}

// leftToDo returns what a task that has settled is still to hear, or that its run is
// over. What was sent before the end, a removal say, is still to be done.
func (r *run) leftToDo(s lifecycle.State) (batch []lifecycle.Event, over bool) {
	if s.Goal == lifecycle.Down && s.Options.Remove && !r.removing && !r.host.Tasks.InForeground(r.id) {
		r.removing = true
		return []lifecycle.Event{lifecycle.RemoveRequested{By: "--rm"}}, false
	}
	batch = r.drain(nil)
	if len(batch) > 0 && s.Goal != lifecycle.Gone {
		return batch, false
	}
	return batch, r.end()
}

// step takes in a batch of events.
func (r *run) step(at time.Time, batch []lifecycle.Event) (s lifecycle.State, effects []lifecycle.Effect) {
	s = r.State()
	for _, ev := range batch {
		switch ev := ev.(type) {
		case lifecycle.OpFinished:
			r.forget(ev.ID)
		case lifecycle.Hinted:
			r.unwait(ev.Index) // it has told; another one is begun if it still runs
		}
		var more []lifecycle.Effect
		s, more = lifecycle.Step(s, at, ev)
		effects = append(effects, more...)
	}
	return s, effects
}

// drain adds what else has arrived, so that one save serves all of it.
func (r *run) drain(batch []lifecycle.Event) []lifecycle.Event {
	for len(batch) < cap(r.mailbox) {
		select {
		case ev := <-r.mailbox:
			batch = append(batch, ev)
		default:
			return batch
		}
	}
	return batch
}

func (r *run) send(ev lifecycle.Event) {
	select {
	case r.mailbox <- ev:
	case <-r.ctx.Done():
	}
}
