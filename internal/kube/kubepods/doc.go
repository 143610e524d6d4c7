// Package kubepods has the Pods of a node of Kubernetes.
//
// It has a podWorker for each Pod that is bound to the node: the podWorker fetches what the Pod refers to, has the agent
// run a task, writes the Pod's status at each change of the task, and removes the Pod from the API server when its
// containers have ended. A Pod is known by its UID. Tasks outlive the process: each bears an annotation with the name of
// its node, by which the next process finds it. Secrets are in memory and in the request to the agent only.
//
// Virtual Kubelet watches the API server and calls Pods. Beside this package are podadmission (whether the node takes a
// Pod), podmanifest (the document for the agent), podstatus (the status and how it reaches the API server), podevents
// and podnames (names of Services). They do not know this one. Containers are the agent's work.
//
// # Resize
//
// When a cluster changes the resources of a running Pod, kubepods compares the Pod with what the agent runs and
// sends the difference. The agent makes of it what a new task would have (pod.Resize), changes the definition in the
// record, and sets the scopes of containers and the slice over D-Bus. Podman starts a container again with the
// limits that it was created with, so StartContainer sets those of the record afterwards (State.Resizes says whether
// there are any). Containers whose resizePolicy says so are stopped and started again (Container.Resizing), and the
// limits change as soon as they have stopped: until then they may use more than the new ones.
package kubepods
