// Package firelens writes the configuration of a task's log router, as the ECS agent does. It is
// pure.
package firelens
