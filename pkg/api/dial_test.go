package api

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
)

// A client of a socket without a server asks again at each call, keeps nothing of the failure, and works once there is one.
func TestClientIsUsableOnceThereIsAServer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tasks", "t.sock")
	c := NewClient(path)
	defer c.Close()
	for range 2 {
		if _, err := c.Tasks(t.Context()); !errors.Is(err, ErrNoServer) {
			t.Errorf("without a server: %v", err)
		}
	}
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := NewServer(&backend{state: someState()}, ThisVersion("1.2.3")).Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	defer wg.Wait()
	defer cancel()
	if tasks, err := c.Tasks(t.Context()); err != nil || len(tasks) != 1 {
		t.Errorf("with a server there are %d tasks, and the error %v", len(tasks), err)
	}
}
