//go:build e2e

//e2e:bed systemd

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/podtask/podtask/internal/testing/registrytest"
	"github.com/podtask/podtask/test/testbed"
)

// slowLink forwards connections to an SSH server.
type slowLink struct {
	rate  int           // of each direction of a connection in bytes per second; 0 is no limit
	delay time.Duration // of each direction; half of the round trip

	passed atomic.Int64 // bytes in both directions

	mu     sync.Mutex
	frozen chan struct{} // closed: what is connected gets nothing more, and is not told
	conns  []net.Conn
}

// through lets the client reach a server as the host "slow" through a link.
func (l *slowLink) through(t *testing.T, s sshd) {
	t.Helper()
	l.frozen = make(chan struct{})
	port := s.url[strings.LastIndexByte(s.url, ':')+1:]
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // sessions of a frozen link would wait for minutes
		listener.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, c := range l.conns {
			c.Close()
		}
	})
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err != nil {
				near.Close()
				continue
			}
			l.mu.Lock()
			frozen := l.frozen
			l.conns = append(l.conns, near, far)
			l.mu.Unlock()
			for _, d := range [][2]net.Conn{{near, far}, {far, near}} {
				go l.copy(d[0], d[1], frozen)
			}
		}
	}()
	f, err := os.OpenFile(filepath.Join(s.dir, "ssh_config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "Host slow\n  HostName 127.0.0.1\n  HostKeyAlias [127.0.0.1]:%s\n  Port %d\n", port, listener.Addr().(*net.TCPAddr).Port); err != nil {
		t.Fatal(err)
	}
}

// parcel is data on its way.
type parcel struct {
	data []byte
	due  time.Time
}

func (l *slowLink) copy(to, from net.Conn, frozen <-chan struct{}) {
	const size = 4 << 10
	room := 1 // what a real link does not hold is not on its way either
	if l.rate > 0 {
		_ = to.(*net.TCPConn).SetWriteBuffer(4 * size)
		_ = from.(*net.TCPConn).SetReadBuffer(4 * size)
		room += int(l.delay.Seconds() * float64(l.rate) / size)
	}
	parcels := make(chan parcel, room)
	go func() {
		defer close(parcels)
		for free := time.Now(); ; {
			buf := make([]byte, size)
			n, err := from.Read(buf)
			if now := time.Now(); free.Before(now) {
				free = now
			}
			if l.rate > 0 {
				free = free.Add(time.Second * time.Duration(n) / time.Duration(l.rate))
			}
			waitFor(free)
			parcels <- parcel{buf[:n], free.Add(l.delay)}
			if err != nil {
				return
			}
		}
	}()
	for p := range parcels {
		waitFor(p.due)
		select {
		case <-frozen:
			continue
		default:
		}
		_, _ = to.Write(p.data)
		l.passed.Add(int64(len(p.data)))
	}
	select {
	case <-frozen:
	default:
		_ = to.(*net.TCPConn).CloseWrite()
	}
}

// waitFor returns at a time, which is part of the link.
func waitFor(at time.Time) {
	if d := time.Until(at); d > 0 {
		timer := time.NewTimer(d)
		<-timer.C
	}
}

// moves waits until the link has passed that many bytes more.
func (l *slowLink) moves(t *testing.T, bytes int64) {
	t.Helper()
	before := l.passed.Load()
	eventually(t, "data on its way", func() bool { return l.passed.Load() >= before+bytes })
}

// cut closes all that is connected; new connections work.
func (l *slowLink) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}

// freeze ends the link of all that is connected without telling anybody; new connections work.
func (l *slowLink) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.frozen)
	l.frozen = make(chan struct{})
}

// A host that falls silent is noticed by each command that follows something, and each goes on over a new connection.
func TestHostBySSHThatFallsSilent(t *testing.T) {
	t.Parallel()
	far, near, s := newSSHBox(t)
	var link slowLink
	link.through(t, s)
	far.env = append(far.env, "PODTASK_HOST=ssh://slow")
	far.detach("--wait=running", "--name", far.family, far.web(port{Container: 8080, Host: freePort(t)}))
	logs := far.start("logs", "-f", far.family)
	events := far.start("events")
	ports, local := far.forwards()
	waits := far.start("wait", "--condition", "stopped", far.family)
	top := far.onTerminal("top")
	top.see(far.family[:6])
	eventually(t, "the sessions", func() bool { return len(sessionsOf(near)) >= 9 })
	link.freeze()
	for _, p := range []*process{logs, events, ports} {
		if !testbed.Until(func() bool {
			return strings.Contains(p.err.String(), "gave no sign of life") && strings.Contains(p.err.String(), "connected to ssh://slow again")
		}) {
			t.Fatalf("%s does not connect again, or has another reason:\n%s", p.cmd.Args[1], p.err.String())
		}
	}
	if r := waits.wait(); r.code != 125 || !strings.Contains(r.err, "gave no sign of life") {
		t.Errorf("wait ended with %d %s", r.code, r.err)
	}
	near.detach("--wait=running", "--name", "later-"+far.family, near.define(ctr{Name: "app", Command: words("sleep forever")}))
	top.see("later-")
	top.keysIn("q")
	top.want(0)
	near.askWeb(local)
	ports.interrupt()
	ports.want(130)
	near.want(0, "rm", "--force", "later-"+far.family)
	near.want(0, "stop", "-t", "0", far.family)
	if r := logs.wait(); r.code != 0 {
		t.Errorf("logs ended with %d %s", r.code, r.err)
	}
	eventually(t, "the event", func() bool { return strings.Contains(events.out.String(), "STOPPED") })
	events.interrupt()
	events.want(130)
}

// newSlowTask runs a task that prints a line and has a shell and a web server, on a host behind a link.
func newSlowTask(t *testing.T, link *slowLink) (far, near *box) {
	t.Helper()
	far, near, s := newSSHBox(t)
	link.through(t, s)
	far.env = append(far.env, "PODTASK_HOST=ssh://slow")
	ref, _ := near.push("shell:1", shellImage(t))
	near.detach("--wait=running", "--name", near.family, near.define(ctr{
		Name: "app", Image: ref, Command: words("print from the app -- serve 8080"), Ports: []port{{Container: 8080, Host: freePort(t)}},
		Environment: []envVar{{"GREETING", "hello from " + near.family}},
	}))
	return far, near
}

// forwards starts a port-forward and returns the port of this machine.
func (b *box) forwards() (p *process, local int) {
	b.t.Helper()
	p = b.start("port-forward", b.family, "0:8080")
	eventually(b.t, "the forwarded port", func() bool { return strings.Contains(p.out.String(), " -> ") })
	if _, err := fmt.Sscanf(p.out.String(), "127.0.0.1:%d ", &local); err != nil {
		b.t.Fatal(err)
	}
	return p, local
}

// random writes a file of that many bytes that cannot be compressed.
func (b *box) random(name string, size int) (path string) {
	b.t.Helper()
	return b.file(name, string(registrytest.Random(size, 9)))
}

// Commands work over a link of 300 ms and 1 MB/s.
func TestHostBySSHLongLink(t *testing.T) {
	t.Parallel()
	link := slowLink{rate: 1e6, delay: 150 * time.Millisecond}
	far, near := newSlowTask(t, &link)
	sh := far.onTerminal("exec", far.family) // a shell
	before := sh.settings()
	sh.see("#")
	interruptAndExit(sh, before, func() {
		eventually(t, "the sleep", func() bool { return strings.Contains(near.top(), "sleep 1000") })
	})
	logs := far.start("logs", "-f", far.family)
	eventually(t, "the line", func() bool { return strings.Contains(logs.out.String(), "from the app") })
	logs.interrupt()
	logs.want(130)

	in, out := far.random("in", 1<<20), filepath.Join(far.dir, "out")
	far.want(0, "cp", in, far.family+":/tmp/file")
	far.want(0, "cp", far.family+":/tmp/file", out)
	sent, err := os.ReadFile(in)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("cp brought %d bytes of %d, %v", len(got), len(sent), err)
	}

	ports, local := far.forwards()
	near.askWeb(local)
	ports.interrupt()
	ports.want(130)

	top := far.onTerminal("top")
	top.see(far.family[:6])
	top.keysIn("l")
	top.see("from the app")
	top.keysIn("q")
	top.want(0)
	ui := far.start("ui")
	page := readUI(t, ui)
	eventually(t, "the task", func() bool { return strings.Contains(page.get(""), far.family) })
	if text := page.get("task/" + near.inspect(near.family).ID); !strings.Contains(text, "from the app") {
		t.Errorf("the page of the task is %s", text)
	}
	ui.interrupt()
	ui.want(130)
}

// A link that is cut while data is on its way ends a command with an error and leaves nothing half-made on the host;
// those that follow something go on over a new connection.
func TestHostBySSHLinkThatIsCut(t *testing.T) {
	t.Parallel()
	link := slowLink{rate: 1e6, delay: 50 * time.Millisecond}
	far, near := newSlowTask(t, &link)
	far.random("large", 4<<20)
	near.want(0, "cp", filepath.Join(far.dir, "large"), far.family+":/tmp/there")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"cp", "large", far.family + ":/tmp/sent"}, "broke"},
		{[]string{"cp", far.family + ":/tmp/there", "got"}, "nothing was written to got"},
		{[]string{"exec", far.family, "cat", "/tmp/there"}, "broke"},
	} {
		p := far.start(tt.args...)
		link.moves(t, 1<<20)
		link.cut()
		if r := p.wait(); r.code != 125 || !strings.Contains(r.err, tt.want) {
			t.Errorf("%q ended with %d %s", tt.args, r.code, r.err)
		}
		eventually(t, "the end of the session", func() bool { return len(sessionsOf(near)) == 0 })
	}
	near.want(0, "exec", far.family, "--", "sh", "-c", "[ ! -e /tmp/sent ]")

	sh := far.onTerminal("exec", far.family) // a shell
	before := sh.settings()
	sh.see("#")
	sh.keysIn("echo re''ady; sleep 3000\n")
	sh.see("ready")
	link.cut()
	sh.want(125)
	if after := sh.settings(); after != before {
		t.Errorf("the terminal was left as %+v, it was %+v", after, before)
	}
	eventually(t, "the end of the command", func() bool { return !strings.Contains(near.top(), "sleep 3000") })

	ports, local := far.forwards()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", local))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	top := far.onTerminal("top")
	top.see(far.family[:6])
	ui := far.start("ui")
	page := readUI(t, ui)
	eventually(t, "the task", func() bool { return strings.Contains(page.get(""), far.family) })
	if _, err := io.WriteString(conn, "GET "); err != nil {
		t.Fatal(err)
	}
	link.cut()
	if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection to the port: %v", err)
	}
	near.detach("--wait=running", "--name", "later-"+far.family, near.define(ctr{Name: "app", Command: words("sleep forever")}))
	top.see("later-")
	top.keysIn("q")
	top.want(0)
	eventually(t, "the other task", func() bool { return strings.Contains(page.get(""), "later-"+far.family) })
	ui.interrupt()
	ui.want(130)
	near.askWeb(local)
	ports.interrupt()
	ports.want(130)
	near.want(0, "rm", "--force", "later-"+far.family)
}

// uiReader gets pages of podtask ui, with the session that its link opens.
type uiReader struct {
	t      *testing.T
	client *http.Client
	host   string // NAME:PORT
	base   string
}

func readUI(t *testing.T, ui *process) *uiReader {
	t.Helper()
	eventually(t, "the link", func() bool { return strings.Contains(ui.out.String(), "/open/") })
	link := strings.TrimPrefix(strings.TrimSpace(ui.out.String()), "http://")
	host, path, _ := strings.Cut(link, "/")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &uiReader{t: t, client: &http.Client{Jar: jar}, host: host, base: "http://127.0.0.1" + host[strings.LastIndexByte(host, ':'):] + "/"}
	r.get(path)
	return r
}

func (r *uiReader) get(path string) string {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.base+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Host = r.host
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		r.t.Fatalf("%s: %s %s %v", path, resp.Status, text, err)
	}
	return string(text)
}

// Several hosts are one list; a host that is down is a line with its reason. A host that comes back is shown again.
func TestHostBySSHSeveralHostsInOneView(t *testing.T) {
	t.Parallel()
	far, near, s := newSSHBox(t)
	far.env = append(near.env, "PATH="+s.path())
	near.detach("--wait=running", "--name", near.family, near.define(ctr{Name: "app", Command: words("print from the app -- sleep forever")}))
	hosts := []string{"--host", s.url, "--host", "local", "--host", "ssh://127.0.0.1:1"} // nothing listens at port 1; a free one may be another test's soon
	top := far.onTerminal(append([]string{"top"}, hosts...)...)
	if !testbed.Until(func() bool {
		screen := top.screen.String() // all of it: a line that does not change is printed once
		return strings.Contains(screen, "HOST") && strings.Contains(screen, "ssh cannot connect") && strings.Contains(screen, "local ") && strings.Contains(screen, "127.0.0.1:") && strings.Contains(screen, near.family[:6])
	}) {
		t.Fatalf("not all hosts are shown:\n%s", top.screen.String())
	}
	top.keysIn("l")
	top.see("from the app")
	top.keysIn("q")
	top.want(0)

	ui := far.start(append([]string{"ui"}, hosts...)...)
	page := readUI(t, ui)
	eventually(t, "all hosts on the page", func() bool {
		text := page.get("")
		return strings.Count(text, ">"+near.family+"<") == 2 && strings.Contains(text, "ssh cannot connect") && strings.Contains(text, "on local<")
	})
	id := near.inspect(near.family).ID
	if text := page.get("task/" + id); !strings.Contains(text, "from the app") {
		t.Errorf("the page of the task is %s", text)
	}
	ui.interrupt()
	ui.want(130)

	one := far.start("ui", "--host", s.url)
	page = readUI(t, one)
	eventually(t, "the task", func() bool { return strings.Contains(page.get(""), near.family) })
	if err := syscall.Kill(sshOf(one), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the reason", func() bool { return strings.Contains(page.get(""), "broke") })
	eventually(t, "the host again", func() bool { return !strings.Contains(page.get(""), "notice bad") })
	one.interrupt()
	one.want(130)
	far.want(125, append(hosts, "ps")...)
	if r := far.want(125, "top", "--host", "none"); !strings.Contains(r.err, "there is no context") {
		t.Errorf("a context that is missing: %s", r.err)
	}
}

// A push over a link of 256 kbit/s takes longer than a host may be silent, shows its progress, and sends a layer only
// if the host does not have it. The other host's Podman has a storage of its own here.
func TestHostBySSHSlowLink(t *testing.T) {
	t.Parallel()
	far, near, s := newSSHBox(t)
	storage := t.TempDir()
	socket := filepath.Join(storage, "podman.sock")
	service := exec.Command("podman", "--root", filepath.Join(storage, "root"), "--runroot", filepath.Join(storage, "run"), "--storage-driver", "vfs", "system", "service", "--time", "0", "unix://"+socket)
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = service.Process.Kill()
		_ = service.Wait()
		_ = exec.Command("podman", "unshare", "rm", "-rf", storage).Run()
	})
	eventually(t, "the other Podman", func() bool { _, err := os.Stat(socket); return err == nil })
	there := filepath.Join(s.dir, "there", "podtask")
	if err := os.Remove(there); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(there, []byte("#!/bin/sh\nCONTAINER_HOST=unix://"+socket+" exec "+bed.podtask+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	link := slowLink{rate: 32 << 10} // 256 kbit/s
	link.through(t, s)
	far.env = append(far.env, "PODTASK_HOST=ssh://slow")

	base, err := registrytest.Image(v1.Config{}, registrytest.File{Path: "/noise", Data: registrytest.Random(900<<10, 7)})
	if err != nil {
		t.Fatal(err)
	}
	change, err := registrytest.Image(v1.Config{}, registrytest.File{Path: "/app", Data: registrytest.Random(10<<10, 8)})
	if err != nil {
		t.Fatal(err)
	}
	layers, err := change.Layers()
	if err != nil {
		t.Fatal(err)
	}
	app, err := mutate.AppendLayers(base, layers...)
	if err != nil {
		t.Fatal(err)
	}
	ref, _ := near.push("base:1", base)
	near.podman("pull", "--quiet", "--authfile", bed.auth, ref)
	cut := far.start("push", ref)
	link.moves(t, 200<<10)
	link.cut()
	if r := cut.wait(); r.code != 125 || !strings.Contains(r.err, "broke") || !strings.Contains(r.err, "run podtask push again") {
		t.Errorf("a push that is cut ended with %d %s", r.code, r.err)
	}
	for i, img := range []struct{ sent, of string }{{"sent 1 of 1 layers", "base"}, {"sent 1 of 2 layers", "app"}, {"sent 0 of 2 layers", "app"}} {
		image := base
		if i > 0 {
			image = app
		}
		ref, _ := near.push(img.of+":1", image)
		near.podman("pull", "--quiet", "--authfile", bed.auth, ref)
		p := far.onTerminal("push", ref)
		p.see("Loaded image")
		p.see(img.sent)
		p.want(0)
		id := strings.TrimSpace(near.podman("image", "inspect", "--format", "{{.Id}}", ref))
		if got := strings.TrimSpace(near.podman("--url", "unix://"+socket, "image", "inspect", "--format", "{{.Id}}", ref)); got != id {
			t.Errorf("the image is %s there, and %s here", got, id)
		}
	}
	if r := far.want(0, "version"); !strings.Contains(r.out, "Version:") {
		t.Errorf("version printed %q", r.out)
	}
}
