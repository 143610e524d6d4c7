package enginesim_test

import (
	"flag"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/podtask/podtask/internal/enginesim"
)

var (
	seeds = flag.Uint64("seeds", 2000, "number of seeds of TestRandom")
	first = flag.Uint64("first", 1, "the first of them")
	seed  = flag.Uint64("seed", 0, "play this seed only")
)

// TestRandom plays many seeds.
func TestRandom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
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
