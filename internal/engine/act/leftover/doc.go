// Package leftover removes what Podman's service leaves behind when it is killed in the
// middle of a call: containers that only its storage or the OCI runtime knows, their
// monitors, network namespaces with the programs that serve them, and slices of pods that
// were never recorded. Podman itself finds none of that again.
//
// What has a name of podtask's is podtask's. A network namespace and a slice have none: they
// are removed if Podman does not know them and if they were made while a call of podtask was
// cut off. The owner of a task notes such calls. Nothing else is ever removed, because the
// user's own containers have the same leftovers.
package leftover
