// Package command has what the commands of podtask share: the process's streams, environment and
// version, exit codes, flags, formats of lists, definitions named on the command line, and the tasks
// that a command line selects.
package command
