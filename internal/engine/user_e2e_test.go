//go:build e2e && bed_systemd

package engine

import (
	"context"
	"errors"
	"os"
	"testing"
)

// The bus ends when its package is updated, and at shutdown; the manager does not.
func TestLostUserManagerIsFoundAgain(t *testing.T) {
	t.Parallel()
	h, err := Open(Config{StateDir: t.TempDir(), RuntimeDir: t.TempDir(), Getenv: os.Getenv})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	user, err := h.User.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	user.Close()
	again, err := h.User.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Available(t.Context()); err != nil || h.User.ShuttingDown(t.Context()) {
		t.Errorf("the manager answers %v; ending: %v", err, h.User.ShuttingDown(t.Context()))
	}
}

// What a caller that gave up did not find is no fact about the host.
func TestGivenUpLookForTheUserManagerIsForgotten(t *testing.T) {
	t.Parallel()
	h, err := Open(Config{StateDir: t.TempDir(), RuntimeDir: t.TempDir(), Getenv: os.Getenv})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.User.Get(gone); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := h.User.Get(t.Context()); err != nil {
		t.Error(err)
	}
}
