// Package ephemeral runs the ephemeral containers of Kubernetes Pods, as kubectl debug adds them to a Pod
// that runs: containers beside those of the Pod's task, in its pod of Podman.
//
// The record of the task does not know them. What is known of one is its container in Podman: its
// name follows from the task and its own name, and it carries the label of the task, so that it is
// stopped and removed with the task. It is started once and never restarted.
package ephemeral
