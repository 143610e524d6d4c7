package netns

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
)

// serveHello answers each connection to a listener until it is closed.
func serveHello(l net.Listener, text string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		fmt.Fprint(c, text)
		c.Close()
	}
}

// A task reaches what listens beside it, on more addresses than one stock of sockets is enough for, and
// keeps its own ports. A process that starts again listens at the same addresses.
func TestSideNetworkIsReachedFromItsTask(t *testing.T) {
	t.Parallel()
	inside, outside := namespace(t), namespace(t)
	if out, err := runIn(inside, "link"); err != nil {
		t.Skipf("this host makes no links between namespaces: %s", out)
	}
	for round := range 2 {
		side, err := Helper(helper()).OpenSide(t.Context(), inside)
		if err != nil {
			t.Fatal(err)
		}
		addr := SideRange.Addr()
		var listeners []net.Listener
		for i := range 2*socketBatch + 3 {
			addr = addr.Next()
			port := uint16(80)
			if i%2 == 1 {
				port = 8080
			}
			at := netip.AddrPortFrom(addr, port)
			l, err := side.Listen(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			listeners = append(listeners, l)
			go serveHello(l, "this is "+at.String())
			if i > 2 && i < 2*socketBatch {
				continue
			}
			if said, err := dialIn(inside, at); err != nil || said != "this is "+at.String() {
				t.Errorf("round %d: %s says %q, %v", round, at, said, err)
			}
			if said, err := dialIn(outside, at); err == nil {
				t.Errorf("another namespace got in: %q", said)
			}
		}
		for _, port := range []string{":80", ":8080"} {
			if out, err := runIn(inside, "all", port); err != nil {
				t.Errorf("a program of the task listens on %s: %v: %s", port, err, out)
			}
		}
		if said, err := dialIn(inside, netip.AddrPortFrom(addr, 81)); err == nil {
			t.Errorf("another port answers %q", said)
		}
		side.Close()
		for _, l := range listeners {
			l.Close()
		}
		if _, err := side.Listen(t.Context(), netip.AddrPortFrom(addr, 80)); err == nil {
			t.Error("a network that is closed listens")
		}
		if said, err := dialIn(inside, netip.AddrPortFrom(addr, 8080)); err == nil {
			t.Errorf("after the end, %q", said)
		}
	}
}

// A namespace with a loopback interface only has the addresses there.
func TestSideNetworkOfABareNamespace(t *testing.T) {
	t.Parallel()
	inside := namespace(t)
	side, err := Helper(helper()).OpenSide(t.Context(), inside)
	if err != nil {
		t.Fatal(err)
	}
	defer side.Close()
	at := netip.AddrPortFrom(SideRange.Addr().Next(), 8080)
	l, err := side.Listen(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go serveHello(l, "hello")
	if said, err := dialIn(inside, at); err != nil || said != "hello" {
		t.Errorf("%q, %v", said, err)
	}
}
