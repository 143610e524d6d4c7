// Package queue admits tasks as far as the budget of the host allows, and finds out who has
// a host port. The decision is that of pkg/admission; here it meets the ledger, the records
// and Podman. It never waits: a task that is not admitted asks again.
package queue
