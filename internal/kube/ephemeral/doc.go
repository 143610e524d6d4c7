// Package ephemeral runs the ephemeral containers of Kubernetes Pods, as kubectl debug adds them to a Pod
// that runs: containers beside those of the Pod's task, in its pod of Podman.
//
// The record of the task does not know them. What is known of one is its container in Podman: its
// name follows from the task and its own name, and it carries the label of the task, so that it is
// stopped and removed with the task. It is started once and never restarted.
//
// # Decisions
//
//   - An ephemeral container of a Pod is known to Podman alone. internal/kube/ephemeral reads it as a Pod of one
//     container and creates it in the task's pod as if the task had one container more. Its name follows from the
//     task's and its own, and it has the task's label, so that it is found again by another process, and stopped and
//     removed with the task. No record and no step of the state machine has it.
package ephemeral
