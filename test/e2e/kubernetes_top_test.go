//go:build e2e && kubernetes && nightly

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// metricsServer are the objects of metrics-server as its own manifest has them, but for the
// service: here it runs on the host.
const metricsServer = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: metrics-server, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: system:metrics-server}
rules:
- {apiGroups: [""], resources: [nodes/metrics], verbs: [get]}
- {apiGroups: [""], resources: [pods, nodes], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: system:metrics-server}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:metrics-server}
subjects: [{kind: ServiceAccount, name: metrics-server, namespace: kube-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: metrics-server:system:auth-delegator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:auth-delegator}
subjects: [{kind: ServiceAccount, name: metrics-server, namespace: kube-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: metrics-server-auth-reader, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: extension-apiserver-authentication-reader}
subjects: [{kind: ServiceAccount, name: metrics-server, namespace: kube-system}]
---
apiVersion: v1
kind: Service
metadata: {name: metrics-server, namespace: kube-system}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  group: metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: metrics-server, namespace: kube-system, port: %d}
`

// TestKubernetesTop has metrics-server, with the rights that its manifest gives it and no others,
// read the node, and kubectl top ask metrics-server.
func TestKubernetesTop(t *testing.T) {
	t.Parallel()
	plane := newPlane(t)
	n := newNode(t, plane, familyOf(t))
	n.apply(deployment(n.testbox(), "first", 1), "apply", "-f", "-")
	n.kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=5m")
	n.approve()
	port := freePort(t)
	n.apply(fmt.Sprintf(metricsServer, port), "apply", "-f", "-")
	config, err := plane.ServiceAccount(t.Context(), "kube-system", "metrics-server")
	if err != nil {
		t.Fatal(err)
	}
	server := n.startWith(func(cmd *exec.Cmd) {
		cmd.Path = os.Getenv("PODTASK_METRICS_SERVER")
		cmd.Args[0] = cmd.Path
	}, "--kubeconfig", config, "--authentication-kubeconfig", config, "--authorization-kubeconfig", config,
		"--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(port), "--cert-dir", t.TempDir(),
		"--kubelet-certificate-authority", plane.CA(), "--kubelet-use-node-status-port", "--kubelet-preferred-address-types", "InternalIP",
		"--metric-resolution", "10s", "--kubelet-request-timeout", "5s")
	defer func() {
		if t.Failed() {
			t.Log(lastLines(server.err.String(), 30))
		}
	}()
	top := func(what string, args ...string) {
		t.Helper()
		var out string
		long(t, what+" of kubectl top "+strings.Join(args, " "), func() bool {
			out, err = plane.Kubectl(t.Context(), "", append([]string{"top"}, args...)...)
			return err == nil && strings.Contains(out, what) && strings.Contains(out, "Mi")
		})
		t.Log(out)
	}
	top(n.name, "node")
	top("main", "pod", "--containers")
	server.interrupt()
	server.wait()
}
