// Package logbox compares what podtask sends to log servers with what Docker's log drivers send:
// the same output of a container, through both, into the same server. It is a module of its own,
// so that Docker's drivers and the servers of others are no dependencies of podtask.
package logbox
