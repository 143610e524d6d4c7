package agent

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/state"
)

// Fleet is the owners of many tasks in one process. It takes every task that has
// something left to do and no living owner: those it finds at its start, new ones,
// and those whose owner dies later. Living owners are left alone; their locks are
// waited for. Its methods may be used by any goroutine.
type Fleet struct {
	// Taken, if set before Run, is called with each task that becomes ours, when its
	// lock is held and before its owner does anything.
	Taken func(id string)

	host *Agent

	mu      sync.Mutex // guards the fields below
	ctx     context.Context
	ended   bool
	wg      sync.WaitGroup
	pursuit map[string]*pursuit
}

// pursuit is the fleet's interest in one task, from when it is first seen until it
// has settled.
type pursuit struct {
	mu sync.Mutex
	// changed is closed and replaced when one of the others changes.
	changed chan struct{}
	owner   *Owner // set while we own the task
	err     error  // why we do not; nil while that is not known
	over    bool   // we are not after it any more
}

// NewFleet returns a fleet that owns nothing yet. It works until ctx ends; Run
// makes it look for tasks, and Wait waits for its end.
func NewFleet(ctx context.Context, h *Agent) *Fleet {
	return &Fleet{host: h, ctx: ctx, pursuit: map[string]*pursuit{}}
}

// Run finds tasks without an owner until the fleet's context ends, and returns when
// every task has been let go of; containers run on. The error is nil unless the
// records cannot be watched.
func (f *Fleet) Run() error {
	err := f.host.Tasks.Store.FollowRecords(f.ctx, f.seen, func() {})
	if f.ctx.Err() != nil {
		err = nil
	}
	f.Wait()
	return err
}

// Wait returns when the fleet's context has ended and every task has been let go of.
func (f *Fleet) Wait() {
	<-f.ctx.Done()
	f.mu.Lock()
	f.ended = true // nothing is added to the wait group from now on
	f.mu.Unlock()
	f.wg.Wait()
}

// seen takes note of a record that was written.
func (f *Fleet) seen(id string) {
	if f.pursued(id) != nil {
		return
	}
	data, err := f.host.Tasks.Store.Get(id)
	if err != nil {
		return // gone again, or reported by whoever lists tasks
	}
	if s, err := decode(data); err == nil && !s.Settled() {
		f.pursue(id)
	}
}

func (f *Fleet) pursued(id string) *pursuit {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pursuit[id]
}

// errEnded: the process is about to end.
var errEnded = errors.New("the agent is ending: try again")

// pursue returns the pursuit of a task, beginning one if need be. Events are sent to
// the task before its owner looks whether there is anything to do.
func (f *Fleet) pursue(id string, events ...lifecycle.Event) (p *pursuit, began bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.pursuit[id]; p != nil {
		return p, false
	}
	p = &pursuit{changed: make(chan struct{})}
	if f.ended || f.ctx.Err() != nil {
		p.set(nil, errEnded, true)
		return p, true
	}
	f.pursuit[id] = p
	f.wg.Go(func() {
		err := f.chase(id, p, events)
		f.mu.Lock()
		delete(f.pursuit, id)
		f.mu.Unlock()
		p.set(nil, err, true)
	})
	return p, true
}

// chase owns the task whenever nobody else does, until it has settled.
func (f *Fleet) chase(id string, p *pursuit, events []lifecycle.Event) error {
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		o, err := f.host.Owners.Own(id)
		if errors.Is(err, state.ErrLocked) {
			p.set(nil, err, false)
			o, err = f.host.Owners.OwnWait(f.ctx, id)
		}
		if err != nil {
			return err
		}
		if o.State().Settled() && len(events) == 0 {
			return o.Close()
		}
		for _, ev := range events {
			o.Send(ev)
		}
		events = nil
		if f.Taken != nil {
			f.Taken(id)
		}
		p.set(o, nil, false)
		err = o.Run(f.ctx)
		p.set(nil, err, false)
		if closeErr := o.Close(); err == nil || f.ctx.Err() != nil {
			return closeErr
		}
		f.host.log.Error("the task is left as it is for a while", "task", id, "error", err, "pause", pause)
		select {
		case <-time.After(pause):
		case <-f.ctx.Done():
			return errEnded
		}
	}
}

func (p *pursuit) set(o *Owner, err error, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owner, p.err, p.over = o, err, over
	close(p.changed)
	p.changed = make(chan struct{})
}

// now is what is known at present, and what is closed when that changes.
func (p *pursuit) now() (o *Owner, over bool, changed <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.owner, p.over, p.changed, p.err
}

// known waits until it is known whose the task is. Over without an error: it has
// settled.
func (p *pursuit) known(ctx context.Context) (o *Owner, over bool, err error) {
	for {
		o, over, changed, err := p.now()
		if o != nil || err != nil || over {
			return o, over, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

// end waits until the owner that is known now is none any more.
func (p *pursuit) end(ctx context.Context) error {
	for {
		o, _, changed, _ := p.now()
		if o == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Adopt takes a task and waits, as long as ctx lasts, for a living owner to let go of
// it; the error is that of state.ErrLocked then. It returns nil when the task is ours
// or has settled.
func (f *Fleet) Adopt(ctx context.Context, id string) error {
	p, _ := f.pursue(id)
	for {
		o, over, changed, err := p.now()
		if o != nil || over {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if err == nil {
				err = context.Cause(ctx)
			}
			return err
		}
	}
}

// Send hands an event to a task's owner, becoming it where there is none. The error
// is state.ErrLocked when the task has a living owner elsewhere, and a
// *NotFoundError when there is no such task.
func (f *Fleet) Send(ctx context.Context, id string, ev lifecycle.Event) error {
	for {
		p, began := f.pursue(id, ev)
		o, _, err := p.known(ctx)
		switch {
		case began || err != nil:
			return err
		case o != nil && o.Send(ev):
			return nil
		}
		// It settled under our hands: begin anew, with the event.
		if err := p.end(ctx); err != nil {
			return err
		}
	}
}

// Owner returns the owner of a task that is ours now, else nil.
func (f *Fleet) Owner(id string) *Owner {
	p := f.pursued(id)
	if p == nil {
		return nil
	}
	o, _, _, _ := p.now()
	return o
}

// Owners returns the owners of all tasks that are ours now, by id.
func (f *Fleet) Owners() []*Owner {
	f.mu.Lock()
	defer f.mu.Unlock()
	var owners []*Owner
	for _, p := range f.pursuit {
		if o, _, _, _ := p.now(); o != nil {
			owners = append(owners, o)
		}
	}
	slices.SortFunc(owners, func(a, b *Owner) int { return strings.Compare(a.id, b.id) })
	return owners
}

// Stuck names the tasks whose owners have been busy for longer than limit.
func (f *Fleet) Stuck(limit time.Duration) (ids []string) {
	now := time.Now()
	for _, o := range f.Owners() {
		if o.Busy(now) > limit {
			ids = append(ids, o.id)
		}
	}
	return ids
}

// StopAll asks every task that is ours to stop and waits until all have, or ctx ends.
func (f *Fleet) StopAll(ctx context.Context, by string) {
	var wg sync.WaitGroup
	for _, o := range f.Owners() {
		wg.Go(func() {
			o.Send(lifecycle.StopRequested{By: by})
			_ = o.Watch(ctx, func(s lifecycle.State) bool { return !s.Settled() })
		})
	}
	wg.Wait()
}

// Get is a task as its record has it; without one the error is a *NotFoundError.
func (t *Tasks) Get(id string) (lifecycle.State, error) {
	data, err := t.Store.Get(id)
	if errors.Is(err, fs.ErrNotExist) {
		return lifecycle.State{}, &NotFoundError{Ref: id}
	}
	if err != nil {
		return lifecycle.State{}, err
	}
	return decode(data)
}

// Watch calls fn with the recorded state of a task and with each later one,
// leaving out some when they come fast, whoever owns it, until fn returns false, ctx
// ends (its cause is returned) or the task has settled. What only the owner's memory
// holds is not in it. A task that is gone gives a *NotFoundError.
func (t *Tasks) Watch(ctx context.Context, id string, fn func(lifecycle.State) bool) error {
	show := func() error {
		s, err := t.Get(id)
		if err != nil {
			return err
		}
		if !fn(s) || s.Settled() {
			return errSeen
		}
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	found := false
	err := t.Store.FollowRecords(ctx, func(key string) {
		if key != id || ctx.Err() != nil {
			return
		}
		found = true
		if err := show(); err != nil {
			cancel(err)
		}
	}, func() {
		if !found {
			cancel(&NotFoundError{Ref: id})
		}
	})
	if errors.Is(err, errSeen) {
		return nil
	}
	return err
}
