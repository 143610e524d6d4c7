package catalog_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/state"
)

// TestKeptSecretsAreReleasedWhenNothingNeedsThem goes through what may become of an id.
func TestKeptSecretsAreReleasedWhenNothingNeedsThem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	locks, err := state.OpenLocks(dir, state.Holder{Command: "test"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Open(dir, state.OS{}, locks)
	if err != nil {
		t.Fatal(err)
	}
	id := func(letter string) string { return strings.Repeat(letter, 32) }
	busy, dropped, active, gone, inUse := id("a"), id("b"), id("c"), id("d"), id("e")
	ctx, at := context.Background(), time.Unix(1, 0)
	for _, id := range []string{busy, dropped, active, gone, inUse} {
		lock, err := c.Reserve(id)
		if err != nil {
			t.Fatal(err)
		}
		if id == busy {
			// A lock that nothing refers to is released with its file.
			t.Cleanup(func() { _ = lock.Unlock() })
			continue
		}
		if id != dropped {
			if _, err := c.Add(ctx, catalog.Document{Family: "web", Digest: id, Source: []byte(id), Kept: id}, at); err != nil {
				t.Fatal(err)
			}
		}
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
	}
	for _, revision := range []int{2, 3} { // gone and inUse
		if _, err := c.Deregister(ctx, catalog.Ref{Family: "web", Revision: revision}, at); err != nil {
			t.Fatal(err)
		}
	}
	var forgot []string
	forget := func(_ context.Context, id string) error {
		forgot = append(forgot, id)
		if len(forgot) == 1 {
			return errors.New("Podman does not answer")
		}
		return nil
	}
	used := func(id string) (bool, error) { return id == inUse, nil }
	if err := c.Release(ctx, used, forget); err == nil {
		t.Error("a failure is not reported")
	}
	if want := []string{dropped, gone}; !slices.Equal(forgot, want) {
		t.Errorf("released %v, want %v", forgot, want)
	}
	if err := c.Release(ctx, used, forget); err != nil || !slices.Equal(forgot, []string{dropped, gone, dropped}) {
		t.Errorf("after a failure: %v, %v", forgot, err)
	}
	none := func(string) (bool, error) { return false, nil }
	if err := c.Release(ctx, none, forget); err != nil || forgot[len(forgot)-1] != inUse {
		t.Errorf("when it is no longer used: %v, %v", forgot, err)
	}
}
