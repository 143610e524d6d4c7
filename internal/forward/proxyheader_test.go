package forward

import (
	"bufio"
	"fmt"
	"net"
	"testing"
)

// fixedAddresses is a connection that says where it comes from.
type fixedAddresses struct {
	net.Conn
	from, to string
}

type textAddress string

func (a textAddress) Network() string { return "tcp" }
func (a textAddress) String() string  { return string(a) }

func (c fixedAddresses) RemoteAddr() net.Addr { return textAddress(c.from) }
func (c fixedAddresses) LocalAddr() net.Addr  { return textAddress(c.to) }

func TestProxyHeader(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"192.0.2.1:5000", "127.0.0.1:80", "PROXY TCP4 192.0.2.1 127.0.0.1 5000 80\r\n"},
		{"[::ffff:192.0.2.1]:5000", "[::ffff:127.0.0.1]:80", "PROXY TCP4 192.0.2.1 127.0.0.1 5000 80\r\n"},
		{"[2001:db8::1]:5000", "[::1]:80", "PROXY TCP6 2001:db8::1 ::1 5000 80\r\n"},
		{"[fe80::1%eth0]:5000", "[fe80::2%eth0]:80", "PROXY TCP6 fe80::1 fe80::2 5000 80\r\n"},
		{"@", "@", "PROXY UNKNOWN\r\n"},
	} {
		if got := proxyHeader(fixedAddresses{nil, c[0], c[1]}); got != c[2] {
			t.Errorf("%s: %q, want %q", c[0], got, c[2])
		}
	}
}

// Connections begin with the client's address from when that is wanted until it is not.
func TestSendAddress(t *testing.T) {
	t.Parallel()
	target, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Close() })
	lines := make(chan string)
	go func() {
		for {
			c, err := target.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(c).ReadString('\n')
			c.Close()
			lines <- line
		}
	}()
	f, err := Listen("127.0.0.1:0", Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	f.Route(Set{ID: "web/1", Weight: 1, Targets: []Target{{ID: "1", Address: target.Addr().String()}}})
	for _, on := range []bool{true, false} {
		f.SendAddress(on)
		c, err := net.Dial("tcp", f.Address().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, "hello\n")
		want := "hello\n"
		if on {
			want = proxyHeader(fixedAddresses{nil, c.LocalAddr().String(), f.Address().String()})
		}
		if got := <-lines; got != want {
			t.Errorf("with %t the copy got %q, want %q", on, got, want)
		}
		c.Close()
	}
}
