// Package connect is the client's side of a task: it finds the process that owns the task, the agent
// or an owner of its own, and sends it requests. If no process owns the task, this process becomes its
// owner.
package connect
