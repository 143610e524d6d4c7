//go:build race

package enginesim_test

// defaultSeeds is less than without the race detector, which makes everything
// some ten times as slow and finds little here: a world has one goroutine.
const defaultSeeds = 100
