// Package state stores what podtask must not lose: one small record per key, a lock per
// key, and one ordered event log for the host. It stores bytes and knows nothing about
// their meaning. [Named] keeps records of one type, as JSON, by the names that users gave
// them; its callers say how a record is checked.
//
// # Layout
//
// Everything is in one directory with mode 0700, usually $XDG_STATE_HOME/podtask (see
// [Dirs]):
//
//	tasks/KEY.json          a record: a header line, then the data
//	tasks/.KEY.tmp          a record being written
//	tasks/KEY.corrupt-N     a record that could not be read, moved aside
//	locks/KEY               the lock of a key; its content names the holder
//	schedules/, stacks/ ...  records with names and their locks, see [Named]
//	ledger/0…0.json         the record shared by all tasks, see [Ledger]
//	ledger/lock             held during one change of that record
//	removed/DAY             keys whose records were deleted on a day, see [Traces]
//	events.jsonl            the event log, newest part
//	events.jsonl.1          the previous part
//	events.lock             held during one append
//
// A key is 32 lower-case hexadecimal digits. The header line of a record is
// "podtask-record 1 sha256:HEX", where HEX is the checksum of everything after it.
// Files have mode 0600.
//
// # Duties of the caller
//
// A caller that writes, deletes or sets aside a record must hold its lock. The store does not
// take locks itself: a task's owner holds the lock as long as it exists, while a write
// takes a few milliseconds. Reading needs no lock, because a record is always replaced
// as a whole.
//
// # Concurrency
//
// All types are safe for use by several goroutines and by several processes, except
// that one process must not make concurrent calls for the same key.
package state
