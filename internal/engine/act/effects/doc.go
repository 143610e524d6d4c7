// Package effects executes the effects that tasks' state machines request: it calls Podman,
// the image store, the queue and systemd, and returns the outcome. Every effect may be
// repeated. The package decides nothing that lifecycle.Step could decide, and it never writes
// a record.
package effects
