package sim

import "testing"

// TestModelLarge explores the cases that take seconds.
func TestModelLarge(t *testing.T) {
	exploreAll(t, modelCases(), everydayStates, func(c modelCase) bool { return c.large })
}

// TestRandom walks from the first -seeds seeds, or from -seed only.
func TestRandom(t *testing.T) {
	t.Parallel()
	walks := make([]uint64, *seeds)
	for i := range walks {
		walks[i] = uint64(i) + 1
	}
	if *seed != 0 {
		walks = []uint64{*seed}
	}
	walkAll(t, walks)
}
