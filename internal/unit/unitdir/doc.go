// Package unitdir finds unit files in the directories of Podman's Quadlet, and writes
// the services generated from them. The generator and internal/cli use it. It never
// interprets a unit file: that is the task of package taskunit.
package unitdir
