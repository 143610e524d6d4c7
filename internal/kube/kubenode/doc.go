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
package kubenode
