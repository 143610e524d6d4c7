// Package task has the commands for tasks that exist: lists, reasons, logs, programs in
// containers, stopping and removing, and the views that follow them.
package task
