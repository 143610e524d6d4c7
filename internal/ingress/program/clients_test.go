package program

import (
	"io"
	"net"
	"testing"
)

func TestConnectionsOfOneClient(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := newClients(2)
	l := c.listener(inner)
	t.Cleanup(func() { l.Close() })
	accepted := make(chan net.Conn, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func(from string) net.Conn {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial("127.0.0.1")
	first := <-accepted
	dial("127.0.0.1")
	<-accepted
	third := dial("127.0.0.1")
	if _, err := third.Read(make([]byte, 1)); err == nil {
		t.Error("a third connection of one client is open")
	}
	dial("127.0.0.2")
	<-accepted // another client's
	first.Close()
	first.Close() // counts once
	dial("127.0.0.1")
	<-accepted
	if last := dial("127.0.0.1"); readEnd(last) == nil {
		t.Error("after one has ended, two more are open")
	}
}

func readEnd(c net.Conn) error {
	_, err := io.ReadAll(io.LimitReader(c, 1))
	if err == nil {
		return io.EOF
	}
	return err
}

func TestClientOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"192.0.2.1:5": "192.0.2.1/32", "[::ffff:192.0.2.1]:5": "192.0.2.1/32", "[2001:db8:1:2:3::4]:5": "2001:db8:1:2::/64", "[fe80::1%eth0]:5": "fe80::/64", "@": "invalid Prefix",
	} {
		if got := clientOf(address(text)); got.String() != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }
