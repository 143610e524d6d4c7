// Package observe looks into the containers of a task for a user: it reads logs and usage,
// runs programs, and pauses. It needs only Podman and the records, so it works whichever
// process owns the task. It never changes the state of a task.
package observe
