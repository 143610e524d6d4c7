// Package kubenode makes a host with a podtask agent a node of a Kubernetes cluster.
//
// It owns the node object with its lease and conditions, has Pods evicted while the host is short of something, and ends
// them when the host shuts down. kubepods has the Pods. Virtual Kubelet registers the node and renews its lease.
//
// # Decisions
//
//   - A node of Kubernetes is a client of the agent. podtask-kubelet makes each Pod a task by the agent's API, and a
//     watch of the task becomes the status of the Pod. The agent does not know of the cluster, so tasks continue
//     without the program and without the API server. A Pod is its UID: another Pod of the same name waits until the
//     task of the one before has ended. Files of ConfigMaps, Secrets and tokens are directories of the host whose
//     content the program replaces at one moment.
//   - The program never lists or watches objects beyond its own node, that node's Pods and the Services of the cluster:
//     every ConfigMap, Secret and token is asked for by name, so the Node authorizer suffices.
package kubenode
