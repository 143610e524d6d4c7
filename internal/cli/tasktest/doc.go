// Package tasktest has the command podtask test, which starts the task of a definition for each test of a test
// file, checks what the test expects, and removes everything.
//
// # Decisions
//
//   - A test is a task with changes. podtask test changes ports, volumes and containers in the task and runs it as
//     an owner of its own, as run does, several at a time. It never asks the agent, so a pipeline needs none. Checks
//     connect to ports of the loopback, as users do; only files are read with Podman. Its tasks are temporary
//     (Options.Temporary): the next owner of such a task kills and removes it.
package tasktest
