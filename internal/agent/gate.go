package agent

import (
	"context"
	"sync"
)

// pulls lets one pull of an image run at a time in this process; who waited finds
// the image in local storage.
var pulls gate

// gate hands out one lock per key, which can be waited for with a context.
type gate struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed when the key becomes free
}

func (g *gate) lock(ctx context.Context, key string) (unlock func(), err error) {
	for {
		g.mu.Lock()
		busy, held := g.held[key]
		if !held {
			free := make(chan struct{})
			if g.held == nil {
				g.held = make(map[string]chan struct{})
			}
			g.held[key] = free
			g.mu.Unlock()
			return func() {
				g.mu.Lock()
				delete(g.held, key)
				g.mu.Unlock()
				close(free)
			}, nil
		}
		g.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
