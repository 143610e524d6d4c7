// Package ports decides which host ports a task publishes.
//
// It expands the port mappings of a definition ([OfTask], [OfContainer]), says which
// host ports exclude each other ([HostPort.Conflicts]) and chooses the host ports that a
// definition leaves open ([Plan]). The queue, the check before a start and the creation of
// pods and containers all use it. It never asks the host itself: the caller passes what it
// knows as a [Host]; pkg/netns can answer from /proc and the kernel.
package ports
