//go:build e2e && kubernetes

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/testing/controlplane"
)

// node is a node of a cluster: a box with its agent and podtask-kubelet.
type node struct {
	*box
	name, config   string
	plane          *controlplane.Plane
	agent, kubelet *process
	whole          *testing.T // n.t may be that of a part
}

// newPlane starts a control plane.
func newPlane(t *testing.T) *controlplane.Plane {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), os.Getenv("PODTASK_CONTROLPLANE"), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Close(); err != nil {
			t.Error(err)
		}
	})
	return plane
}

// newNode starts a node and waits until it is Ready. Nodes of tests that run side by side have
// different names, as those of one host must. The arguments are more flags of podtask-kubelet.
func newNode(t *testing.T, plane *controlplane.Plane, name string, args ...string) *node {
	t.Helper()
	n := &node{box: newBox(t), name: name, plane: plane, whole: t}
	var err error
	if n.config, err = plane.Node(name); err != nil {
		t.Fatal(err)
	}
	n.agent = n.box.agent()
	n.startKubelet(args...)
	n.kubectl("wait", "--for=create", "node/"+name, "--timeout=5m")
	n.kubectl("wait", "--for=condition=Ready", "node/"+name, "--timeout=5m")
	t.Cleanup(func() { // before the box looks what is left
		_ = n.kubelet.cmd.Process.Kill()
		<-n.kubelet.ended
		n.want(0, "rm", "--force", "--all")
	})
	return n
}

// startKubelet starts podtask-kubelet.
func (n *node) startKubelet(args ...string) {
	n.t.Helper()
	part := n.t
	n.t = n.whole // it lives longer than the part
	defer func() { n.t = part }()
	n.kubelet = n.startWith(func(cmd *exec.Cmd) {
		cmd.Path = os.Getenv("PODTASK_KUBELET")
		cmd.Args[0] = cmd.Path
	}, append([]string{
		"--kubeconfig", n.config, "--node-name", n.name, "--node-ip", "127.0.0.1", "--port", "0", "--register-with-taints", "",
		"--debug", "--sync-frequency", "1s", "--client-ca-file", n.plane.CA(),
	}, args...)...)
}

// kubectl runs kubectl as the administrator and fails the test when it fails.
func (n *node) kubectl(args ...string) string {
	n.t.Helper()
	return n.apply("", args...)
}

// apply does the same with an input.
func (n *node) apply(input string, args ...string) string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := n.plane.Kubectl(ctx, input, args...)
	if err != nil {
		n.t.Fatalf("%v\n%s", err, n.state())
	}
	return out
}

// state is what helps to understand a failure.
func (n *node) state() string {
	var out strings.Builder
	for _, args := range [][]string{{"get", "nodes,pods,csr", "-A", "-o", "wide"}, {"get", "events", "--sort-by=.lastTimestamp"}} {
		text, _ := n.plane.Kubectl(context.Background(), "", args...)
		out.WriteString(text)
	}
	fmt.Fprintf(&out, "kubelet: %s\n", lastLines(n.kubelet.err.String(), 40))
	return out.String()
}

// as runs kubectl with another identity.
func (n *node) as(config string, args ...string) (out string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	text, err := n.plane.Command(ctx, config, args...).CombinedOutput()
	return string(text), err
}

// containers are Podman's ids of the running containers of the box. Other nodes have theirs in
// the same storage.
func (n *node) containers() string {
	n.t.Helper()
	tasks := strings.Fields(n.want(0, "ps", "--all", "--quiet").out)
	var ids []string
	for line := range strings.Lines(n.podman("ps", "--filter", "label=podtask.task-id", "--format", `{{.ID}} {{index .Labels "podtask.task-id"}}`, "--sort", "id")) {
		id, task, _ := strings.Cut(strings.TrimSpace(line), " ")
		if slices.ContainsFunc(tasks, func(short string) bool { return strings.HasPrefix(task, short) }) {
			ids = append(ids, id)
		}
	}
	return strings.Join(ids, "\n")
}

// deployment is a Deployment of a web server that is ready once it serves.
func deployment(image, text string, replicas int) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: main
        image: %s
        args: [print, %q, --, serve, "8080"]
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
`, replicas, image, text)
}

// TestKubernetes is one long story on one node, because a control plane takes a while to start.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	plane := newPlane(t)
	n := newNode(t, plane, familyOf(t))
	image := n.testbox()
	part(n, "Deployment", func() { n.deployments(image) })
	part(n, "Job", func() { n.jobs(image) })
	part(n, "StatefulSet", func() { n.statefulSets(image) })
	part(n, "Services", func() { servicesOfANode(n, image) })
	part(n, "Restarts", func() { n.restarts(image) })
	part(n, "Files", func() { files(n, image) })
	part(n, "Verbs", func() { n.verbs() })
	part(n, "Talk", func() { talk(n, image) })
	part(n, "Terminals", func() { terminals(n) })
	part(n, "Debug", func() { debug(n, image) })
	part(n, "Resizes", func() { resizes(n, image) })
	part(n, "Ports", func() { portsOfHost(n, image) })
	part(n, "PullSecrets", func() { pullSecrets(n) })
	part(n, "Drain", func() { drain(n) })
	part(n, "Strangers", func() { n.strangers() })
	part(n, "Kills", func() { n.kills() })
}

// part runs a part of a story. The rest needs it.
func part(n *node, name string, do func()) {
	outer := n.t
	defer func() { n.t = outer }()
	if !outer.Run(name, func(t *testing.T) {
		n.t = t
		do()
	}) {
		outer.Fatal("the rest needs this")
	}
}

// deployments rolls a Deployment out, scales it, replaces it and rolls it back.
func (n *node) deployments(image string) {
	begin := time.Now()
	n.apply(deployment(image, "first", 2), "apply", "-f", "-")
	n.kubectl("rollout", "status", "deployment/web", "--timeout=5m")
	n.t.Logf("a Deployment of 2 Pods was rolled out in %s", time.Since(begin).Round(time.Millisecond))
	n.approve()
	begin = time.Now()
	n.kubectl("scale", "deployment/web", "--replicas=3")
	n.kubectl("rollout", "status", "deployment/web", "--timeout=5m")
	n.t.Logf("a third Pod was ready after %s", time.Since(begin).Round(time.Millisecond))

	n.apply(deployment(image, "second", 3), "apply", "-f", "-")
	n.kubectl("rollout", "status", "deployment/web", "--timeout=5m")
	n.wantLogs("deployment/web", "second")
	n.kubectl("rollout", "undo", "deployment/web")
	n.kubectl("rollout", "status", "deployment/web", "--timeout=5m")
	n.wantLogs("deployment/web", "first")

	n.kubectl("scale", "deployment/web", "--replicas=1")
	n.untilPods("app=web", 1)
}

// wantLogs waits for the log of a container. Shortly after a rollout it may be that of an old Pod.
func (n *node) wantLogs(what, want string) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("the log of %s to be %q", what, want), func() bool {
		got, _ := n.plane.Kubectl(context.Background(), "", "logs", what)
		return strings.TrimSpace(got) == want
	})
}

// untilPods waits until there are so many Pods, in the cluster and on the host.
func (n *node) untilPods(selector string, want int) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("%d Pods with %s", want, selector), func() bool {
		return len(strings.Fields(n.kubectl("get", "pods", "-l", selector, "-o", "name"))) == want
	})
}

// jobs runs a Job with parallelism.
func (n *node) jobs(image string) {
	n.apply(fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata: {name: sum}
spec:
  completions: 4
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: %s, args: [print, done]}]
`, image), "apply", "-f", "-")
	n.kubectl("wait", "--for=condition=Complete", "job/sum", "--timeout=5m")
	if got := n.kubectl("get", "job/sum", "-o", "jsonpath={.status.succeeded}"); got != "4" {
		n.t.Errorf("%s Pods of the Job succeeded, want 4", got)
	}
	n.kubectl("delete", "job/sum")
	n.untilPods("job-name=sum", 0)
}

// statefulSets shows stable names, one Pod after the other, and a DaemonSet.
func (n *node) statefulSets(image string) {
	n.apply(fmt.Sprintf(`apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 5
      containers: [{name: main, image: %[1]s, args: [where, --, sleep, forever]}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: each}
spec:
  selector: {matchLabels: {app: each}}
  template:
    metadata: {labels: {app: each}}
    spec:
      terminationGracePeriodSeconds: 5
      tolerations: [{operator: Exists}]
      containers: [{name: main, image: %[1]s, args: [print, here, --, sleep, forever]}]
`, image), "apply", "-f", "-")
	n.kubectl("rollout", "status", "statefulset/db", "--timeout=5m")
	n.kubectl("rollout", "status", "daemonset/each", "--timeout=5m")
	if got := n.kubectl("logs", "db-1"); !strings.Contains(got, "host=db-1") {
		n.t.Errorf("Pod db-1 calls itself %s", got)
	}
	before := n.kubectl("get", "pod/db-1", "-o", "jsonpath={.metadata.uid}")
	n.kubectl("delete", "pod/db-1")
	eventually(n.t, "another Pod db-1", func() bool {
		out, _ := n.plane.Kubectl(context.Background(), "", "get", "pod/db-1", "-o", "jsonpath={.metadata.uid} {.status.phase}")
		return strings.HasSuffix(out, " Running") && !strings.HasPrefix(out, before)
	})
	n.kubectl("delete", "statefulset/db", "daemonset/each")
	n.untilPods("app in (db,each)", 0)
}

// restarts shows a container that fails, and one whose liveness probe does.
func (n *node) restarts(image string) {
	n.apply(fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: flaky}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: main
    image: %s
    args: [print, run, --, sleep, 2s, --, tally, /data/runs, "2", --, print, steady, --, write, /data/up, --, sleep, forever]
    livenessProbe: {exec: {command: [/testbox, exists, /data/up]}, periodSeconds: 1, failureThreshold: 60}
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, emptyDir: {}}]
`, image), "apply", "-f", "-")
	eventually(n.t, "a restart", func() bool {
		return n.kubectl("get", "pod/flaky", "-o", "jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}") == "1 true"
	})
	eventually(n.t, "the log of the second run", func() bool { return strings.Contains(n.kubectl("logs", "flaky"), "steady") })
	if got := n.kubectl("logs", "-p", "flaky"); !strings.Contains(got, "run") || strings.Contains(got, "steady") {
		n.t.Errorf("the log of the first run is %q", got)
	}
	n.kubectl("delete", "pod/flaky")
	n.wantEvents("flaky", "Pulled", "Created", "Started", "Killing")
}

// wantEvents waits until kubectl describe would show events of a Pod.
func (n *node) wantEvents(pod string, reasons ...string) {
	n.t.Helper()
	eventually(n.t, "events of the Pod "+pod, func() bool {
		have := strings.Fields(n.kubectl("get", "events", "--field-selector", "involvedObject.name="+pod, "-o", "jsonpath={.items[*].reason}"))
		return !slices.ContainsFunc(reasons, func(r string) bool { return !slices.Contains(have, r) })
	})
}

// files shows that files of a Pod that runs follow their objects, and that its token is replaced.
func files(n *node, image string) {
	config := `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {color: %s}}`
	n.apply(fmt.Sprintf(config, "red"), "apply", "-f", "-")
	n.kubectl("create", "secret", "generic", "key", "--from-literal=k=hidden", "--from-literal=empty=")
	n.apply(fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: reader, labels: {color: red}}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: main
    image: %s
    args: [print, up, --, sleep, forever]
    securityContext: {runAsUser: 1234}
    env: [{name: COLOR, valueFrom: {configMapKeyRef: {name: settings, key: color}}}]
    volumeMounts:
    - {name: settings, mountPath: /settings}
    - {name: settings, mountPath: /one, subPath: color}
    - {name: key, mountPath: /key}
    - {name: labels, mountPath: /labels}
  volumes:
  - {name: settings, configMap: {name: settings}}
  - {name: key, secret: {secretName: key}}
  - {name: labels, downwardAPI: {items: [{path: color, fieldRef: {fieldPath: "metadata.labels['color']"}}]}}
`, image), "apply", "-f", "-")
	n.kubectl("wait", "--for=condition=Ready", "pod/reader", "--timeout=5m")
	read := func(step ...string) string {
		n.t.Helper()
		return n.kubectl(append([]string{"exec", "reader", "--", "/testbox"}, step...)...)
	}
	const token = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	for _, c := range []struct{ file, want string }{{"/settings/color", "red"}, {"/one", "red"}, {"/key/k", "hidden"}, {"/key/empty", ""}, {"/labels/color", "red"}} {
		if got := strings.TrimSpace(read("cat", c.file)); got != c.want {
			n.t.Errorf("%s is %q, want %q", c.file, got, c.want)
		}
	}
	first := read("cat", token)
	if strings.Count(first, ".") != 2 {
		n.t.Errorf("the token is %q", first)
	}
	n.apply(fmt.Sprintf(config, "blue"), "apply", "-f", "-")
	n.kubectl("label", "--overwrite", "pod/reader", "color=blue")
	n.kubelet.kill() // the next one does not know how old the token is
	n.startKubelet()
	eventually(n.t, "other files", func() bool {
		out, err := n.plane.Kubectl(context.Background(), "", "exec", "reader", "--", "/testbox", "cat", "/settings/color", "--", "cat", "/labels/color", "--", "cat", token)
		return err == nil && strings.Count(out, "blue") == 2 && !strings.Contains(out, strings.TrimSpace(first))
	})
	// As everywhere: what is mounted with subPath and what is in the environment stays.
	if one, env := strings.TrimSpace(read("cat", "/one")), strings.TrimSpace(read("env", "COLOR")); one != "red" || env != "COLOR=red" {
		n.t.Errorf("the part is %q and the variable %q", one, env)
	}
	n.kubectl("delete", "pod/reader")
}

// pod is the name of the Pod of the Deployment.
func (n *node) pod() string {
	n.t.Helper()
	return n.kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}")
}

// approve approves the certificate of the node and waits until it serves.
func (n *node) approve() {
	n.t.Helper()
	eventually(n.t, "a request for a certificate", func() bool {
		names := strings.Fields(n.kubectl("get", "csr", "-o", "name"))
		if len(names) > 0 {
			n.kubectl(append([]string{"certificate", "approve"}, names...)...)
		}
		return len(names) > 0
	})
	eventually(n.t, "an answer of the node", func() bool {
		_, err := n.plane.Kubectl(context.Background(), "", "logs", "deployment/web")
		return err == nil
	})
}

// verbs tries what kubectl does with the node's endpoint.
func (n *node) verbs() {
	pod := n.pod()
	run := func(code int, input string, args ...string) string {
		n.t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		cmd := n.plane.Command(ctx, n.plane.Admin, args...)
		cmd.Stdin = strings.NewReader(input)
		var out, problem bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &problem
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != code {
			n.t.Errorf("kubectl %v ended with code %d, want %d: %s%s", args, got, code, &out, &problem)
		}
		return out.String()
	}
	if got := run(0, "", "exec", pod, "--", "/testbox", "print", "hello"); got != "hello\n" {
		n.t.Errorf("exec printed %q", got)
	}
	run(7, "", "exec", pod, "--", "/testbox", "exit", "7")
	run(127, "", "exec", pod, "--", "/nothing")
	if got := run(0, "", "logs", pod, "--tail=0"); got != "" {
		n.t.Errorf("no lines of the log are %q", got)
	}
	if got := run(0, "", "logs", pod, "--timestamps", "--tail=1"); !strings.HasPrefix(got, "20") {
		n.t.Errorf("a line with its time is %q", got)
	}
	run(1, "", "logs", pod, "--previous")
	n.forward(pod)
	n.usage(pod)
}

// talk follows the log of a Pod that is told to end, over both protocols of kubectl.
func talk(n *node, image string) {
	for name, variables := range map[string][]string{
		"websocket": nil,
		"spdy":      {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", "KUBECTL_PORT_FORWARD_WEBSOCKETS=false"},
	} {
		n.apply(fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 2
  restartPolicy: Never
  containers: [{name: main, image: %s, args: [print, one, --, wait, /tmp/go, --, print, two]}]
`, name, image), "apply", "-f", "-")
		n.kubectl("wait", "--for=condition=Ready", "pod/"+name, "--timeout=5m")
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		command := func(input string, args ...string) (*exec.Cmd, *syncBuffer) {
			cmd, out := n.plane.Command(ctx, n.plane.Admin, args...), new(syncBuffer)
			cmd.Env = append(cmd.Env, variables...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), out, out
			return cmd, out
		}
		follow, log := command("", "logs", "--follow", "--since=1h", name)
		if err := follow.Start(); err != nil {
			n.t.Fatal(err)
		}
		eventually(n.t, "the first line", func() bool { return log.String() == "one\n" })
		ask, answer := command("hello\n", "exec", "--stdin", name, "--", "/testbox", "input", "--", "exit", "3")
		if err := ask.Run(); ask.ProcessState.ExitCode() != 3 || !strings.HasPrefix(answer.String(), "got hello\n") {
			n.t.Errorf("%s: exec ended with %v and printed %q", name, err, answer)
		}
		tell, _ := command("", "exec", name, "--", "/testbox", "write", "/tmp/go")
		_ = tell.Run() // the container ends, and may take the answer along
		if err := follow.Wait(); err != nil || log.String() != "one\ntwo\n" {
			n.t.Errorf("%s: the log ended with %v: %q", name, err, log)
		}
		n.kubectl("delete", "pod/"+name)
	}
}

// drain moves the Pods away; there is no other node, so that of the Deployment waits.
func drain(n *node) {
	n.kubectl("drain", n.name, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=5m")
	eventually(n.t, "a Pod that waits", func() bool {
		return n.kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.phase}") == "Pending"
	})
	eventually(n.t, "no containers", func() bool { return n.containers() == "" }) // the infra container ends last
	n.kubectl("uncordon", n.name)
	n.kubectl("rollout", "status", "deployment/web", "--timeout=5m")
}

// forward reaches a port that the Pod does not publish.
func (n *node) forward(pod string) {
	n.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cmd := n.plane.Command(ctx, n.plane.Admin, "port-forward", pod, ":8080")
	var out syncBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait()
	}()
	var port string
	eventually(n.t, "a forwarded port", func() bool {
		_, rest, found := strings.Cut(out.String(), "127.0.0.1:")
		port, _, _ = strings.Cut(rest, " ")
		return found && port != ""
	})
	resp, err := http.Get("http://127.0.0.1:" + port + "/")
	if err != nil {
		n.t.Fatalf("%v: %s", err, &out)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		n.t.Errorf("status %s", resp.Status)
	}
}

// usage reads what metrics-server reads, with the identity that the API server has.
func (n *node) usage(pod string) {
	n.t.Helper()
	out, err := n.curl("/metrics/resource", "kubelet-client")
	memory := fmt.Sprintf("container_memory_working_set_bytes{container=\"main\",namespace=\"default\",pod=%q} ", pod)
	if _, figure, found := strings.Cut(out, memory); err != nil || !found || strings.HasPrefix(figure, "0 ") {
		n.t.Errorf("no %s above 0 (%v) in\n%s", memory, err, out)
	}
	var summary struct {
		Pods []struct {
			PodRef struct{ Name string }
			CPU    struct{ UsageCoreNanoSeconds uint64 }
		}
	}
	out, err = n.curl("/stats/summary", "kubelet-client")
	if err == nil {
		err = json.Unmarshal([]byte(out), &summary)
	}
	found := false
	for _, p := range summary.Pods {
		found = found || p.PodRef.Name == pod && p.CPU.UsageCoreNanoSeconds > 0
	}
	if err != nil || !found {
		n.t.Errorf("nothing of %s (%v) in\n%s", pod, err, out)
	}
}

// curl asks the endpoint of the node, with the client certificate of an identity; empty: none.
func (n *node) curl(path, identity string) (body string, err error) {
	n.t.Helper()
	ca, err := os.ReadFile(n.plane.CA())
	if err != nil {
		n.t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(ca)
	if identity != "" {
		base := filepath.Join(filepath.Dir(n.plane.Admin), identity)
		pair, err := tls.LoadX509KeyPair(base+".crt", base+".key")
		if err != nil {
			n.t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	port := n.kubectl("get", "node/"+n.name, "-o", "jsonpath={.status.daemonEndpoints.kubeletEndpoint.Port}")
	resp, err := client.Get("https://127.0.0.1:" + port + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// strangers are the identities that must not reach Pods or secrets of the node.
func (n *node) strangers() {
	pod := n.pod()
	n.kubectl("create", "secret", "generic", "mine", "--from-literal=key=value")
	other, err := n.plane.Node("other")
	if err != nil {
		n.t.Fatal(err)
	}
	for _, args := range [][]string{
		{"get", "secret/mine"}, {"get", "secrets", "-A"}, {"logs", pod}, {"exec", pod, "--", "/testbox", "exit", "0"},
		{"annotate", "node/" + n.name, "x=y"}, {"delete", "pod/" + pod},
	} {
		if out, err := n.as(other, args...); err == nil || !strings.Contains(out, "orbidden") {
			n.t.Errorf("another node may kubectl %v: %v: %s", args, err, out)
		}
	}
	// Not even this node may read a secret that no Pod of its own uses.
	if out, err := n.as(n.config, "get", "secret/mine"); err == nil || !strings.Contains(out, "orbidden") {
		n.t.Errorf("the node may read a secret that it does not need: %v: %s", err, out)
	}
	for _, path := range []string{"/containerLogs/default/" + pod + "/main", "/exec/default/" + pod + "/main?command=x&output=1", "/metrics/resource"} {
		if out, err := n.curl(path, "node-other"); err != nil || !strings.Contains(out, "Forbidden") {
			n.t.Errorf("another node asks the endpoint for %s: %v: %s", path, err, out)
		}
		if out, err := n.curl(path, ""); err != nil || !strings.Contains(out, "Unauthorized") {
			n.t.Errorf("without credentials the endpoint answers %s: %v: %s", path, err, out)
		}
	}
}

// kills ends each part of the node and of the control plane in turn; the containers continue.
func (n *node) kills() {
	// Of two Pods that became ready within seconds of each other a ReplicaSet removes either one: this one stays.
	n.kubectl("annotate", "pod/"+n.pod(), "controller.kubernetes.io/pod-deletion-cost=100")
	before := n.containers()
	same := func(what string) {
		n.t.Helper()
		if now := n.containers(); now != before {
			n.t.Errorf("after %s the containers are %s, want %s", what, now, before)
		}
	}
	n.kubelet.kill()
	same("kill -9 of podtask-kubelet")
	n.startKubelet()
	n.beat()
	same("its next start")

	n.agent.kill()
	same("kill -9 of the agent")
	n.agent = n.box.agent()
	n.beat()
	same("its next start")

	for _, part := range []string{controlplane.Server, controlplane.Etcd, controlplane.Controllers, controlplane.Scheduler} {
		if err := n.plane.Kill(part); err != nil {
			n.t.Fatal(err)
		}
		same("kill -9 of " + part)
		if err := n.plane.Run(part); err != nil {
			n.t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := n.plane.Await(ctx, "get", "--raw", "/readyz")
		cancel()
		if err != nil {
			n.t.Fatal(err)
		}
		n.beat()
		same("the next start of " + part)
	}
	if got := n.kubectl("get", "pods", "-o", "jsonpath={.items[*].status.containerStatuses[*].restartCount}"); strings.Trim(got, " 0") != "" {
		n.t.Errorf("containers were restarted: %s", got)
	}
}

// beat shows that node and cluster work together: another Pod runs, and is deleted.
func (n *node) beat() {
	n.t.Helper()
	eventually(n.t, "a scaled Deployment", func() bool {
		_, err := n.plane.Kubectl(context.Background(), "", "scale", "deployment/web", "--replicas=2")
		return err == nil
	})
	eventually(n.t, "a second Pod", func() bool {
		out, _ := n.plane.Kubectl(context.Background(), "", "get", "deployment/web", "-o", "jsonpath={.status.readyReplicas}")
		return out == "2"
	})
	// The new one goes: removing it costs less.
	n.kubectl("scale", "deployment/web", "--replicas=1")
	n.untilPods("app=web", 1)
	eventually(n.t, "one container", func() bool { return len(strings.Fields(n.containers())) == 2 }) // and its infra container
}
