//go:build e2e

//e2e:bed systemd

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// kubePod is what the tests look at of a Pod.
type kubePod struct {
	Metadata struct{ Name, Namespace, UID string }
	Spec     struct{ RestartPolicy string }
	Status   struct {
		Phase, QOSClass, Reason, HostIP, PodIP   string
		Conditions                               []struct{ Type, Status, Reason string }
		InitContainerStatuses, ContainerStatuses []kubeContainer
	}
}

type kubeContainer struct {
	Name         string
	Ready        bool
	RestartCount int
	ImageID      string
	State        kubeState
	LastState    kubeState
}

type kubeState struct {
	Waiting    *struct{ Reason, Message string }
	Running    *struct{ StartedAt string }
	Terminated *struct {
		Reason, Message string
		ExitCode        int
	}
}

// manifest writes a Kubernetes manifest. NAME stands for the box's family and IMAGE for
// testbox.
func manifest(b *box, text string) (path string) {
	b.t.Helper()
	path = filepath.Join(b.dir, "pod.yaml")
	text = strings.NewReplacer("NAME", b.family, "IMAGE", b.testbox()).Replace(text)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// pod is a task as a Kubernetes Pod.
func podOf(b *box, ref string) kubePod {
	b.t.Helper()
	var pods []kubePod
	out := b.want(0, "inspect", "--format", "podstatus", ref).out
	if err := json.Unmarshal([]byte(out), &pods); err != nil || len(pods) != 1 {
		b.t.Fatalf("%v: %s", err, out)
	}
	return pods[0]
}

func (p kubePod) condition(kind string) string {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return strings.TrimSuffix(c.Status+" "+c.Reason, " ")
		}
	}
	return "missing"
}

// TestPodRunsInOrderWithWhatItIsGiven: init containers, a sidecar, ConfigMap and Secret
// documents as variables and files, the downward API, and a volume that all share.
func TestPodRunsInOrderWithWhatItIsGiven(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	path := manifest(b, `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: blue, page.txt: a page}
---
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {password: `+marked+`}
---
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {tier: front}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 2
  initContainers:
    - name: first
      image: IMAGE
      args: [write, /shared/first, from, first]
      volumeMounts: [{name: shared, mountPath: /shared}]
    - name: beside
      image: IMAGE
      restartPolicy: Always
      args: [exists, /shared/first, --, write, /shared/beside, --, sleep, forever]
      volumeMounts: [{name: shared, mountPath: /shared}]
  containers:
    - name: app
      image: IMAGE
      env:
        - {name: COLOR, valueFrom: {configMapKeyRef: {name: settings, key: color}}}
        - {name: TIER, valueFrom: {fieldRef: {fieldPath: "metadata.labels['tier']"}}}
        - {name: GREETING, value: $(COLOR) and $(TIER)}
        - {name: PASSWORD, valueFrom: {secretKeyRef: {name: login, key: password}}}
      args: [cat, /shared/first, --, wait, /shared/beside, --, env, GREETING, --, cat, /etc/settings/page.txt, --, exists, /run/login/pw, --, print, $(COLOR), --, where]
      volumeMounts:
        - {name: shared, mountPath: /shared}
        - {name: settings, mountPath: /etc/settings}
        - {name: login, mountPath: /run/login}
  volumes:
    - {name: shared, emptyDir: {}}
    - {name: settings, configMap: {name: settings, items: [{key: page.txt, path: page.txt}]}}
    - {name: login, secret: {secretName: login, items: [{key: password, path: pw, mode: 0440}]}}
`)
	r := b.want(0, "run", "--name", b.family, path)
	for _, line := range []string{"from first", "blue and front", "a page", "blue\n", b.family} {
		if !strings.Contains(r.out, line) {
			t.Errorf("the log lacks %q:\n%s", line, r.out)
		}
	}
	got := podOf(b, b.family)
	if got.Status.Phase != "Succeeded" || got.Metadata.Name != b.family || got.Metadata.UID == "" || got.Spec.RestartPolicy != "Never" {
		t.Errorf("%+v", got)
	}
	if c := got.condition("Initialized"); c != "True PodCompleted" {
		t.Errorf("Initialized is %s", c)
	}
	if got.condition("Ready") != "False PodCompleted" || got.Status.QOSClass != "BestEffort" {
		t.Errorf("%+v", got.Status)
	}
	first, beside, app := got.Status.InitContainerStatuses[0], got.Status.InitContainerStatuses[1], got.Status.ContainerStatuses[0]
	if first.State.Terminated == nil || first.State.Terminated.Reason != "Completed" || !strings.Contains(app.ImageID, "@sha256:") {
		t.Errorf("%+v %+v", first, app)
	}
	if beside.State.Terminated == nil || beside.State.Terminated.ExitCode != 143 {
		t.Errorf("the sidecar was not stopped: %+v", beside)
	}
	id := b.inspect(b.family).ID
	b.checkNotShown(id, marked)
	if left := b.podmanSecrets(id); len(left) != 0 {
		t.Errorf("Podman has the secrets %q", left)
	}
}

// TestPodWhoseLivenessProbeFailsIsRestarted: the container comes back, the task continues.
func TestPodWhoseLivenessProbeFailsIsRestarted(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--name", b.family, manifest(b, `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: app
      image: IMAGE
      args: [write, /tmp/alive, --, term, "0", --, sleep, forever]
      livenessProbe:
        exec: {command: [/testbox, exists, /tmp/alive]}
        periodSeconds: 5
        timeoutSeconds: 30 # a busy machine starts a process late
        failureThreshold: 1
`))
	b.await("app HEALTHY")
	if got := podOf(b, id); got.condition("Ready") != "True" || got.Status.Phase != "Running" {
		t.Errorf("%+v", got.Status)
	}
	b.podman("exec", b.inspect(id).Containers[0].RuntimeID, "/testbox", "remove", "/tmp/alive")
	b.await("app UNHEALTHY")
	b.await("app RESTARTING")
	eventually(t, "the restart", func() bool { return b.inspect(id).Containers[0].RestartCount == 1 })
	got := podOf(b, id).Status
	if app := got.ContainerStatuses[0]; got.Phase != "Running" || app.RestartCount != 1 || app.State.Running == nil || app.LastState.Terminated == nil {
		t.Errorf("%+v", got)
	}
	b.want(0, "stop", id)
	if phase := podOf(b, id).Status.Phase; phase != "Succeeded" { // it answers SIGTERM with code 0
		t.Errorf("the phase is %s", phase)
	}
}

// TestPodThatFailsIsFailed: the phase follows the exit codes, and a cause is told.
func TestPodThatFailsIsFailed(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.want(3, "run", "--name", b.family, manifest(b, `
apiVersion: batch/v1
kind: Job
metadata: {name: NAME}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: OnFailure
      containers: [{name: app, image: IMAGE, args: [exit, "3"], restartPolicy: Never}]
`))
	got := podOf(b, b.family).Status
	if app := got.ContainerStatuses[0].State.Terminated; got.Phase != "Failed" || app == nil || app.ExitCode != 3 || app.Reason != "Error" {
		t.Errorf("%+v", got)
	}
}

// TestRestartRulesOfAPod: a container whose exit code a rule names is started again, whatever its policy says; after
// another one the policy decides. The kernel is to end the processes of a Pod without requests first.
func TestRestartRulesOfAPod(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.want(5, "run", "--name", b.family, manifest(b, `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  restartPolicy: Never
  initContainers:
    - name: first
      image: IMAGE
      args: [tally, /shared/first, "2"]
      restartPolicy: Never
      restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}]
      volumeMounts: [{name: shared, mountPath: /shared}]
  containers:
    - name: app
      image: IMAGE
      args: [cat, /proc/self/oom_score_adj, --, tally, /shared/app, "2", --, exit, "5"]
      restartPolicy: Never
      restartPolicyRules: [{action: Restart, exitCodes: {operator: NotIn, values: [0, 5]}}]
      volumeMounts: [{name: shared, mountPath: /shared}]
  volumes: [{name: shared, emptyDir: {}}]
`))
	if !strings.Contains(r.out, "1000\n") {
		t.Errorf("the oom_score_adj is not 1000:\n%s", r.out)
	}
	got := podOf(b, b.family).Status
	first, app := got.InitContainerStatuses[0], got.ContainerStatuses[0]
	if first.RestartCount != 1 || first.State.Terminated == nil || first.State.Terminated.ExitCode != 0 {
		t.Errorf("the init container: %+v", first)
	}
	if got.Phase != "Failed" || app.RestartCount != 1 || app.State.Terminated == nil || app.State.Terminated.ExitCode != 5 || app.LastState.Terminated == nil || app.LastState.Terminated.ExitCode != 1 {
		t.Errorf("%+v", got)
	}
}

// TestOOMScoresOfAPod: a burstable container has the oom_score_adj of a kubelet, and a guaranteed one, whose value no user
// without root may set, starts with that of Podman.
func TestOOMScoresOfAPod(t *testing.T) {
	t.Parallel()
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		t.Fatal(err)
	}
	const request = 64 << 20
	burstable := min(max(1000-int(1000*request/(info.Totalram*uint64(info.Unit))), 3), 999)
	for resources, want := range map[string]string{
		"requests: {memory: 64Mi}":          "app    | " + strconv.Itoa(burstable) + "\n",
		"limits: {memory: 64Mi, cpu: 100m}": "\n", // any
	} {
		b := newBox(t)
		r := b.want(0, "run", "--limits", "off", "--name", b.family, manifest(b, `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  restartPolicy: Never
  containers:
    - {name: app, image: IMAGE, args: [cat, /proc/self/oom_score_adj], resources: {`+resources+`}}
    - {name: beside, image: IMAGE, args: [exit, "0"], resources: {`+resources+`}}
`))
		if !strings.Contains(r.out, want) {
			t.Errorf("with %s the value is not %s:\n%s", resources, want, r.out)
		}
	}
}

// TestPodNeedsWhatOnlyAClusterHas: validate lists it and succeeds, run refuses.
func TestPodNeedsWhatOnlyAClusterHas(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	path := manifest(b, `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  restartPolicy: Never
  containers:
    - {name: app, image: IMAGE, args: [write, /data/x], volumeMounts: [{name: data, mountPath: /data}]}
  volumes: [{name: data, persistentVolumeClaim: {claimName: claim}}]
`)
	b.want(0, "validate", path)
	b.want(125, "run", path)
	dir := filepath.Join(b.dir, "data")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b.want(0, "run", "--rm", "--map-volume", "claim="+dir, path)
	if _, err := os.Stat(filepath.Join(dir, "x")); err != nil {
		t.Error(err)
	}
}
