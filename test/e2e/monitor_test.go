//go:build e2e && bed_systemd

package e2e

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/podtask/podtask/test/testbed"
)

// countedPodman starts a Podman service of the test's own, lets the box use it, and returns
// the number of its requests so far.
func countedPodman(b *box) *atomic.Int64 {
	b.t.Helper()
	dir, err := os.MkdirTemp("", "count") // Podman wants it short
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { os.RemoveAll(dir) })
	service := testbed.NewPodman(filepath.Join(dir, "podman.sock"))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := service.Start(ctx); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(service.Kill)
	l, err := net.Listen("unix", filepath.Join(dir, "count.sock"))
	if err != nil {
		b.t.Fatal(err)
	}
	requests := &atomic.Int64{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "podman" },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", service.Socket())
		}},
		FlushInterval: -1,
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(l) }() // ends with the server
	b.t.Cleanup(func() { _ = server.Close() })
	env := b.env
	b.t.Cleanup(func() { b.env = env })
	b.env = append(slices.Clone(env), "CONTAINER_HOST=unix://"+l.Addr().String())
	return requests
}

// killMonitor kills the conmon of a container.
func killMonitor(b *box, container string) {
	b.t.Helper()
	pid, err := strconv.Atoi(b.podman("inspect", "--format", "{{.State.ConmonPid}}", container))
	if err != nil || pid <= 1 {
		b.t.Fatalf("conmon of %s: process %d, %v", container, pid, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		b.t.Fatal(err)
	}
}

// lostMonitorCalls bounds the requests from the death of a conmon to the end of its
// container: waits, inspections and a stop, beside those that the dependents need.
const lostMonitorCalls = 80

// A container whose conmon is killed ends with an unknown exit code, in a bounded number of
// requests. What depends on its end cannot start: it has no exit code.
func TestKilledMonitorEndsItsContainer(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	requests := countedPodman(b)
	id := b.detach(b.define(
		ctr{Name: "db", Command: words("sleep forever"), Essential: optional, StopTimeout: 5},
		ctr{Name: "app", Command: words("sleep forever"), StopTimeout: 5},
		ctr{Name: "next", Command: words("exit 0"), Essential: optional, DependsOn: []on{{"db", "COMPLETE"}}},
		ctr{Name: "never", Command: words("exit 0"), Essential: optional, DependsOn: []on{{"db", "SUCCESS"}}}))
	b.await("app RUNNING")
	b.await("db RUNNING")
	before := requests.Load()
	killMonitor(b, b.inspect(id).Containers[0].RuntimeID)
	b.await("db STOPPED")
	b.await("next STOPPED")
	b.await("never STOPPED")
	if n := requests.Load() - before; n > lostMonitorCalls {
		t.Errorf("%d requests, want at most %d", n, lostMonitorCalls)
	} else {
		t.Logf("%d requests", n)
	}
	got := b.inspect(id)
	if db := got.Containers[0]; len(db.Errors) != 1 || db.Errors[0].Name != "ContainerMonitorLostError" || db.ExitCode != nil {
		t.Errorf("db has errors %v and exit code %v", db.Errors, db.ExitCode)
	}
	for _, c := range got.Containers[2:] {
		if len(c.Errors) != 1 || c.Errors[0].Name != "CannotStartContainerError" {
			t.Errorf("%s has errors %v", c.Name, c.Errors)
		}
	}
	if out := b.running(); strings.Contains(out, id[:12]+"-db") || !strings.Contains(out, id[:12]+"-app") {
		t.Errorf("there runs %s", out)
	}
	b.want(0, "stop", id)
}

// If the conmon of the infra container is killed, nothing would notice the end of the
// network, so the task stops.
func TestKilledMonitorOfTheInfraContainerStopsTheTask(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	requests := countedPodman(b)
	id := b.detach("--wait=running", b.write(def{Network: "awsvpc", Containers: []ctr{
		{Name: "app", Command: words("sleep forever"), StopTimeout: 5},
		{Name: "side", Command: words("sleep forever"), StopTimeout: 5},
	}}))
	before := requests.Load()
	killMonitor(b, b.podman("pod", "inspect", b.inspect(id).PodID, "--format", "{{.InfraContainerID}}"))
	b.await("task STOPPED")
	if n := requests.Load() - before; n > lostMonitorCalls {
		t.Errorf("%d requests, want at most %d", n, lostMonitorCalls)
	} else {
		t.Logf("%d requests", n)
	}
	if got := b.inspect(id); got.StopCode != "InfrastructureHealth" || !strings.Contains(got.StoppedReason, "conmon") || got.codes() != "app=143 side=143" {
		t.Errorf("%s: %s, %s", got.StopCode, got.StoppedReason, got.codes())
	}
}
