//go:build e2e && nightly

package e2e

// portRounds is the number of times that TestPortsComeBack runs its task again, portKills how often
// its container is restarted, after pauses that double.
const (
	portRounds = 20
	portKills  = 5
)
