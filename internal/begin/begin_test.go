package begin

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestNetnsHelper(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	self, small := filepath.Join(dir, "podtask"), filepath.Join(dir, netnsProgram)
	for _, c := range []struct {
		mode os.FileMode // 0: none
		want []string
	}{{0, []string{self, NetnsListen}}, {0o644, []string{self, NetnsListen}}, {0o755, []string{small}}} {
		if c.mode != 0 {
			if err := os.WriteFile(small, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(small, c.mode); err != nil {
				t.Fatal(err)
			}
		}
		if got := NetnsHelper(self); !slices.Equal(got, c.want) {
			t.Errorf("with mode %o: %q", c.mode, got)
		}
	}
}

func TestHeapOfAProcessThatStays(t *testing.T) {
	for _, tt := range []struct {
		used uint64
		want int
	}{{0, shortPercent}, {4 << 20, shortPercent}, {8 << 20, 200}, {32 << 20, restPercent}, {1 << 30, restPercent}} {
		if got := workPercent(tt.used); got != tt.want {
			t.Errorf("%d MiB in use: it grows by %d %%, want %d", tt.used>>20, got, tt.want)
		}
	}
}

func TestProcessThatStaysRests(t *testing.T) {
	t.Setenv("GOGC", "")
	synctest.Test(t, func(t *testing.T) {
		var c collector
		told := func() int { // what the garbage collector was told, and is told again
			percent := debug.SetGCPercent(100)
			debug.SetGCPercent(percent)
			return percent
		}
		defer debug.SetGCPercent(told())
		for range 3 {
			for range 3 {
				c.working()
				<-time.After(restAfter - 1)
				if got := told(); got <= restPercent {
					t.Errorf("it works, and was told %d %%", got)
				}
			}
			<-time.After(1)
			synctest.Wait()
			if got := told(); got != restPercent {
				t.Errorf("it rests, and was told %d %%", got)
			}
		}
	})
}
