package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/forward"
	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/internal/testing/freeport"
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
	agent := share(t, fmt.Sprintf("127.0.0.1:%d", freeport.For(t)))
	address := agent.Addr().String()
	waiting := connect(t, address)
	s := newStreams(slog.New(slog.DiscardHandler), nil, func() {}, noUse)
	defer s.close()
	s.route([]routefile.Listener{listenerTo(address, lineServer(t, "one"))})
	socket := controlOf(t, s)
	if err := ingress.Pass(t.Context(), socket, address, agent); err != nil {
		t.Fatal(err)
	}
	agent.Close()
	waiting.ask(t, "a", "one a")
	for range 20 {
		connect(t, address).ask(t, "b", "one b")
	}

	// The proxy needs no other socket. A successor gets it, and it ends with its service.
	if all := s.listeners(); len(all[address]) != 1 || s.status()[0].Awaited || s.status()[0].Problem != "" {
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
	s := newStreams(slog.New(slog.DiscardHandler), nil, func() {}, noUse)
	defer s.close()
	s.route([]routefile.Listener{listenerTo(address, lineServer(t, "one"))})
	socket := controlOf(t, s)
	for at, l := range map[string]*net.TCPListener{address: other, other.Addr().String(): other, "nowhere": agent} {
		if err := ingress.Pass(t.Context(), socket, at, l); err == nil || !strings.Contains(err.Error(), "has not taken") {
			t.Errorf("a listener at %s for %s: %v", l.Addr(), at, err)
		}
	}
	if all := s.listeners(); len(all[address]) != 0 {
		t.Errorf("listeners %v, want none", all)
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

// A proxy that ends gives its listeners to the agent with the connections that wait in them, and ends then. It gives
// none before.
func TestListenersAreGivenToTheAgent(t *testing.T) {
	t.Parallel()
	address := fmt.Sprintf("127.0.0.1:%d", freeport.For(t))
	changed := make(chan struct{}, 1)
	s := newStreams(slog.New(slog.DiscardHandler), nil, func() { changed <- struct{}{} }, noUse)
	defer s.close()
	s.route([]routefile.Listener{listenerTo(address, lineServer(t, "one"))})
	socket := controlOf(t, s)
	if _, err := ingress.Take(t.Context(), socket, address); !errors.Is(err, ingress.ErrNotGiven) {
		t.Errorf("of a proxy that goes on: %v", err)
	}
	offered := make(chan struct{})
	go func() { defer close(offered); s.offer(t.Context()) }()
	<-changed
	kept := connect(t, address)
	kept.ask(t, "a", "one a") // it accepts until it has given
	if _, err := ingress.Take(t.Context(), socket, "127.0.0.1:1"); !errors.Is(err, ingress.ErrNotGiven) {
		t.Errorf("of another address: %v", err)
	}
	agent, err := ingress.Take(t.Context(), socket, address)
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	<-offered
	waiting := connect(t, address)
	s.leave()
	c, err := agent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(c, "agent")
	c.Close()
	if line, err := waiting.lines.ReadString('\n'); err != nil || line != "agent\n" {
		t.Errorf("the connection that waited got %q, %v", line, err)
	}
	kept.ask(t, "b", "one b")
	if _, err := ingress.Take(t.Context(), socket, address); !errors.Is(err, ingress.ErrNotGiven) {
		t.Errorf("twice: %v", err)
	}
}

// An agent that does not take the listeners does not keep the proxy from ending.
func TestListenersAreNotTaken(t *testing.T) {
	t.Parallel()
	address := fmt.Sprintf("127.0.0.1:%d", freeport.For(t))
	changed := make(chan struct{}, 1)
	s := newStreams(slog.New(slog.DiscardHandler), nil, func() { changed <- struct{}{} }, noUse)
	defer s.close()
	s.route([]routefile.Listener{listenerTo(address)})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-changed; cancel() }()
	s.offer(ctx)
	s.leave()
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("the listener is open")
	}
}
