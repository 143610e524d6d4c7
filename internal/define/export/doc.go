// Package export writes tasks as files of other tools: Quadlet, Compose and Kubernetes. It is the way back of
// package convert.
//
// # Decisions
//
//   - A table has a row for each member of a task, with what each target makes of it. A test walks the type taskdef.Task: a member without
//     a row fails it, and each row that says honored is tried by a way there and back with the importers. So nothing is left out in silence.
//   - What the table calls lost is told by one loop over the rows and the values of the task, and no writer has to think of it. A writer
//     tells only what depends on the value.
//   - A task that was made from a Kubernetes manifest keeps it, so Kubernetes gets that manifest and nothing is lost.
//   - Values of secrets are never written: the files name the secret, and a line says how to make it there.
package export
