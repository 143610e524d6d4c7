// Package state keeps what podtask must not forget: one small record per key,
// a lock per key, and one ordered event log for the host. It stores bytes and
// knows nothing of what they mean.
//
// # Layout
//
// Everything lies under one directory of mode 0700, usually
// $XDG_STATE_HOME/podtask (see [Dirs]):
//
//	tasks/KEY.json          a record: one header line, then the data
//	tasks/.KEY.tmp          a record being written
//	tasks/KEY.corrupt-N     a record that could not be read, moved aside
//	locks/KEY               the lock of a key; its content names the holder
//	ledger/0…0.json         what all tasks share: one record, see [Ledger]
//	ledger/lock             held for the length of one change of it
//	events.jsonl            the event log, newest part
//	events.jsonl.1          the part before it
//	events.lock             held for the length of one append
//
// A key is 32 lower-case hexadecimal digits. The header line of a record is
// "podtask-record 1 sha256:HEX"; HEX is the checksum of all that follows it.
// Files have mode 0600.
//
// # What the caller owes
//
// Whoever writes, deletes or sets aside a record holds its lock. The store does
// not take locks for that: a lock is held for as long as a task has an owner, a
// write takes a few milliseconds. Reading needs no lock, because a record is
// replaced as a whole.
//
// # Concurrency
//
// All types are safe for use by several goroutines and by several processes,
// calls for one key in one process being made one after the other.
package state
