// Package payload makes a task definition of a task as ECS sends it to an agent.
//
// A payload has what a definition has, but most settings of a container are in Docker's own
// structures, as JSON in text. They are translated back to the members of a definition. A setting
// that is not known is a problem: nothing is dropped in silence. The package does no I/O.
package payload
