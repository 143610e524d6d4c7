// Package unitdir finds unit files in the directories of Podman's Quadlet, and writes
// the services generated from them. It does not interpret
// unit files; package taskunit does.
package unitdir
