// Package kubelet is the part that executes podtask-kubelet, the node of a Kubernetes cluster.
package kubelet
