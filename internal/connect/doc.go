// Package connect finds the process that owns a task, which is the agent or the task's own
// owner; if neither is alive, this process becomes the owner. It sends requests to stop,
// remove, change or pause the task and waits for the result, starts background owners, and
// contains the backends with which owners and the agent serve the API. The commands of
// podtask and the supervisor of a unit call it. It never reads flags and prints only
// warnings.
package connect
