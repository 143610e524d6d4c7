// Package leftover removes what Podman's service leaves behind when it is killed in the
// middle of a call: containers that only its storage or the OCI runtime knows, their
// monitors, network namespaces with the programs that serve them, and slices of pods that
// were never recorded. Podman itself finds none of that again.
//
// What has a name of podtask's is podtask's. A network namespace and a slice have none: they
// are removed if Podman does not know them and if they were made while a call of podtask was
// cut off. The owner of a task notes such calls. Nothing else is ever removed, because the
// user's own containers have the same leftovers.
//
// No version of Podman is without these faults: docs/upstream#a-kill-during-run-keeps-the-name-in-use,
// docs/upstream#a-kill-during-run-leaves-conmon-and-the-runtime and
// docs/upstream#a-kill-during-a-start-on-a-bridge-leaves-a-network-namespace. Podman before 4.4 also leaves
// processes: docs/upstream#a-kill-during-a-forced-removal-leaves-processes-that-podman-does-not-know.
package leftover
