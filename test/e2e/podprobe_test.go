//go:build e2e

//e2e:bed systemd

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/test/testbed"
)

// ready are the names of the containers of a Pod that are ready, in their order.
func (p kubePod) ready() string {
	var names []string
	for _, c := range p.Status.ContainerStatuses {
		if c.Ready {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, " ")
}

// inEach makes or removes a file in every container of a task.
func inEach(b *box, id, verb, file string) {
	b.t.Helper()
	for _, c := range b.inspect(id).Containers {
		b.podman("exec", c.RuntimeID, "/testbox", verb, file)
	}
}

// TestPodIsReadyAsItsProbesSay: probes by exec, HTTP, TCP and gRPC fail, pass, fail again,
// get no answer and recover, and restart nothing.
func TestPodIsReadyAsItsProbesSay(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	const when = "periodSeconds: 1, failureThreshold: 1, timeoutSeconds: 5"
	id := b.detach("--name", b.family, manifest(b, `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - {name: exec, image: IMAGE, args: [sleep, forever], readinessProbe: {exec: {command: [/testbox, exists, /tmp/ok]}, `+when+`}}
    - {name: slow, image: IMAGE, args: [sleep, forever], readinessProbe: {exec: {command: [/testbox, wait, /tmp/ok]}, `+when+`}, livenessProbe: {exec: {command: [/testbox, print, x]}, timeoutSeconds: 60}}
    - name: http
      image: IMAGE
      args: [serve, "8081"]
      ports: [{name: web, containerPort: 8081}]
      readinessProbe: {httpGet: {path: /exists/tmp/ok, port: web}, `+when+`}
    - {name: tcp, image: IMAGE, args: [door, "8082", /tmp/ok], readinessProbe: {tcpSocket: {port: 8082}, `+when+`}}
    - {name: grpc, image: IMAGE, args: [serve, "8083"], readinessProbe: {grpc: {port: 8083, service: /tmp/ok}, `+when+`}}
`))
	const all = "exec slow http tcp grpc"
	b.await("task RUNNING")
	until := func(what, want string) {
		t.Helper()
		var got kubePod
		if testbed.Until(func() bool { got = podOf(b, id); return got.ready() == want }) {
			return
		}
		t.Fatalf("%s: %q is ready, not %q\n%s", what, got.ready(), want, b.want(0, "inspect", id).out)
	}
	until("before anything is there", "")
	if got := podOf(b, id); got.condition("Ready") != "False ContainersNotReady" || got.Status.Phase != "Running" {
		t.Errorf("%+v", got.Status)
	}
	inEach(b, id, "write", "/tmp/ok")
	until("when all is there", all)
	if got := podOf(b, id); got.condition("Ready") != "True" {
		t.Errorf("%+v", got.Status)
	}
	inEach(b, id, "write", "/tmp/hang")
	until("when there is no answer", "exec slow tcp")
	inEach(b, id, "remove", "/tmp/hang")
	until("when there are answers again", all)
	inEach(b, id, "remove", "/tmp/ok")
	until("when nothing is there any more", "")
	for _, e := range b.events() {
		if byExec := e.Container == "exec"; e.Status == "UNHEALTHY" && e.Container != "slow" && strings.Contains(e.Reason, "exit code") != byExec {
			t.Errorf("%s is UNHEALTHY: %s", e.Container, e.Reason)
		}
	}
	inEach(b, id, "write", "/tmp/ok")
	until("when all is there again", all)
	for _, c := range podOf(b, id).Status.ContainerStatuses {
		if c.RestartCount != 0 {
			t.Errorf("%s was restarted: %s", c.Name, b.want(0, "inspect", id).out)
		}
	}
	b.want(0, "stop", id)
}

// TestPodStartsStopsAndRestartsWithItsHooks: the startup probe comes before the others, a
// sidecar before the container, the hooks around each run.
func TestPodStartsStopsAndRestartsWithItsHooks(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--name", b.family, manifest(b, `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 4
  initContainers:
    - name: beside
      image: IMAGE
      restartPolicy: Always
      args: [serve, "8080"]
      startupProbe: {httpGet: {path: /exists/tmp/started, port: 8080}, periodSeconds: 1, failureThreshold: 60}
      volumeMounts: [{name: shared, mountPath: /shared}]
  containers:
    - name: app
      image: IMAGE
      args: [serve, "8090"]
      startupProbe: {tcpSocket: {port: 8090}, periodSeconds: 1, failureThreshold: 60}
      livenessProbe: {httpGet: {path: /exists/shared/alive, port: 8090}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 1}
      lifecycle:
        postStart: {exec: {command: [/testbox, write, /shared/alive]}}
        preStop: {exec: {command: [/testbox, tally, /shared/stops, "0"]}}
      volumeMounts: [{name: shared, mountPath: /shared}]
  volumes: [{name: shared, emptyDir: {}}]
`))
	b.await("beside RUNNING")
	beside := func(steps ...string) string {
		t.Helper()
		return b.podman(append([]string{"exec", b.inspect(id).Containers[0].RuntimeID, "/testbox"}, steps...)...)
	}
	if got := podOf(b, id); got.Status.Phase != "Pending" || got.condition("Initialized") != "False ContainersNotInitialized" {
		t.Errorf("before the sidecar has started: %+v", got.Status)
	}
	beside("write", "/tmp/started")
	b.await("app HEALTHY")
	if got := podOf(b, id); got.condition("Ready") != "True" {
		t.Errorf("%+v", got.Status)
	}
	beside("remove", "/shared/alive")
	b.await("app UNHEALTHY")
	eventually(t, "the restart", func() bool {
		got := podOf(b, id)
		return got.Status.ContainerStatuses[0].RestartCount == 1 && got.condition("Ready") == "True"
	})
	if stops := beside("cat", "/shared/stops"); stops != "1" {
		t.Errorf("the preStop hook ran %q times", stops)
	}
	beside("exists", "/shared/alive") // the postStart hook made it again
	b.want(0, "stop", id)
	if events := eventWords(b); slices.Index(events, "app STOPPED") > slices.Index(events, "beside STOPPED") {
		t.Errorf("the sidecar stopped first: %q", events)
	}
}

// eventWords are the events of the box's task so far.
func eventWords(b *box) (out []string) {
	for _, e := range b.events() {
		out = append(out, e.String())
	}
	return out
}

// TestPodWhoseHookFails: the container is stopped, and the reason is told.
func TestPodWhoseHookFails(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.podtask("run", "--name", b.family, manifest(b, `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: IMAGE, args: [sleep, forever], lifecycle: {postStart: {exec: {command: [/testbox, cannot, print, x]}}}}]
`))
	if r.code != 143 {
		t.Errorf("code %d: %s%s", r.code, r.out, r.err)
	}
	if errs := b.inspect(b.family).Containers[0].Errors; len(errs) != 1 || errs[0].Name != "FailedPostStartHook" {
		t.Errorf("%+v", errs)
	}
}

// TestPodEndsWithItsLastContainer: not with the first, nor with its sidecar, and it has
// failed if one has.
func TestPodEndsWithItsLastContainer(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--name", b.family, manifest(b, `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 2
  initContainers: [{name: beside, image: IMAGE, restartPolicy: Always, args: [sleep, forever]}]
  containers:
    - {name: first, image: IMAGE, args: [exit, "3"]}
    - {name: last, image: IMAGE, args: [wait, /tmp/done]}
`))
	b.await("first STOPPED")
	if got := podOf(b, id); got.Status.Phase != "Running" || got.condition("Ready") != "False ContainersNotReady" {
		t.Errorf("%+v", got.Status)
	}
	b.tell(id, "last", "/tmp/done")
	if r := b.want(0, "wait", id); strings.TrimSpace(r.out) != "3" {
		t.Errorf("the exit code is %q", r.out)
	}
	if got := podOf(b, id); got.Status.Phase != "Failed" || b.inspect(id).codes() != "beside=143 first=3 last=0" {
		t.Errorf("%+v, %s", got.Status, b.inspect(id).codes())
	}
}

// TestPodHasADeadline: it is stopped, and has failed whatever its containers say.
func TestPodHasADeadline(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.podtask("run", "--name", b.family, manifest(b, `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  restartPolicy: Never
  activeDeadlineSeconds: 3
  terminationGracePeriodSeconds: 2
  containers: [{name: app, image: IMAGE, args: [term, "0", --, sleep, forever]}]
`))
	if r.code != 124 && r.code != 125 { // 125: a slow host has not started it by then
		t.Errorf("code %d: %s%s", r.code, r.out, r.err)
	}
	if got := podOf(b, b.family).Status; got.Phase != "Failed" || got.Reason != "DeadlineExceeded" {
		t.Errorf("%+v", got)
	}
}

// TestPodInTheNetworkOfTheHostIsProbed: without a namespace to enter.
func TestPodInTheNetworkOfTheHostIsProbed(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	port := fmt.Sprint(freePort(t))
	id := b.detach("--name", b.family, manifest(b, strings.ReplaceAll(`
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: IMAGE, args: [serve, "PORT"], readinessProbe: {httpGet: {path: /, port: PORT}, periodSeconds: 1}}]
`, "PORT", port)))
	b.await("app HEALTHY")
	b.want(0, "stop", id)
}
