package enginesim_test

import (
	"bufio"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/podtask/podtask/internal/enginesim"
)

var (
	seeds = flag.Int("seeds", 0, "number of seeds of TestRandom; 0: 2000, less with -short or -race")
	first = flag.Uint64("first", 1, "the first of them")
	seed  = flag.Uint64("seed", 0, "play this seed only")
)

// TestRandom plays the seeds of testdata/engine-seeds.txt, which have found
// something once, and a number of others.
func TestRandom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if *seed != 0 {
		play(t, dir, *seed)
		return
	}
	for _, s := range knownSeeds(t) {
		play(t, dir, s)
	}
	n := *seeds
	if n == 0 {
		n = defaultSeeds
		if testing.Short() {
			n = defaultSeeds / 10
		}
	}
	var next, failed atomic.Uint64
	next.Store(*first)
	for part := range 4 {
		t.Run(strconv.Itoa(part), func(t *testing.T) {
			t.Parallel()
			var total enginesim.Count
			for failed.Load() == 0 {
				s := next.Add(1) - 1
				if s >= *first+uint64(n) {
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

func play(t *testing.T, dir string, seed uint64) (enginesim.Count, bool) {
	t.Helper()
	c, err := enginesim.Run(seed, dir)
	if err != nil {
		t.Error(err)
	}
	return c, err == nil
}

func knownSeeds(t *testing.T) (out []uint64) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "engine-seeds.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

func TestASeedMakesTheSameWorldAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for s := range uint64(5) {
		a, errA := enginesim.Run(s+1, dir)
		b, errB := enginesim.Run(s+1, dir)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if a != b || a.Operations == 0 {
			t.Errorf("seed %d: first %+v, then %+v", s+1, a, b)
		}
	}
}
