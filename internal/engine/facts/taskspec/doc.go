// Package taskspec turns the state of a task into what Podman is asked for: pods, networks,
// containers, volumes and secrets with their names, labels, ports and limits. The result
// follows from the state alone, so that an effect that is repeated finds its first result.
// It never calls Podman.
package taskspec
