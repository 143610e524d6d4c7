//go:build e2e

//e2e:bed plain

//e2e:nightly

package e2e

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/testing/freeport"
	"github.com/podtask/podtask/pkg/netns"
)

// loopback is an address of the loopback interface without a listener.
func loopback(t *testing.T) string { return fmt.Sprintf("127.0.0.1:%d", freePort(t)) }

// freePort is a port that nothing listens on.
func freePort(t *testing.T) int {
	t.Helper()
	return int(freeport.For(t))
}

// web is a task that serves on 8080; "probe STOPPED" tells that it does.
func (b *box) web(ports ...port) (path string) {
	return b.define(
		ctr{Name: "web", Command: words("serve 8080"), Ports: ports, Environment: []envVar{{"GREETING", "hello from " + b.family}}},
		ctr{Name: "probe", Essential: optional, Command: words("await http://web:8080/")},
	)
}

func (b *box) askWeb(port int) {
	b.t.Helper()
	b.wantAnswer(port, "hello from "+b.family)
}

// wantAnswer asks the testbox behind a port of the host for its GREETING. One that was
// started just now may not listen yet: then the connection is closed at once.
func (b *box) wantAnswer(port int, want string) {
	b.t.Helper()
	var answer *http.Response
	var err error
	eventually(b.t, fmt.Sprintf("port %d answers", port), func() bool {
		answer, err = http.Get(fmt.Sprintf("http://127.0.0.1:%d/env/GREETING", port))
		return err == nil
	})
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || strings.TrimSpace(string(text)) != want {
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

// Copies of one Fargate definition run side by side. The first has the container's port on
// the host where that is free, the others have free ones, also if it is privileged.
func TestContainerPortsOfAwsvpcBelongToTheTask(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	same := freePort(t)
	definition := b.write(def{Network: "awsvpc", Containers: []ctr{{
		Name: "web", Command: words(fmt.Sprintf("serve %d", same)), Environment: []envVar{{"GREETING", "hello from " + b.family}},
		Ports: []port{{Container: 80}, {Container: same, Host: same}}, StopTimeout: 2,
	}}})
	hosts := map[int]string{}
	for range 3 {
		id := b.detach("--wait=running", definition)
		found := b.inspect(id).Ports
		if len(found) != 2 {
			t.Fatalf("ports %+v", found)
		}
		for _, p := range found {
			if hosts[p.HostPort] != "" || p.HostPort == 0 {
				t.Errorf("two tasks have the host port %d", p.HostPort)
			}
			hosts[p.HostPort] = id
			if p.ContainerPort == same {
				b.askWeb(p.HostPort)
			}
		}
	}
	if hosts[same] == "" {
		t.Errorf("no task has the host port %d, which was free: %v", same, hosts)
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
	// The process is this one, or a child of it that has not called exec yet.
	holder := "(e2e.test) has it"
	for _, detached := range []string{"--detach=false", "--detach"} {
		r := b.want(125, "run", detached, b.web(port{Container: 8080, Host: taken}))
		for _, want := range []string{strconv.Itoa(taken), holder} {
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

// A port that was chosen for a task is nobody's by any definition: who asks for it is told
// whose it is.
func TestPortThatAnotherTaskGotNamesTheTask(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	for name, others := range map[string][]ctr{"pod": nil, "container": {{Name: "other", Command: words("sleep forever"), StopTimeout: 1}}} {
		cs := append([]ctr{{Name: "web", Command: words("serve 8080"), Ports: []port{{Container: 8080}}, StopTimeout: 1}}, others...)
		id := b.detach("--wait=running", "--name", b.family+"-"+name, b.define(cs...))
		taken := b.inspect(id).Ports[0].HostPort
		r := b.want(125, "run", b.web(port{Container: 8080, Host: taken}))
		if want := fmt.Sprintf("task %s-%s (%s) has it", b.family, name, id[:12]); !strings.Contains(r.err, want) {
			t.Errorf("the error does not say %q: %s", want, r.err)
		}
		b.want(0, "stop", id)
	}
}

// ports is a task that serves port 8080 of both protocols, and a range; with others in it
// that is done by the container, not by the pod.
func (b *box) ports(fixed int, others ...ctr) (path string) {
	mappings := []obj{
		{"containerPort": 8080}, {"containerPort": 8080, "hostPort": fixed},
		{"containerPort": 8080, "protocol": "udp"}, {"containerPort": 8080, "hostPort": fixed, "protocol": "udp"},
		{"containerPortRange": "9000-9002", "protocol": "udp"},
	}
	if netns.HasIPv6() { // without, pasta does not forward IPv6
		mappings = append(mappings, obj{"containerPort": 8080, "x-podtask": obj{"hostIP": "::1"}})
	}
	return b.define(append([]ctr{{
		Name: "web", Command: words("serve 8080 -- echo 8080 -- echo 9000 -- echo 9001 -- echo 9002 -- write /tmp/ready"), Restart: restarts(0),
		Environment: []envVar{{"GREETING", "hello from " + b.family}}, Health: healthyIf("exists /tmp/ready"), StopTimeout: 2,
		More: obj{"portMappings": mappings},
	}}, others...)...)
}

// askPorts asks each port of the task ports and returns what "protocol host port" there
// are.
func (b *box) askPorts(id string) (hosts []string) {
	b.t.Helper()
	inside := map[string]int{}
	for _, p := range b.inspect(id).Ports {
		hosts = append(hosts, fmt.Sprintf("%s %s %d", p.Protocol, p.HostIP, p.HostPort))
		inside[fmt.Sprintf("%s %d", p.Protocol, p.ContainerPort)]++
		switch {
		case p.Protocol == "udp":
			b.askEcho(p.HostPort)
		case p.HostIP == "::1":
			if got := ask(fmt.Sprintf("http://[::1]:%d/", p.HostPort)); got != "yes" {
				b.t.Errorf("port %d on [::1] answers %s", p.HostPort, got)
			}
		default:
			b.askWeb(p.HostPort)
		}
	}
	want := map[string]int{"tcp 8080": 2, "udp 8080": 2, "udp 9000": 1, "udp 9001": 1, "udp 9002": 1}
	if netns.HasIPv6() {
		want["tcp 8080"]++
	}
	if !maps.Equal(inside, want) {
		b.t.Errorf("host ports for each port: %v, want %v", inside, want)
	}
	slices.Sort(hosts)
	return hosts
}

// askEcho sends packets to a UDP port until one comes back: they may get lost.
func (b *box) askEcho(port int) {
	b.t.Helper()
	conn, err := net.Dial("udp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close()
	eventually(b.t, fmt.Sprintf("an echo from port %d", port), func() bool {
		answer := make([]byte, 100)
		_, errWrite := conn.Write([]byte(b.family))
		errDeadline := conn.SetReadDeadline(time.Now().Add(time.Second))
		n, errRead := conn.Read(answer)
		return errors.Join(errWrite, errDeadline, errRead) == nil && string(answer[:n]) == b.family
	})
}

// wantFree fails the test unless the port can be had for both protocols.
func wantFree(t *testing.T, port int) {
	t.Helper()
	at := fmt.Sprintf(":%d", port)
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Error(err)
		return
	}
	defer l.Close()
	c, err := net.ListenPacket("udp", at)
	if err != nil {
		t.Error(err)
		return
	}
	c.Close()
}

// A task with fixed and chosen ports, of both protocols and on IPv6, is stopped and
// run again and again: no port is lost, and each is free in between. Its container is
// killed and restarted as well, and keeps its ports.
func TestPortsComeBack(t *testing.T) {
	t.Parallel()
	for publisher, others := range map[string][]ctr{
		"pod": nil, "container": {{Name: "other", Command: words("sleep forever"), StopTimeout: 1}},
	} {
		t.Run("of a "+publisher, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.comeBack(others)
		})
	}
}

func (b *box) comeBack(others []ctr) {
	fixed := freePort(b.t)
	path := b.ports(fixed, others...)
	for range portRounds {
		id := b.detach("--replace", "--name", b.family, "--wait=healthy", path)
		b.askPorts(id)
		b.want(0, "stop", id)
		wantFree(b.t, fixed)
	}
	id := b.detach("--replace", "--name", b.family, "--wait=healthy", path)
	before := b.askPorts(id)
	for n := range portKills {
		b.podman("kill", b.inspect(id).Containers[0].RuntimeID)
		eventually(b.t, "the restart", func() bool { return b.inspect(id).Containers[0].RestartCount == n+1 })
		eventually(b.t, "the server", func() bool { return ask(fmt.Sprintf("http://127.0.0.1:%d/", fixed)) == "yes" })
		if after := b.askPorts(id); !slices.Equal(before, after) {
			b.t.Fatalf("after restart %d the ports are %v, before %v", n+1, after, before)
		}
	}
}

func TestPortBelowTheUnprivilegedStartIsRefused(t *testing.T) {
	t.Parallel()
	start := netns.UnprivilegedStart()
	if start == 0 {
		t.Fatal("the bed lets everybody open each port: set net.ipv4.ip_unprivileged_port_start in it")
	}
	b := newBox(t)
	r := b.want(125, "run", b.web(port{Container: 8080, Host: int(start) - 1}))
	for _, want := range []string{
		fmt.Sprintf("host port %d is below %d", start-1, start), fmt.Sprintf("sysctl net.ipv4.ip_unprivileged_port_start=%d", start-1),
	} {
		if !strings.Contains(r.err, want) {
			t.Errorf("the error does not say %q: %s", want, r.err)
		}
	}
}
