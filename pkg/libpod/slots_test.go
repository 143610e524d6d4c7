package libpod

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The calls of a task that hang do not keep the calls of another task from being made.
func TestACallThatHangsLosesItsSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := make(slots, 2)
		var frees []func()
		begun := time.Now()
		for range 5 { // none of them ends
			free, err := s.take(t.Context())
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
		if len(s) != 0 {
			t.Errorf("%d slots are taken after the end of all calls", len(s))
		}
		<-time.After(2 * slotTime)
		if len(s) != 0 { // a second release would block
			t.Errorf("%d slots are taken later", len(s))
		}
	})
}

func TestASlotIsNotTakenAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := make(slots, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // both cases are ready
		if _, err := s.take(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
	}
	if len(s) != 0 {
		t.Error("the slot is taken")
	}
}
