package enginesim_test

import (
	"flag"
	"os"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/podtask/podtask/internal/testing/enginesim"
)

var (
	seeds = flag.Uint64("seeds", 2000, "number of seeds of TestRandom")
	first = flag.Uint64("first", 1, "the first of them")
	seed  = flag.Uint64("seed", 0, "play this seed only")
)

// TestRandom plays many seeds.
func TestRandom(t *testing.T) {
	t.Parallel()
	// A world is small and short-lived: garbage may pile up before it is collected.
	old := debug.SetGCPercent(400)
	t.Cleanup(func() { debug.SetGCPercent(old) })
	dir := lockDir(t)
	if *seed != 0 {
		play(t, dir, *seed)
		return
	}
	var next, failed atomic.Uint64
	next.Store(*first)
	for part := range 4 {
		t.Run(strconv.Itoa(part), func(t *testing.T) {
			t.Parallel()
			var total enginesim.Count
			for failed.Load() == 0 {
				s := next.Add(1) - 1
				if s >= *first+*seeds {
					break
				}
				c, ok := play(t, dir, s)
				if !ok {
					failed.Add(1)
				}
				total.Add(c)
			}
			t.Logf("%+v", total)
		})
	}
}

// lockDir is a directory in memory if the host has one: worlds use real files for locks
// only, which are many and live for a moment.
func lockDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "enginesim")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
