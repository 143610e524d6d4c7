package connect

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// On a busy host the process of an owner that has done its work takes long to end. The next
// one is looked for until then, without haste.
func TestOwnersAreLookedForUntilTheLastOneHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		rounds := 0
		ended, err := eachOwner(t.Context(), func() (bool, error) {
			rounds++
			return time.Since(began) > 15*time.Second, nil
		})
		if ended || err != nil {
			t.Errorf("ended: %v, error: %v", ended, err)
		}
		if rounds > 25 {
			t.Errorf("%d owners in %s", rounds, time.Since(began))
		}
	})
}

func TestOwnersAreNotLookedForWithoutEnd(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	asked := 0
	for name, c := range map[string]struct {
		ask   func() (bool, error)
		ended bool
		err   error
		least time.Duration
		most  time.Duration
	}{
		"each one ends at once": {func() (bool, error) { return false, nil }, true, nil, askLimit, askLimit + maxPause},
		"each one ends after a minute": {func() (bool, error) {
			<-time.After(time.Minute)
			return false, nil
		}, true, nil, minRounds * time.Minute, minRounds*time.Minute + askLimit},
		"the third one refuses": {func() (bool, error) {
			if asked++; asked == 3 {
				return false, refused
			}
			return false, nil
		}, false, refused, 0, 3 * retryStep},
		"the first one refuses": {func() (bool, error) { return false, refused }, false, refused, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ended, err := eachOwner(t.Context(), c.ask)
				if ended != c.ended || !errors.Is(err, c.err) {
					t.Errorf("ended: %v, error: %v", ended, err)
				}
				if took := time.Since(began); took < c.least || took > c.most {
					t.Errorf("after %s, want %s to %s", took, c.least, c.most)
				}
			})
		})
	}
}

func TestOwnersAreNotLookedForAfterACancel(t *testing.T) {
	t.Parallel()
	cause := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended, err := eachOwner(ctx, func() (bool, error) { cancel(cause); return false, nil })
	if ended || !errors.Is(err, cause) {
		t.Errorf("ended: %v, error: %v", ended, err)
	}
}
