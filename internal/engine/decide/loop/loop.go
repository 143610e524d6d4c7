package loop

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podtask/podtask/internal/engine/decide/driver"
	"github.com/podtask/podtask/pkg/transient"
)

// Decision is a driver's.
type Decision[S any] interface{ Outcome() driver.Outcome[S] }

// Driver decides what follows from events.
type Driver[S, E any, D Decision[S]] interface {
	Step(at time.Time, batch []E) (D, error)
	// Tick returns the events of a timer that has fired.
	Tick(at time.Time) []E
	// Undo takes the latest step back, whose decision could not be saved, and returns the
	// events of the next attempt.
	Undo(batch []E) []E
	// Unsaved notes that the latest decision is carried out although it could not be saved.
	Unsaved()
}

// Actor carries decisions out. Its methods are called one at a time, for each decision in
// this order; Save and Publish must be done when they return. Publish waits for the disk while
// the operations that Act has started run.
type Actor[E, D any] interface {
	// Save makes a record durable. It is tried again later if the error is transient.
	Save(record []byte) error
	// Act starts and cancels operations and watches. Their results come by Send.
	Act(ctx context.Context, d D)
	// Publish appends to the event log. It is not called for a decision that is not saved.
	Publish(ctx context.Context, d D)
	// Rest decides what follows when nothing is left to do but the events that have arrived.
	Rest(d D, arrived []E) (batch []E, end driver.End)
	// Finish is called once, at the end.
	Finish(ctx context.Context, d D, end driver.End) error
}

// retryPause is between two attempts to save.
const retryPause = 2 * time.Second

// mailboxSize is the number of events that may wait. One save serves as many.
const mailboxSize = 64

// Loop drives a state machine. Its methods may be used by any goroutine, Run by one.
type Loop[S, E any, D Decision[S]] struct {
	mailbox  chan E
	snapshot atomic.Pointer[S]
	awake    atomic.Int64 // since when, in nanoseconds since 1970; 0 while it waits
	unsaved  atomic.Bool

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when snapshot or a field below changes
	closed  bool          // no event is taken any more
	ended   bool          // Run has returned
}

// New returns the loop of a machine in the saved state s.
func New[S, E any, D Decision[S]](s S) *Loop[S, E, D] {
	l := &Loop[S, E, D]{mailbox: make(chan E, mailboxSize), changed: make(chan struct{})}
	l.snapshot.Store(&s)
	return l
}

// State is the state of the latest decision that was saved, or that is carried out without. It
// must not be changed.
func (l *Loop[S, E, D]) State() S { return *l.Latest() }

// Latest is State without a copy.
func (l *Loop[S, E, D]) Latest() *S { return l.snapshot.Load() }

// Busy returns how long the loop has worked on one batch of events; 0 while it waits for
// events or for space on a full disk. A loop that is busy for many seconds is stuck.
func (l *Loop[S, E, D]) Busy(now time.Time) time.Duration {
	since := l.awake.Load()
	if since == 0 {
		return 0
	}
	return max(0, now.Sub(time.Unix(0, since)))
}

// Unsaved reports whether the latest attempt to save failed with a transient error. State is then
// that of the latest decision that was carried out. Watch reports both changes.
func (l *Loop[S, E, D]) Unsaved() bool { return l.unsaved.Load() }

// Send hands over an event. It blocks only while the mailbox is full, at most until ctx
// ends. Taken is false when the event will have no effect, because the loop has ended or
// ctx has.
func (l *Loop[S, E, D]) Send(ctx context.Context, ev E) (taken bool) {
	for {
		taken, closed, changed := l.offer(ev)
		if taken || closed {
			return taken
		}
		select {
		case <-changed: // whatever makes room changes the state or ends the loop
		case <-ctx.Done():
			return false
		}
	}
}

// offer puts an event into the mailbox unless it is full or closed.
func (l *Loop[S, E, D]) offer(ev E) (taken, closed bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false, true, l.changed
	}
	select {
	case l.mailbox <- ev:
		return true, false, l.changed
	default:
		return false, false, l.changed
	}
}

// Watch calls fn with the present state and then with each later one, leaving out
// some when they come fast, until fn returns false, ctx ends (its cause is
// returned) or Run has ended (nil).
func (l *Loop[S, E, D]) Watch(ctx context.Context, fn func(S) bool) error {
	for {
		changed, ended := l.watch()
		if !fn(l.State()) || ended {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (l *Loop[S, E, D]) watch() (changed <-chan struct{}, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed, l.ended
}

// Run drives the machine, beginning with batch, until it is done or ctx ends, whose error
// is returned then.
func (l *Loop[S, E, D]) Run(ctx context.Context, m Driver[S, E, D], a Actor[E, D], batch ...E) error {
	timer := time.NewTimer(0)
	timer.Stop()
	defer timer.Stop()
	defer l.wait()
	defer l.change(func() { l.closed, l.ended = true, true })
	batch = l.drain(batch) // one save also serves what was asked for before
	for {
		l.work()
		t, err := l.turn(ctx, m, a, batch)
		if err != nil || t.ended {
			return err
		}
		batch = t.batch
		if !t.wait {
			continue
		}
		if batch, err = l.next(ctx, timer, batch, t.due, m.Tick); err != nil {
			return err
		}
	}
}

// turn is the outcome of a step: another step follows with the batch, at once or, if wait is set, as soon as more
// events arrive or the time is due.
type turn[E any] struct {
	batch       []E
	wait, ended bool
	due         time.Time
}

// turn takes one step and carries the decision out. It is a function of its own because a decision is large and Run waits
// most of the time: the stack of a loop at rest is small.
func (l *Loop[S, E, D]) turn(ctx context.Context, m Driver[S, E, D], a Actor[E, D], batch []E) (turn[E], error) {
	d, err := m.Step(time.Now().UTC(), batch)
	if err != nil {
		return turn[E]{}, err
	}
	o := d.Outcome()
	saved, err := l.save(a, o.Record)
	switch {
	case err != nil:
		return turn[E]{}, err
	case !saved && !o.Lowers:
		// The disk may have space later, or an event may arrive that needs none. Perhaps
		// only a timer was undone: so the next attempt is a tick.
		return turn[E]{batch: m.Undo(batch), wait: true, due: time.Now().Add(retryPause)}, nil
	case !saved:
		m.Unsaved()
	}
	l.snapshot.Store(&o.State) // first: who sees an event may ask for the state
	a.Act(ctx, d)
	if saved {
		a.Publish(ctx, d)
	}
	l.change(func() {})
	if o.Settled && (saved || o.Erases) {
		arrived, end := a.Rest(d, l.drain(nil))
		if end == driver.Continue || !l.close() {
			return turn[E]{batch: arrived}, nil
		}
		return turn[E]{ended: true}, a.Finish(ctx, d, end)
	}
	return turn[E]{wait: true, due: due(o.Timer, saved)}, nil
}

// due is the time at which the machine is to be stepped at the latest, zero for never: a decision that
// was not saved has a record until it is.
func due(wanted time.Time, saved bool) time.Time {
	if again := time.Now().Add(retryPause); !saved && (wanted.IsZero() || again.Before(wanted)) {
		return again
	}
	return wanted
}

// next waits for events, or for the time that is due, and adds them, or those of tick, to
// the batch.
func (l *Loop[S, E, D]) next(ctx context.Context, timer *time.Timer, batch []E, due time.Time, tick func(time.Time) []E) ([]E, error) {
	if !due.IsZero() {
		timer.Reset(time.Until(due))
	}
	defer timer.Stop()
	l.wait()
	select {
	case ev := <-l.mailbox:
		batch = append(batch, ev)
	case <-timer.C:
		batch = append(batch, tick(time.Now().UTC())...)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return l.drain(batch), nil
}

// save makes a record durable. If it is not saved and there is no error, it may be later.
func (l *Loop[S, E, D]) save(a Actor[E, D], record []byte) (saved bool, err error) {
	if record == nil {
		return true, nil
	}
	err = a.Save(record)
	if transient.Is(err) {
		if !l.unsaved.Swap(true) {
			l.change(func() {})
		}
		return false, nil
	}
	l.unsaved.Store(false) // the change that follows is shown
	return true, err
}

// drain adds what else has arrived, so that one save serves all of it.
func (l *Loop[S, E, D]) drain(batch []E) []E {
	for len(batch) < mailboxSize {
		select {
		case ev := <-l.mailbox:
			batch = append(batch, ev)
		default:
			return batch
		}
	}
	return batch
}

// close refuses events from now on, unless some are still to be taken in.
func (l *Loop[S, E, D]) close() (closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = len(l.mailbox) == 0
	return l.closed
}

// change wakes watchers and senders after a change.
func (l *Loop[S, E, D]) change(fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fn()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Loop[S, E, D]) work() { l.awake.Store(time.Now().UnixNano()) }
func (l *Loop[S, E, D]) wait() { l.awake.Store(0) }
