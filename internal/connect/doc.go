// Package connect finds the process that owns a task: the agent, else an owner of its own;
// if neither is alive, it takes the task over and drives it. It asks that process to stop,
// remove, change or pause the task and waits for the result, starts owners for tasks in the
// background, and holds the backends with which an owner and the agent serve the API. The
// commands of podtask and the supervisor of a unit call it. It never reads flags and prints
// nothing except warnings.
package connect
