// Package tasksecrets makes the Podman secrets of a task from their sources and removes them
// again. A value is read right before it is used; it never reaches state, logs or errors.
//
// # Removal
//
// Every secret that podtask makes is removed in one of these ways:
//
//   - The task stops: effects.Interpreter removes the task's secrets with its containers, after the pod has stopped,
//     because no container starts after it.
//   - The task is removed: effects.Interpreter removes them with the pod, also when the task never stopped in order.
//   - The task ends without a pod: owner removes the secrets that its creation has made.
//   - The creation fails: owner.Creator forgets the credentials that it stored (ForgetLogins). Their note in package
//     leftover, which is written first, lets a sweep find them if the process is killed.
//   - The record is gone: cleanup removes secrets with the label of a task that has no record and no owner
//     (podtask gc, and the agent).
//   - The record cannot be read: cleanup removes the secrets of a damaged task with its other objects.
//   - A revision of a manifest is released: the catalog removes the content of its Secrets (RemoveManifest) when no active
//     revision, service or task names it.
package tasksecrets
