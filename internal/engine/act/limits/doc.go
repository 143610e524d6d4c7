// Package limits makes the systemd slice of a task, keeps its limits as they are recorded,
// and reads back from the kernel what is applied and what is used. internal/engine/act/effects makes and
// removes slices, an owner changes their limits.
package limits
