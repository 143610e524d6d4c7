// Package leaktest checks that a test leaves no goroutines and file descriptors behind
// in its own process. It does not look at other processes or at Podman.
package leaktest
