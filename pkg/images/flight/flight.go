package flight

import (
	"context"
	"sync"
)

// Group shares work by key. The zero Group is ready; it is safe for concurrent
// use. Nothing is remembered after the end of a flight.
type Group[K comparable, V any] struct {
	mu      sync.Mutex
	flights map[K]*flight[V]
}

type flight[V any] struct {
	waiters int // guarded by Group.mu; at 0 the flight is canceled
	cancel  context.CancelFunc

	done  chan struct{} // closed after the fields below are set
	value V
	err   error
}

// Do joins the flight of key, or starts it with fn, and waits for its end. When
// ctx ends first it returns ctx's error at once; one that has ended already starts
// and joins nothing. fn has the values of the ctx it was started with and a
// cancellation of its own, which comes when the last caller has left; fn may then
// still be on its way to return.
func (g *Group[K, V]) Do(ctx context.Context, key K, fn func(context.Context) (V, error)) (V, error) {
	if err := ctx.Err(); err != nil {
		var none V
		return none, err
	}
	f := g.join(ctx, key, fn)
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		g.leave(key, f)
		var none V
		return none, ctx.Err()
	}
}

// Waiters is the number of callers that wait for key.
func (g *Group[K, V]) Waiters(key K) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.flights[key]; f != nil {
		return f.waiters
	}
	return 0
}

func (g *Group[K, V]) join(ctx context.Context, key K, fn func(context.Context) (V, error)) *flight[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	f, ok := g.flights[key]
	if !ok {
		f = &flight[V]{done: make(chan struct{})}
		// The first caller's values are kept, its end is not: others may join.
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		f.cancel = cancel
		if g.flights == nil {
			g.flights = make(map[K]*flight[V])
		}
		g.flights[key] = f
		go g.fly(own, key, f, fn)
	}
	f.waiters++
	return f
}

// fly runs until fn returns, which the last waiter to leave sees to; so it needs
// no other owner.
func (g *Group[K, V]) fly(ctx context.Context, key K, f *flight[V], fn func(context.Context) (V, error)) {
	defer f.cancel()
	f.value, f.err = fn(ctx)
	g.mu.Lock()
	g.forget(key, f)
	g.mu.Unlock()
	close(f.done)
}

// leave stops waiting for f. The last caller to leave cancels it, under the lock, so that
// no caller joins a flight that is being canceled.
func (g *Group[K, V]) leave(key K, f *flight[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f.waiters--
	if f.waiters == 0 {
		g.forget(key, f)
		f.cancel()
	}
}

// forget takes f off the map unless a newer flight has its place. g.mu is held.
func (g *Group[K, V]) forget(key K, f *flight[V]) {
	if g.flights[key] == f {
		delete(g.flights, key)
	}
}
