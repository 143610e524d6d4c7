// Package logroute turns the log file of a container into the lines that the container wrote.
// It parses the format of conmon (k8s-file), joins the pieces of a line per stream, and tells
// with each line the position from which a later reader must continue. internal/logs/logfiles reads
// files with it. It reads the options of log drivers, with Docker's
// rules, and fills in tags. It is pure: bytes and positions go in, lines come out.
package logroute
