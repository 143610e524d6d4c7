//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// freePort is a port nobody has at the moment.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// web is a task that serves on 8080; "probe STOPPED" tells that it does.
func (b *box) web(ports ...port) (path string) {
	return b.define(
		ctr{Name: "web", Command: words("serve 8080"), Ports: ports, Environment: []envVar{{"GREETING", "hello from " + b.family}}},
		ctr{Name: "probe", Essential: optional, Command: words("await http://127.0.0.1:8080/")},
	)
}

func (b *box) askWeb(port int) {
	b.t.Helper()
	answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/env/GREETING", port))
	if err != nil {
		b.t.Error(err)
		return
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || strings.TrimSpace(string(text)) != "hello from "+b.family {
		b.t.Errorf("port %d answers %q, %v", port, text, err)
	}
}

func wantClosed(t *testing.T, port int) {
	t.Helper()
	if conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
		conn.Close()
		t.Errorf("port %d is still open", port)
	}
}

func TestPorts(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	fixed := freePort(t)
	// The same container port twice: on a fixed host port and on a chosen one.
	id := b.detach(b.web(port{Container: 8080, Host: fixed}, port{Container: 8080}))
	b.await("probe STOPPED")
	got := b.inspect(id).Ports
	hosts := map[int]bool{}
	for _, p := range got {
		hosts[p.HostPort] = true
		if p.ContainerPort != 8080 || p.Protocol != "tcp" || p.HostPort == 0 {
			t.Errorf("%+v", p)
		}
		b.askWeb(p.HostPort)
	}
	if len(got) != 2 || len(hosts) != 2 || !hosts[fixed] {
		t.Errorf("ports %+v, want two different ones, %d among them", got, fixed)
	}
	b.want(0, "stop", id)
	for p := range hosts {
		wantClosed(t, p)
	}
}

func TestPortInUseIsRefusedBeforeAnythingIsMade(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	for _, detached := range []string{"--detach=false", "--detach"} {
		r := b.want(125, "run", detached, b.web(port{Container: 8080, Host: taken}))
		for _, want := range []string{strconv.Itoa(taken), "e2e.test"} {
			if !strings.Contains(r.err, want) {
				t.Errorf("the error does not name %q: %s", want, r.err)
			}
		}
	}
	if got := b.want(0, "ps", "-a", "-q").out + b.objects(); got != "" {
		t.Errorf("something was made: %s", got)
	}
	if got := b.requests(""); len(got) > 0 {
		t.Errorf("the registry was asked: %v", got)
	}
}
