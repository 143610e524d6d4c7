// Package taskunit turns .task files, which are written like Podman's Quadlet
// files, into the service files that systemd reads.
//
//	web.task, with its drop-ins  ──▶  web-task.service, its links, problems
//
// The package is pure: it gets text and gives text, and knows no file system,
// environment or clock. Definitions of tasks are not read here: that is left to
// the service when it starts. All values are safe to share between goroutines.
//
// Reading is done here, because problems carry the file and the line they are in
// and all of them are reported at once; the parser package of Podman keeps no
// lines and stops at the first mistake. Its rules for words, for drop-in
// directories and for writing are used as they are, and a test holds the reader
// against it.
package taskunit
