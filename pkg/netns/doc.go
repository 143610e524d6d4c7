// Package netns asks the host about ports and network namespaces, and opens listeners
// and connections inside the network namespace of a task.
//
// [FreePort], [InUse], [UnprivilegedStart] and [FindHolder] answer for this moment only;
// Podman's answer when the pod starts is final. Which ports a task publishes is decided in
// pkg/ports.
package netns
