package services

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/testing/freeport"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

func TestPublished(t *testing.T) {
	t.Parallel()
	two := []taskdef.Container{{Name: "app"}, {Name: "side"}}
	bound := func(ip string, host uint16) []taskdef.Port {
		return []taskdef.Port{{ContainerPort: 80, HostPort: host, Protocol: "udp"}, {ContainerPort: 80, HostPort: host + 1, Protocol: "tcp", HostIP: ip}}
	}
	for name, tt := range map[string]struct {
		network         taskdef.NetworkMode
		pod, app        []taskdef.Port
		container, want string
	}{
		"by the pod":                {taskdef.NetworkAWSVPC, bound("", 40000), nil, "app", "127.0.0.1:40001"},
		"by the container":          {taskdef.NetworkBridge, nil, bound("0.0.0.0", 40000), "app", "127.0.0.1:40001"},
		"by another container":      {taskdef.NetworkBridge, nil, bound("", 40000), "side", ""},
		"at an address":             {taskdef.NetworkAWSVPC, bound("192.0.2.1", 40000), nil, "app", "192.0.2.1:40001"},
		"at all IPv6 addresses":     {taskdef.NetworkAWSVPC, bound("::", 40000), nil, "app", "[::1]:40001"},
		"on the host itself":        {taskdef.NetworkHost, nil, nil, "app", "127.0.0.1:80"},
		"not yet":                   {taskdef.NetworkAWSVPC, nil, nil, "app", ""},
		"by no container like that": {taskdef.NetworkHost, nil, nil, "db", ""},
	} {
		s := lifecycle.State{Task: taskdef.Task{Network: tt.network, Containers: two}, Containers: []lifecycle.Container{{Ports: tt.app}, {}}}
		s.Sandbox.Ports = tt.pod
		if got := published(s, target{container: tt.container, port: 80}); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// A listener whose port is in use is reported with its holder, and opened when it is free.
func TestListenersFollowTheService(t *testing.T) {
	t.Parallel()
	backend, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	go func() {
		for {
			c, err := backend.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("hello\n"))
			c.Close()
		}
	}()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	l := &listeners{log: slog.New(slog.DiscardHandler), tasks: &record.Tasks{}}
	defer l.Close()
	l.targets = map[place]string{{"one", target{container: "app", port: 80}}: backend.Addr().String()}
	s := service.State{
		Config:      service.Config{Listeners: []service.Listener{{Address: address, Container: "app", Port: 80}}},
		Deployments: []service.Deployment{{ID: "web/1", Primary: true}},
		Tasks:       []service.Task{{ID: "one", Phase: service.Live, HealthyNow: true}},
	}
	not := l.Follow(s)
	if len(not) != 1 || not[0].Address != address || !strings.Contains(not[0].Problem, "address already in use: process") {
		t.Errorf("with a port in use: %+v", not)
	}
	taken.Close()
	if not := l.Follow(s); len(not) > 0 {
		t.Fatalf("with a free port: %+v", not)
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if line, err := bufio.NewReader(c).ReadString('\n'); line != "hello\n" {
		t.Errorf("%q, %v", line, err)
	}
	s.Config.Listeners = nil
	if not := l.Follow(s); len(not) > 0 {
		t.Errorf("without listeners: %+v", not)
	}
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("a listener that was taken away is open")
	}
	s.Tasks = nil
	if l.Follow(s); len(l.targets) > 0 {
		t.Errorf("the addresses of copies that are gone stay: %v", l.targets)
	}
}

// Connections go to healthy copies only. A copy that leaves the rotation keeps the connections it
// has, and its drain lasts until they have ended.
func TestListenersForwardToHealthyCopies(t *testing.T) {
	t.Parallel()
	good, sick := echo(t, "good"), echo(t, "sick")
	l := &listeners{log: slog.New(slog.DiscardHandler), tasks: &record.Tasks{}}
	defer l.Close()
	l.targets = map[place]string{{"good", target{container: "app", port: 80}}: good, {"sick", target{container: "app", port: 80}}: sick}
	s := service.State{
		Config:      service.Config{Listeners: []service.Listener{{Address: freeAddress(t), Container: "app", Port: 80}}},
		Deployments: []service.Deployment{{ID: "web/1", Primary: true}},
		Tasks:       []service.Task{{ID: "good", Phase: service.Live, HealthyNow: true}, {ID: "sick", Phase: service.Live}},
	}
	if not := l.Follow(s); len(not) > 0 {
		t.Fatalf("%+v", not)
	}
	address := s.Config.Listeners[0].Address
	for range 10 {
		if c, who := connect(t, address); who != "good" {
			t.Fatalf("a connection goes to %s", who)
		} else {
			c.Close()
		}
	}

	open, _ := connect(t, address)
	s.Tasks[0].Phase, s.Tasks[1].HealthyNow = service.Stopping, true
	l.targets[place{"sick", target{container: "app", port: 80}}] = sick
	if not := l.Follow(s); len(not) > 0 {
		t.Fatalf("%+v", not)
	}
	if c, who := connect(t, address); who != "sick" {
		t.Errorf("with the other copy healthy, a connection goes to %s", who)
	} else {
		c.Close()
	}
	drained := make(chan struct{})
	go func() { l.Drain(t.Context(), "good"); close(drained) }()
	if _, err := open.Write([]byte("more\n")); err != nil {
		t.Error(err)
	}
	if line, err := bufio.NewReader(open).ReadString('\n'); line != "more\n" || err != nil {
		t.Errorf("the open connection answers %q, %v", line, err)
	}
	select {
	case <-drained:
		t.Error("the copy is drained and has a connection")
	default:
	}
	open.Close()
	<-drained
}

// A test listener is opened beside the others, and what went through both is counted by deployment.
func TestTestListeners(t *testing.T) {
	t.Parallel()
	good := echo(t, "good")
	l := &listeners{log: slog.New(slog.DiscardHandler), tasks: &record.Tasks{}}
	defer l.Close()
	l.targets = map[place]string{{"good", target{container: "app", port: 80}}: good, {"good", target{container: "app", port: 81}}: good}
	s := service.State{
		Config: service.Config{
			Listeners:     []service.Listener{{Address: freeAddress(t), Container: "app", Port: 80}},
			TestListeners: []service.Listener{{Address: freeAddress(t), Container: "app", Port: 81}},
		},
		Deployments: []service.Deployment{{ID: "web/1", Primary: true}},
		Tasks:       []service.Task{{ID: "good", Deployment: "web/1", Phase: service.Live, HealthyNow: true}},
	}
	if not := l.Follow(s); len(not) > 0 {
		t.Fatalf("%+v", not)
	}
	for _, c := range listenersOf(s.Config) {
		if _, who := connect(t, c.Address); who != "good" {
			t.Errorf("a connection to %s goes to %s", c.Address, who)
		}
	}
	all := l.traffic("web")
	if len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	for _, counted := range all {
		if counted.Service != "web" || counted.Forwarded["web/1"] != 1 {
			t.Errorf("%+v", counted)
		}
	}
	s.Config.TestListeners = nil
	if l.Follow(s); len(l.traffic("web")) != 1 {
		t.Error("a test listener that was taken away is open")
	}
}

// Connections are shared by the weights of the groups, with the tenth that the second has here.
func TestConnectionsAreSharedByWeight(t *testing.T) {
	t.Parallel()
	l := &listeners{log: slog.New(slog.DiscardHandler), tasks: &record.Tasks{}}
	defer l.Close()
	l.targets = map[place]string{{"good", target{container: "app", port: 80}}: echo(t, "good"), {"sick", target{container: "app", port: 80}}: echo(t, "sick")}
	at := service.Listener{Address: freeAddress(t), Container: "app", Port: 80}
	if not := l.route([]service.Listener{at}, []service.Group{{Deployment: "web/1", Weight: 900, Copies: []string{"good"}}, {Deployment: "web/2", Weight: 100, Copies: []string{"sick"}}}, 0); len(not) > 0 {
		t.Fatalf("%+v", not)
	}
	got := map[string]int{}
	for range 20 {
		_, who := connect(t, at.Address)
		got[who]++
	}
	if got["good"] != 18 || got["sick"] != 2 {
		t.Errorf("%v, want 18 and 2", got)
	}
}

// echo serves a name, then what it receives, and returns its address.
func echo(t *testing.T, name string) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() })
	go func() {
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.WriteString(c, name+"\n")
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return lis.Addr().String()
}

// connect connects to an address and returns who answers.
func connect(t *testing.T, address string) (net.Conn, string) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	line := make([]byte, len("good\n")) // both names have this length
	if _, err := io.ReadFull(c, line); err != nil {
		t.Fatal(err)
	}
	return c, strings.TrimSpace(string(line))
}

func freeAddress(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", freeport.For(t))
}

// While the ingress proxy listens at an address, the agent does not; connections that it has go on.
func TestTheProxyTakesListeners(t *testing.T) {
	t.Parallel()
	proxied := false
	l := &listeners{log: slog.New(slog.DiscardHandler), tasks: &record.Tasks{}, proxied: func(string) bool { return proxied }}
	var passed []string
	l.pass = func(address string, socket *net.TCPListener) error {
		if got := socket.Addr().String(); got != address {
			t.Errorf("the socket at %s is passed for %s", got, address)
		}
		passed = append(passed, address)
		return errors.New("a proxy of an older version")
	}
	defer l.Close()
	l.targets = map[place]string{{"good", target{container: "app", port: 80}}: echo(t, "good")}
	s := service.State{
		Config:      service.Config{Listeners: []service.Listener{{Address: freeAddress(t), Container: "app", Port: 80}}},
		Deployments: []service.Deployment{{ID: "web/1", Primary: true}},
		Tasks:       []service.Task{{ID: "good", Deployment: "web/1", Phase: service.Live, HealthyNow: true}},
	}
	address := s.Config.Listeners[0].Address
	if not := l.Follow(s); len(not) > 0 {
		t.Fatalf("%+v", not)
	}
	kept, _ := connect(t, address)
	for _, proxied = range []bool{true, true, false, false} {
		if not := l.Follow(s); len(not) > 0 {
			t.Fatalf("%+v", not)
		}
		c, err := net.Dial("tcp", address)
		if (err == nil) == proxied {
			t.Errorf("with the proxy listening %t: %v", proxied, err)
		}
		if err == nil {
			c.Close()
		}
		fmt.Fprintln(kept, "still")
		if line, err := bufio.NewReader(kept).ReadString('\n'); err != nil || line != "still\n" {
			t.Errorf("the connection that was open: %q, %v", line, err)
		}
	}
	if !slices.Equal(passed, []string{address}) {
		t.Errorf("passed were %v, want the listener once", passed)
	}
	all := l.traffic("web")
	addProxied(all, []ingress.Listener{{Service: "web", Address: address, Forwarded: map[string]uint64{"web/1": 5}, Refused: 2}, {Service: "other"}})
	if len(all) != 1 || all[0].Refused != 2 || all[0].Forwarded["web/1"] < 6 {
		t.Errorf("traffic %+v", all)
	}
}

// The agent passes its listener to a proxy that waits for it, keeps one that is not taken, and takes those of a proxy that
// ends.
func TestListenersGoToAProxyAndBack(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	proxied, awaited, failure := false, false, error(nil)
	var proxy []net.Listener // what the proxy has
	l := &listeners{log: slog.New(slog.DiscardHandler), tasks: &record.Tasks{}}
	l.proxied, l.awaited = func(string) bool { return proxied }, func(string) bool { return awaited }
	l.pass = func(_ string, socket *net.TCPListener) error {
		if failure != nil {
			return failure
		}
		f, err := socket.File()
		if err != nil {
			return err
		}
		defer f.Close()
		got, err := net.FileListener(f)
		proxy = append(proxy, got)
		return err
	}
	l.take = func(string) []net.Listener { given := proxy; proxy = nil; return given }
	defer l.Close()
	l.targets = map[place]string{{"good", target{container: "app", port: 80}}: echo(t, "good")}
	s := service.State{
		Config:      service.Config{Listeners: []service.Listener{{Address: address, Container: "app", Port: 80}}},
		Deployments: []service.Deployment{{ID: "web/1", Primary: true}},
		Tasks:       []service.Task{{ID: "good", Deployment: "web/1", Phase: service.Live, HealthyNow: true}},
	}
	follow := func(when string, want int) {
		t.Helper()
		if not := l.Follow(s); len(not) > 0 {
			t.Fatalf("%s: %+v", when, not)
		}
		if n := len(l.open[address].doors); n != want {
			t.Fatalf("%s the agent has %d listeners, want %d", when, n, want)
		}
	}
	follow("without a proxy", 1)
	connect(t, address)
	awaited, failure = true, errors.New("a proxy of another version")
	follow("with a proxy that does not take it", 1)
	connect(t, address)
	failure = nil
	follow("with a proxy that waits", 0)
	awaited, proxied = false, true
	follow("with a proxy that listens", 0)
	waiting, err := net.Dial("tcp", address) // in the socket that the proxy has, and does not accept from any more
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	proxied = false
	follow("with a proxy that ends", 1)
	if line, err := bufio.NewReader(waiting).ReadString('\n'); err != nil || line != "good\n" {
		t.Errorf("the connection that waited: %q, %v", line, err)
	}
}
