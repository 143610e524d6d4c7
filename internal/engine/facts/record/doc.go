// Package record keeps the records of tasks: it finds, lists and watches them, holds the
// locks that say who owns a task and who shows it to a user, and has the event log with the
// transitions of all tasks. It never calls Podman and never changes a task.
package record
