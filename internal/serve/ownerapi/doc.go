// Package ownerapi serves the tasks of one user to other processes, as far as that needs no agent: the
// state of each task with its owner, the requests to the owner of one task, and what happened. A
// process that owns a task serves it with Backend; an agent serves all tasks with package serve.
package ownerapi
