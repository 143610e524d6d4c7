// Package convert has what conversions to a .task unit and a task definition share, and converts an existing task.
// Compose files and Quadlet files have packages beside it; internal/cli calls them for `podtask generate` and `podtask import`.
// Everything that has no counterpart is listed with its place instead of being dropped silently.
//
// Its input is hostile: every value is written to the unit through one escaping
// function, taskunit.Escape, so that no value can add a line or a systemd specifier.
package convert
