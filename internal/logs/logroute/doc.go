// Package logroute turns the log file of a container into the lines that the container wrote.
// It parses the format of conmon (k8s-file), joins the pieces of a line per stream, and returns
// with each line the position from which a later reader must continue. It is pure: bytes and
// positions go in, lines come out.
package logroute
