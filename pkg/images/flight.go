package images

import (
	"context"
	"net/http/httptrace"
	"sync"
)

// flight is one conversation with a registry and those who wait for it. It is
// not x/sync/singleflight, which can neither end work that nobody waits for any
// more nor keep one caller's cancellation from the others.
type flight struct {
	waiters int // guarded by Resolver.mu; at 0 the flight is cancelled
	cancel  context.CancelFunc
	watch   headWatch

	done chan struct{} // closed after the fields below are set
	res  Resolution
	err  error
}

// share joins the flight for ref, or starts it, and waits for its end or ctx's.
func (r *Resolver) share(ctx context.Context, ref Ref) (Resolution, error) {
	f := r.join(ctx, ref)
	select {
	case <-f.done:
		return f.res, f.err
	case <-ctx.Done():
		r.leave(ref, f)
		err := ctx.Err()
		if err == context.DeadlineExceeded && f.watch.backingOff() {
			err = errBackingOff
		}
		return Resolution{}, r.newError(ref, err)
	}
}

func (r *Resolver) join(ctx context.Context, ref Ref) *flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, ok := r.flights[ref]
	if !ok {
		f = &flight{done: make(chan struct{})}
		// The first caller's values are kept, its end is not: others may join.
		flightCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		f.cancel = cancel
		r.flights[ref] = f
		go r.fly(flightCtx, ref, f)
	}
	f.waiters++
	return f
}

// fly runs until the registry has answered or the last waiter has left; both
// end it, so it needs no other owner.
func (r *Resolver) fly(ctx context.Context, ref Ref, f *flight) {
	defer f.cancel()
	res, err := r.resolve(ctx, ref, &f.watch)
	if err != nil {
		err = r.newError(ref, err)
	}
	f.res, f.err = res, err
	r.mu.Lock()
	r.forget(ref, f)
	r.mu.Unlock()
	close(f.done)
}

// leave gives up waiting for f. The last one to leave ends it, under the lock,
// so that nobody joins a flight that is being cancelled.
func (r *Resolver) leave(ref Ref, f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.waiters--
	if f.waiters == 0 {
		r.forget(ref, f)
		f.cancel()
	}
}

// forget takes f off the map unless a newer flight has its place. r.mu is held.
func (r *Resolver) forget(ref Ref, f *flight) {
	if r.flights[ref] == f {
		delete(r.flights, ref)
	}
}

// headWatch tells "the registry does not answer" from "containers/image is
// sitting out a 429", which it does without a word. The answers to HEAD and to
// the requests before it are read at once, so a pause between an answer and the
// next request is that back-off.
type headWatch struct {
	mu       sync.Mutex
	asked    int
	answered int
	stopped  bool
}

func (w *headWatch) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			w.mu.Lock()
			w.asked++
			w.mu.Unlock()
		},
		GotFirstResponseByte: func() {
			w.mu.Lock()
			w.answered = w.asked
			w.mu.Unlock()
		},
	})
}

// stop says that what follows are answers with a body.
func (w *headWatch) stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
}

func (w *headWatch) backingOff() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.stopped && w.answered > 0 && w.answered == w.asked
}
