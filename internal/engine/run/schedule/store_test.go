package schedule

import (
	"errors"
	"testing"

	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
)

func TestStoreNotesEndsBeforeTasksAreRemoved(t *testing.T) {
	t.Parallel()
	store, err := Open(t.TempDir(), state.OS{})
	if err != nil {
		t.Fatal(err)
	}
	s := newHost(nil).s
	s.Runs = []Run{{Due: s.Created, Status: Running, Task: "x"}}
	if err := store.Put(s); err != nil {
		t.Fatal(err)
	}
	gone := func(string) (lifecycle.State, bool) { return lifecycle.State{}, false }
	lock, err := store.LockWait(t.Context(), s.Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Collect(gone); err != nil {
		t.Error(err)
	}
	if got, err := store.Get(s.Name); err != nil || got.Runs[0].Status != Running {
		t.Errorf("a record that another process changes: %+v, %v", got.Runs, err)
	}
	if err := errors.Join(lock.Unlock(), store.Collect(gone)); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Get(s.Name); err != nil || got.Runs[0].Status != Ended {
		t.Errorf("%+v, %v", got.Runs, err)
	}
	if err := store.Delete(s.Name); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(s.Name); !errors.As(err, new(*NotFoundError)) {
		t.Errorf("after its removal: %v", err)
	}
	if err := store.Put(State{Name: "a/b"}); err == nil {
		t.Error("a record that cannot be used is saved")
	}
}
