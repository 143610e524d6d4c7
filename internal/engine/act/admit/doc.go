// Package admit decides when a task may start on this host. The Ledger is a file that all
// processes of a user share: the queue with its reservations, whether the host is draining, and
// when leftovers are removed. The Queue applies the decisions of pkg/admission to the ledger, as
// far as the budget of the host allows. PortHolders chooses host ports and names their users. No
// call waits for room: a task that is not admitted asks again after the ledger has changed.
package admit
