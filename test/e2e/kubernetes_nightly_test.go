//go:build e2e && kubernetes && nightly

package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/testing/controlplane"
	"github.com/podtask/podtask/test/testbed"
)

// TestKubernetesReplacesThePodsOfADeadNode shows a failover with its times. It takes as long as
// the controller manager waits for a node, which is 20 seconds here and 50 by default.
func TestKubernetesReplacesThePodsOfADeadNode(t *testing.T) {
	t.Parallel()
	plane := newPlane(t)
	nodes := map[string]*node{}
	for _, name := range []string{"first", "second"} {
		nodes[name] = newNode(t, plane, name)
	}
	n := nodes["first"]
	impatient := `
      tolerations:
      - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 5}
      - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 5}
`
	n.apply(strings.TrimSuffix(deployment(n.testbox(), "here", 1), "\n")+impatient, "apply", "-f", "-")
	n.kubectl("rollout", "status", "deployment/web", "--timeout=5m")
	where := func() string {
		out, _ := plane.Kubectl(context.Background(), "", "get", "pods", "-l", "app=web", "-o", "jsonpath={range .items[*]}{.spec.nodeName} {.status.containerStatuses[0].ready}{\"\\n\"}{end}")
		return out
	}
	dead := strings.Fields(where())[0]
	live := map[string]string{"first": "second", "second": "first"}[dead]
	nodes[dead].kubelet.kill()
	nodes[dead].agent.kill()
	begin := time.Now()
	n.kubectl("wait", "--for=condition=Ready=Unknown", "node/"+dead, "--timeout=5m")
	n.t.Logf("the node was not ready after %s", time.Since(begin).Round(time.Millisecond))
	eventually(t, "a Pod on the other node", func() bool { return strings.Contains(where(), fmt.Sprintf("%s true\n", live)) })
	n.t.Logf("the Pod that replaces it was ready after %s", time.Since(begin).Round(time.Millisecond))
}

// TestKubernetesRenews waits until the certificate of the endpoint and the token of a Pod are
// replaced because their time ends. That of a token is ten minutes at least.
func TestKubernetesRenews(t *testing.T) {
	t.Parallel()
	plane := newPlane(t)
	if err := plane.Kill(controlplane.Controllers); err != nil {
		t.Fatal(err)
	}
	if err := plane.Run(controlplane.Controllers, "--cluster-signing-duration=10m"); err != nil {
		t.Fatal(err)
	}
	n := newNode(t, plane, familyOf(t))
	image := n.testbox()
	n.apply(deployment(image, "first", 1)+fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  terminationGracePeriodSeconds: 2
  automountServiceAccountToken: false
  containers:
  - name: main
    image: %s
    args: [sleep, forever]
    volumeMounts: [{name: token, mountPath: /token}]
  volumes: [{name: token, projected: {sources: [{serviceAccountToken: {path: t, expirationSeconds: 600}}]}}]
`, image), "apply", "-f", "-")
	n.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=5m")
	n.approve()
	var unread error // why the token could not be read the last time
	read := func() (token string) {
		token, unread = plane.Kubectl(context.Background(), "", "exec", "reader", "--", "/testbox", "cat", "/token/t")
		return strings.TrimSpace(token)
	}
	defer func() {
		if t.Failed() && unread != nil {
			t.Logf("the token could not be read: %v; the Pods are\n%s", unread, n.kubectl("get", "pods", "-o", "wide"))
		}
	}()
	knows := func(token string) bool {
		out := n.apply(fmt.Sprintf(`{apiVersion: authentication.k8s.io/v1, kind: TokenReview, spec: {token: %s}}`, token), "create", "-f", "-", "-o", "jsonpath={.status.authenticated} {.status.user.username}")
		return out == "true system:serviceaccount:default:default"
	}
	begin, certificate, token := time.Now(), serial(n), read()
	if !knows(token) {
		t.Fatalf("the API server does not know the token %q", token)
	}
	long(t, "another certificate", func() bool {
		n.kubectl(append([]string{"certificate", "approve"}, strings.Fields(n.kubectl("get", "csr", "-o", "name"))...)...)
		now := serial(n)
		return now != "" && now != certificate
	})
	t.Logf("the certificate was replaced after %s", time.Since(begin).Round(time.Second))
	n.wantLogs("deployment/web", "first")
	var next string
	long(t, "another token", func() bool {
		n.kubectl(append([]string{"certificate", "approve"}, strings.Fields(n.kubectl("get", "csr", "-o", "name"))...)...)
		next = read()
		return next != "" && next != token
	})
	t.Logf("the token was replaced after %s", time.Since(begin).Round(time.Second))
	if !knows(token) || !knows(next) {
		t.Error("a token was replaced when its time was over, or by one that the API server does not know")
	}
	long(t, "the end of the first token", func() bool { return !knows(token) })
	t.Logf("the first token ended after %s", time.Since(begin).Round(time.Second))
	if !knows(next) {
		t.Error("the API server does not know the second token")
	}
}

// long waits for what takes longer than patience.
func long(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 5 {
		if testbed.Until(holds) {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

// serial is the number of the certificate of a node's endpoint.
func serial(n *node) string {
	n.t.Helper()
	port := n.kubectl("get", "node/"+n.name, "-o", "jsonpath={.status.daemonEndpoints.kubeletEndpoint.Port}")
	conn, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{InsecureSkipVerify: true}) // only its number is read
	if err != nil {
		return ""
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}
