// Package controlplane runs a control plane of Kubernetes for tests: etcd, API server, controller
// manager and scheduler as processes on loopback, with certificates, Node and RBAC authorization,
// and NodeRestriction as on a production cluster. The program is built in the module
// internal/testing/controlplane/testdata/kubernetes; this package needs no module of Kubernetes.
//
// Only tests and benchmarks use it. It keeps everything in the directory that its caller gives, and
// ends all processes when it is closed.
package controlplane
