package program

import (
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/engine/forward"
	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/pkg/api"
)

// controlOf answers for streams on a socket, as a proxy does.
func controlOf(t *testing.T, s *streams) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "ingress.sock")
	l, err := api.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	control := (&server{log: slog.New(slog.DiscardHandler), streams: s, changed: make(chan struct{})}).newControl()
	go func() { _ = control.Serve(l) }()
	t.Cleanup(func() { control.Close() })
	return socket
}

// share opens a listener as the agent does.
func share(t *testing.T, address string) *net.TCPListener {
	t.Helper()
	l, err := forward.Share(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.(*net.TCPListener)
}

// A connection that waits to be accepted when the agent leaves an address to the proxy is served by the proxy: the
// agent passes the socket before it closes its own descriptor.
func TestTheSocketOfTheAgentIsPassed(t *testing.T) {
	t.Parallel()
	agent := share(t, "127.0.0.1:0")
	address := agent.Addr().String()
	waiting := connect(t, address)
	s := newStreams(slog.New(slog.DiscardHandler), nil, func() {})
	defer s.close()
	s.route([]routefile.Listener{listenerTo(address, lineServer(t, "one"))})
	socket := controlOf(t, s)
	if err := ingress.Pass(t.Context(), socket, address, agent); err != nil {
		t.Fatal(err)
	}
	agent.Close()
	waiting.ask(t, "a", "one a")
	for range 20 { // whichever of the two sockets gets it
		connect(t, address).ask(t, "b", "one b")
	}

	// A successor gets both, and the listener ends with its service.
	if all := s.listeners(); len(all[address]) != 2 {
		t.Errorf("listeners for a successor: %v", all)
	}
	s.route(nil)
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("the listener is open without its service")
	}
}

// What is no listener of a service is not taken, and stays that of the agent.
func TestOtherSocketsAreNotTaken(t *testing.T) {
	t.Parallel()
	agent, other := share(t, "127.0.0.1:0"), share(t, "127.0.0.1:0")
	address := agent.Addr().String()
	s := newStreams(slog.New(slog.DiscardHandler), nil, func() {})
	defer s.close()
	s.route([]routefile.Listener{listenerTo(address, lineServer(t, "one"))})
	socket := controlOf(t, s)
	for at, l := range map[string]*net.TCPListener{address: other, other.Addr().String(): other, "nowhere": agent} {
		if err := ingress.Pass(t.Context(), socket, at, l); err == nil || !strings.Contains(err.Error(), "has not taken") {
			t.Errorf("a listener at %s for %s: %v", l.Addr(), at, err)
		}
	}
	if all := s.listeners(); len(all[address]) != 1 {
		t.Errorf("listeners %v, want the proxy's own", all)
	}
	waiting := connect(t, other.Addr().String())
	if c, err := other.Accept(); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
	waiting.Close()
	if err := ingress.Pass(t.Context(), filepath.Join(t.TempDir(), "none"), address, agent); err == nil {
		t.Error("without a proxy a listener is passed")
	}
}
