// Package lock has the commands podtask lock and podtask pull, which look up and fetch the images of a task
// definition before it is run.
package lock
