// Package kubeaccess gives internal/kube/kubeserve the Pods of this node: it finds the task of a Pod and
// its containers, reads their logs, runs programs in them, connects to their main program and to
// their ports, and measures what they use.
//
// It reads records and asks Podman, as podtask exec and podtask logs do, so it works without the
// agent. It changes nothing of a task.
package kubeaccess
