// Package kubernetes finds the workloads in manifests, as helm template and kustomize build print them: the documents that belong to each, and
// in a stack its names, addresses, volumes and order. What a Pod becomes is decided by internal/define/pod.
package kubernetes
