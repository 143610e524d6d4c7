package forward

import (
	"net"
	"testing"
	"time"

	"github.com/podtask/podtask/test/testbed"
)

// What a client sent while it waited for a place does not make it silent when it gets one.
func TestAClientThatWaitedIsNotSilent(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const limit = time.Second
	silent := func() bool { q, _ := quietFor(conn); return q >= limit }
	if !testbed.Until(silent) {
		t.Fatal("the kernel does not count")
	}
	var c clients
	defer c.add(conn)()
	if c.closeQuietest(limit) {
		t.Fatal("it was closed when its forwarding began")
	}
	if !testbed.Until(func() bool { return c.closeQuietest(limit) }) {
		t.Error("it is never closed")
	}
}
