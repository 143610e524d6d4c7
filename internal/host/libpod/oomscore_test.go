package libpod

import (
	"os"
	"testing"
)

// A value that this user may not set is left to Podman: no container fails for it.
func TestOOMScoresAreThoseThatCanBeSet(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		want, least   int
		known, raised bool
		set           bool
	}{
		{1000, 200, true, true, true},
		{1000, 200, true, false, true},
		{1000, 0, false, false, true},
		{750, 200, true, false, true},
		{750, 0, false, false, false},
		{750, 0, false, true, true},
		{200, 200, true, true, false},
		{-997, 0, true, true, false},
		{-997, 0, true, false, false},
	} {
		if got := settable(tt.want, tt.least, tt.known, tt.raised); (got != nil) != tt.set || got != nil && *got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
	if _, known := OOMScoreAdj(os.Getpid()); !known {
		t.Error("the value of this process is not known")
	}
	if _, known := OOMScoreAdj(-1); known {
		t.Error("no process has a value")
	}
}
