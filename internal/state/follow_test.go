package state

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fsnotify/fsnotify"
)

// usedUp: a user's programs share fs.inotify.max_user_instances, 128 on many hosts.
func usedUp() (*fsnotify.Watcher, error) { return nil, syscall.EMFILE }

func TestFollowGoesOnWithoutAWatch(t *testing.T) {
	t.Parallel()
	l, err := OpenLog(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	l.inotify = usedUp
	enough := errors.New("enough")
	add := func() {
		if _, err := l.Append(t.Context(), json.RawMessage(`{}`)); err != nil {
			t.Error(err)
		}
	}
	add()
	err = l.Follow(t.Context(), 0, func(e Entry) error {
		if e.Seq == 2 {
			return enough
		}
		go add() // without a watcher
		return nil
	})
	if !errors.Is(err, enough) {
		t.Error(err)
	}
}

func TestLedgerIsFollowedWithoutAWatch(t *testing.T) {
	t.Parallel()
	l, err := OpenLedger(t.TempDir(), OS{})
	if err != nil {
		t.Fatal(err)
	}
	l.store.inotify = usedUp
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err = l.Follow(ctx, func() {
		if calls++; calls == 2 {
			cancel()
		}
	})
	if calls != 2 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d calls, %v", calls, err)
	}
}

func TestRecordsAreFollowedWithoutAWatch(t *testing.T) {
	t.Parallel()
	s, err := Open(t.TempDir(), OS{})
	if err != nil {
		t.Fatal(err)
	}
	s.inotify = usedUp
	young := strings.Repeat("b", 32)
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	var seen []bool // whether the record was there when it was told of
	err = s.FollowRecords(ctx, func(key string) {
		_, err := s.Get(key)
		seen = append(seen, err == nil)
		if err != nil {
			cancel(enough)
		} else if err := s.Delete(young); err != nil {
			t.Error(err)
		}
	}, func() {
		if err := s.Put(young, []byte("2")); err != nil {
			t.Error(err)
		}
	})
	if want := []bool{true, false}; !errors.Is(err, enough) || !slices.Equal(seen, want) {
		t.Errorf("%v, %v, want %v", seen, err, want)
	}
}
