package netns

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// serveHere greets each client, on the loopback interface of its namespace.
func serveHere(addr string) error {
	if err := addToLoopback(netip.MustParseAddr("127.0.0.1")); err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		fmt.Fprint(c, "hello")
		c.Close()
	}
}

// serveIn starts serveHere in the namespace of a process.
func serveIn(t *testing.T, pid int, addr string) {
	t.Helper()
	cmd := exec.Command("nsenter", "--target", strconv.Itoa(pid), "--user", "--preserve-credentials", "--net", "--", "env", "NETNS_TEST=serve", os.Args[0], addr)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the server says %q", line)
	}
}

func TestDialerConnectsInsideTheNamespace(t *testing.T) {
	t.Parallel()
	pid := namespace(t)
	serveIn(t, pid, "127.0.0.1:7777")
	asked := 0
	d := &Dialer{Helper: helper(), PID: func(context.Context) (int, error) { asked++; return pid, nil }}
	defer d.Close()
	for range socketBatch + 1 { // more than one stock
		c, err := d.DialContext(t.Context(), "tcp", "127.0.0.1:7777")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(c); string(got) != "hello" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		c.Close()
	}
	if asked != 2 {
		t.Errorf("%d helpers were started", asked)
	}
	if _, err := d.DialContext(t.Context(), "tcp", "127.0.0.1:7778"); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("where nobody listens: %v", err)
	}
	if a, err := d.Address(t.Context()); err != nil || a.String() != "127.0.0.1" {
		t.Errorf("%v, %v", a, err)
	}
}

func TestDialerGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	pid := namespace(t)
	if out, err := runIn(pid, "link"); err != nil {
		t.Skip("no link can be made here: ", out)
	}
	d := &Dialer{Helper: helper(), PID: func(context.Context) (int, error) { return pid, nil }}
	defer d.Close()
	if _, err := d.Address(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.DialContext(ctx, "tcp", "192.0.2.1:80"); err == nil {
		t.Error("it connected")
	}
}

func TestDialerSaysWhenThereIsNoSocket(t *testing.T) {
	t.Parallel()
	d := &Dialer{Helper: []string{"false"}, PID: func(context.Context) (int, error) { return os.Getpid(), nil }}
	_, err := d.DialContext(t.Context(), "tcp", "127.0.0.1:1")
	if none := new(SocketError); !errors.As(err, &none) {
		t.Errorf("%v", err)
	}
}
