//go:build e2e

package e2e

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// manager is a service manager that listens as systemd does.
type manager struct {
	path string

	mu    sync.Mutex
	lines []string
}

func newManager(t *testing.T, dir string) *manager {
	t.Helper()
	m := &manager{path: filepath.Join(dir, "notify")}
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := l.Read(buf)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.lines = append(m.lines, strings.Split(string(buf[:n]), "\n")...)
			m.mu.Unlock()
		}
	}()
	return m
}

// heard counts the lines that begin so.
func (m *manager) heard(prefix string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.lines {
		if strings.HasPrefix(l, prefix) {
			n++
		}
	}
	return n
}

func TestServiceTellsItsManager(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	m := newManager(t, b.dir)
	c := ctr{Name: "app", Command: words("term 9 -- sleep forever"), Health: healthyIf("exists /tmp/well")}
	c.Health.Retries = 10
	path := b.define(c)
	start := func() *process {
		return b.startWith(func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+m.path) },
			"run", "--notify=healthy", "--name", b.family, "--replace", "--rm", path)
	}
	p := start()
	b.await("app RUNNING")
	if m.heard("READY=1") > 0 {
		t.Error("it is ready before it is healthy")
	}
	b.tell(b.family, "app", "/tmp/well")
	eventually(t, "READY=1", func() bool { return m.heard("READY=1") == 1 })
	for _, want := range []string{"EXTEND_TIMEOUT_USEC=30000000", "STATUS=1 of 1 containers up, healthy", "WATCHDOG=1"} {
		if m.heard(want) == 0 {
			t.Errorf("it never said %s: %q", want, m.lines)
		}
	}

	// The next start replaces what a killed one has left.
	first := b.inspect(b.family).ID
	p.kill()
	p = start()
	eventually(t, "another task", func() bool {
		r := b.podtask("inspect", b.family)
		return r.code == 0 && !strings.Contains(r.out, first)
	})
	eventually(t, "its container", func() bool { return b.running() != "" })
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.want(0)
	eventually(t, "STOPPING=1", func() bool { return m.heard("STOPPING=1") > 0 })
	eventually(t, "how it ended", func() bool { return m.heard("STATUS=stopped, exit code ") > 0 })
	if ps := b.want(0, "ps", "--all", "--quiet"); ps.out != "" {
		t.Errorf("left: %s", ps.out)
	}
}
