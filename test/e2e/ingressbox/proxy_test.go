package ingressbox

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program builds a program once, and returns its path.
func program(t testing.TB, dir, pkg string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if path, ok := built.paths[pkg]; ok {
		return path
	}
	out, err := os.MkdirTemp("", "ingressbox-")
	if err != nil {
		t.Fatal(err)
	}
	built.dirs = append(built.dirs, out)
	path := filepath.Join(out, filepath.Base(pkg))
	build := exec.Command("go", "build", "-buildvcs=false", "-tags", "remote containers_image_openpgp urfave_cli_no_docs", "-ldflags", "-s -w", "-o", path, pkg)
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	built.paths[pkg] = path
	return path
}

// built are the programs that were built.
var built = struct {
	sync.Mutex
	paths map[string]string
	dirs  []string
}{paths: map[string]string{}}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, dir := range built.dirs {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// route is an address of the file of routes.
type route struct {
	Service   string  `json:"service"`
	URL       string  `json:"url"`
	Container string  `json:"containerName"`
	Port      int     `json:"containerPort"`
	Protocol  string  `json:"protocol,omitempty"`
	Groups    []group `json:"groups"`
}

type group struct {
	Deployment string   `json:"deployment"`
	Weight     int      `json:"weight"`
	Targets    []target `json:"targets"`
}

type target struct {
	ID      string `json:"id"`
	Address string `json:"address"`
}

// to is a route whose only copy is at an address.
func to(url, address, protocol string) route {
	return route{Service: "web", URL: url, Container: "web", Port: 80, Protocol: protocol, Groups: []group{{"web/1", 1000, []target{{"copy", address}}}}}
}

// proxy is podtask-ingress.
type proxy struct {
	pid    int
	secure string // HOST:PORT
	dir    string // of its state
}

// route replaces the routes, as the agent does.
func (p proxy) route(t testing.TB, routes ...route) {
	t.Helper()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	table, err := json.Marshal(map[string]any{"format": 1, "boot": strings.TrimSpace(string(boot)), "routes": routes})
	file := filepath.Join(p.dir, "ingress", "routes.json")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err == nil {
		err = os.WriteFile(file+".new", table, 0o600)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// start starts podtask-ingress with routes until the test ends.
func start(t testing.TB, routes ...route) proxy {
	t.Helper()
	path := program(t, "../../..", "./cmd/podtask-ingress")
	p := proxy{secure: fmt.Sprintf("127.0.0.1:%d", freePort(t)), dir: t.TempDir()}
	p.route(t, routes...)
	p.pid = run(t, "the ingress proxy serves", path, "--http", "none", "--https", p.secure, "--state-dir", p.dir, "--socket", p.socket())
	return p
}

// socket is where the proxy answers the agent.
func (p proxy) socket() string { return filepath.Join(p.dir, "run", "ingress.sock") }

// current is the process that serves: another one after a handover.
func (p proxy) current(t testing.TB) int {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", p.socket())
	}}}
	r, err := c.Get("http://ingress/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var s struct{ PID int }
	if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s.PID
}

// run starts a program until the test ends, and returns its PID when its standard error has a line with a text.
func run(t testing.TB, ready, path string, args ...string) (pid int) {
	t.Helper()
	c := exec.Command(path, args...)
	said, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	serves, ended := make(chan struct{}), make(chan struct{})
	var all strings.Builder
	go func() {
		defer close(ended)
		once := sync.OnceFunc(func() { close(serves) })
		for lines := bufio.NewScanner(said); lines.Scan(); {
			if strings.Contains(lines.Text(), ready) {
				once()
			}
			if all.Len() < 1<<16 {
				all.WriteString(lines.Text() + "\n")
			}
		}
	}()
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGKILL)
		<-ended
		_ = c.Wait()
		if t.Failed() {
			t.Logf("%s: %s", filepath.Base(path), &all)
		}
	})
	select {
	case <-serves:
	case <-ended:
		t.Fatalf("%s ended: %s", path, &all)
	case <-time.After(time.Minute):
		t.Fatalf("%s does not serve", path)
	}
	return c.Process.Pid
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// serve serves a handler until the test ends.
func serve(t testing.TB, h http.Handler) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

// hello answers every request with a kilobyte, after it has read it.
func hello(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, strings.Repeat("hello 42", 128))
}

// anyCertificate trusts all: the certificates are of authorities that these tests make.
func anyCertificate(name string) *tls.Config {
	return &tls.Config{ServerName: name, InsecureSkipVerify: true}
}
