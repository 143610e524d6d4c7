// Package effects applies the effects that a task's state machine asks for: it calls Podman,
// the image store, the queue and systemd, and turns the result into an answer. Every effect
// may be repeated. It decides nothing that lifecycle.Step could decide, and it never writes a
// record.
package effects
