package services

import (
	"context"
	"time"

	"github.com/podtask/podtask/internal/forward"
	"github.com/podtask/podtask/pkg/service"
)

// sleeper watches the use of a service that may sleep.
type sleeper struct {
	use *forward.Use // of the addresses and names that this process serves
	// look has the use looked at once more.
	look      chan struct{}
	following bool // belongs to run
}

func newSleeper() *sleeper {
	s := &sleeper{look: make(chan struct{}, 1)}
	s.use = forward.NewUse(s.again)
	return s
}

func (s *sleeper) again() {
	select {
	case s.look <- struct{}{}:
	default: // it is looked at soon
	}
}

// followUse has a service that may sleep learn when it is used, and when it is not.
func (l *runner) followUse(ctx context.Context, s service.State) {
	l.sleeper.use.Rests(s.Sleep().After)
	if !s.Sleep().Sleeps() || l.sleeper.following {
		return
	}
	l.sleeper.following = true
	l.tells.Start(ctx, "use", func(ctx context.Context) {
		var told service.Used
		for begun := true; ; begun = false {
			now, again := l.used(ctx)
			if begun || now != told {
				told = now
				l.send(ctx, now)
			}
			select {
			case <-l.sleeper.look:
			case <-again:
			case <-ctx.Done():
				l.sleeper.use.Close()
				return
			}
		}
	})
}

// used returns the use of the service, here and by the ingress proxy. A proxy that finishes its connections tells
// nothing: it is asked again after a while.
func (l *runner) used(ctx context.Context) (now service.Used, again <-chan time.Time) {
	s, here := l.loop.State(), l.sleeper.use.Usage()
	if l.all.Routes != nil && len(s.Ingress())+len(listenersOf(s.Config)) > 0 {
		there, unfollowed := l.all.Routes.Use(ctx, l.name)
		here.Busy, here.Waiting = here.Busy || there.Busy, here.Waiting || there.Waiting
		if there.IdleSince.After(here.IdleSince) {
			here.IdleSince = there.IdleSince
		}
		if unfollowed {
			again = time.After(max(time.Second, s.Sleep().After))
		}
	}
	if now = (service.Used{Busy: here.Busy, Waiting: here.Waiting}); !now.Busy {
		now.IdleSince = here.IdleSince.Round(0).UTC()
	}
	return now, again
}

// lookAtUse has services look at what use the ingress proxy says there is of them.
func (a *Services) lookAtUse(names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range names {
		if l := a.loops[name]; l != nil {
			l.sleeper.again()
		}
	}
}
