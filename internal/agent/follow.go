package agent

import (
	"context"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// Follow takes a task on and calls fn with its state and each later one, leaving out some
// when they come fast, until the task has settled or fn returns false. A task that is
// gone, from the beginning or in the end, gives a *NotFoundError. While a living process
// elsewhere owns the task nothing is seen of it.
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
		p := f.pursued(id)
		if p == nil { // it has settled
			s, err := f.host.Tasks.Get(id)
			if err == nil {
				fn(s)
			}
			return err
		}
		if o, _, _, _ := p.now(); o != nil {
			if err := o.Watch(ctx, show); err != nil || enough {
				return err
			}
		}
		if err := p.end(ctx); err != nil {
			return err
		}
	}
}
