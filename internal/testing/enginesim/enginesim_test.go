package enginesim_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/enginesim"
)

// TestKnownSeeds plays the seeds of testdata/engine-seeds.txt, which have found a
// fault once, and a few others.
func TestKnownSeeds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, s := range append(knownSeeds(t), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10) {
		play(t, dir, s)
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
