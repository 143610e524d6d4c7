// Package sshhost runs podtask on another host, through the user's own ssh program: both ends of
// the connection, and the names that users give to hosts.
//
// A Link starts `ssh HOST podtask session` and talks to the Server in that process over its
// stdin and stdout. The streams of a command, files, signals and forwarded connections share
// that one connection; either end notices within seconds that the other one is gone. The
// command itself is an ordinary podtask process of the other host.
package sshhost
