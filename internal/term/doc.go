// Package term makes text from elsewhere safe to print on a terminal: errors of Podman
// and registries, names in files, output of containers. Everything that prints such text
// for people passes it through [Line] or [Lines]; JSON output does not need it.
//
// It removes what steers the terminal or changes what a reader sees. It never looks at
// the meaning of the text, and does not remove secrets.
package term
