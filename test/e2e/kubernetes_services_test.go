//go:build e2e && kubernetes

package e2e

import (
	"fmt"
	"strings"
)

// serviceOfPods is a Service with the Pods behind it, each of which says its name.
func serviceOfPods(kind, name, clusterIP, image string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %[2]s}
spec:
  %[3]s
  selector: {app: %[2]s}
  ports: [{port: 80, targetPort: http}]
---
apiVersion: apps/v1
kind: %[1]s
metadata: {name: %[2]s}
spec:
  replicas: 2
  %[5]s
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec:
      terminationGracePeriodSeconds: 2
      containers:
      - name: main
        image: %[4]s
        args: [serve, "8080"]
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {httpGet: {path: /, port: http}, periodSeconds: 1}
`, kind, name, clusterIP, image, map[string]string{"StatefulSet": "serviceName: " + name}[kind])
}

// clientOf is a Pod that reads from addresses, and then says so.
func clientOf(name, image string, urls ...string) string {
	var args []string
	for _, u := range urls {
		args = append(args, "await", u, "--")
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: %s
    args: [%s]
`, name, image, strings.Join(append(args, "print", "reached", "--", "sleep", "forever"), ", "))
}

// wantReached waits until a client has read from all addresses.
func (n *node) wantReached(pod string) {
	n.t.Helper()
	eventually(n.t, pod+" reaches all names", func() bool {
		got, _ := n.plane.Kubectl(n.t.Context(), "", "logs", pod)
		return strings.Contains(got, "reached")
	})
}

// servicesOfANode: the Pods of a node reach by name the Services whose Pods are on it, also those that come later.
func servicesOfANode(n *node, image string) {
	names := []string{
		"http://orders/", "http://orders.default.svc.cluster.local/", "http://ledger:8080/", "http://ledger-0.ledger:8080/", "http://ledger-1.ledger.default.svc.cluster.local:8080/",
	}
	n.apply(clientOf("early", image, names...), "apply", "-f", "-")
	n.apply(serviceOfPods("Deployment", "orders", "", image), "apply", "-f", "-")
	n.apply(serviceOfPods("StatefulSet", "ledger", "clusterIP: None", image), "apply", "-f", "-")
	n.kubectl("rollout", "status", "deployment/orders", "--timeout=5m")
	n.kubectl("rollout", "status", "statefulset/ledger", "--timeout=5m")
	n.wantReached("early")
	n.apply(clientOf("late", image, names...), "apply", "-f", "-")
	n.wantReached("late")
	read := func(pod, url string) string {
		out, _ := n.plane.Kubectl(n.t.Context(), "", "exec", pod, "--", "/testbox", "get", url)
		return strings.TrimSpace(out)
	}
	if got := read("late", "http://ledger-1.ledger:8080/"); !strings.Contains(got, "ledger-1") {
		n.t.Errorf("ledger-1.ledger answers %q", got)
	}
	seen := make(map[string]bool)
	eventually(n.t, "both Pods answer", func() bool {
		seen[read("late", "http://orders/")] = true
		return len(seen) >= 2
	})
	n.kubectl("delete", "pod/early", "pod/late", "service/orders", "service/ledger", "deployment/orders", "statefulset/ledger")
	for _, app := range []string{"app=orders", "app=ledger"} {
		n.untilPods(app, 0)
	}
}
