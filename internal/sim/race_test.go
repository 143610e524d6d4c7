//go:build race

package sim

// seedShare divides the number of seeds; raceDetector takes the largest cases
// out. The code under test has no goroutine, so that its memory is checked
// matters more than how often.
const (
	raceDetector = true
	seedShare    = 5
)
