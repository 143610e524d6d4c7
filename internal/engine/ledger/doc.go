// Package ledger is what all owners of a state directory share in one file: the queue,
// whether new tasks are refused, and when leftovers are to be removed. internal/engine/queue decides
// what the queue holds. The ledger never calls Podman.
package ledger
