//go:build e2e

//e2e:bed systemd

package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lastingPod is a Pod that runs until it is stopped.
func lastingPod(b *box, namespace, uid string) string {
	return manifest(b, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: %s, uid: %s}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: IMAGE, args: [sleep, forever]}]
`, namespace, uid))
}

// TestPodIsFoundByWhatItIs: by name, namespace and uid through every command, also when its
// owner was killed; a name that two Pods have is an error that lists them.
func TestPodIsFoundByWhatItIs(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	first, second := "7d1c4e0a-0000-4000-8000-000000000001", "7d1c4e0a-0000-4000-8000-000000000002"
	id := b.detach("--wait=running", lastingPod(b, "team-a", first))
	for _, ref := range []string{b.family, "team-a/" + b.family, first} {
		if got := b.inspect(ref).ID; got != id {
			t.Errorf("%s is %s", ref, got)
		}
	}
	other := b.detach("--wait=running", lastingPod(b, "team-b", second))
	r := b.podtask("inspect", b.family)
	if r.code == 0 || !strings.Contains(r.err, "team-a/"+b.family+" (task "+id[:12]) || !strings.Contains(r.err, "team-b/"+b.family+" (task "+other[:12]) {
		t.Errorf("code %d: %s", r.code, r.err)
	}
	b.killOwner("team-a/" + b.family)
	for _, ref := range []string{"team-a/" + b.family, first} {
		if p := podOf(b, ref); p.Metadata.UID != first || p.Metadata.Namespace != "team-a" || p.Status.Phase != "Running" {
			t.Errorf("%s: %+v", ref, p)
		}
	}
	for filter, want := range map[string]string{"pod=team-b/" + b.family: other, "namespace=team-a": id, "uid=" + second: other} {
		if got := strings.TrimSpace(b.want(0, "ps", "-q", "--no-trunc", "--filter", filter).out); got != want {
			t.Errorf("--filter %s: %s, want %s", filter, got, want)
		}
	}
	b.want(0, "logs", first)
	b.want(0, "exec", "team-a/"+b.family, "/testbox", "print", "x")
	b.want(0, "stop", first)
	b.want(0, "rm", "team-a/"+b.family)
	b.want(0, "rm", "--force", b.family) // one is left
}

// TestPodPublishesItsHostPort: hostPort on the address of hostIP, other ports not.
func TestPodPublishesItsHostPort(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	port := freePort(t)
	b.detach("--name", b.family, manifest(b, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: web
      image: IMAGE
      args: [serve, "8080"]
      env: [{name: GREETING, value: hello from NAME}]
      ports: [{containerPort: 8080, hostPort: %d, hostIP: 127.0.0.1, protocol: TCP}, {containerPort: 8081}]
`, port)))
	b.askWeb(port)
	if got := b.inspect(b.family).Ports; len(got) != 1 || got[0].HostIP != "127.0.0.1" || got[0].HostPort != port || got[0].ContainerPort != 8080 {
		t.Errorf("%+v", got)
	}
	b.want(0, "rm", "--force", b.family)
}

// TestPodPullsWithItsOwnLogin: imagePullSecrets from a Secret of the same file, which is
// shown nowhere.
func TestPodPullsWithItsOwnLogin(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	image, _ := b.push("private:1", b.freshImage("login of a pod"))
	none := filepath.Join(b.dir, "none.json")
	if err := os.WriteFile(none, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.env = append(b.env, "REGISTRY_AUTH_FILE="+none)
	pod := func(logins string) string {
		return manifest(b, `
apiVersion: v1
kind: Secret
metadata: {name: regcred}
type: kubernetes.io/dockerconfigjson
data: {.dockerconfigjson: `+base64.StdEncoding.EncodeToString(bed.reg.AuthJSON())+`}
---
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  restartPolicy: Never
  `+logins+`
  containers: [{name: app, image: `+strings.ReplaceAll(image, b.family, "NAME")+`, args: [print, pulled]}]
`)
	}
	if r := b.podtask("run", "--name", b.family, pod("")); r.code == 0 {
		t.Error("the registry wants no login")
	}
	if w := podOf(b, b.family).Status.ContainerStatuses[0].State.Waiting; w == nil || w.Reason != "ErrImagePull" && w.Reason != "ImagePullBackOff" {
		t.Errorf("%+v", w)
	}
	b.want(0, "rm", b.family)
	if b.oldPodman() { // it does not return the value of a secret
		if r := b.want(125, "run", "--name", b.family, pod("imagePullSecrets: [{name: regcred}]")); !strings.Contains(r.err, "this needs 4.7") {
			t.Error(r.err)
		}
		return
	}
	if out := b.want(0, "run", "--name", b.family, pod("imagePullSecrets: [{name: regcred}]")).out; !strings.Contains(out, "pulled") {
		t.Error(out)
	}
	b.want(0, "rm", b.family)
}
