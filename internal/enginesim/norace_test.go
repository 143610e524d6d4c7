//go:build !race

package enginesim_test

const defaultSeeds = 2000
