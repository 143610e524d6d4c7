//go:build e2e && kubernetes

package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"

	"github.com/podtask/podtask/test/testbed"
)

// terminals shows exec and attach on a terminal.
func terminals(n *node) {
	image, _ := n.push("shell:1", shellImage(n.t))
	n.apply(fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: shell}
spec:
  terminationGracePeriodSeconds: 2
  containers: [{name: main, image: %s, command: [sh], stdin: true, tty: true}]
`, image), "apply", "-f", "-")
	n.kubectl("wait", "--for=condition=Ready", "pod/shell", "--timeout=5m")
	onTerminal := func(args ...string) *terminal {
		n.t.Helper()
		return onTerminalWith(n.box, func(cmd *exec.Cmd) {
			kubectl := n.plane.Command(context.Background(), n.plane.Admin, args...)
			cmd.Path, cmd.Args, cmd.Env = kubectl.Path, kubectl.Args, append(kubectl.Env, "TERM=xterm")
		})
	}
	sh := onTerminal("exec", "-it", "shell", "--", "sh")
	before := sh.settings()
	sh.see("#")
	hasSize(n, sh, "24 80") // the size follows the start
	sh.resize(50, 132)
	hasSize(n, sh, "50 132")
	interruptAndExit(sh, before, func() {})

	at := onTerminal("attach", "-it", "shell")
	hasSize(n, at, "24 80")
	at.keysIn("echo my pid is $$.\n")
	at.see("my pid is 1.")
	at.keysIn("exit\n") // the container ends, and is restarted
	at.want(0)
	eventually(n.t, "a restart", func() bool {
		return n.kubectl("get", "pod/shell", "-o", "jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}") == "1 true"
	})
	n.kubectl("delete", "pod/shell")
}

// hasSize waits until the shell on a terminal sees a size.
func hasSize(n *node, t *terminal, size string) {
	n.t.Helper()
	if !testbed.Until(func() bool {
		t.keysIn("stty size\n")
		return t.screen.cut(size)
	}) {
		n.t.Fatalf("the terminal never has the size %s: %q", size, t.screen)
	}
}

// portsOfHost shows that a Pod whose ports are those of the host has the address of the host, and
// that a second one with the same port is not run.
func portsOfHost(n *node, image string) {
	port := freePort(n.t)
	pod := func(name, more string) {
		n.t.Helper()
		n.apply(fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: main
    image: %s
    args: [serve, "%[3]d"]
    ports: [{containerPort: %[3]d, hostPort: %[3]d}]
    readinessProbe: {httpGet: {path: /, port: %[3]d}, periodSeconds: 1}
    env: [{name: HOST_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}]
  %[4]s
`, name, image, port, more), "apply", "-f", "-")
	}
	pod("door", "")
	n.kubectl("wait", "--for=condition=Ready", "pod/door", "--timeout=5m")
	if got := n.kubectl("get", "pod/door", "-o", "jsonpath={.status.podIP} {.status.hostIP}"); got != "127.0.0.1 127.0.0.1" {
		n.t.Errorf("the addresses of Pod and host are %s", got)
	}
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/env/HOST_IP", port))
	if err != nil {
		n.t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || strings.TrimSpace(string(text)) != "127.0.0.1" {
		n.t.Errorf("the address of the host is %q in the container: %v", text, err)
	}
	pod("second", "")
	n.kubectl("wait", "--for=jsonpath={.status.conditions[0].reason}=Unschedulable", "pod/second", "--timeout=5m")
	n.kubectl("delete", "pod/door")
	n.kubectl("wait", "--for=condition=Ready", "pod/second", "--timeout=5m")
	// Past the scheduler, which takes the port for free afterwards: it notes ports without a count.
	pod("third", "nodeName: "+n.name)
	n.kubectl("wait", "--for=jsonpath={.status.phase}=Failed", "pod/third", "--timeout=5m")
	if got := n.kubectl("get", "pod/third", "-o", "jsonpath={.status.reason}"); got != "NodePorts" {
		n.t.Errorf("the third Pod was rejected with %s", got)
	}
	n.kubectl("delete", "pod/second", "pod/third")
}

// pullSecrets shows a registry that wants a login, which a Pod has from a secret of its own or of
// its service account. A Pod with neither cannot pull.
func pullSecrets(n *node) {
	f := n.foreignRegistry()
	f.trust(n.t)
	ref, digest := f.push(n.t, n.repository("private")+":1", n.freshImage("private"))
	n.t.Cleanup(func() {
		_ = exec.Command("podman", "rmi", "--force", ref, strings.TrimSuffix(ref, ":1")+"@"+digest).Run()
	})
	auth := base64.StdEncoding.EncodeToString([]byte("tester:" + password))
	n.apply(fmt.Sprintf(`{apiVersion: v1, kind: Secret, type: kubernetes.io/dockerconfigjson, metadata: {name: login}, stringData: {.dockerconfigjson: '{"auths": {%q: {"auth": %q}}}'}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: puller}, imagePullSecrets: [{name: login}]}
`, f.addr, auth), "apply", "-f", "-")
	pod := func(name, more string) {
		n.t.Helper()
		n.apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {terminationGracePeriodSeconds: 2, containers: [{name: main, image: %q, imagePullPolicy: Always, args: [sleep, forever]}], %s}}`, name, ref, more), "apply", "-f", "-")
	}
	pod("outsider", "restartPolicy: Always")
	pod("own", "imagePullSecrets: [{name: login}]")
	pod("account", "serviceAccountName: puller")
	n.kubectl("wait", "--for=condition=Ready", "pod/own", "pod/account", "--timeout=5m")
	eventually(n.t, "a pull that fails", func() bool {
		reason := n.kubectl("get", "pod/outsider", "-o", "jsonpath={.status.containerStatuses[0].state.waiting.reason}")
		return reason == "ErrImagePull" || reason == "ImagePullBackOff"
	})
	n.kubectl("delete", "pod/outsider", "pod/own", "pod/account")
}

// debug shows ephemeral containers: kubectl debug puts one into a Pod that runs, where it shares the network,
// and the processes of the container that it targets. It can be attached to, and is not restarted.
func debug(n *node, image string) {
	shell, _ := n.push("shell:1", shellImage(n.t))
	n.apply(fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: patient}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: main
    image: %s
    args: [serve, "8080"]
    readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
`, image), "apply", "-f", "-")
	n.kubectl("wait", "--for=condition=Ready", "pod/patient", "--timeout=5m")
	state := func(name, path string) string {
		return n.kubectl("get", "pod/patient", "-o", fmt.Sprintf("jsonpath={.status.ephemeralContainerStatuses[?(@.name==%q)].state.%s}", name, path))
	}
	awaits := func(name, path, want string) {
		n.t.Helper()
		eventually(n.t, fmt.Sprintf("%s of %s to be %q", path, name, want), func() bool { return state(name, path) == want })
	}

	n.kubectl("debug", "patient", "--image", shell, "--container=once", "--target=main", "--env=WORD=hello", "--",
		"sh", "-c", "echo $WORD; cat /proc/1/cmdline; echo; exit 3")
	awaits("once", "terminated.exitCode", "3")
	if got := n.kubectl("logs", "patient", "-c", "once"); !strings.HasPrefix(got, "hello\n") || !strings.Contains(got, "serve\x008080") {
		n.t.Errorf("with --target=main it has written %q", got)
	}
	n.kubectl("debug", "patient", "--image", shell, "--container=stays", "-i", "--attach=false", "--", "sh")
	eventually(n.t, "the container to run", func() bool { return state("stays", "running.startedAt") != "" })
	if got := n.kubectl("exec", "patient", "-c", "stays", "--", "cat", "/proc/net/tcp", "/proc/net/tcp6"); !strings.Contains(got, ":1F90 ") {
		n.t.Errorf("port 8080 of the Pod is not seen: %s", got)
	}
	n.kubectl("debug", "patient", "--image", shell, "--container=bad", "--", "/no/such/program")
	awaits("bad", "terminated.reason", "StartError")
	n.wantEvents("patient", "Created", "Started", "Failed")

	n.kubelet.kill()
	n.startKubelet()
	n.kubectl("wait", "--for=condition=Ready", "pod/patient", "--timeout=5m")
	at := onTerminalWith(n.box, func(cmd *exec.Cmd) {
		kubectl := n.plane.Command(context.Background(), n.plane.Admin, "debug", "patient", "-it", "--image", shell, "--container=seen", "--", "sh")
		cmd.Path, cmd.Args, cmd.Env = kubectl.Path, kubectl.Args, append(kubectl.Env, "TERM=xterm")
	})
	at.keysIn("echo I am $((6*7)).\n")
	at.see("I am 42.")
	at.keysIn("exit\n")
	at.want(0)
	awaits("seen", "terminated.exitCode", "0")
	awaits("once", "terminated.exitCode", "3")
	if got := n.kubectl("get", "pod/patient", "-o", "jsonpath={.status.phase} {.status.containerStatuses[0].restartCount}"); got != "Running 0" {
		n.t.Errorf("the Pod is %s", got)
	}
	n.kubectl("delete", "pod/patient")
}

// resizes shows what becomes of other resources of a Pod that runs. Where limits cannot be applied, the Pod says why.
func resizes(n *node, image string) {
	n.apply(fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: sized}, spec: {terminationGracePeriodSeconds: 2, containers: ["+
		"{name: main, image: %s, args: [sleep, forever], resources: {requests: {cpu: 10m, memory: 16Mi}}}]}}", image), "apply", "-f", "-")
	n.kubectl("wait", "--for=condition=Ready", "pod/sized", "--timeout=5m")
	const has = "jsonpath={.status.containerStatuses[0].resources.requests.cpu} {.status.containerStatuses[0].allocatedResources.cpu} {.status.containerStatuses[0].restartCount}"
	if got := n.kubectl("get", "pod/sized", "-o", has); got != "10m 10m 0" {
		n.t.Errorf("before, the status has %s", got)
	}
	n.kubectl("patch", "pod/sized", "--subresource=resize", "--patch", `{"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "20m"}}}]}}`)
	if n.kubectl("get", "node/"+n.name, "-o", `jsonpath={.status.conditions[?(@.type=="podtask/LimitsUnavailable")].status}`) == "True" {
		n.kubectl("wait", "--for=jsonpath={.status.conditions[?(@.type==\"PodResizePending\")].reason}=Infeasible", "pod/sized", "--timeout=2m")
		if got := n.kubectl("get", "pod/sized", "-o", `jsonpath={.status.conditions[?(@.type=="PodResizePending")].message}`); !strings.Contains(got, "this host cannot apply cpu limits") {
			n.t.Errorf("the reason is %q", got)
		}
		eventually(n.t, "an event", func() bool { return strings.Contains(n.kubectl("describe", "pod/sized"), "ResizeInfeasible") })
		n.kubectl("patch", "pod/sized", "--subresource=resize", "--patch", `{"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "10m"}}}]}}`)
		eventually(n.t, "the end of the condition", func() bool { return !strings.Contains(n.kubectl("get", "pod/sized", "-o", "yaml"), "PodResizePending") })
	} else {
		eventually(n.t, "the resize", func() bool { return n.kubectl("get", "pod/sized", "-o", has) == "20m 20m 0" })
	}
	n.kubectl("delete", "pod/sized")
}
