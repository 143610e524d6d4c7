// Package registrytest runs an image registry on a loopback port of this process, for
// tests and the demo: with passwords or bearer tokens, injected faults, and a log of
// requests that shows which of them overlapped.
//
// The storage and the distribution API come from go-containerregistry, and Podman pulls
// from it as from any registry. Everything is in memory. The product never uses it. All
// methods are safe for concurrent use.
package registrytest
