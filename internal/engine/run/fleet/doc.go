// Package fleet owns many tasks in one process. It claims every task that has work left and no
// living owner, waits for the locks of the others, and passes events to the owners. It never
// looks at what a task does.
package fleet
