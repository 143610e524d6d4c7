//go:build !race

package sim

const (
	raceDetector = false
	seedShare    = 1
)
