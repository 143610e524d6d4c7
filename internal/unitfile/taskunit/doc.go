// Package taskunit converts .task files, which have the syntax of Podman's Quadlet
// files, to the service files that systemd reads. The generator and internal/cli call it
// through package unitdir.
//
//	web.task, with its drop-ins  ──▶  web-task.service, its links, problems
//
// The package is pure: text in, text out. It knows no file system, environment or
// clock. It never reads task definitions: the service does that when it starts. All
// values are safe for concurrent use.
//
// It has its own reader, because problems include their file and line and all of them
// are reported at once; Podman's parser has no line numbers and stops at the first
// error. It uses Podman's rules for words, drop-in directories and writing unchanged,
// and a test compares the reader with Podman's parser.
//
// Unit files are hostile input: a value with a control character is rejected, and text
// that is not written by the author of the unit passes through [Escape].
package taskunit
