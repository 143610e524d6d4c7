// Package logfiles keeps the log files that podtask places for containers: where they are,
// how they are rotated without a loss, how they are read and followed, and how far they were
// delivered. internal/engine/act/effects places and removes files, internal/engine/act/logdelivery rotates and
// delivers them, internal/engine/act/observe reads them for users. conmon writes them. The package never
// talks to Podman or to a log server.
//
// A container has one file that conmon writes, INDEX.log in the directory of its task, and
// segments INDEX.log.N, complete ones, from the oldest that is still kept. To rotate, the file
// gets its segment's name as a second one, and conmon is told to open its file again. Until
// it has, both names are the same file: so a process that is killed at any moment leaves what
// the next one understands.
package logfiles
