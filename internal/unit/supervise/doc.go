// Package supervise runs the task of a .task unit as the main process of its systemd
// service. It reports readiness, status and liveness to the service manager with
// sd_notify(3), stops or reloads the task on a signal, and rolls new images back that do
// not prove themselves. The command `run --notify` calls it and supplies the definition
// and the output. It never parses flags, never writes to a terminal and never calls
// Podman itself.
package supervise
