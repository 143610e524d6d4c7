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
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/testing/faults"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/test/testbed"
)

// The tests of this file show that no task, and no client, uses up what all tasks share.

// metric reads one number of the agent's metrics.
func metric(b *box, name string) float64 {
	b.t.Helper()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", b.agentSocket())
	}}}
	resp, err := client.Get("http://podtask/metrics")
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				b.t.Fatal(err)
			}
			return n
		}
	}
	b.t.Fatalf("there is no metric %s in\n%s", name, text)
	return 0
}

// feedsOf makes the agent feed a watchdog every second and returns how often it did.
func feedsOf(b *box) func() int {
	m := newManager(b.t, b.dir)
	b.env = append(b.env, "NOTIFY_SOCKET="+m.path, "WATCHDOG_USEC=2000000")
	return func() int { return m.heard("WATCHDOG=1") }
}

// goesOn fails the test unless other tasks can be run, stopped and removed now, and the
// watchdog is fed.
func goesOn(b *box, feeds func() int) {
	b.t.Helper()
	before := feeds()
	id := b.detach("--wait=running", b.define(ctr{Name: "other", Command: words("sleep forever")}))
	b.want(0, "stop", id)
	b.want(0, "rm", id)
	eventually(b.t, "food for the watchdog", func() bool { return feeds() > before+1 })
}

func TestConnectionsOfOneTaskDoNotDisableTheAgent(t *testing.T) {
	t.Parallel()
	for mode, addr := range map[string]string{"awsvpc": "169.254.170.2:80", "bridge": "169.254.170.2:80", "host": ""} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			feeds := feedsOf(b)
			b.agent()
			command := "flood " + addr + " 5000"
			if mode == "host" { // the address is in the variable: http://127.0.0.1:PORT/v4/ID
				command = "flood ${ECS_CONTAINER_METADATA_URI_V4} 5000"
			}
			id := b.detach("--wait=running", b.write(def{Network: mode, Containers: []ctr{{Name: "flood", Command: words(command)}}}))
			eventually(t, "the flood", func() bool { return strings.Contains(b.want(0, "logs", id).out, "flooding") })
			goesOn(b, feeds)
			for name, most := range map[string]float64{
				"process_open_fds": 400, "go_goroutines": 600, "process_resident_memory_bytes": 200 << 20,
			} {
				if got := metric(b, name); got > most {
					t.Errorf("%s is %.0f during the flood, want at most %.0f", name, got, most)
				}
			}
			b.want(0, "stop", id)
		})
	}
}

// Clients that say nothing, say half of what they have to, or do not read, on each listener.
func TestSlowClientsDoNotDisableTheAgent(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	feeds := feedsOf(b)
	metrics := "127.0.0.1:" + strconv.Itoa(freePort(t))
	b.agent("--metrics-listen=" + metrics)
	b.detach("--wait=running", b.define(ctr{Name: "app", Command: words("sleep forever")}))
	type client struct {
		network, addr, says string
		n                   int
	}
	var clients []net.Conn
	flood := func(client client) {
		for range client.n {
			c, err := net.Dial(client.network, client.addr)
			if err != nil {
				t.Fatal(err)
			}
			clients = append(clients, c)
			_, _ = io.WriteString(c, client.says) // one that is refused is as slow as the others
		}
	}
	for _, c := range []client{
		{"unix", b.agentSocket(), "", 1500},
		{"unix", b.agentSocket(), "GET /v1/events?follow=true HTTP/1.1\r\nHost: x\r\n\r\n", 700},
		{"unix", b.agentSocket(), "GET /v1/tasks HTTP/1.1\r\nHo", 100},
		{"unix", b.agentSocket(), "POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{", 100},
		{"tcp", metrics, "", 200},
		{"tcp", metrics, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200},
		{"tcp", metrics, "GET /metrics HTTP/1.1\r\nHo", 200},
	} {
		flood(c)
	}
	goesOn(b, feeds)
	flood(client{"unix", b.agentSocket(), "GET /v1/events?follow=true HTTP/1.1\r\nHost: x\r\n\r\n", 500})
	before := feeds()
	eventually(t, "food for the watchdog", func() bool { return feeds() > before+1 })
	if r := b.want(125, "run", "-d", "--wait=running", b.define(ctr{Name: "late", Command: words("sleep forever")})); !strings.Contains(r.err, "clients follow") {
		t.Errorf("a follower beyond the limit: %s", r.err)
	}
	if got := metric(b, "process_open_fds"); got > 4000 {
		t.Errorf("%.0f descriptors", got)
	}
	scraper := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := scraper.Get("http://" + metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the metrics answer %s", resp.Status)
	}
	for _, c := range clients { // for the removal of the tasks
		c.Close()
	}
}

// The calls to Podman of one task hang, those of another are made.
func TestHungCallsOfOneTaskDoNotBlockAnother(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.want(0, "run", "--rm", b.hello(b.testbox())) // Podman's service runs from now on
	proxy := faults.Start(t, serviceSocket())
	b.env = append(b.env, "CONTAINER_HOST="+proxy.URI())
	b.agent()
	other := b.detach("--wait=running", b.write(def{Containers: []ctr{
		{Name: "other", Command: words("sleep forever"), More: obj{"secrets": []obj{{"name": "S", "valueFrom": "env:HOME"}}}},
	}}))
	var hung []ctr
	for i := range 9 {
		hung = append(hung, ctr{Name: "hung" + strconv.Itoa(i), Command: words("sleep forever")})
	}
	release := make(chan struct{})
	rule := proxy.Fault(faults.Match{Method: "POST", Path: "-hung[0-9]+/start$"}, faults.Hang(release))
	b.detach("--name", "hung", b.write(def{Containers: hung}))
	eventually(t, "calls that hang", func() bool { return rule.Hits() >= 4 })
	b.want(0, "stop", other)
	b.want(0, "rm", other)
	close(release)
	b.want(0, "stop", "hung")
	b.want(0, "rm", "hung")
}

// A container that prints without end does not fill the disk.
func TestLogDoesNotFillTheDisk(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.env = append(b.env, "PODTASK_LOG_MAX_SIZE=256k")
	b.want(0, "run", "-q", "--name", b.family, b.define(
		ctr{Name: "app", Command: words("lines 200000 -- print the end"), More: logTo("json-file", nil)},
	))
	path := b.podman("inspect", "--format", "{{.HostConfig.LogConfig.Path}}", b.inspect(b.family).Containers[0].RuntimeID)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 300<<10 {
		t.Errorf("the log has %d bytes", info.Size())
	}
	if out := b.want(0, "logs", b.family).out; !strings.HasSuffix(out, "the end\n") {
		t.Errorf("the log ends with %q", out[max(0, len(out)-100):])
	}
}

// A task that restarts without end, with much to say about it, takes a bounded part of
// the disk and of the agent.
func TestRestartsWithoutEndAreBounded(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	id := b.detach("--wait=running", b.define(
		ctr{Name: "app", Command: words("eprint failed -- exit 1"), Restart: restarts(0), Essential: optional},
		ctr{Name: "lasting", Command: words("sleep forever")},
	))
	restarted := func(n int) func() bool {
		return func() bool { return b.inspect(id).Containers[0].RestartCount >= n }
	}
	eventually(t, "a restart", restarted(1))
	descriptors, goroutines := metric(b, "process_open_fds"), metric(b, "go_goroutines")
	eventually(t, "four restarts", restarted(4))
	if got := metric(b, "process_open_fds"); got > descriptors+10 {
		t.Errorf("%.0f descriptors after four restarts, %.0f after one", got, descriptors)
	}
	if got := metric(b, "go_goroutines"); got > goroutines+10 {
		t.Errorf("%.0f goroutines after four restarts, %.0f after one", got, goroutines)
	}
	info, err := os.Stat(filepath.Join(b.stateHome(), "podtask", "tasks", id+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 64<<10 {
		t.Errorf("the record has %d bytes", info.Size())
	}
	b.want(0, "stop", id)
}

// A health check that hangs leaves one process, however often it is due, and that ends
// with the container.
func TestHungHealthChecksDoNotPileUp(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--wait=running", b.define(ctr{Name: "app", Command: words("sleep forever"), More: obj{
		"healthCheck": obj{"command": []string{"CMD", "/testbox", "sleep", "5000s"}, "interval": 5, "timeout": 2, "retries": 2},
	}}))
	b.await("app UNHEALTHY")
	container := b.inspect(id).Containers[0].RuntimeID
	if n := strings.Count(b.podman("top", container, "args"), "sleep 5000s"); n > 1 {
		t.Errorf("%d checks run at once", n)
	}
	b.want(0, "stop", id)
	b.want(0, "rm", id)
	eventually(t, "the end of all checks", func() bool { return !commandRuns("sleep\x005000s") })
}

// commandRuns reports whether a process of this host has the text in its arguments.
func commandRuns(text string) bool {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		if line, err := os.ReadFile(path); err == nil && strings.Contains(string(line), text) {
			return true
		}
	}
	return false
}

// Sessions of exec whose client, guard and Podman service die end with the container at
// the latest.
func TestDroppedExecSessionsEndWithTheirContainer(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--wait=running", b.define(ctr{Name: "app", Command: words("sleep forever")}))
	for range 5 {
		p := b.start("exec", id, "--", "/testbox", "print", "begun", "--", "sleep", "6000s")
		eventually(t, "the command", func() bool { return strings.Contains(p.out.String(), "begun") })
		p.killGroup()
	}
	b.want(0, "stop", id)
	b.want(0, "rm", id)
	eventually(t, "the end of all sessions", func() bool { return !commandRuns("sleep\x006000s") })
}

// killGroup is kill -9 of podtask and all it has started that is in its process group.
func (p *process) killGroup() {
	p.t.Helper()
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		p.t.Fatal(err)
	}
	<-p.ended
}

// A process that dumps core ends with its signal, and no file of it is left on the host.
func TestCrashWithACoreFile(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.podtask("run", "--name", b.family, b.define(ctr{Name: "app", Command: words("crash"), More: obj{
		"linuxParameters": obj{"initProcessEnabled": true},
		"ulimits":         []obj{{"name": "core", "softLimit": 1 << 20, "hardLimit": 1 << 20}},
	}}))
	if r.code != 134 {
		t.Errorf("code %d: %s", r.code, r.err)
	}
	if left, _ := filepath.Glob(filepath.Join(b.dir, "core*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// events that nobody reads fast hold up neither the agent nor other readers.
func TestSlowReaderOfEventsMissesNothing(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	slow, err := api.Dial(t.Context(), b.agentSocket())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	seen, goOn := make(chan uint64, 1000), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_ = slow.Events(ctx, api.EventQuery{Follow: true}, func(e api.Event) error {
			<-goOn
			seen <- e.Seq
			return nil
		})
	}()
	b.want(0, "run", "--rm", b.hello(b.testbox()))
	close(goOn)
	for want := uint64(1); want <= 5; want++ {
		select {
		case got := <-seen:
			if got != want {
				t.Fatalf("event %d comes after %d", got, want-1)
			}
		case <-time.After(testbed.Patience):
			t.Fatal("no event")
		}
	}
}

// A definition of nearly the largest size that consists of labels runs, and a larger one is
// refused. What podtask keeps and prints of the task does not grow with them.
func TestManyLargeLabels(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	labels := func(n int) string {
		all := obj{}
		for i := range n {
			all[fmt.Sprintf("label-%d-%s", i, strings.Repeat("k", 100))] = strings.Repeat("v", 100)
		}
		return b.define(ctr{Name: "app", Command: words("print hello"), More: obj{"dockerLabels": all}})
	}
	b.want(0, "run", "--quiet", "--name", b.family, labels(4000))
	b.wantLines(b.family, "app", "hello")
	for _, args := range [][]string{{"ps", "--all"}, {"why", b.family}, {"timeline", b.family}, {"events", "--stream=false"}} {
		if r := b.podtask(args...); r.code != 0 || len(r.out) > 64<<10 {
			t.Errorf("%v: code %d, %d bytes %s", args, r.code, len(r.out), r.err)
		}
	}
	b.want(0, "rm", b.family)
	if r := b.podtask("run", labels(20000)); r.code != 125 || !strings.Contains(r.err, "too large") && !strings.Contains(r.err, "MiB") || len(r.err) > 4<<10 {
		t.Errorf("a definition of 4 MB: code %d, %d bytes: %.300s", r.code, len(r.err), r.err)
	}
}
