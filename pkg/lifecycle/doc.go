// Package lifecycle decides what happens to a task.
//
// It is a pure function: Step takes a State, the time and an Event (a fact that
// came in) and returns the next State and the Effects (requests that go out).
// It reads no clock, calls nothing and starts nothing; all of that is done
// by its driver. The driver has four duties:
//
//  1. Save before acting: no effect of a step starts before the state of that
//     step is durable.
//  2. Answer every effect but CancelOp with exactly one OpFinished that carries
//     the effect's ID. Late, lost and doubled answers are tolerated, two effects
//     on one container at a time never occur.
//  3. Deliver TimerFired no earlier than Wake, and Hinted whenever the outside
//     world may have changed: at least when a container of Watches has ended. While
//     Queued, deliver QueueMoved when what tasks share has changed.
//  4. After loading a saved state deliver Restarted before anything else. There
//     is no other recovery code: what was in flight counts as unknown and every
//     container is inspected before the next move.
//
// A step has four parts, each in a file of its own: fold (the fact changes the
// state), settle (what follows from it without any call: impossible dependencies,
// essential containers, ends), plan (what is missing becomes effects) and record
// (what changed for the user becomes history).
//
// Desired and observed never share a word: Goal is desired; Presence is what
// Podman last said; Status, the ECS agent's word, is computed from facts.
//
// State is a value. Step copies what it changes, so older states stay valid.
// Nothing here is safe for concurrent mutation, and nothing here mutates its input.
//
// # Differences from the ECS agent
//
//   - All digests are resolved before anything is pulled. Pulls and creations do not
//     wait for dependencies; only starts do.
//   - A dependency that never ran satisfies no condition. Its dependent container ends
//     with exit code 143 and names it. (ECS: a container that stopped without running
//     satisfies START.)
//   - A container has a list of failures, so a tolerated failure never hides a fatal
//     one. (ECS keeps the first.)
//   - A health check also runs before its first interval has passed. An early success
//     counts, an early failure does not.
//   - startTimeout bounds START too. Before the first start it counts from the
//     container's turn, with ten minutes added for the image. (ECS: a pull that hangs
//     blocks dependent containers without limit.)
//   - A container that its restart policy restarts stays RUNNING. COMPLETE and SUCCESS
//     wait for its last run.
//   - A pod that cannot be made is given up after eight attempts, and after eleven if a
//     quota of the host is used up. (ECS: without limit.)
//   - A removal is given up after eight failures, and the task is back at Down.
//   - Containers stop one by one before the pod, dependent containers first. A second
//     stop request kills all of them at once.
package lifecycle
