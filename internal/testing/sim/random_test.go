package sim

import (
	"bufio"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var (
	seeds = flag.Int("seeds", 300, "number of seeds of TestRandom")
	seed  = flag.Uint64("seed", 0, "walk from this seed only")
)

// TestKnownSeeds walks from the seeds of testdata/seeds.txt, which have found a fault
// once, and from a few others.
func TestKnownSeeds(t *testing.T) {
	t.Parallel()
	walks := knownSeeds(t)
	for s := range uint64(60) {
		walks = append(walks, s+1)
	}
	walkAll(t, walks)
}

func walkAll(t *testing.T, walks []uint64) {
	t.Helper()
	total := 0
	for _, s := range walks {
		moves, err := Walk(s)
		if err != nil {
			t.Fatalf("seed %d: %v\nrepeat it: go test ./internal/testing/sim -run TestRandom -seed %d\nkeep it: add the seed to testdata/seeds.txt", s, err, s)
		}
		total += moves
	}
	t.Logf("%d walks, %d moves", len(walks), total)
}

func knownSeeds(t *testing.T) []uint64 {
	f, err := os.Open(filepath.Join("testdata", "seeds.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []uint64
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

func TestWalkIsRepeatable(t *testing.T) {
	t.Parallel()
	a, errA := Walk(7)
	b, errB := Walk(7)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if a != b || a == 0 {
		t.Errorf("the same seed made %d moves, then %d", a, b)
	}
}
