//go:build e2e && kubernetes && nightly

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
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
