package kept

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/podtask/podtask/internal/testing/freeport"
)

// manager is systemd's side: it keeps descriptors by their names.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
	has  map[string][]*os.File
}

func newManager(t *testing.T) *manager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return &manager{t, conn, make(map[string][]*os.File)}
}

// hear takes one message.
func (m *manager) hear() {
	m.t.Helper()
	text, oob := make([]byte, 1024), make([]byte, 128)
	n, k, _, _, err := m.conn.ReadMsgUnix(text, oob)
	if err != nil {
		m.t.Fatal(err)
	}
	what, name, _ := strings.Cut(string(text[:n]), "\nFDNAME=")
	if what == "FDSTOREREMOVE=1" {
		for _, f := range m.has[name] {
			_ = f.Close()
		}
		delete(m.has, name)
		return
	}
	messages, err := syscall.ParseSocketControlMessage(oob[:k])
	if err != nil || what != "FDSTORE=1" || len(messages) != 1 {
		m.t.Fatalf("%q with %d messages, %v", text[:n], len(messages), err)
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil {
		m.t.Fatal(err)
	}
	m.has[name] = append(m.has[name], os.NewFile(uintptr(fds[0]), name))
}

// pass returns the listeners for the next process.
func (m *manager) pass() map[string][]net.Listener {
	m.t.Helper()
	passed := make(map[string][]net.Listener)
	for name, files := range m.has {
		for _, f := range files {
			l, err := net.FileListener(f)
			if err != nil {
				m.t.Fatal(err)
			}
			passed[name] = append(passed[name], l)
		}
	}
	return passed
}

// listen returns a listener at a port that no other test gets when it is closed.
func listen(t *testing.T) (net.Listener, string) {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", freeport.For(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, l.Addr().String()
}

// A connection that comes while no process is there waits for the next one.
func TestAConnectionWaitsForTheNextProcess(t *testing.T) {
	m := newManager(t)
	l, address := listen(t)
	s := New(slog.New(slog.DiscardHandler), nil)
	s.Keep(address, l)
	m.hear()
	if err := l.Close(); err != nil { // the process ends
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	passed := m.pass()
	other, _ := listen(t)
	passed["podtask.socket"] = []net.Listener{other}
	next := New(slog.New(slog.DiscardHandler), passed)
	if len(passed) != 1 {
		t.Errorf("%d sockets are left for others", len(passed))
	}
	all := next.Take(address)
	if len(all) != 1 || len(next.Take(address)) != 0 {
		t.Fatalf("%d listeners", len(all))
	}
	conn, err := all[0].Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()

	_ = all[0].Close()
	next.Forget(address)
	m.hear()
	if c, err := net.Dial("tcp", address); err == nil {
		_ = c.Close()
		t.Error("somebody still listens")
	}
}

// What belongs to no service any more is closed.
func TestListenersThatNobodyTakesAreClosed(t *testing.T) {
	m := newManager(t)
	s := New(slog.New(slog.DiscardHandler), nil)
	var addresses []string
	for range 2 {
		l, address := listen(t)
		s.Keep(address, l)
		m.hear()
		_ = l.Close()
		addresses = append(addresses, address)
	}
	next := New(slog.New(slog.DiscardHandler), m.pass())
	next.Only(addresses[:1])
	m.hear()
	if len(next.Take(addresses[1])) != 0 || len(m.has) != 1 || len(next.Take(addresses[0])) != 1 {
		t.Errorf("%d are kept", len(m.has))
	}
}

func TestWithoutSystemdNothingIsKept(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	l, address := listen(t)
	for _, s := range []*Store{nil, New(slog.New(slog.DiscardHandler), nil)} {
		s.Keep(address, l)
		s.Only(nil)
		s.Forget(address)
		if len(s.Take(address)) != 0 {
			t.Error("something is kept")
		}
	}
}

func FuzzNames(f *testing.F) {
	for _, seed := range []string{"127.0.0.1:80", "[::]:8080", "listen-", "listen-zz", "listen-3a3830"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if address, is := Address(text); is && !slices.Equal([]byte(Name(address)), []byte(strings.ToLower(text))) {
			t.Errorf("%q is the name of %q, whose name is %q", text, address, Name(address))
		}
		if address, is := Address(Name(text)); !is || address != text {
			t.Errorf("%q, %t", address, is)
		}
	})
}
