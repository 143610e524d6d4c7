//go:build kubernetes

package controlplane_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/testing/controlplane"
)

// patience bounds waits, on a busy machine. No assertion depends on it.
const patience = 5 * time.Minute

// plane is a control plane with what a test asks of it.
type plane struct {
	*controlplane.Plane
	t   *testing.T
	ctx context.Context
}

func start(t *testing.T) plane {
	t.Helper()
	program := os.Getenv("PODTASK_CONTROLPLANE")
	if program == "" {
		t.Fatal("PODTASK_CONTROLPLANE is not set: hack/controlplane prints its value")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	begin := time.Now()
	p, err := controlplane.Start(ctx, program, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("the control plane was there after %s", time.Since(begin).Round(time.Millisecond))
	return plane{p, t, ctx}
}

// kubectl runs kubectl with an identity and returns what it printed.
func (p plane) kubectl(config, input string, args ...string) (string, error) {
	cmd := p.Command(p.ctx, config, args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (p plane) want(config, input string, args ...string) {
	p.t.Helper()
	if out, err := p.kubectl(config, input, args...); err != nil {
		p.t.Fatalf("kubectl %v: %v: %s", args, err, out)
	}
}

func (p plane) wantForbidden(config string, args ...string) {
	p.t.Helper()
	if out, err := p.kubectl(config, "", args...); err == nil || !strings.Contains(out, "orbidden") {
		p.t.Errorf("kubectl %v is not forbidden: %v: %s", args, err, out)
	}
}

// object is a node as it registers itself; for this test it need not be ready.
const object = `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "NAME"},
	"status": {"capacity": {"pods": "10"}, "allocatable": {"pods": "10"}}}`

const workload = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      tolerations: [{operator: Exists}]
      nodeSelector: {place: here}
      containers: [{name: main, image: example.invalid/web, envFrom: [{secretRef: {name: used}}]}]
`

// TestNodesReachOnlyWhatIsTheirs shows that the plane is like a production one: nodes that
// register themselves, Pods that are made and bound, and the limits of a node's identity.
func TestNodesReachOnlyWhatIsTheirs(t *testing.T) {
	t.Parallel()
	p := start(t)
	configs := map[string]string{}
	for _, name := range []string{"first", "second"} {
		config, err := p.Node(name)
		if err != nil {
			t.Fatal(err)
		}
		configs[name] = config
		p.want(config, strings.ReplaceAll(object, "NAME", name), "create", "-f", "-")
	}
	first, second := configs["first"], configs["second"]
	p.want(p.Admin, "", "label", "node", "first", "place=here")
	for _, name := range []string{"used", "unused"} {
		p.want(p.Admin, "", "create", "secret", "generic", name, "--from-literal=key=value")
	}
	p.want(p.Admin, workload, "apply", "-f", "-")
	p.want(p.Admin, "", "wait", "pods", "-l", "app=web", "--for=create", "--timeout=5m")
	p.want(p.Admin, "", "wait", "pods", "-l", "app=web", "--for=condition=PodScheduled", "--timeout=5m")

	p.want(first, "", "get", "secret", "used")
	p.wantForbidden(first, "get", "secret", "unused")
	p.wantForbidden(first, "get", "secrets", "--all-namespaces")
	p.wantForbidden(second, "get", "secret", "used")
	p.wantForbidden(second, "delete", "pods", "-l", "app=web", "--field-selector=spec.nodeName=first")
	p.wantForbidden(second, "annotate", "node", "first", "x=y")
	p.wantForbidden(first, "label", "node", "first", "node-restriction.kubernetes.io/x=y")
}

// TestPartsCanBeKilled ends each part with SIGKILL and starts it again on the same data.
func TestPartsCanBeKilled(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.want(p.Admin, "", "create", "configmap", "kept", "--from-literal=key=value")
	for _, part := range []string{controlplane.Etcd, controlplane.Server, controlplane.Controllers, controlplane.Scheduler} {
		if err := p.Kill(part); err != nil {
			t.Fatal(err)
		}
		if err := p.Run(part); err != nil {
			t.Fatal(err)
		}
		// Controllers that start before the API server is ready end after ten seconds.
		if err := errors.Join(p.Await(p.ctx, "get", "--raw", "/readyz"), p.Await(p.ctx, "get", "configmap", "kept")); err != nil {
			t.Fatalf("after kill -9 of %s: %v", part, err)
		}
	}
	// The controllers work again, for the new namespace gets its service account.
	p.want(p.Admin, "", "create", "namespace", "later")
	if err := p.Await(p.ctx, "get", "serviceaccount", "default", "--namespace=later"); err != nil {
		t.Fatal(err)
	}
}
