package stacks

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/pkg/service"
)

// shop is a stack in which web waits for a job that waits for a database.
var shop = stack.State{Name: "shop", Current: stack.Revision{Number: 1, Members: []stack.Member{
	{Name: "db", Object: "shop-db", Kind: stack.Service},
	{Name: "migrate", Object: "shop-migrate", Kind: stack.Job, After: []stack.Dependency{{Name: "db", Is: stack.Healthy}}},
	{Name: "web", Object: "shop-web", Kind: stack.Service, After: []stack.Dependency{{Name: "migrate", Is: stack.Completed}}},
}}}

// booting runs a copy of a service past a Boot, with a clock that each look moves by half a second, and returns when it started.
func booting(t *testing.T, name string, look func(name string, now time.Duration) (service.State, error)) time.Duration {
	t.Helper()
	b := NewBoot([]stack.State{shop})
	var now time.Duration
	b.Now = func() time.Duration { return now }
	b.Look = func(name string) (service.State, error) { return look(name, now) }
	b.After = func(d time.Duration) <-chan time.Time {
		now += d
		c := make(chan time.Time, 1)
		c <- time.Time{}
		return c
	}
	b.Log = slog.New(slog.DiscardHandler)
	if err := b.Await(t.Context(), name); err != nil || b.Waiting() != 0 {
		t.Errorf("%v, %d wait", err, b.Waiting())
	}
	if before := now; b.Await(t.Context(), name) != nil || now != before {
		t.Error("a later copy waits too")
	}
	return now
}

// copies is a service with as many healthy copies.
func copies(desired, healthy int) service.State {
	s := service.State{Status: service.Active, DesiredCount: desired}
	for range healthy {
		s.Tasks = append(s.Tasks, service.Task{Phase: service.Live, Seen: service.Observation{Running: true}, HealthyNow: true, HealthySince: time.Unix(1, 0)})
	}
	return s
}

// The first copies after a failure of power start in the order of their stack, past jobs that have completed, and not for ever.
func TestTheOrderAtBoot(t *testing.T) {
	t.Parallel()
	gone := func(string, time.Duration) (service.State, error) {
		return service.State{}, errors.New("there is none")
	}
	late := NewBoot([]stack.State{shop})
	late.Now = func() time.Duration { return bootLimit }
	if err := late.Await(t.Context(), "shop-web"); err != nil {
		t.Error(err)
	}
	if at := booting(t, "shop-db", gone); at != 0 {
		t.Errorf("what waits for nothing starts at %s", at)
	}
	for name, tt := range map[string]struct {
		db    func(now time.Duration) (service.State, error)
		web   int
		least time.Duration
		most  time.Duration
	}{
		"it becomes healthy": {func(now time.Duration) (service.State, error) {
			if now < 20*time.Second {
				return copies(1, 0), nil
			}
			return copies(1, 1), nil
		}, 1, 23 * time.Second, 24 * time.Second},
		"its record says that it runs still": {func(now time.Duration) (service.State, error) {
			if now > time.Second && now < 20*time.Second {
				return copies(1, 0), nil
			}
			return copies(1, 1), nil
		}, 1, 23 * time.Second, 24 * time.Second},
		"it never does":     {func(time.Duration) (service.State, error) { return copies(2, 1), nil }, 1, bootLimit, bootLimit},
		"it is stopped":     {func(time.Duration) (service.State, error) { return copies(0, 0), nil }, 1, 0, settled},
		"it is not there":   {func(time.Duration) (service.State, error) { return service.State{}, errors.New("no") }, 1, 0, settled},
		"no copy is wanted": {func(time.Duration) (service.State, error) { return copies(1, 0), nil }, 0, 0, settled},
	} {
		at := booting(t, "shop-web", func(name string, now time.Duration) (service.State, error) {
			if name == "shop-db" {
				return tt.db(now)
			}
			return copies(tt.web, 0), nil
		})
		if at < tt.least || at > tt.most {
			t.Errorf("%s: it starts at %s, want %s to %s", name, at, tt.least, tt.most)
		}
	}
}

// A copy that waits ends with its agent.
func TestWaitingEndsWithTheAgent(t *testing.T) {
	t.Parallel()
	b := NewBoot([]stack.State{shop})
	b.Now, b.Look = func() time.Duration { return 0 }, func(string) (service.State, error) { return copies(1, 0), nil }
	ctx, cancel := context.WithCancel(t.Context())
	b.After = func(time.Duration) <-chan time.Time { cancel(); return nil }
	if err := b.Await(ctx, "shop-web"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
