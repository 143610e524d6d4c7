package api

import (
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestGuardKeepsOthersOutOfASocketThatSystemdMade(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.sock")
	made, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Guard(made)
	if err != nil {
		t.Fatal(err)
	}
	guarded := l.(*listener)
	strangers := 2 // the first connections come from somebody else
	guarded.peer = func(c *net.UnixConn) (int, error) {
		if strangers > 0 {
			strangers--
			return os.Getuid() + 1, nil
		}
		return peerUID(c)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := c.Write([]byte("in")); err != nil {
			t.Error(err)
		}
		_ = c.Close()
	})
	for i := range 3 {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		n, err := c.Read(make([]byte, 8))
		if in := err == nil && n == 2; in != (i == 2) {
			t.Errorf("connection %d: %d bytes, %v", i, n, err)
		}
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("closing removed systemd's socket: %v", err)
	}
}

func TestGuardTakesUnixSocketsOnly(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Guard(l); err == nil {
		t.Error("a TCP socket does not say who connects, and is taken")
	}
}
