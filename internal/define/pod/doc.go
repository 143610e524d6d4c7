// Package pod turns Kubernetes manifests into tasks, and the state of a task into the
// status of a Pod.
//
// Parse reads a Pod, or the Pod template of a controller, with the ConfigMap and Secret
// documents beside it, and returns a valid taskdef.Task. All problems of a file are
// reported at once, each with its place. One table, rules, says of every member of a Pod
// whether it is honored, accepted with a warning, needed from elsewhere or refused.
// StatusOf goes the other way. pkg/taskdef's callers, the command line and the API use
// both.
//
// The members and kinds of the Kubernetes API are data generated from k8s.io/api
// v0.35.4 (schema_gen.go), and the few types of a PodStatus are written here; tests hold
// both against that module. Linking it would make the package impure, because it reaches
// net/http and klog, and it has no place for a line and column.
//
// The package is pure: it reads no clock, no file and no environment. It never puts the
// content of a Secret into a Task, a Pod, a message or a name.
package pod
