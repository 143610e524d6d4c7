package program

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/ingress/authority"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/pkg/taskdef"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// asProgram has the test binary be the program.
const asProgram = "PODTASK_TEST_INGRESS"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Main(context.Background(), os.Args, "test"))
	}
	os.Exit(m.Run())
}

// running is a proxy in this process.
type running struct {
	stateDir, socket string
	signals          chan os.Signal
	ended            chan error
}

// start starts a proxy with a route to a copy. A limit of connections of 0 is the usual one.
func start(t *testing.T, copyAddress string, maxConnections int) (*running, ingress.Status) {
	t.Helper()
	runtimeDir, err := os.MkdirTemp("", "ingress")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(runtimeDir) })
	r := &running{stateDir: t.TempDir(), socket: filepath.Join(runtimeDir, "ingress.sock"), signals: make(chan os.Signal, 1), ended: make(chan error, 1)}
	if maxConnections == 0 {
		maxConnections = defaultConnections()
	}
	if err := os.MkdirAll(filepath.Dir(routefile.Path(r.stateDir)), 0o700); err != nil {
		t.Fatal(err)
	}
	r.route(t, copyAddress)
	o := &options{plain: "127.0.0.1:0", secure: "127.0.0.1:0", stateDir: r.stateDir, socket: r.socket, drain: time.Minute, maxConnections: maxConnections, version: "test"}
	go func() { r.ended <- serve(t.Context(), o, slog.New(slog.DiscardHandler), r.signals) }()
	return r, r.status(t)
}

// route writes a route.
func (r *running) route(t *testing.T, copyAddress string) {
	t.Helper()
	var routes []routefile.Route
	for _, url := range []string{"https://app.localhost", "http://plain.localhost"} {
		routes = append(routes, routefile.Route{
			Service: "web", Ingress: taskdef.Ingress{URL: url, Container: "web", Port: 80},
			Groups: []routefile.Group{{Deployment: "web/1", Weight: 1000, Targets: []routefile.Target{{ID: copyAddress, Address: strings.TrimPrefix(copyAddress, "http://")}}}},
		})
	}
	if err := routefile.Write(routefile.Path(r.stateDir), routefile.Table{Routes: routes}); err != nil {
		t.Fatal(err)
	}
}

// status waits until the proxy answers.
func (r *running) status(t *testing.T) ingress.Status {
	t.Helper()
	for {
		s, err := ingress.Ask(t.Context(), r.socket)
		if s != nil {
			return *s
		}
		select {
		case err := <-r.ended:
			t.Fatalf("the proxy has ended: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

// secure returns a TLS configuration that trusts the authority of the proxy.
func (r *running) secure(t *testing.T, protocols ...string) *tls.Config {
	t.Helper()
	a, err := authority.Open(authority.Path(r.stateDir), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.PEM())
	return &tls.Config{RootCAs: roots, ServerName: "app.localhost", NextProtos: protocols}
}

// client sends all requests to one address.
func (r *running) client(t *testing.T, address string) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: r.secure(t), ForceAttemptHTTP2: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func hello(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hello over ", r.Header.Get("X-Forwarded-Proto"))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func get(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	r, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.Proto + " " + strconv.Itoa(r.StatusCode) + " " + string(body)
}

func TestServesAndDrains(t *testing.T) {
	t.Parallel()
	r, s := start(t, hello(t), 0)
	c := r.client(t, s.Secure[0])
	if got := get(t, c, "https://app.localhost/"); got != "HTTP/2.0 200 hello over https" {
		t.Errorf("got %q", got)
	}
	other, err := http.NewRequest(http.MethodGet, "https://app.localhost/", nil)
	if err != nil {
		t.Fatal(err)
	}
	other.Host = "plain.localhost"
	if a, err := c.Do(other); err != nil || a.StatusCode != http.StatusNotFound && a.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("another host on the connection: %v, %+v", err, a)
	} else {
		a.Body.Close()
	}
	if got := get(t, r.client(t, s.Plain[0]), "http://plain.localhost/"); got != "HTTP/1.1 200 hello over http" {
		t.Errorf("got %q", got)
	}
	if _, err := tls.Dial("tcp", s.Secure[0], &tls.Config{ServerName: "unknown.localhost", InsecureSkipVerify: true}); err == nil {
		t.Error("an unknown name got a certificate")
	}
	if _, err := tls.Dial("tcp", s.Secure[0], &tls.Config{ServerName: "app.localhost", InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is spoken")
	}

	// New routes are followed, damaged ones are not.
	began, finish := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-finish
		fmt.Fprint(w, "late")
	}))
	t.Cleanup(slow.Close)
	r.route(t, slow.URL)
	watch(t, r.socket, func(s ingress.Status) bool { return s.Routes[0].Deployments[0].Copies[0].Task == slow.URL })
	if err := os.WriteFile(routefile.Path(r.stateDir), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	watch(t, r.socket, func(s ingress.Status) bool { return s.Problem != "" && len(s.Routes) == 2 })

	// A request that is under way finishes after SIGTERM.
	answer := make(chan string)
	go func() { answer <- get(t, c, "https://app.localhost/") }()
	<-began
	r.signals <- syscall.SIGTERM
	for {
		c, err := net.Dial("tcp", s.Secure[0])
		if err != nil {
			break
		}
		c.Close()
	}
	close(finish)
	if got := <-answer; got != "HTTP/2.0 200 late" {
		t.Errorf("the last request got %q", got)
	}
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(r.socket); err == nil {
		t.Error("the socket is left")
	}
	data, err := os.ReadFile(ingress.AccessLogPath(r.stateDir))
	if err != nil || strings.Count(string(data), `"service":"web"`) < 3 {
		t.Errorf("the access log has %s, %v", data, err)
	}
}

// watch waits for a status.
func watch(t *testing.T, socket string, good func(ingress.Status) bool) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://ingress/v1/watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := ingress.Client(socket).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	d := json.NewDecoder(a.Body)
	for {
		var s ingress.Status
		if err := d.Decode(&s); err != nil {
			t.Fatal(err)
		}
		if good(s) {
			return
		}
	}
}

func TestASecondProxyIsRefused(t *testing.T) {
	t.Parallel()
	r, _ := start(t, hello(t), 0)
	o := &options{plain: "127.0.0.1:0", secure: "none", stateDir: r.stateDir, socket: r.socket, maxConnections: 1}
	if err := serve(t.Context(), o, slog.New(slog.DiscardHandler), nil); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("the error is %v", err)
	}
	if _, err := listen("127.0.0.1:-1"); err == nil {
		t.Error("a bad address is taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // one without addresses for requests may have listeners of services
	if err := serve(ctx, &options{plain: "none", secure: "none", stateDir: t.TempDir(), socket: r.socket + "2", maxConnections: 1}, slog.New(slog.DiscardHandler), nil); err != nil {
		t.Errorf("a proxy without addresses for requests: %v", err)
	}
}

// One that never ends its headers, or sends more than fit, is cut, and others are served.
func TestSlowAndLargeHeaders(t *testing.T) {
	t.Parallel()
	r, s := start(t, hello(t), 0)
	c, err := net.Dial("tcp", s.Plain[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: plain.localhost\r\nX-Slow: ")
	bomb := func() string {
		c, err := net.Dial("tcp", s.Plain[0])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: plain.localhost\r\n")
		line := "X-Bomb: " + strings.Repeat("x", 1000) + "\r\n"
		for range 10000 {
			if _, err := io.WriteString(c, line); err != nil {
				break // the proxy has closed the connection
			}
		}
		answer, _ := bufio.NewReader(c).ReadString('\n')
		return answer
	}
	if got := bomb(); got != "" && !strings.Contains(got, "431") {
		t.Errorf("10 MB of headers got %q", got)
	}
	if got := get(t, r.client(t, s.Plain[0]), "http://plain.localhost/"); !strings.Contains(got, "hello") {
		t.Errorf("another client got %q", got)
	}
	_, _ = io.ReadAll(c) // ends when the proxy has had enough
}

// 10,000 connections that do nothing take no others' room, nor more than there is.
func TestIdleConnections(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	idle, most := 10000, 2000
	if limit.Cur < uint64(2*idle) {
		idle, most = int(limit.Cur/4), int(limit.Cur/20)
	}
	r, s := start(t, hello(t), most)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(n+1))}} // eight clients
			for range idle / 8 {
				c, err := from.Dial("tcp", s.Secure[0])
				if err != nil {
					t.Errorf("a connection is refused: %v", err)
					return
				}
				t.Cleanup(func() { c.Close() })
			}
		})
	}
	all.Wait()
	if got := get(t, r.client(t, s.Secure[0]), "https://app.localhost/"); !strings.Contains(got, "200 hello") {
		t.Errorf("a client among them got %q", got)
	}
	if n := r.status(t).Connections; n > most {
		t.Errorf("%d connections are open, of at most %d", n, most)
	}
}

// A client of HTTP/2 that cancels each request at once is cut, or harmless.
func TestRapidReset(t *testing.T) {
	t.Parallel()
	r, s := start(t, hello(t), 0)
	c, err := tls.Dial("tcp", s.Secure[0], r.secure(t, "h2"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, http2.ClientPreface)
	f := http2.NewFramer(c, c)
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, c) }()
	var head strings.Builder
	e := hpack.NewEncoder(&head)
	for _, h := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "app.localhost"}, {":path", "/"}} {
		if err := e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			t.Fatal(err)
		}
	}
	first := head.String()
	sent := 0
	for id := uint32(1); id < 40000; id += 2 {
		if f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte(first), EndStream: true, EndHeaders: true}) != nil || f.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
			break
		}
		sent++
	}
	t.Logf("%d requests were sent and canceled", sent)
	if got := get(t, r.client(t, s.Secure[0]), "https://app.localhost/"); got != "HTTP/2.0 200 hello over https" {
		t.Errorf("another client got %q", got)
	}
}

// Another process takes the listeners over, and what is under way finishes in the old one.
func TestHandover(t *testing.T) {
	t.Parallel()
	runtimeDir, err := os.MkdirTemp("", "ingress")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(runtimeDir) })
	began, finish := make(chan struct{}, 1), make(chan struct{})
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			began <- struct{}{}
			<-finish
		}
		fmt.Fprint(w, "hello")
	}))
	t.Cleanup(app.Close)
	r := &running{stateDir: t.TempDir(), socket: filepath.Join(runtimeDir, "ingress.sock")}
	if err := os.MkdirAll(filepath.Dir(routefile.Path(r.stateDir)), 0o700); err != nil {
		t.Fatal(err)
	}
	r.route(t, app.URL)
	first, err := os.StartProcess(os.Args[0], []string{ingress.Program, "--http=127.0.0.1:0", "--https=127.0.0.1:0", "--state-dir=" + r.stateDir, "--socket=" + r.socket}, &os.ProcAttr{
		Env: append(os.Environ(), asProgram+"=1"), Files: []*os.File{nil, nil, os.Stderr},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Kill() })
	s := r.status(t)
	c := r.client(t, s.Secure[0])
	answer := make(chan string)
	go func() { answer <- get(t, c, "https://app.localhost/slow") }()
	<-began
	// A connection of HTTP/1.1 that is idle when another process takes over serves one more request.
	idle := r.client(t, s.Secure[0])
	idle.Transport.(*http.Transport).ForceAttemptHTTP2 = false
	idle.Transport.(*http.Transport).TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	if got := get(t, idle, "https://app.localhost/"); got != "HTTP/1.1 200 hello" {
		t.Errorf("by HTTP/1.1 it answers %q", got)
	}
	if err := first.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for r.status(t).PID == first.Pid {
		select {
		case <-t.Context().Done():
			t.Fatal("no other process took over")
		case <-time.After(5 * time.Millisecond):
		}
	}
	for n, closed := 0, false; !closed; n++ { // the old process may not know yet
		if n > 500 {
			close(finish)
			t.Fatal("connections of the old process do not end")
		}
		answered, err := idle.Post("https://app.localhost/", "text/plain", strings.NewReader("not sent twice"))
		if err != nil || answered.StatusCode != http.StatusOK {
			t.Fatalf("a connection from before: %v, %+v", err, answered)
		}
		_, _ = io.Copy(io.Discard, answered.Body)
		_ = answered.Body.Close()
		closed = answered.Close
	}
	second := r.status(t)
	t.Cleanup(func() { _ = syscall.Kill(second.PID, syscall.SIGKILL) })
	if second.Secure[0] != s.Secure[0] || second.Plain[0] != s.Plain[0] {
		t.Errorf("it listens on %v and %v, not on %v and %v", second.Plain, second.Secure, s.Plain, s.Secure)
	}
	if got := get(t, r.client(t, s.Secure[0]), "https://app.localhost/"); got != "HTTP/2.0 200 hello" {
		t.Errorf("the new process answers %q", got)
	}
	close(finish)
	if got := <-answer; got != "HTTP/2.0 200 hello" {
		t.Errorf("the old process answered %q", got)
	}
	if state, err := first.Wait(); err != nil || !state.Success() {
		t.Errorf("the old process ended with %v, %v", state, err)
	}
	if again := r.status(t); again.PID != second.PID {
		t.Errorf("process %d answers, not %d", again.PID, second.PID)
	}
	if err := syscall.Kill(second.PID, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}
