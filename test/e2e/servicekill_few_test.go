//go:build e2e && !nightly

package e2e

// serviceKills is in how many starts Podman's service is killed.
const serviceKills = 10
