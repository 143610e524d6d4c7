package libpod

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// The calls of a task that hang do not keep the calls of another task from being made.
func TestACallThatHangsLosesItsSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(2)
		var frees []func()
		begun := time.Now()
		for range 5 { // none of them ends
			free, err := s.take(t.Context(), normal)
			if err != nil {
				t.Fatal(err)
			}
			frees = append(frees, free)
		}
		if waited := time.Since(begun); waited != 2*slotTime {
			t.Errorf("the fifth call waited %s for two rounds of calls that hang, want %s", waited, 2*slotTime)
		}
		for _, free := range frees {
			free()
		}
		if s.free != 2 {
			t.Errorf("%d slots are free after the end of all calls", s.free)
		}
		<-time.After(2 * slotTime)
		if s.free != 2 { // none is freed twice
			t.Errorf("%d slots are free later", s.free)
		}
	})
}

func TestASlotIsNotTakenAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := newSlots(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		if _, err := s.take(ctx, normal); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
	}
	if s.free != 1 {
		t.Error("the slot is taken")
	}
}

// The start of an infra container, for which others wait, does not wait for the creation of
// the many containers of its pod.
func TestSlotsArePassedOnInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		free, err := s.take(t.Context(), normal)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		wait := func(ctx context.Context, name string, p priority) {
			go func() {
				free, err := s.take(ctx, p)
				if err != nil {
					got = append(got, name+" is canceled")
					return
				}
				got = append(got, name)
				free()
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		wait(t.Context(), "create 1", normal)
		wait(ctx, "create 2", normal)
		wait(t.Context(), "create 3", normal)
		wait(t.Context(), "start 1", urgent)
		wait(t.Context(), "start 2", urgent)
		cancel()
		synctest.Wait()
		free()
		synctest.Wait()
		if want := []string{"create 2 is canceled", "start 1", "start 2", "create 1", "create 3"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if s.free != 1 {
			t.Errorf("%d slots are free", s.free)
		}
	})
}

// A call that ends when its turn has come passes the slot on.
func TestASlotThatComesTooLateIsPassedOn(t *testing.T) {
	t.Parallel()
	s := newSlots(0)
	turn := s.queue(urgent)
	s.pass()
	s.leave(urgent, turn)
	if s.free != 1 {
		t.Errorf("%d slots are free", s.free)
	}
}
