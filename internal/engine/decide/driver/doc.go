// Package driver decides what the owner of a task or of a service does next. Events and
// the time go in. A decision comes out: the record to save, the history to publish, the
// operations to start and to cancel, what to watch, when to wake up, and whether the owner
// is done. internal/engine/decide/loop carries decisions out, internal/testing/enginesim does so on a simulated
// host, and internal/testing/sim checks them. A driver has no clock and no goroutine, and does no
// I/O.
//
// The caller must execute a decision in this order: save the record, publish the history,
// show the state, and only then start operations. The next Step must wait until
// the record is saved.
package driver
