package program

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/forward"
	"github.com/podtask/podtask/internal/forward/kept"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/internal/testing/freeport"
)

// listenerName returns the name that a predecessor gives a listener.
var listenerName = kept.Name

// lineServer answers each line with its name and the line.
func lineServer(t *testing.T, name string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					fmt.Fprintln(c, name, lines.Text())
				}
			}()
		}
	}()
	return l.Addr().String()
}

// lineClient is a connection to an address.
type lineClient struct {
	net.Conn
	lines *bufio.Reader
}

func connect(t *testing.T, address string) lineClient {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return lineClient{c, bufio.NewReader(c)}
}

func (c lineClient) ask(t *testing.T, line, want string) {
	t.Helper()
	fmt.Fprintln(c, line)
	if got, err := c.lines.ReadString('\n'); err != nil || got != want+"\n" {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

func listenerTo(address string, targets ...string) routefile.Listener {
	l := routefile.Listener{Service: "web", Address: address}
	for _, target := range targets {
		l.Groups = append(l.Groups, routefile.Group{Deployment: "web/1", Weight: 1000, Targets: []routefile.Target{{ID: target, Address: target}}})
	}
	return l
}

// A listener forwards to its copies, a process that takes over has it from then on, and connections that there are
// stay with the process before until they end.
func TestStreamsAreHandedOver(t *testing.T) {
	t.Parallel()
	one, two := lineServer(t, "one"), lineServer(t, "two")
	address := fmt.Sprintf("127.0.0.1:%d", freeport.For(t))
	log, changed := slog.New(slog.DiscardHandler), func() {}
	before := newStreams(log, nil, changed, noUse)
	defer before.close()
	before.route([]routefile.Listener{listenerTo(address, one)})
	kept := connect(t, address)
	kept.ask(t, "a", "one a")

	s := &sockets{}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	names, files, err := (&sockets{control: closed}).files(nil)
	if err == nil {
		t.Errorf("a closed listener has the descriptors %v %v", names, files)
	}
	for at, all := range before.listeners() {
		f, err := all[0].(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		inherited, err := net.FileListener(f)
		f.Close()
		if err == nil {
			err = s.add(listenerName(at), inherited)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(s.streams) != 1 || len(s.streams[address]) != 1 {
		t.Fatalf("listeners %v", s.streams)
	}
	after := newStreams(log, s.streams, changed, noUse)
	defer after.close()
	after.route([]routefile.Listener{listenerTo(address, two)})
	after.unused()
	before.leave()
	before.route([]routefile.Listener{listenerTo(address, two)}) // it does not listen again
	for range 5 {
		connect(t, address).ask(t, "b", "two b")
	}
	kept.ask(t, "c", "one c")
	drained := make(chan error, 1)
	go func() { drained <- before.drainAll(t.Context()) }()
	select {
	case <-drained:
		t.Error("the process before is drained and has a connection")
	default:
	}
	kept.Close()
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if err := after.drain(t.Context(), one); err != nil {
		t.Error(err)
	}
	status := after.status()
	if len(status) != 1 || status[0].Service != "web" || status[0].Problem != "" || status[0].Forwarded["web/1"] != 5 {
		t.Errorf("status %+v", status)
	}
}

// A port of another program is a problem that says who has it, and the listener is opened when the port is free. A
// listener that no service has any more is closed; its connections go on.
func TestStreamsOfTakenPorts(t *testing.T) {
	t.Parallel()
	one := lineServer(t, "one")
	taken, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", freeport.For(t)))
	if err != nil {
		t.Fatal(err)
	}
	address := taken.Addr().String()
	s := newStreams(slog.New(slog.DiscardHandler), nil, func() {}, noUse)
	defer s.close()
	s.route([]routefile.Listener{listenerTo(address, one)})
	for range 3 {
		if status := s.status(); len(status) != 1 || !strings.Contains(status[0].Problem, "has the port") {
			t.Errorf("status %+v", status)
		}
		s.again()
	}
	taken.Close()
	s.again()
	if status := s.status(); status[0].Problem != "" {
		t.Errorf("status %+v", status)
	}
	kept := connect(t, address)
	kept.ask(t, "a", "one a")
	s.route(nil)
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("a listener that was taken away is open")
	}
	kept.ask(t, "b", "one b")
	if len(s.status()) != 0 {
		t.Errorf("status %+v", s.status())
	}
}

// The process that forwarded before lets the proxy listen beside it.
func TestStreamsShareTheAddressOfTheAgent(t *testing.T) {
	t.Parallel()
	agent, err := forward.Share("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := agent.Addr().String()
	s := newStreams(slog.New(slog.DiscardHandler), nil, func() {}, noUse)
	defer s.close()
	s.route([]routefile.Listener{listenerTo(address, lineServer(t, "one"))})
	if status := s.status(); !status[0].Awaited {
		t.Errorf("before the agent passes its listener: %+v", status)
	}
	s.again() // it has not
	if status := s.status(); status[0].Problem != "" || status[0].Awaited {
		t.Errorf("status %+v", status)
	}
	agent.Close()
	connect(t, address).ask(t, "a", "one a")
}

func noUse(string) *forward.Use { return nil }
