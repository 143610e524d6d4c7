// Package sshhost runs podtask on another host, through the user's own ssh program: both ends of
// the connection, and the names that users give to hosts.
//
// A Link starts `ssh HOST podtask session` and talks to the Server in that process over its
// stdin and stdout. The streams of a command, files, signals and forwarded connections share
// that one connection; either end notices within seconds that the other one is gone. The
// command itself is an ordinary podtask process of the other host.
//
// # Decisions
//
//   - A command for another host runs on that host. Half of the commands read records and Podman without an agent,
//     so a forwarded API socket would not be enough. podtask --host starts podtask session there through the user's
//     ssh; in that one connection each command has streams of its own (smux), with signs of life from both ends.
//     routes in internal/cli says of every command where it works, and of which machine its files are. logs -f and
//     events print positions there, from which the next connection continues. top and ui run here and ask podtask
//     view of each host, in one compressed stream: they see several hosts, and outlive a connection.
package sshhost
