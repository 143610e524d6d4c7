// Package kubenode makes a host with a podtask agent a node of a Kubernetes cluster.
//
// It owns the node object with its lease and conditions, and a podWorker for each Pod that is
// bound to the node: the podWorker fetches what the Pod refers to, has the agent run a task,
// pushes the Pod's status at each change of the task, and removes the Pod from the API
// server when its containers have ended. A Pod is known by its UID. Tasks outlive the
// process: each bears an annotation with the name of its node, by which the next process
// finds it.
//
// Virtual Kubelet watches the API server and calls the
// provider, Pods. The package decides nothing about containers, which is the agent's work,
// and it never lists or watches objects beyond its own node and that node's Pods: every
// ConfigMap, Secret and token is asked for by name, so the Node authorizer suffices.
//
// Secrets are in memory and in the request to the agent only.
//
// # Decisions
//
//   - A node of Kubernetes is a client of the agent. podtask-kubelet makes each Pod a task by the agent's API, and a
//     watch of the task becomes the status of the Pod. The agent does not know of the cluster, so tasks continue
//     without the program and without the API server. A Pod is its UID: another Pod of the same name waits until the
//     task of the one before has ended. Files of ConfigMaps, Secrets and tokens are directories of the host whose
//     content the program replaces at one moment.
//
// # Resize
//
// When a cluster changes the resources of a running Pod, kubenode compares the Pod with what the agent runs and
// sends the difference. The agent makes of it what a new task would have (pod.Resize), changes the definition in the
// record, and sets the scopes of containers and the slice over D-Bus. Podman starts a container again with the
// limits that it was created with, so StartContainer sets those of the record afterwards (State.Resizes says whether
// there are any). Containers whose resizePolicy says so are stopped and started again (Container.Resizing), and the
// limits change as soon as they have stopped: until then they may use more than the new ones.
package kubenode
