//go:build e2e

//e2e:bed plain

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// podWithSecret writes a manifest whose Secret and ConfigMap have n in them.
func podWithSecret(b *box, n string) (file string) {
	b.t.Helper()
	file = filepath.Join(b.dir, "pod-"+n+".yaml")
	text := strings.NewReplacer("@NAME", b.family, "@IMAGE", b.testbox(), "@N", n, "@SECRET", marked).Replace(`
{apiVersion: v1, kind: Secret, metadata: {name: s, annotations: {kubectl.kubernetes.io/last-applied-configuration: "@SECRET"}}, stringData: {password: "@SECRET-@N"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {level: "level @N"}}
---
{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, terminationGracePeriodSeconds: 2,
  containers: [{name: app, image: "@IMAGE", imagePullPolicy: IfNotPresent, args: [term, "0", --, exists, /all/password, --, exists, /all/level, --, write, /tmp/well, --, sleep, forever],
    env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: s, key: password}}}],
    readinessProbe: {exec: {command: [/testbox, exists, /tmp/well]}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 10}, volumeMounts: [{name: all, mountPath: /all}]}],
  volumes: [{name: all, projected: {sources: [{secret: {name: s}}, {configMap: {name: c}}]}}]}}`)
	if err := os.WriteFile(file, []byte(text[1:]), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return file
}

// TestServiceOfAPodKeepsItsSecrets creates, updates and rolls back a service of manifests with a
// Secret and a ConfigMap. The agent is killed in between. Podman has the content of the Secrets
// until nothing needs it, and podtask's files never have it.
func TestServiceOfAPodKeepsItsSecrets(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	first := b.agent()
	holds := func(n string, copies int) {
		t.Helper()
		names := b.well()
		if len(names) != copies {
			t.Fatalf("%v are well, want %d", names, copies)
		}
		for _, name := range names {
			got := b.want(0, "exec", name, "/testbox", "cat", "/all/password", "--", "cat", "/all/level").out
			if strings.TrimSpace(got) != marked+"-"+n+"\nlevel "+n {
				t.Errorf("%s has %q, want number %s", name, got, n)
			}
			b.checkNotShown(name, marked)
		}
		if out, err := exec.Command("grep", "-rl", marked, b.stateHome()).Output(); err == nil {
			t.Errorf("the state has the secret: %s", out)
		}
	}
	b.want(0, "service", "create", b.family, podWithSecret(b, "1"), "--count=2", "--wait", "--timeout=4m")
	holds("1", 2)

	first.kill()
	b.agent()
	b.podman("kill", b.inspect(b.well()[0]).Containers[0].RuntimeID)
	eventually(t, "another copy", func() bool {
		names := b.well()
		return len(names) == 2 && names[1] == b.family+"-3"
	})
	holds("1", 2)

	b.want(0, "service", "update", b.family, podWithSecret(b, "2"), "--wait", "--timeout=4m")
	holds("2", 2)
	b.want(0, "service", "rollback", b.family, "--wait", "--timeout=4m")
	holds("1", 2)

	shown := b.want(0, "taskdef", "show", b.family+":1").out
	if strings.Contains(shown, marked) {
		t.Errorf("show prints %s", shown)
	}
	_, name, _ := strings.Cut(shown, "podman:")
	name, _, _ = strings.Cut(name, `\`)
	has := func() bool { return strings.Contains(b.podman("secret", "ls", "--format", "{{.Name}}"), name) }
	b.want(0, "taskdef", "deregister", b.family+":1", b.family+":2")
	if name == "" || !has() {
		t.Errorf("Podman has lost the Secret %q of a service", name)
	}
	b.want(0, "service", "scale", b.family+"=1", "--wait", "--timeout=4m")
	holds("1", 1)
	b.removeService()
	b.want(0, "gc")
	if has() {
		t.Errorf("Podman still has %s", name)
	}
}
