package fleet

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/owner"

	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Fleet owns many tasks in one process. It claims every task that has something left to
// do: those it finds at its start and new ones. A task that another process owns is ours
// when that process releases it or dies. The methods may be used by any goroutine.
type Fleet struct {
	// Taken, if set before Run, is called with each task that becomes ours, when we hold
	// its lock and before its owner does anything.
	Taken func(id string)

	log    *slog.Logger
	tasks  *record.Tasks
	owners *owner.Owners

	mu     sync.Mutex // guards the fields below
	ctx    context.Context
	ended  bool
	wg     sync.WaitGroup
	claims map[string]*claim // by id of the task
}

// claim is the fleet's claim to one task, from when the task is first seen until it has
// settled.
type claim struct {
	mu sync.Mutex
	// changed is closed and replaced when one of the others changes.
	changed chan struct{}
	owner   *owner.Owner // set while we own the task
	err     error        // why we do not own it; nil while that is not known
	over    bool         // the claim has ended
	// handed has the owner of a new task that Take hands over with its lock.
	handed chan *owner.Owner
}

// New returns a fleet that owns nothing yet. It works until ctx ends. Run makes it
// look for tasks, Wait waits for its end.
func New(ctx context.Context, log *slog.Logger, tasks *record.Tasks, owners *owner.Owners) *Fleet {
	return &Fleet{log: log, tasks: tasks, owners: owners, ctx: ctx, claims: map[string]*claim{}}
}

// Run claims tasks until the fleet's context ends, and returns when every task has been
// released. Containers keep running. The error is nil unless the records cannot be watched.
func (f *Fleet) Run() error {
	err := f.tasks.Store.FollowRecords(f.ctx, f.seen, func() {})
	if f.ctx.Err() != nil {
		err = nil
	}
	f.Wait()
	return err
}

// Wait returns when the fleet's context has ended and every task has been released.
func (f *Fleet) Wait() {
	<-f.ctx.Done()
	f.mu.Lock()
	f.ended = true // nothing is added to the wait group from now on
	f.mu.Unlock()
	f.wg.Wait()
}

// seen claims the task of a record that was written, unless it has settled.
func (f *Fleet) seen(id string) {
	if f.find(id) != nil {
		return
	}
	data, err := f.tasks.Store.Get(id)
	if err != nil {
		return // gone again; errors are reported where tasks are listed
	}
	s, err := record.Decode(data)
	switch {
	case err != nil:
	case s.Settled() && !s.Options.Temporary:
		f.deliver(&s)
	default:
		f.claim(id)
	}
}

// deliver sends what is left of the output of a task that has settled.
func (f *Fleet) deliver(s *lifecycle.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended && f.ctx.Err() == nil {
		f.owners.Logs.Later(f.ctx, *s, &f.wg)
	}
}

// find returns the claim to a task, or nil.
func (f *Fleet) find(id string) *claim {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.claims[id]
}

// ErrEnding means that the process is shutting down.
var ErrEnding = errors.New("the agent is shutting down: try again")

// claim returns the claim to a task. If there is none it makes one, and the owner takes in
// events before it checks whether the task has settled.
func (f *Fleet) claim(id string, events ...lifecycle.Event) (c *claim, made bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.claimLocked(id, events)
}

// claimLocked is claim for a caller that holds f.mu.
func (f *Fleet) claimLocked(id string, events []lifecycle.Event) (c *claim, made bool) {
	if c := f.claims[id]; c != nil {
		return c, false
	}
	c = &claim{changed: make(chan struct{}), handed: make(chan *owner.Owner, 1)}
	if f.ended || f.ctx.Err() != nil {
		c.set(nil, ErrEnding, true)
		return c, true
	}
	f.claims[id] = c
	f.wg.Go(func() {
		err := f.run(id, c, events)
		f.mu.Lock()
		delete(f.claims, id)
		select {
		case o := <-c.handed: // the fleet ends
			err = errors.Join(err, o.Close())
		default:
		}
		f.mu.Unlock()
		c.set(nil, err, true)
	})
	return c, true
}

// Take takes over a new task from its creator in this process, together with its lock: no other
// process can own the task in between. It returns when the fleet owns the task. If the fleet is
// ending, the task is released, and the error is ErrEnding.
func (f *Fleet) Take(ctx context.Context, o *owner.Owner) error {
	f.mu.Lock()
	c, _ := f.claimLocked(o.ID(), nil)
	if f.claims[o.ID()] == nil {
		f.mu.Unlock()
		return errors.Join(ErrEnding, o.Close())
	}
	c.handed <- o
	f.mu.Unlock()
	return c.owned(ctx)
}

// handoverTime is more than the creator of a task has it before the hand-over to this process,
// which sees the record first. Only then it waits for the lock: a wait that is given up keeps a
// thread for as long as the task runs (state.Locks.LockWait).
const handoverTime = 3 * time.Second

// own returns the owner of a task: one that Take hands over, or a new one when no other process
// owns the task.
func (f *Fleet) own(id string, c *claim) (*owner.Owner, error) {
	select {
	case o := <-c.handed:
		return o, nil
	default:
	}
	o, err := f.owners.Own(id)
	if !errors.Is(err, state.ErrLocked) {
		return o, err
	}
	c.set(nil, err, false)
	select {
	case o := <-c.handed:
		return o, nil
	case <-time.After(handoverTime):
	case <-f.ctx.Done():
	}
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	var waited sync.WaitGroup
	waited.Go(func() {
		o, err = f.owners.OwnWait(ctx, id)
		cancel()
	})
	select {
	case handed := <-c.handed:
		cancel()
		waited.Wait() // it cannot have got the lock, which handed has
		return handed, nil
	case <-ctx.Done():
		waited.Wait()
		return o, err
	}
}

// run owns the task of a claim whenever no other process does, until it has settled.
func (f *Fleet) run(id string, c *claim, events []lifecycle.Event) error {
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		o, err := f.begin(id, c, events)
		if o == nil {
			return err
		}
		events = nil
		c.set(o, nil, false)
		err = o.Run(f.ctx)
		c.set(nil, err, false)
		if closeErr := o.Close(); err == nil || f.ctx.Err() != nil {
			f.deliver(o.Latest())
			return closeErr
		}
		f.log.Error("the task stays as it is until the next attempt", "task", id, "error", err, "pause", pause)
		if !sleep.For(f.ctx, pause) {
			return ErrEnding
		}
	}
}

// begin returns the owner of the task of a claim, with the events sent to it; none if nothing is to be done.
func (f *Fleet) begin(id string, c *claim, events []lifecycle.Event) (*owner.Owner, error) {
	o, err := f.own(id, c)
	if err != nil {
		return nil, err
	}
	if s := o.State(); s.Settled() && !s.Options.Temporary && len(events) == 0 {
		return nil, o.Close()
	}
	for _, ev := range events {
		o.Send(ev)
	}
	if f.Taken != nil {
		f.Taken(id)
	}
	return o, nil
}

func (c *claim) set(o *owner.Owner, err error, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owner, c.err, c.over = o, err, over
	close(c.changed)
	c.changed = make(chan struct{})
}

// now returns what is known now, and a channel that is closed when that changes.
func (c *claim) now() (o *owner.Owner, over bool, changed <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owner, c.over, c.changed, c.err
}

// known waits until it is known who owns the task. Over without an error means that it
// has settled.
func (c *claim) known(ctx context.Context) (o *owner.Owner, over bool, err error) {
	for {
		o, over, changed, err := c.now()
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

// released waits until we do not own the task.
func (c *claim) released(ctx context.Context) error {
	for {
		o, _, changed, _ := c.now()
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

// Adopt claims a task and returns nil when it is ours or has settled. It waits until ctx
// ends if another process owns the task; the error is state.ErrLocked then.
func (f *Fleet) Adopt(ctx context.Context, id string) error {
	c, _ := f.claim(id)
	return c.owned(ctx)
}

// owned waits until we own the task or the claim has ended.
func (c *claim) owned(ctx context.Context) error {
	for {
		o, over, changed, err := c.now()
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

// Send sends an event to a task, which it claims if it has no owner. The error is
// state.ErrLocked if another process owns the task, and a *record.NotFoundError if there is no
// such task.
func (f *Fleet) Send(ctx context.Context, id string, ev lifecycle.Event) error {
	for {
		c, made := f.claim(id, ev)
		o, _, err := c.known(ctx)
		switch {
		case made || err != nil:
			return err
		case o != nil && o.Send(ev):
			return nil
		}
		// It settled before it took the event in: claim it again, with the event.
		if err := c.released(ctx); err != nil {
			return err
		}
	}
}

// Owner returns the owner of a task that is ours now, or nil.
func (f *Fleet) Owner(id string) *owner.Owner {
	c := f.find(id)
	if c == nil {
		return nil
	}
	o, _, _, _ := c.now()
	return o
}

// Owners returns the owners of all tasks that are ours now, by id.
func (f *Fleet) Owners() []*owner.Owner {
	f.mu.Lock()
	defer f.mu.Unlock()
	var owners []*owner.Owner
	for _, c := range f.claims {
		if o, _, _, _ := c.now(); o != nil {
			owners = append(owners, o)
		}
	}
	slices.SortFunc(owners, func(a, b *owner.Owner) int { return strings.Compare(a.ID(), b.ID()) })
	return owners
}

// Stuck names the tasks whose owners have been busy for longer than limit.
func (f *Fleet) Stuck(limit time.Duration) (ids []string) {
	now := time.Now()
	for _, o := range f.Owners() {
		if o.Busy(now) > limit {
			ids = append(ids, o.ID())
		}
	}
	return ids
}

// StopAll asks every task that is ours to stop. It returns when all have stopped or ctx ends.
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

// Follow claims a task and calls fn with its state and each later one, leaving out some
// when they come fast, until the task has settled or fn returns false. The error is a
// *record.NotFoundError if there is no such task, or when it has been removed. While another
// process owns the task, fn is not called.
func (f *Fleet) Follow(ctx context.Context, id string, fn func(lifecycle.State) bool) error {
	enough := false
	show := func(s lifecycle.State) bool {
		enough = enough || !fn(s)
		return !enough
	}
	for {
		if err := f.Adopt(ctx, id); err != nil {
			return err
		}
		c := f.find(id)
		if c == nil { // it has settled
			s, err := f.tasks.Get(id)
			if err == nil {
				fn(s)
			}
			return err
		}
		if o, _, _, _ := c.now(); o != nil {
			if err := o.Watch(ctx, show); err != nil || enough {
				return err
			}
		}
		if err := c.released(ctx); err != nil {
			return err
		}
	}
}
