//go:build e2e && kubernetes && nightly

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/testing/controlplane"
	"github.com/podtask/podtask/internal/testing/registrytest"
)

// TestKubernetesInTrouble is what happens less often than the story of TestKubernetes.
func TestKubernetesInTrouble(t *testing.T) {
	t.Parallel()
	n := newNode(t, newPlane(t), familyOf(t))
	image := n.testbox()
	n.apply(deployment(image, "first", 1), "apply", "-f", "-")
	n.kubectl("rollout", "status", "deployment/web", "--timeout=5m")
	n.approve()
	part(n, "Copies", func() { copies(n) })
	part(n, "Rejections", func() { rejections(n, image) })
	part(n, "Away", func() { away(n, image) })
	part(n, "Evictions", func() { evictions(n, image) })
	part(n, "AllAtOnce", func() { allAtOnce(n) })
}

// toolbox is an image with what kubectl cp needs.
func toolbox(n *node) string {
	n.t.Helper()
	img, err := registrytest.Image(v1.Config{Entrypoint: []string{"/testbox"}, Env: []string{"PATH=/bin"}},
		registrytest.File{Path: "/tmp/", Mode: 0o1777}, registrytest.File{Path: "/testbox", Data: bed.testbox}, registrytest.File{Path: "/bin/tar", Data: bed.testbox})
	if err != nil {
		n.t.Fatal(err)
	}
	ref, _ := n.push("toolbox:1", img)
	return ref
}

// single is a Pod with one container.
func single(name, image, args, more string) string {
	return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {terminationGracePeriodSeconds: 2, containers: [{name: main, image: %s, args: [%s], stdin: true}], %s}}\n", name, image, args, more)
}

// copies shows kubectl cp in both directions, and attach with an input.
func copies(n *node) {
	n.apply(single("tools", toolbox(n), "print, up, --, input, --, sleep, forever", ""), "apply", "-f", "-")
	n.kubectl("wait", "--for=condition=Ready", "pod/tools", "--timeout=5m")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	attached := n.plane.Command(ctx, n.plane.Admin, "attach", "-i", "tools")
	said, say, err := os.Pipe()
	if err != nil {
		n.t.Fatal(err)
	}
	defer say.Close()
	var out syncBuffer
	attached.Stdin, attached.Stdout, attached.Stderr = said, &out, &out
	if err := attached.Start(); err != nil {
		n.t.Fatal(err)
	}
	said.Close()
	fmt.Fprintln(say, "hello")
	eventually(n.t, "what the program answers", func() bool { return strings.Contains(out.String(), "got hello") })
	cancel()
	_ = attached.Wait()

	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	from, to := filepath.Join(n.t.TempDir(), "from"), filepath.Join(n.t.TempDir(), "to")
	if err := os.WriteFile(from, data, 0o600); err != nil {
		n.t.Fatal(err)
	}
	n.kubectl("cp", from, "tools:/tmp/copy")
	n.kubectl("cp", "tools:/tmp/copy", to)
	if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, data) {
		n.t.Errorf("%d bytes came back, want %d: %v", len(got), len(data), err)
	}
	n.kubectl("delete", "pod/tools")
}

// rejections shows Pods that the node does not run: each has failed, and stays so.
func rejections(n *node, image string) {
	for name, c := range map[string]struct{ more, reason, message string }{
		"large":     {"resources: {requests: {cpu: 999}, limits: {cpu: 999}}, nodeName: " + n.name, "OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu, requested: 999000,"},
		"claiming":  {"volumes: [{name: data, persistentVolumeClaim: {claimName: database}}], nodeName: " + n.name, "UnexpectedAdmissionError", "database"},
		"sandboxed": {"runtimeClassName: gvisor, nodeName: " + n.name, "UnexpectedAdmissionError", "runtimeClassName"},
	} {
		if name == "sandboxed" {
			n.apply("{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: gvisor}, handler: runsc}", "apply", "-f", "-")
		}
		n.apply(single(name, image, "sleep, forever", c.more), "apply", "-f", "-")
		n.kubectl("wait", "--for=jsonpath={.status.phase}=Failed", "pod/"+name, "--timeout=5m")
		got := n.kubectl("get", "pod/"+name, "-o", "jsonpath={.status.reason}: {.status.message}")
		if !strings.HasPrefix(got, c.reason+": Pod was rejected: ") || !strings.Contains(got, c.message) {
			n.t.Errorf("Pod %s was rejected with %s", name, got)
		}
		n.kubectl("delete", "pod/"+name)
	}
}

// away shows what happens while the API server is not there, and that statuses come afterwards.
func away(n *node, image string) {
	n.apply(single("brief", image, "wait, /tmp/go, --, exit, \"3\"", "restartPolicy: Never")+
		single("steady", image, "wait, /tmp/go, --, exit, \"4\"", "restartPolicy: Always"), "apply", "-f", "-")
	n.kubectl("wait", "--for=condition=Ready", "pod/brief", "pod/steady", "--timeout=5m")
	names := n.podman("ps", "--filter", "label=io.kubernetes.pod.name=brief", "--filter", "label=io.kubernetes.pod.name=steady", "--format", "{{.Names}}")
	if err := n.plane.Kill(controlplane.Server); err != nil {
		n.t.Fatal(err)
	}
	for _, pod := range []string{"brief", "steady"} {
		_ = exec.Command("podman", "exec", containerOf(n, pod), "/testbox", "write", "/tmp/go").Run() // the container ends, and may take the answer along
	}
	eventually(n.t, "the end of a container and the restart of another", func() bool {
		now := n.podman("ps", "--filter", "label=podtask.task-id", "--format", "{{.Names}} {{.Labels}}")
		return !strings.Contains(now, "io.kubernetes.pod.name:brief") && now != names
	})
	if err := n.plane.Run(controlplane.Server); err != nil {
		n.t.Fatal(err)
	}
	eventually(n.t, "statuses of what has happened meanwhile", func() bool {
		out, _ := n.plane.Kubectl(context.Background(), "", "get", "pods", "brief", "steady", "-o",
			"jsonpath={range .items[*]}{.metadata.name} {.status.phase} {.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].state.terminated.exitCode}{\"\\n\"}{end}")
		return strings.Contains(out, "brief Failed 0 3\n") && strings.Contains(out, "steady Running 1 ")
	})
	n.kubectl("delete", "pod/brief", "pod/steady")
}

// containerOf is Podman's id of the running container of a Pod.
func containerOf(n *node, pod string) string {
	n.t.Helper()
	return strings.Fields(n.podman("ps", "--filter", "label=io.kubernetes.pod.name="+pod, "--filter", "label=io.kubernetes.container.name=main", "--format", "{{.ID}}"))[0]
}

// allAtOnce ends everything on the host at once, as a power cut does, and starts it again.
// What was in memory is gone: among it the files of Pods.
func allAtOnce(n *node) {
	pod := n.pod()
	id := containerOf(n, pod)
	main := n.podman("inspect", "--format", "{{.State.Pid}}", id)
	n.kubelet.kill()
	n.agent.kill()
	var pid int
	if _, err := fmt.Sscan(main, &pid); err != nil || pid < 2 {
		n.t.Fatalf("the process of the container is %q", main)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		n.t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(bed.runtime, "podtask", "kubelet", n.name, "pods", "*"))
	if err != nil || len(files) == 0 {
		n.t.Errorf("no files of Pods: %v", err)
	}
	for _, dir := range files {
		if err := os.RemoveAll(dir); err != nil {
			n.t.Error(err)
		}
	}
	n.agent = n.box.agent()
	n.startKubelet()
	t := n.t
	t.Cleanup(func() {
		if t.Failed() {
			out, err := n.plane.Kubectl(context.Background(), "", "get", "pods", "-l", "app=web", "-o", "jsonpath={range .items[*]}{.metadata.name} {.status}{\"\\n\"}{end}")
			t.Logf("the Pod was %s; Pods, %v:\n%s\nevents:\n%s", pod, err, out, n.box.want(0, "events", "--stream=false", "--since", "0").out)
		}
	})
	eventually(n.t, "the same Pod with a restarted container", func() bool {
		out, _ := n.plane.Kubectl(context.Background(), "", "get", "pod/"+pod, "-o", "jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}")
		restarts, ready, _ := strings.Cut(out, " ")
		return restarts != "" && restarts != "0" && ready == "true" // more than one where a probe fails on a busy host
	})
}

// evictions shows that a host that is short of memory says so, and which Pod goes first.
func evictions(n *node, image string) {
	n.apply("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: low}, value: -1}", "apply", "-f", "-")
	n.apply(single("low", image, "sleep, forever", "priorityClassName: low")+single("high", image, "sleep, forever", ""), "apply", "-f", "-")
	n.kubectl("wait", "--for=condition=Ready", "pod/low", "pod/high", "--timeout=5m")
	n.kubelet.kill()
	n.startKubelet("--eviction-hard", "memory.available<900Ti")
	n.kubectl("wait", "--for=condition=MemoryPressure", "node/"+n.name, "--timeout=5m")
	eventually(n.t, "the taint", func() bool {
		return strings.Contains(n.kubectl("get", "node/"+n.name, "-o", "jsonpath={.spec.taints[*].key}"), "node.kubernetes.io/memory-pressure")
	})
	when := func(pod string) string {
		n.kubectl("wait", "--for=jsonpath={.status.reason}=Evicted", "pod/"+pod, "--timeout=5m")
		return n.kubectl("get", "pod/"+pod, "-o", `jsonpath={.status.conditions[?(@.type=="DisruptionTarget")].lastTransitionTime}`)
	}
	if high, low := when("high"), when("low"); low == "" || low >= high {
		n.t.Errorf("the Pod of low priority went at %s and the other one at %s", low, high)
	}
	if got := n.kubectl("get", "pod/low", "-o", "jsonpath={.status.phase} {.status.message}"); !strings.HasPrefix(got, "Failed The node was low on resource: memory.") {
		n.t.Errorf("the status is %s", got)
	}
	n.kubelet.kill()
	n.startKubelet()
	n.kubectl("delete", "pod/low", "pod/high")
	n.kubectl("rollout", "status", "deployment/web", "--timeout=5m")
	n.kubectl("delete", "pods", "-l", "app=web", "--field-selector=status.phase=Failed")
	n.untilPods("app=web", 1)
}
