// Package convert converts the common part of a Compose file, the Quadlet files of one
// pod, or an existing task to a .task unit and a task definition. internal/cli calls it
// for `podtask generate`. Everything that has no counterpart is listed with its place
// instead of being dropped silently.
//
// Its input is hostile: every value is written to the unit through one escaping
// function, taskunit.Escape, so that no value can add a line or a systemd specifier.
//
// It reads the files that a Compose file includes or extends, and nothing else: text in,
// text out.
package convert
