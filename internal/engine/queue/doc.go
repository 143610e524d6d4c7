// Package queue admits tasks as far as the budget of the host allows, chooses host ports and
// finds out who holds one. pkg/admission makes the decision; this package applies it to the
// ledger, the records and Podman. It never waits: a task that is not admitted asks again.
package queue
