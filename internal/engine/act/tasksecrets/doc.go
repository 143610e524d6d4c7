// Package tasksecrets makes the Podman secrets of a task from their sources and removes them
// again. A value is read right before it is used; it never reaches state, logs or errors.
package tasksecrets
