// Package cgroups creates a slice of the user's systemd manager for each task, applies
// the task's limits to it, and reads the usage of its cgroups. internal/engine is its
// main caller; internal/host/doctor uses [Detect].
//
// The plan is pure: [Properties] is the request to systemd, [Wanted] what the kernel's
// files must contain afterwards, [Compare] the difference, and [Detect] what the host
// supports. [User] is the thin client of the user manager's D-Bus API.
//
// systemd accepts a limit whose controller is not delegated to the user manager, but
// the limit has no effect. Therefore the success of [User.EnsureSlice] proves nothing;
// [User.ReadBack] does.
//
// If a slice is missing when Podman starts a pod, systemd creates it without limits.
// Therefore the slice is ensured before every start. Its name has no dash, because
// systemd would nest a slice with a dash where Podman does not look for it.
//
// The package never writes to cgroup files itself, and decides nothing about tasks.
package cgroups
