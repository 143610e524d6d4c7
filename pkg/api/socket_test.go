package api

import (
	"errors"
	"path/filepath"
	"testing"
)

// A socket without a server is asked again, and nothing is kept of the failure.
func TestSocketIsDialedUntilThereIsAServer(t *testing.T) {
	t.Parallel()
	s := NewSocket(filepath.Join(t.TempDir(), "none.sock"))
	for range 2 {
		if _, err := s.Tasks(t.Context()); !errors.Is(err, ErrNoServer) {
			t.Errorf("without a server: %v", err)
		}
	}
}
