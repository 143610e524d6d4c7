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
package logdelivery
