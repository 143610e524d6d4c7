//go:build e2e

//e2e:bed systemd

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// strangerEnv makes the test program call a socket, and do nothing else.
const strangerEnv = "PODTASK_TEST_CALL"

// callAsStranger prints what a request on the socket brings.
func callAsStranger(socket string) int {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	resp, err := client.Get("http://podtask/v1/tasks")
	if err != nil {
		fmt.Printf("uid %d: %v\n", os.Getuid(), err)
		return 1
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Printf("uid %d: %s %s %v\n", os.Getuid(), resp.Status, body, err)
	return 0
}

// A subordinate user ID is another user for the kernel.
func TestOthersAreKeptOutOfTheSocket(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	// Each user's own program may read this directory, but for the socket in it.
	for dir := b.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			break // not ours
		}
	}
	call := func(uid string) string {
		t.Helper()
		argv := []string{"unshare", "setpriv", "--reuid=" + uid, "--regid=" + uid, "--clear-groups", "env", strangerEnv + "=" + b.agentSocket(), os.Args[0]}
		self, err := filepath.Abs(os.Args[0])
		if err != nil {
			t.Fatal(err)
		}
		argv[len(argv)-1] = self
		cmd := exec.Command("podman", argv...)
		cmd.Dir = "/"
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	if got := call("0"); !strings.Contains(got, "200 OK") { // root in there is us
		t.Fatalf("our own call: %s", got)
	}
	if got := call("1000"); !strings.Contains(got, "uid 1000") || !strings.Contains(got, "permission denied") {
		t.Errorf("another user: %s", got)
	}
	info, err := os.Stat(b.agentSocket())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v %v", info.Mode(), err)
	}
	// With the mode out of the way the kernel's word about who calls is left.
	if err := os.Chmod(b.agentSocket(), 0o666); err != nil {
		t.Fatal(err)
	}
	if got := call("1000"); !strings.Contains(got, "uid 1000") || strings.Contains(got, "permission denied") || strings.Contains(got, "200") {
		t.Errorf("another user who may open the socket: %s", got)
	}
	if got := call("0"); !strings.Contains(got, "200 OK") {
		t.Errorf("our own call after that: %s", got)
	}
}

// Two agents and two commands compete for a task, and each owner is killed.
func TestAgentsAndOwnersArgueOverATask(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	parties := []*process{b.agent()}
	id := b.detach("--wait=running", b.waiter())
	b.up(id)
	began := b.startedAt(id)
	for range 2 {
		parties = append(parties, b.start("wait", id))
	}
	for round := range 4 {
		var owner *process
		eventually(t, "an owner", func() bool {
			got := b.inspect(id).Owner
			for _, p := range parties {
				if got.Alive && got.PID == p.cmd.Process.Pid {
					owner = p
				}
			}
			return owner != nil
		})
		owner.kill()
		if owner == parties[0] { // the two next agents: one comes too late, and says so
			one, other := b.start("agent"), b.start("agent")
			select {
			case <-one.ended:
				one, other = other, one
			case <-other.ended:
			}
			if r := other.want(125); !strings.Contains(r.err, "there is an agent already") {
				t.Errorf("round %d: the second agent: %s", round, r.err)
			}
			parties[0] = one
			continue
		}
		for i, p := range parties {
			if p == owner {
				parties[i] = b.start("wait", id)
			}
		}
	}
	if got := b.startedAt(id); got != began {
		t.Errorf("the container started at %s, now at %s", began, got)
	}
	b.tell(id, "app", "/tmp/go")
	for _, p := range parties[1:] {
		if r := p.want(0); r.out != "7\n" {
			t.Errorf("wait printed %q %q", r.out, r.err)
		}
	}
	events := b.want(0, "events", "--stream=false").out
	for _, line := range []string{" app RUNNING", " app STOPPED", " (task) STOPPED"} {
		if n := strings.Count(events, line); n != 1 {
			t.Errorf("%d times %q in\n%s", n, line, events)
		}
	}
	b.want(0, "rm", id)
	if got := b.objects(); got != "" {
		t.Errorf("left: %s", got)
	}
}
