package stacks

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/pkg/service"
)

const (
	// bootLimit is the time after the start of an agent from which no copy waits for others any more.
	bootLimit = 10 * time.Minute
	// settled is the time for which a service has to be as others want it: the record of one that a failure of power has ended says that it runs,
	// until its tasks were looked at.
	settled = 3 * time.Second
	// looked is the time after the start of an agent from which that is not the record of an earlier one any more.
	looked = time.Minute
	// lookAgain is the time between two looks at services for which a copy waits.
	lookAgain = 500 * time.Millisecond
)

// Boot keeps the order of stacks when an agent starts: after a failure of power nobody has stopped the services in their order, and all
// copies would start at once. The first new copies of a service wait for the services that it waits for.
type Boot struct {
	// Look returns a service; an error if there is none.
	Look func(name string) (service.State, error)
	// Now is the time since the agent has started, and After returns the channel that is read when a time has passed.
	Now   func() time.Duration
	After func(time.Duration) <-chan time.Time
	Log   *slog.Logger

	mu      sync.Mutex
	waitFor map[string][]stack.Dependency // by service, while it may have to wait
	waiting int
}

// NewBoot returns the order of stacks.
func NewBoot(all []stack.State) *Boot {
	b := &Boot{waitFor: map[string][]stack.Dependency{}}
	for _, s := range all {
		for _, m := range s.Current.Members {
			if m.Kind != stack.Service {
				continue
			}
			for _, d := range s.Current.Awaits(m) {
				of := s.Current.Find(d.Name)
				b.waitFor[m.Object] = append(b.waitFor[m.Object], stack.Dependency{Name: of.Object, Is: d.Is})
			}
		}
	}
	return b
}

// Waiting returns how many copies wait now.
func (b *Boot) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting
}

// Await returns when a copy of a service may start, or with an error when the context ends.
func (b *Boot) Await(ctx context.Context, name string) error {
	b.mu.Lock()
	needs := b.waitFor[name]
	if len(needs) == 0 || b.Now() >= bootLimit {
		b.mu.Unlock()
		return nil
	}
	b.waiting++
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.waiting--
		if ctx.Err() == nil {
			delete(b.waitFor, name)
		}
		b.mu.Unlock()
	}()
	var since time.Duration
	for held := false; ; {
		missing := b.missing(name, needs)
		switch now := b.Now(); {
		case missing == "" && (now >= looked || held && now-since >= settled):
			return nil
		case now >= bootLimit:
			if missing != "" {
				b.Log.Warn("a service of a stack starts although another one is not as it wants it", "service", name, "other", missing)
			}
			return nil
		case missing == "" && !held:
			since, held = now, true
		case missing != "":
			held = false
		}
		select {
		case <-b.After(lookAgain):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// missing returns a service that is not as another one wants it; empty for none, or if no copy of that one is wanted any more.
func (b *Boot) missing(name string, needs []stack.Dependency) string {
	if own, err := b.Look(name); err != nil || own.Status != service.Active || own.DesiredCount == 0 {
		return ""
	}
	i := slices.IndexFunc(needs, func(d stack.Dependency) bool {
		s, err := b.Look(d.Name)
		if err != nil || s.Status != service.Active || s.DesiredCount == 0 || s.Rest.Asleep {
			return false // nothing will start it
		}
		n := s.Count("")
		return !d.Met(n.Running, n.Healthy, s.DesiredCount)
	})
	if i < 0 {
		return ""
	}
	return needs[i].Name
}
