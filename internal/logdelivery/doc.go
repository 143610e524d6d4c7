// Package logdelivery looks after the log files of a task that podtask placed: it has them
// rotated, keeps them within their limit, and ends the lines that a container left unfinished.
// The owner of the task runs it, beside its decisions: nothing here changes the state of a
// task, and no container waits for it. internal/logfiles has the files.
package logdelivery
