package loop

import (
	"context"
	"sync"
)

// Jobs are goroutines by key, each with a context of its own. The zero value has none.
// Its methods may be used by any goroutine.
type Jobs[K comparable] struct {
	wg   sync.WaitGroup
	mu   sync.Mutex
	jobs map[K]*job
}

type job struct{ cancel context.CancelFunc }

// Start runs fn in a goroutine. A job that has the same key is canceled.
func (j *Jobs[K]) Start(ctx context.Context, key K, fn func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	this := &job{cancel}
	j.mu.Lock()
	defer j.mu.Unlock()
	if old := j.jobs[key]; old != nil {
		old.cancel()
	}
	if j.jobs == nil {
		j.jobs = map[K]*job{}
	}
	j.jobs[key] = this
	j.wg.Go(func() {
		defer j.end(key, this)
		fn(ctx)
	})
}

func (j *Jobs[K]) end(key K, this *job) {
	this.cancel()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.jobs[key] == this {
		delete(j.jobs, key)
	}
}

// Cancel ends the context of a job, if there is one.
func (j *Jobs[K]) Cancel(key K) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if this := j.jobs[key]; this != nil {
		this.cancel()
	}
}

// Wait returns when all goroutines have ended. Start must not be called meanwhile.
func (j *Jobs[K]) Wait() { j.wg.Wait() }
