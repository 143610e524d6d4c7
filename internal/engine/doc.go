// Package engine is the composition root: Open creates the components that run tasks for one
// user on one machine, and connects them. The components are the exported fields of Agent;
// callers use them directly. The command line, internal/serve/metrics and tests call it. It
// decides nothing itself. Its tests drive the components together, on a fake Podman and in
// the test beds on the real one.
//
// # Starting a task
//
//   - All digests of a task are resolved before anything is pulled or created. Pulls and creations do not wait for
//     dependencies; only starts do.
//   - Containers are created while their infra container starts. CreateSandbox makes the slice and the pod,
//     RunSandbox starts the infra container. A create needs the first, a start the second. If the infra container
//     cannot start, the pod may be discarded with what was created in it; then those containers are inspected, and
//     created again with the pod.
//   - A pod has an infra container only if its containers share a namespace, because it costs as much as another
//     container. Tasks in bridge mode and tasks of one container need none: such a pod is ready when it exists. A
//     Pod of Kubernetes always has one, because its address is known before its containers are created, and so has a
//     task that podman auto-update updates, which fails without one. The record says which kind a pod is.
//   - A container is created after those whose volumes it takes. The volumes of an image come into being with its
//     container, and Podman looks them up there. Nothing else orders creations.
//
// # Failure and recovery
//
//   - A failed call proves nothing. The container is inspected before the next move. Creating and removing can be
//     given up; stopping cannot. A task is STOPPED only when Podman confirms it.
//   - podtask, not Podman, waits between the stop signal and the kill. Podman runs a few stops at once, each until
//     its container has ended, and holds the lock of the pod. So the signal is a call of its own, the wait is that
//     for conmon, and podman stop comes last: it kills what still runs and cleans up. The record says when the stop
//     began, so that the next owner does not grant the whole time again. Without conmon or a PID namespace Podman
//     gets the whole stop.
//   - podtask, not Podman, runs health checks and restarts containers. Podman's own scheduling and restart policies
//     are disabled. So podtask sees and records every check, failure and run, and statuses never go backward.
//   - A forced removal does conmon's part. podtask kills the conmon of each running container, then its program, and
//     writes the exit file, so that no clean-up process starts for what the removal cleans up anyway. Where no
//     systemd reaps orphans, or the log outlives the container (the journal, a file elsewhere), Podman kills.
//   - Only the Podman that has a task is believed. The record says where that one keeps containers. Another one
//     would say of each container that there is none; it is not asked, and who would own the task with it leaves the
//     task alone.
//   - A task does not outlive its shared network. If the infra container exits while containers use its network, the
//     task stops.
//   - What never ran is removed and created again. If Podman's service is killed during a start, it has not recorded
//     all that it did, and each further start fails. So no error is final once after a call that was cut off, unless
//     the program may have begun. The owner notes the time of a call that was cut off; the next owner assumes one if
//     the owner died during a start. What has no name of podtask's, such as a network namespace, is removed only if
//     it was made at such a time and Podman does not know it. An address on a bridge network that Podman may still
//     hold is not requested again.
//   - Orphans are found by locks, not by age. An owner creates objects only while it holds the task's lock and after
//     it has written the record. A pod with podtask's label, a free lock and no record is therefore an orphan and is
//     removed.
//   - A full disk stops what starts, not what stops. A step whose record cannot be saved is undone, and its events
//     are kept until there is space. Below goal UP a step is carried out all the same, because it only ends things.
//     The goal is then not durable: if the owner is killed, its successor starts from the last record and sees in
//     Podman what has ended.
//   - The record is one small file with a checksum per task, not a database. A damaged record affects no other task,
//     and no command waits for a database lock.
//
// # Checks and hooks
//
//   - A container has up to three checks, with the rules of Kubernetes: the startup check comes before the others,
//     the readiness check makes the container HEALTHY, and a container whose startup or liveness check fails is
//     stopped and restarted. The health check of ECS is a readiness check. One operation of a container is in flight
//     at a time, so its checks take turns.
//   - A check over the network connects from inside the container's network namespace, which a rootless host cannot
//     reach. A socket belongs to the namespace in which it was made: a short-lived helper makes a stock of sockets
//     there and passes them to the owner, which connects them. The metadata endpoint listens inside the namespace of
//     its task in the same way.
//   - A fault is in the record before it is in the network, and ends with its owner. FaultsChanged saves what the
//     network is to have; endpoint.Faults then runs nft and tc of the host in the namespaces of the task, and does
//     so again when a fault's time is over or a container gets another namespace. Restarted drops all faults from
//     the state, and the new owner clears the namespaces before it takes a request, whatever the record said: a kill
//     at any step leaves nothing.
//   - Hooks run at least once. If its owner dies, the next one runs a hook again, unless its end is in the record.
//     The grace period counts from the first attempt.
package engine
