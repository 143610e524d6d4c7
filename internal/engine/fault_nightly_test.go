//go:build e2e && nightly

package engine

// everyFault: TestFaultsOfPodmanLoseNothing tries each fault with each kind of call.
const everyFault = true
