// Package loop runs the driver of a task or of a service: it takes events from a mailbox,
// steps, saves, shows the new state, and only then acts, publishes and wakes watchers. It decides
// nothing itself (internal/engine/decide/driver does) and knows nothing of Podman. Owners of tasks and
// the services of an agent use it; each has one loop, which is one goroutine.
package loop
