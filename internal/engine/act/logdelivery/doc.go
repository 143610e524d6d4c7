// Package logdelivery looks after the log files of a task that podtask placed. It has them
// rotated, keeps them within their limit, and ends the lines that a container left unfinished.
// It sends the lines of each container whose driver names a server, with a sender of
// internal/logs/logsend, moves the container's position when the server has acknowledged them, and tells
// what stands still and what was lost.
//
// The owner of the task runs it, beside its decisions: nothing here changes the state of a
// task, and no container waits for it. The end of a task waits a while for what is not sent
// (Drain). An agent continues with it (Later). Any process may ask how far it is (Routes).
// internal/logs/logfiles has the files.
//
// # Decisions
//
//   - podtask, not conmon, rotates the log files that it places. At its limit, conmon forgets the old file with
//     whatever was not read. podtask gives the file a second name and tells conmon to open its file again. Each
//     stream has its own position, because conmon cuts lines and mixes their pieces.
//   - A position moves only on an acknowledgement. Lines wait in the file, not in memory, and no container waits for
//     a server. Docker's log drivers are not used: they do not tell their caller what was acknowledged. Sending
//     outlives a task: its owner waits a while, an agent continues.
//   - A log router stops after it has the last lines. FlushLogs is an operation between the end of the containers
//     that log to the router and its stop.
package logdelivery
