//go:build e2e && nightly

package agent

// everyFault: TestFaultsOfPodmanLoseNothing tries each fault with each kind of call.
const everyFault = true
