package netns

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDialUnixConnectsWhateverTheLengthOfThePath(t *testing.T) {
	t.Parallel()
	pid := namespace(t)
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	if _, err := DialUnix(t.Context(), pid, helper(), path); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("nothing listens: %v", err)
	}
	at, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/s", at.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = io.WriteString(c, "hello")
			c.Close()
		}
	}()
	c, err := DialUnix(t.Context(), pid, helper(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := io.ReadAll(c); string(got) != "hello" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}
