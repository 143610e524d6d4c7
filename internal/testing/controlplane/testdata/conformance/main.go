// Command conformance is nothing to run: it makes the module require Kubernetes' end-to-end tests, so
// that hack/conformance can build them with the versions of the control plane.
package main

import _ "k8s.io/kubernetes/test/e2e"

func main() {}
