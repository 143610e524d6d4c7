package names

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/podtask/podtask/internal/forward"
	"github.com/podtask/podtask/internal/testing/leaktest"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/test/testbed"
)

// networks are networks beside those of processes. Each address there is one of the loopback.
type networks struct {
	mu     sync.Mutex
	refuse error
	at     map[string]string // PID/ADDRESS of what listens, and where it is reached
	opened int
}

func (n *networks) open(_ context.Context, pid int) (Network, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refuse != nil {
		return nil, n.refuse
	}
	n.opened++
	return &network{n, pid}, nil
}

type network struct {
	all *networks
	pid int
}

func (w *network) Listen(ctx context.Context, addr netip.AddrPort) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	w.all.at[fmt.Sprintf("%d/%s", w.pid, addr)] = l.Addr().String()
	return l, nil
}

func (w *network) Close() {}

// reach is what the service says that is reached at an address beside a process; "" if none is.
func (n *networks) reach(pid int, addr string) string {
	n.mu.Lock()
	at := n.at[fmt.Sprintf("%d/%s", pid, addr)]
	n.mu.Unlock()
	c, err := net.Dial("tcp", at)
	if err != nil {
		return ""
	}
	defer c.Close()
	line, _ := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line)
}

// serving is a forwarder to a server that says a word.
func serving(t *testing.T, word string) *forward.Forwarder {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(c, word)
			c.Close()
		}
	}()
	f := forward.New(forward.Config{})
	f.Route(forward.Set{ID: word, Targets: []forward.Target{{ID: word, Address: l.Addr().String()}}})
	t.Cleanup(func() {
		l.Close()
		f.Close()
	})
	return f
}

func directory(t *testing.T, n *networks) *Directory {
	t.Helper()
	n.at = make(map[string]string)
	d := &Directory{Log: slog.New(slog.DiscardHandler), Dir: filepath.Join(t.TempDir(), "names"), Open: n.open}
	d.Serve()
	return d
}

func taskIn(id, namespace string) lifecycle.State {
	return lifecycle.State{ID: id, Task: taskdef.Task{Network: taskdef.NetworkAWSVPC}, Options: lifecycle.Options{Namespace: namespace}}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !testbed.Until(holds) {
		t.Fatalf("never: %s", what)
	}
}

// A task keeps the address of each name while names come, go and move to other services, also when its owner is another one.
func TestNamesKeepTheirAddresses(t *testing.T) {
	leaktest.Check(t, func(t *testing.T) {
		var n networks
		d := directory(t, &n)
		s := taskIn("one", "shop")
		name := func(text string, port uint16) Name { return Name{"shop", text, port} }
		d.Publish("orders", map[Name]*forward.Forwarder{name("orders", 80): serving(t, "orders"), name("orders", 81): serving(t, "admin")})
		d.Publish("other", map[Name]*forward.Forwarder{{"elsewhere", "secret", 80}: serving(t, "secret")})
		lines, err := d.Hosts(s)
		if err != nil || strings.Join(lines, " ") != "orders:169.254.176.1" {
			t.Fatalf("%v %v", lines, err)
		}
		hosts := filepath.Join(t.TempDir(), "hosts")
		if err := os.WriteFile(hosts, []byte("127.0.0.1\tlocalhost\n169.254.176.1\torders"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := d.Enter(t.Context(), s, -1, 7, hosts); err != nil {
			t.Fatal(err)
		}
		if a, b := n.reach(7, "169.254.176.1:80"), n.reach(7, "169.254.176.1:81"); a != "orders" || b != "admin" {
			t.Errorf("%q %q", a, b)
		}

		d.Publish("bills", map[Name]*forward.Forwarder{name("bills", 80): serving(t, "bills")})
		eventually(t, "the new name is reached", func() bool { return n.reach(7, "169.254.176.2:80") == "bills" })
		text, err := os.ReadFile(hosts)
		if want := "127.0.0.1\tlocalhost\n169.254.176.1\torders\n169.254.176.2\tbills\n"; err != nil || string(text) != want {
			t.Errorf("%q, %v, want %q", text, err, want)
		}

		if lines, err := d.Hosts(s); err != nil || strings.Join(lines, " ") != "orders:169.254.176.1" {
			t.Errorf("a container that is created again has other lines: %v %v", lines, err)
		}

		d.Publish("orders", nil)
		eventually(t, "the name is refused", func() bool { return n.reach(7, "169.254.176.1:80") == "" })
		d.Publish("later", map[Name]*forward.Forwarder{name("later", 80): serving(t, "later"), name("orders", 80): serving(t, "new orders")})
		eventually(t, "the name of another service is reached", func() bool { return n.reach(7, "169.254.176.1:80") == "new orders" })
		if got := n.reach(7, "169.254.176.3:80"); got != "later" {
			t.Errorf("%q", got)
		}

		d.Close(s.ID)
		if got := n.reach(7, "169.254.176.1:80"); got != "" {
			t.Errorf("after the end: %q", got)
		}
		again := &Directory{Log: d.Log, Dir: d.Dir, Open: n.open} // of the next agent
		if err := again.Enter(t.Context(), s, -1, 7, ""); !errors.Is(err, ErrNoAgent) {
			t.Errorf("without an agent: %v", err)
		}
		again.Serve()
		again.Publish("later", map[Name]*forward.Forwarder{name("later", 80): serving(t, "later")})
		if err := again.Enter(t.Context(), s, -1, 7, ""); err != nil {
			t.Fatal(err)
		}
		if got := n.reach(7, "169.254.176.3:80"); got != "later" {
			t.Errorf("after a restart: %q", got)
		}
		again.Close(s.ID)
		again.Close(s.ID)
		if err := errors.Join(d.Remove(s.ID), d.Remove(s.ID)); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(d.Dir, "*")); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// A container that is started again has another network namespace.
func TestNamesFollowAContainerThatStartsAgain(t *testing.T) {
	t.Parallel()
	var n networks
	d := directory(t, &n)
	s := taskIn("one", "shop")
	defer d.Close(s.ID)
	d.Publish("orders", map[Name]*forward.Forwarder{{"shop", "orders", 80}: serving(t, "orders")})
	for _, pid := range []int{7, 7, 8} {
		if err := d.Enter(t.Context(), s, 0, pid, ""); err != nil {
			t.Fatal(err)
		}
	}
	if old, now := n.reach(7, "169.254.176.1:80"), n.reach(8, "169.254.176.1:80"); old != "" || now != "orders" || n.opened != 2 {
		t.Errorf("%q %q, %d networks", old, now, n.opened)
	}
}

// What a task resolves by itself stays its own.
func TestATaskKeepsItsOwnNames(t *testing.T) {
	t.Parallel()
	var n networks
	d := directory(t, &n)
	s := taskIn("one", "shop")
	s.Task.Containers = []taskdef.Container{{Name: "app", Net: taskdef.ContainerNetwork{Hostname: "orders"}}}
	defer d.Close(s.ID)
	d.Publish("orders", map[Name]*forward.Forwarder{{"shop", "orders", 80}: serving(t, "orders"), {"shop", "bills", 80}: serving(t, "bills")})
	if lines, err := d.Hosts(s); err != nil || strings.Join(lines, " ") != "bills:169.254.176.1" {
		t.Errorf("%v %v", lines, err)
	}
}

// Tasks without a namespace, or without a network of their own, get nothing.
func TestWhoReachesNoNames(t *testing.T) {
	t.Parallel()
	var n networks
	d := directory(t, &n)
	d.Publish("orders", map[Name]*forward.Forwarder{{"shop", "orders", 80}: serving(t, "orders")})
	host, none, mute := taskIn("a", "shop"), taskIn("b", "shop"), directory(t, &n)
	host.Task.Network, none.Task.Network, mute.Open = taskdef.NetworkHost, taskdef.NetworkNone, nil
	for name, c := range map[string]struct {
		d *Directory
		s lifecycle.State
	}{"no namespace": {d, taskIn("c", "")}, "host": {d, host}, "none": {d, none}, "no helper": {mute, taskIn("d", "shop")}, "no directory": {nil, taskIn("e", "shop")}} {
		if c.d.Wanted(c.s) {
			t.Errorf("%s: it reaches names", name)
		}
		if c.d == nil {
			continue
		}
		lines, err := c.d.Hosts(c.s)
		if err := errors.Join(err, c.d.Enter(t.Context(), c.s, 0, 7, "")); err != nil || len(lines) > 0 {
			t.Errorf("%s: %v %v", name, lines, err)
		}
	}
	if n.opened > 0 {
		t.Error("a network was made")
	}
}

// A network that cannot be made is reported, and tried again with the next change.
func TestNamesComeWhenTheNetworkDoes(t *testing.T) {
	t.Parallel()
	n := networks{refuse: errors.New("no nsenter")}
	d := directory(t, &n)
	s := taskIn("one", "shop")
	defer d.Close(s.ID)
	d.Publish("orders", map[Name]*forward.Forwarder{{"shop", "orders", 80}: serving(t, "orders")})
	if err := d.Enter(t.Context(), s, -1, 7, ""); err == nil || !strings.Contains(err.Error(), "no nsenter") {
		t.Errorf("%v", err)
	}
	n.mu.Lock()
	n.refuse = nil
	n.mu.Unlock()
	d.Publish("bills", map[Name]*forward.Forwarder{{"shop", "bills", 80}: serving(t, "bills")})
	eventually(t, "both names are reached", func() bool {
		return n.reach(7, "169.254.176.1:80") == "orders" && n.reach(7, "169.254.176.2:80") == "bills"
	})
}

func TestATaskHasSoManyNames(t *testing.T) {
	t.Parallel()
	var all []string
	for i := range MaxNames + 5 {
		all = append(all, fmt.Sprint("n", i))
	}
	var known table
	if !known.add(all) || known.add(all) || len(known.Names) != MaxNames {
		t.Errorf("%d names", len(known.Names))
	}
	seen := make(map[netip.Addr]bool)
	for _, name := range known.Names {
		a, ok := known.of(name)
		if !ok || seen[a] || a.As4()[0] != 169 || a.As4()[2] < 176 || a.As4()[2] > 179 {
			t.Fatalf("%s has the address %s", name, a)
		}
		seen[a] = true
	}
}
