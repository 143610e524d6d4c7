//go:build e2e && bed_vm

package vm

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// resize asks the agent to change the resources of container app, and returns the status and the text of
// the reply.
func resize(t *testing.T, id, resources string) (status int, reply string) {
	t.Helper()
	status, reply, err := tryResize(t.Context(), id, resources)
	if err != nil {
		t.Fatal(err)
	}
	return status, reply
}

func tryResize(ctx context.Context, id, resources string) (status int, reply string, err error) {
	agent := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "podtask", "podtask.sock"))
	}}}
	body := fmt.Sprintf(`{"containers":{"app":%s}}`, resources)
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://podtask/v1/tasks/"+id+"/resources", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	res, err := agent.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// The resources of a Pod change while its containers run: in the kernel, for the container and for the
// task, and they are those of a restarted container and of another agent, too.
func TestResourcesOfAPodThatRunsAreChanged(t *testing.T) {
	startAgent(t, "podtask-agent-resize")
	leavesNothing(t)
	path := filepath.Join(t.TempDir(), "pod.yaml")
	text := strings.ReplaceAll(`
apiVersion: v1
kind: Pod
metadata: {name: resized}
spec:
  restartPolicy: Always
  terminationGracePeriodSeconds: 1
  containers:
    - {name: app, image: "@IMAGE", args: [sleep, forever], resources: {limits: {memory: 32Mi, cpu: 250m}, requests: {memory: 16Mi, cpu: 125m}}}
    - {name: side, image: "@IMAGE", args: [alloc, "24", --, sleep, forever], resources: {limits: {memory: 64Mi, cpu: 250m}}}
`, "@IMAGE", image)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	id := detach(t, path)
	slice, before := sliceOf(id), inspect(t, id)
	app := scope(t, slice, before.Containers[0].RuntimeID)
	want := func(when string, values map[string]string) {
		t.Helper()
		for file, value := range values {
			unset := map[string]string{"cpu.max": "max 100000", "memory.low": "0", "memory.max": "max", "memory.swap.max": "max"}[file]
			if got := within(t, app, file, unset); got != value {
				t.Errorf("%s: %s of app is %s, want %s", when, file, got, value)
			}
			inner := filepath.Join(app, "container") // Debian 12's crun has limits there
			if _, err := os.Stat(inner); err == nil && setting(t, inner, file) != value && file != "memory.low" {
				t.Errorf("%s: %s of the cgroup within that of app is %s, want %s", when, file, setting(t, inner, file), value)
			}
		}
	}
	want("before", map[string]string{"memory.max": "33554432", "cpu.max": "25000 100000"})

	if status, reply := resize(t, id, `{"limits":{"memory":"48Mi","cpu":"500m"},"requests":{"memory":"24Mi","cpu":"250m"}}`); status != http.StatusNoContent {
		t.Fatalf("%d: %s", status, reply)
	}
	larger := map[string]string{"memory.max": "50331648", "memory.swap.max": "50331648", "memory.low": "25165824", "cpu.max": "50000 100000"}
	want("after the resize", larger)
	if got := setting(t, slice, "memory.max"); got != "117440512" {
		t.Errorf("memory.max of the task is %s, want 117440512", got)
	}
	if got := setting(t, slice, "cpu.max"); got != "75000 100000" {
		t.Errorf("cpu.max of the task is %s, want 75000 100000", got)
	}
	if now := inspect(t, id); now.Containers[0].RuntimeID != before.Containers[0].RuntimeID || now.Containers[0].RestartCount != 0 {
		t.Errorf("the container was replaced or restarted: %+v", now.Containers[0])
	}

	// Podman starts the container again with the limits that it was created with.
	pid := must(t, "podman", "inspect", "--format", "{{.State.Pid}}", before.Containers[0].RuntimeID)
	must(t, "kill", "-KILL", pid)
	eventually(t, "a restart", func() bool {
		now := inspect(t, id).Containers[0]
		return now.RestartCount == 1 && now.Status == "RUNNING"
	})
	app = scope(t, slice, before.Containers[0].RuntimeID)
	eventually(t, "the limits of the restarted container", func() bool { return memoryOf(t, app) == larger["memory.max"] })
	want("after a restart", larger)

	// The reply is a failure and nothing changes, if a container uses more than it would be given.
	if status, reply := resize(t, id, `{"limits":{"memory":"1Mi"}}`); status != http.StatusBadRequest || !strings.Contains(reply, "at least 6 MiB") {
		t.Errorf("%d: %s", status, reply)
	}
	want("after a refusal", larger)

	killOwner(t, id)
	startAgent(t, "podtask-agent-resized")
	eventually(t, "the task of the second agent", func() bool { return inspect(t, id).Owner.Alive })
	if status, reply := resize(t, id, `{"limits":{"memory":"32Mi","cpu":"250m"},"requests":{"memory":"16Mi","cpu":"125m"}}`); status != http.StatusNoContent {
		t.Fatalf("%d: %s", status, reply)
	}
	want("after the resize back", map[string]string{"memory.max": "33554432", "memory.swap.max": "33554432", "memory.low": "16777216", "cpu.max": "25000 100000"})
}

// A container whose resizePolicy says so is restarted for other memory, and the kernel has the new limits of
// it and of the task then. The owner may be killed meanwhile.
func TestAContainerIsRestartedForOtherResources(t *testing.T) {
	startAgent(t, "podtask-agent-restarts")
	leavesNothing(t)
	path := filepath.Join(t.TempDir(), "pod.yaml")
	text := strings.ReplaceAll(`
apiVersion: v1
kind: Pod
metadata: {name: restarted}
spec:
  restartPolicy: Always
  terminationGracePeriodSeconds: 2
  containers:
    - name: app
      image: "@IMAGE"
      args: [alloc, "24", --, sleep, forever]
      resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]
      resources: {limits: {memory: 64Mi, cpu: 250m}}
`, "@IMAGE", image)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	id := detach(t, path)
	slice, before := sliceOf(id), inspect(t, id).Containers[0]
	expect := func(when string, restarts int, memory string) {
		t.Helper()
		eventually(t, when+": the container runs", func() bool {
			now := inspect(t, id).Containers[0]
			return now.RestartCount == restarts && now.Status == "RUNNING"
		})
		app := scope(t, slice, before.RuntimeID)
		eventually(t, when+": the limit of the container", func() bool { return memoryOf(t, app) == memory })
		eventually(t, when+": the limit of the task", func() bool { return setting(t, slice, "memory.max") == memory })
	}
	if status, reply := resize(t, id, `{"limits":{"memory":"64Mi","cpu":"500m"}}`); status != http.StatusNoContent {
		t.Fatalf("%d: %s", status, reply)
	}
	expect("another CPU", 0, "67108864")
	if status, reply := resize(t, id, `{"limits":{"memory":"96Mi","cpu":"500m"}}`); status != http.StatusNoContent {
		t.Fatalf("%d: %s", status, reply)
	}
	expect("more memory", 1, "100663296")

	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _, _ = tryResize(t.Context(), id, `{"limits":{"memory":"48Mi","cpu":"500m"}}`) // its agent is killed
	}()
	eventually(t, "the request in the record", func() bool {
		return strings.Contains(must(t, bin(), "inspect", "--format", "podstatus", id), `"48Mi"`)
	})
	killOwner(t, id)
	startAgent(t, "podtask-agent-restarts2")
	<-answered
	expect("less memory, with another agent", 2, "50331648")
}
