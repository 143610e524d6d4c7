package flight_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/podtask/podtask/pkg/images/flight"
)

func TestCallersShareOneFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[string, int]
		land := make(chan int)
		begun := 0
		fn := func(context.Context) (int, error) { begun++; return <-land, nil }
		got := make(chan int, 3)
		first, leave := context.WithCancel(t.Context())
		for _, ctx := range []context.Context{first, t.Context(), t.Context()} {
			go func() {
				v, err := g.Do(ctx, "x", fn)
				if err != nil {
					v = -1
				}
				got <- v
			}()
			synctest.Wait()
		}
		if n := g.Waiters("x"); n != 3 {
			t.Errorf("%d wait", n)
		}
		leave() // it was the one who began; the others stay
		if v := <-got; v != -1 {
			t.Errorf("who left got %d", v)
		}
		land <- 7
		if a, b := <-got, <-got; a != 7 || b != 7 || begun != 1 {
			t.Errorf("got %d and %d of %d flights", a, b, begun)
		}
		if n := g.Waiters("x"); n != 0 {
			t.Errorf("%d wait afterwards", n)
		}
	})
}

func TestLastCallerToLeaveEndsTheFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[string, int]
		ended := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := g.Do(ctx, "x", func(ctx context.Context) (int, error) { <-ctx.Done(); close(ended); return 0, ctx.Err() })
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}()
		synctest.Wait()
		cancel()
		<-ended
		// A new flight does not meet the old one.
		if v, err := g.Do(t.Context(), "x", func(context.Context) (int, error) { return 1, nil }); v != 1 || err != nil {
			t.Errorf("%d, %v", v, err)
		}
	})
}

func TestEndedCallerStartsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[string, int]
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := g.Do(ctx, "x", func(context.Context) (int, error) { t.Error("it was started"); return 0, nil })
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
	})
}
