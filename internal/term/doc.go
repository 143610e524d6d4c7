// Package term makes text from elsewhere safe to print on a terminal: errors of Podman
// and registries, names in files, output of containers. Everything that prints such text
// for people passes it through [Line] or [Lines]. Besides, all that podtask writes to a terminal goes through a
// [Screen]; commands in a container that have the terminal for themselves are the exception. What goes to files and
// pipes is as it was.
//
// It removes what steers the terminal or changes what a reader sees. It never looks at
// the meaning of the text, and does not remove secrets.
package term
