//go:build e2e && kubernetes && nightly && bed_systemd

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// host is a user's whole session on a host: a systemd manager of its own, with the units of
// contrib/systemd, a runtime directory and a storage of Podman. It can be shut down and lose
// its power; the control plane is outside of it.
type host struct {
	*node
	unit, runtime, data, config string
}

func newHost(t *testing.T, n *node) *host {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	// Podman's storage must not lie in /tmp, and the path of a socket is to be short.
	data, err := os.MkdirTemp(home, "host")
	if err != nil {
		t.Fatal(err)
	}
	h := &host{node: n, unit: filepath.Base(data) + ".service", runtime: filepath.Join(bed.runtime, filepath.Base(data)), data: data, config: filepath.Join(n.dir, "config")}
	before := n.env
	t.Cleanup(func() {
		stop := exec.Command("systemctl", "--user", "stop", "podtask-kubelet.service") // or it makes Pods again
		stop.Env = append(os.Environ(), h.variables()...)
		_ = stop.Run()
		n.podtask("rm", "--force", "--all")
		h.outside("stop", h.unit)
		h.podman("unshare", "rm", "-rf", h.runtime, h.data)
		n.env = before
	})
	n.env = append(slices.Clone(n.env), h.variables()...)
	h.install(home)
	return h
}

// variables are those of the session.
func (h *host) variables() []string {
	return []string{
		"XDG_RUNTIME_DIR=" + h.runtime, "DBUS_SESSION_BUS_ADDRESS=unix:path=" + h.runtime + "/bus",
		"XDG_DATA_HOME=" + h.data, "XDG_CONFIG_HOME=" + h.config, "XDG_STATE_HOME=" + h.stateHome(), "REGISTRY_AUTH_FILE=" + bed.auth,
	}
}

// install writes units, as the documentation has them, and the configuration of the node.
func (h *host) install(home string) {
	h.t.Helper()
	units := filepath.Join(h.config, "systemd", "user")
	check := func(err error) {
		h.t.Helper()
		if err != nil {
			h.t.Fatal(err)
		}
	}
	check(os.MkdirAll(filepath.Join(h.config, "podtask"), 0o700))
	check(os.CopyFS(units, os.DirFS(filepath.Join(filepath.Dir(os.Getenv("PODTASK_EXAMPLES")), "contrib", "systemd"))))
	for unit, command := range map[string]string{"podtask": bed.podtask + " agent", "podtask-kubelet": os.Getenv("PODTASK_KUBELET")} {
		dir := filepath.Join(units, unit+".service.d")
		check(os.MkdirAll(dir, 0o700))
		check(os.WriteFile(filepath.Join(dir, "path.conf"), []byte("[Service]\nExecStart=\nExecStart="+command+"\n"), 0o600))
	}
	for target, names := range map[string][]string{"default.target.wants": {"podtask.service", "podtask-kubelet.service"}, "sockets.target.wants": {"podtask.socket"}} {
		check(os.MkdirAll(filepath.Join(units, target), 0o700))
		for _, name := range names { // as systemctl enable
			check(os.Symlink(filepath.Join(units, name), filepath.Join(units, target, name)))
		}
	}
	check(os.Mkdir(filepath.Join(h.config, "containers"), 0o700))
	for _, name := range []string{"registries.conf.d", "policy.json"} {
		check(os.Symlink(filepath.Join(home, ".config", "containers", name), filepath.Join(h.config, "containers", name)))
	}
	// With systemd's, Podman takes it for granted that the manager is user@UID.service.
	check(os.WriteFile(filepath.Join(h.config, "containers", "containers.conf"), []byte("[engine]\ncgroup_manager = \"cgroupfs\"\n"), 0o600))
	check(os.WriteFile(filepath.Join(h.config, "podtask", "podtask.toml"), fmt.Appendf(nil, `[kubelet]
kubeconfig = %q
node-name = %q
node-ip = "127.0.0.1"
port = 0
register-with-taints = ""
sync-frequency = "1s"
client-ca-file = %q
`, h.node.config, h.name, h.plane.CA()), 0o600))
}

// outside runs systemctl with the user's real manager.
func (h *host) outside(args ...string) string {
	h.t.Helper()
	out, err := exec.Command("systemctl", append([]string{"--user"}, args...)...).CombinedOutput()
	if err != nil {
		h.t.Logf("systemctl %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// show is a property of a unit of the session.
func (h *host) show(unit, property string) string {
	h.t.Helper()
	cmd := exec.Command("systemctl", "--user", "show", "--property="+property, "--value", unit)
	cmd.Env = append(os.Environ(), h.variables()...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("%v: %v: %s", cmd.Args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// boot starts the session with an empty runtime directory, and waits for the node.
func (h *host) boot() {
	h.t.Helper()
	h.podman("unshare", "rm", "-rf", h.runtime)
	if err := os.Mkdir(h.runtime, 0o700); err != nil {
		h.t.Fatal(err)
	}
	args := []string{"--user", "--quiet", "--collect", "--unit=" + h.unit, "-pType=notify", "-pDelegate=yes", "-pKillMode=mixed", "-pTimeoutStopSec=2min"}
	for _, v := range h.variables() {
		args = append(args, "--setenv="+v)
	}
	out, err := exec.Command("systemd-run", append(args, "/lib/systemd/systemd", "--user")...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("systemd-run: %v: %s", err, out)
	}
	h.kubectl("wait", "--for=create", "node/"+h.name, "--timeout=5m")
	h.kubectl("wait", "--for=condition=Ready", "node/"+h.name, "--timeout=5m")
}

// crash kills every process of the session at once.
func (h *host) crash() {
	h.t.Helper()
	group := h.outside("show", "--property=ControlGroup", "--value", h.unit)
	if err := os.WriteFile(filepath.Join("/sys/fs/cgroup", group, "cgroup.kill"), []byte("1"), 0); err != nil {
		h.t.Fatal(err)
	}
	h.ended()
}

// ended waits until nothing of the session is left.
func (h *host) ended() {
	h.t.Helper()
	eventually(h.t, "the end of the session", func() bool { return h.outside("show", "--property=ActiveState", "--value", h.unit) == "inactive" })
}

// status is what a template says of a Pod; empty while it cannot be had.
func (h *host) status(pod, path string) string {
	out, _ := h.plane.Kubectl(context.Background(), "", "get", "pod/"+pod, "-o", "jsonpath="+path)
	return out
}

// TestKubernetesOnAHost is the life of a node whose agent and podtask-kubelet are services of
// the user: kill -9, a power cut, and a shutdown.
func TestKubernetesOnAHost(t *testing.T) {
	t.Parallel()
	plane := newPlane(t)
	n := &node{box: newBox(t), name: "edge", plane: plane, whole: t, kubelet: new(process)}
	var err error
	if n.config, err = plane.Node(n.name); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, n)
	image := n.testbox()
	h.boot()
	n.kubectl("create", "secret", "generic", "key", "--from-literal=k=hidden")
	n.apply(deployment(image, "first", 1)+fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: steady}
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - name: main
    image: %[1]s
    args: [cat, /key/k, --, sleep, forever]
    volumeMounts: [{name: key, mountPath: /key}]
  volumes: [{name: key, secret: {secretName: key}}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: long}
spec:
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 10
      containers: [{name: main, image: %[1]s, args: [print, begun, --, term, "0", --, sleep, forever]}]
`, image), "apply", "-f", "-")
	n.kubectl("rollout", "status", "deployment/web", "--timeout=5m")
	n.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=5m")
	n.approve()
	part(n, "Kill", func() { h.killed() })
	part(n, "PowerCut", func() { h.powerCut() })
	part(n, "Shutdown", func() { h.shutDown() })
}

// killed shows that systemd starts podtask-kubelet again, and that Pods continue.
func (h *host) killed() {
	pod := h.pod()
	const id = "{.status.containerStatuses[0].containerID}"
	before := h.status(pod, id)
	first, err := strconv.Atoi(h.show("podtask-kubelet.service", "MainPID"))
	if err != nil || first < 2 {
		h.t.Fatalf("the process of podtask-kubelet is %d, %v", first, err)
	}
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		h.t.Fatal(err)
	}
	eventually(h.t, "another podtask-kubelet", func() bool {
		now := h.show("podtask-kubelet.service", "MainPID")
		return now != "0" && now != strconv.Itoa(first)
	})
	if got := h.show("podtask-kubelet.service", "NRestarts"); got != "1" {
		h.t.Errorf("systemd says %s restarts", got)
	}
	h.kubectl("scale", "deployment/web", "--replicas=2")
	h.kubectl("rollout", "status", "deployment/web", "--timeout=5m")
	h.kubectl("scale", "deployment/web", "--replicas=1")
	h.untilPods("app=web", 1)
	if got := h.status(pod, id+" {.status.containerStatuses[0].restartCount}"); got != before+" 0" {
		h.t.Errorf("the container is %s, want %s", got, before)
	}
}

// powerCut shows that the same Pods run again after a boot. What was in memory is gone.
func (h *host) powerCut() {
	pod := h.pod()
	uid := h.status(pod, "{.metadata.uid}")
	h.crash()
	h.boot()
	eventually(h.t, "the same Pods with restarted containers", func() bool {
		const path = "{.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}"
		return h.status(pod, path+" {.metadata.uid}") == "1 true "+uid && h.status("steady", path) == "1 true"
	})
	eventually(h.t, "the log of the second run", func() bool {
		out, err := h.plane.Kubectl(context.Background(), "", "logs", "steady")
		return err == nil && strings.TrimSpace(out) == "hidden"
	})
}

// jobs is the name of the Pod of the Job that runs.
func (h *host) job() string {
	h.t.Helper()
	return h.kubectl("get", "pod", "-l", "job-name=long", "--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].metadata.name}")
}

// shutDown shows that Pods end in time with the host, and that the cluster is told.
func (h *host) shutDown() {
	pod := h.pod()
	var job string
	eventually(h.t, "a Pod of the Job", func() bool {
		job = h.job()
		return job != ""
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	told := h.plane.Command(ctx, h.plane.Admin, "wait", `--for=jsonpath={.status.conditions[?(@.type=="Ready")].message}=node is shutting down`, "node/"+h.name, "--timeout=10m")
	var out syncBuffer
	told.Stdout, told.Stderr = &out, &out
	if err := told.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.outside("stop", h.unit)
	h.ended()
	if err := told.Wait(); err != nil {
		h.t.Errorf("the node does not say that it shuts down: %v: %s", err, &out)
	}
	for name, code := range map[string]string{pod: "", "steady": "", job: " 0"} {
		const path = "{.status.phase} {.status.reason} {.status.containerStatuses[0].state.terminated.exitCode}"
		if got := h.status(name, path); !strings.HasPrefix(got, "Failed Terminated ") || !strings.HasSuffix(got, code) {
			h.t.Errorf("after the shutdown Pod %s is %q", name, got)
		}
	}
	h.boot()
	h.kubectl("rollout", "status", "deployment/web", "--timeout=5m")
	eventually(h.t, "another Pod of the Job", func() bool { return h.job() != "" && h.job() != job })
	if got := h.status("steady", "{.status.phase} {.status.reason}"); got != "Failed Terminated" {
		h.t.Errorf("a Pod without a controller is %s", got)
	}
}
