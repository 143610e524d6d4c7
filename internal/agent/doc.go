// Package agent runs tasks: it drives the pure core of pkg/lifecycle and is the
// only place that starts goroutines for a task.
//
// A Host is podtask on one machine for one user: the records, the locks, the
// event log and one lazily made connection to Podman and to systemd each. An
// Owner holds the lock of one task's record and drives it: one goroutine owns the
// State; everyone else sends events or reads a snapshot. For each batch of events
// the owner steps, saves the record, tells the event log and its watchers, and
// only then starts the effects, each in a goroutine that answers with one
// OpFinished.
//
// A Fleet is the owners of many tasks in one process: it takes every task that nobody
// owns, and waits for the locks of the others.
//
// An owner that ends, however it ends, stops no container. Whoever takes the lock
// next goes on where it stood.
package agent
