// Package atomicfile writes a file so that a reader sees the old content or the new one,
// never a part of it. The command line uses it for unit files, internal/unit/rollback for its
// records. It does not sync: what must survive a crash is written by internal/state.
package atomicfile
