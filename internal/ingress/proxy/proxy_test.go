package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/ingress/proxy"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/internal/testing/freeport"
	"github.com/podtask/podtask/pkg/taskdef"
)

// front is a proxy on a port of the loopback, with what it logged.
type front struct {
	*proxy.Proxy
	url string

	mu      sync.Mutex
	records []proxy.Record
}

// newFront starts a proxy without TLS whose routes are added with load.
func newFront(t *testing.T, routes ...routefile.Route) *front {
	t.Helper()
	f := &front{}
	f.Proxy = proxy.New(proxy.Config{Patience: 300 * time.Millisecond, CloseTime: 300 * time.Millisecond, Access: func(r proxy.Record) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.records = append(f.records, r)
	}})
	f.Load(table(t, routes...))
	s := httptest.NewServer(f.Handler(false))
	t.Cleanup(s.Close)
	f.url = s.URL
	return f
}

// table checks and completes routes as the file does.
func table(t *testing.T, routes ...routefile.Route) routefile.Table {
	t.Helper()
	path := t.TempDir() + "/routes.json"
	if err := routefile.Write(path, routefile.Table{Routes: routes}); err != nil {
		t.Fatal(err)
	}
	read, err := routefile.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// to is a route to one copy.
func to(address string, copies ...string) routefile.Route {
	return weighted(address, group("web/1", 1000, copies...))
}

func weighted(address string, groups ...routefile.Group) routefile.Route {
	return routefile.Route{Service: "web", Ingress: taskdef.Ingress{URL: address, Container: "web", Port: 80}, Groups: groups}
}

func group(id string, weight int, copies ...string) routefile.Group {
	g := routefile.Group{Deployment: id, Weight: weight}
	for i, c := range copies {
		g.Targets = append(g.Targets, routefile.Target{ID: fmt.Sprintf("%s-%d", id, i), Address: strings.TrimPrefix(c, "http://")})
	}
	return g
}

// server is a copy.
func server(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// says is a copy that answers with a text.
func says(t *testing.T, text string) string {
	return server(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

// get asks for a path of a host.
func (f *front) get(t *testing.T, host, path string, change ...func(*http.Request)) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, f.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	for _, c := range change {
		c(r)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	a, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(body), a.Header
}

// raw sends bytes and returns the status lines and all that comes.
func (f *front) raw(t *testing.T, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// The last request has the proxy close the connection.
	if _, err := io.WriteString(c, text+"GET /last HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(c)
	return string(answer)
}

func TestRoutesByHostAndPath(t *testing.T) {
	t.Parallel()
	f := newFront(t, to("http://a.test", says(t, "a")), to("http://a.test/api", says(t, "api")), to("http://*.wild.test", says(t, "wild")), to("http://one.wild.test", says(t, "one")),
		to("https://secure.test", says(t, "secure")), to("http://[::1]", says(t, "six")))
	for _, c := range []struct {
		host, path, want string
		status           int
	}{
		{"a.test", "/", "a", 200},
		{"A.Test.:8080", "/apix", "a", 200},
		{"a.test", "/api", "api", 200},
		{"a.test", "/api/", "api", 200},
		{"a.test", "/api/x", "api", 200},
		{"b.wild.test", "/", "wild", 200},
		{"one.wild.test", "/", "one", 200},
		{"c.b.wild.test", "/", "", 404},
		{"wild.test", "/", "", 404},
		{".wild.test", "/", "", 404},
		{"other.test", "/", "", 404},
		{"[::1]:80", "/", "six", 200},
		{"secure.test", "/x?y=1", "", 301},
		// Paths that other programs read as those of another route.
		{"a.test", "/x/../api", "", 400},
		{"a.test", "/x/%2e%2e/api", "", 400},
		{"a.test", "/x%2f..%2fapi/y", "", 400},
		{"a.test", `/x\..\api`, "", 400},
		{"a.test", "/x%252f..%252fapi", "", 400},
		{"a.test", "//api", "", 400},
		{"a.test", "/api/../x", "", 400},
		// They stay within one route.
		{"b.wild.test", "/group%2Fproject/..%2f", "wild", 200},
		{"a.test", "/api/x/../y", "api", 200},
	} {
		status, body, h := f.get(t, c.host, c.path)
		if status != c.status || c.status == 200 && body != c.want {
			t.Errorf("%s%s: %d %q, want %d %q", c.host, c.path, status, body, c.status, c.want)
		}
		if c.status == 301 && h.Get("Location") != "https://secure.test/x?y=1" {
			t.Errorf("redirect to %s", h.Get("Location"))
		}
	}
}

// A client that came by another port than 80 is redirected to the port of this proxy, others to 443.
func TestRedirectToAPort(t *testing.T) {
	t.Parallel()
	p := proxy.New(proxy.Config{SecurePort: 8443})
	p.Load(table(t, to("https://a.test"), to("https://[2001:db8::1]")))
	for host, want := range map[string]string{"a.test": "https://a.test/x?y", "A.TEST:8080": "https://a.test:8443/x?y", "[2001:db8::1]:8080": "https://[2001:db8::1]:8443/x?y"} {
		for method, status := range map[string]int{http.MethodGet: http.StatusMovedPermanently, http.MethodPost: http.StatusPermanentRedirect} {
			w, r := httptest.NewRecorder(), httptest.NewRequest(method, "/x?y", nil)
			r.Host = host
			p.Handler(false).ServeHTTP(w, r)
			if got := w.Header().Get("Location"); got != want || w.Code != status {
				t.Errorf("%s of %s: %d to %s, want %d to %s", method, host, w.Code, got, status, want)
			}
		}
	}
}

func TestHeadersAreRebuilt(t *testing.T) {
	t.Parallel()
	var got *http.Request
	f := newFront(t)
	answers := func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Header().Set("X-Request-Id", "the copy's")
	}
	f.Load(table(t, to("http://a.test", server(t, answers))))
	_, _, answer := f.get(t, "a.test:8080", "/p%2fq?x=a;b=%zz", func(r *http.Request) {
		for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Port", "X_Forwarded_For", "X-Real-IP", "Forwarded", "X-Request-Id", "X-Original-URL", "True-Client-IP", "Proxy-Authorization", "Keep-Alive", "X-Hop"} {
			r.Header.Set(name, "evil")
		}
		r.Header["x-forwarded-for"] = []string{"evil"}
		r.Header.Set("Connection", "X-Hop, keep-alive")
		r.Header.Set("X-Mine", "kept")
	})
	if got.RequestURI != "/p%2fq?x=a;b=%zz" || got.Host != "a.test:8080" {
		t.Errorf("the copy got %q for %q", got.RequestURI, got.Host)
	}
	want := map[string]string{
		"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "a.test:8080", "X-Forwarded-Proto": "http", "X-Real-Ip": "127.0.0.1",
		"Forwarded": `for=127.0.0.1;host="a.test:8080";proto=http`, "X-Mine": "kept", "X-Hop": "", "Connection": "", "Keep-Alive": "", "Proxy-Authorization": "", "True-Client-Ip": "", "X-Original-Url": "", "X-Forwarded-Port": "",
	}
	for name, value := range want {
		if got.Header.Get(name) != value {
			t.Errorf("%s: %q, want %q", name, got.Header.Get(name), value)
		}
	}
	if id := got.Header.Get("X-Request-Id"); len(id) != 32 || len(answer.Values("X-Request-Id")) != 1 || id != answer.Get("X-Request-Id") {
		t.Errorf("request ids %q and %q", id, answer.Get("X-Request-Id"))
	}
	if got.Trailer != nil {
		t.Errorf("trailers of the client: %v", got.Trailer)
	}
	for name, values := range got.Header {
		for _, v := range values {
			if v == "evil" {
				t.Errorf("%s is the client's", name)
			}
		}
	}
}

func TestWeightsCountRequests(t *testing.T) {
	t.Parallel()
	var blue, green atomic.Int64
	count := func(n *atomic.Int64) string {
		return server(t, func(http.ResponseWriter, *http.Request) { n.Add(1) })
	}
	f := newFront(t, weighted("http://a.test", group("web/1", 900, count(&blue)), group("web/2", 100, count(&green))))
	for range 100 {
		f.get(t, "a.test", "/")
	}
	if blue.Load() != 90 || green.Load() != 10 {
		t.Errorf("%d and %d of 100 requests, want 90 and 10", blue.Load(), green.Load())
	}
	counts := f.Counts()
	if len(counts) != 1 || counts[0].Service != "web" || counts[0].Class != 2 || counts[0].Count != 100 {
		t.Errorf("counts %+v", counts)
	}
}

// A copy that cannot be dialed is passed over, and one that answered nothing after it got bytes is not.
func TestRetriesOnlyWhatWasNotSent(t *testing.T) {
	t.Parallel()
	closed := fmt.Sprintf("127.0.0.1:%d", freeport.For(t))
	var asked atomic.Int64
	good := server(t, func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
	})
	f := newFront(t, to("http://a.test", closed, good))
	for range 10 {
		a, err := http.NewRequest(http.MethodPost, f.url, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		a.Host = "a.test"
		r, err := http.DefaultClient.Do(a)
		if err != nil || r.StatusCode != 200 {
			t.Fatalf("%v %+v", err, r)
		}
		r.Body.Close()
	}
	if asked.Load() != 10 {
		t.Errorf("%d requests arrived", asked.Load())
	}

	// It reads the request and hangs up.
	var dialed atomic.Int64
	rude, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rude.Close() })
	go func() {
		for {
			c, err := rude.Accept()
			if err != nil {
				return
			}
			dialed.Add(1)
			_, _ = http.ReadRequest(bufio.NewReader(c))
			c.Close()
		}
	}()
	f.Load(table(t, weighted("http://a.test", group("web/1", 1000, rude.Addr().String()), group("web/2", 0, good))))
	if status, body, _ := f.get(t, "a.test", "/"); status != http.StatusBadGateway || strings.Contains(body, "127.0.0.1") {
		t.Errorf("%d %s", status, body)
	}
	if dialed.Load() != 1 || asked.Load() != 10 {
		t.Errorf("the request was sent %d times, and to another copy %d times", dialed.Load(), asked.Load()-10)
	}
	f.Load(table(t, weighted("http://a.test")))
	if status, _, h := f.get(t, "a.test", "/"); status != http.StatusServiceUnavailable || h.Get("Retry-After") == "" {
		t.Errorf("without a copy: %d", status)
	}
}

// Each copy is tried, also if the dials of others took longer than a request waits.
func TestEachCopyIsTried(t *testing.T) {
	t.Parallel()
	p := proxy.New(proxy.Config{Patience: 1})
	p.Load(table(t, to("http://a.test", fmt.Sprintf("127.0.0.1:%d", freeport.For(t)), says(t, "here"))))
	s := httptest.NewServer(p.Handler(false))
	t.Cleanup(s.Close)
	f := &front{Proxy: p, url: s.URL}
	for range 10 {
		if status, body, _ := f.get(t, "a.test", "/"); status != http.StatusOK || body != "here" {
			t.Errorf("%d %s", status, body)
		}
	}
}

// A request waits for a copy that comes.
func TestWaitsForACopy(t *testing.T) {
	t.Parallel()
	waits := proxy.New(proxy.Config{Patience: time.Minute})
	waits.Load(table(t, weighted("http://a.test")))
	s := httptest.NewServer(waits.Handler(false))
	t.Cleanup(s.Close)
	f := &front{Proxy: waits, url: s.URL}
	answer := make(chan string)
	go func() {
		_, body, _ := f.get(t, "a.test", "/")
		answer <- body
	}()
	f.Load(table(t, to("http://a.test", says(t, "late"))))
	if got := <-answer; got != "late" {
		t.Errorf("answer %q", got)
	}
}

func TestDrainWaitsForRequests(t *testing.T) {
	t.Parallel()
	began, finish := make(chan struct{}), make(chan struct{})
	f := newFront(t, to("http://a.test", server(t, func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-finish
		_, _ = io.WriteString(w, "done")
	})))
	answer := make(chan string)
	go func() {
		_, body, _ := f.get(t, "a.test", "/")
		answer <- body
	}()
	<-began
	f.Load(table(t, to("http://a.test", says(t, "new"))))
	if _, body, _ := f.get(t, "a.test", "/"); body != "new" {
		t.Errorf("a new request got %q", body)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if f.Drain(ended, "web/1-0") == nil {
		t.Error("it is drained while a request is under way")
	}
	close(finish)
	if err := f.Drain(t.Context(), "web/1-0"); err != nil {
		t.Error(err)
	}
	if got := <-answer; got != "done" {
		t.Errorf("answer %q", got)
	}
}

// A request is in the log before Drain ends, because the process may end then.
func TestDrainWaitsForTheLog(t *testing.T) {
	t.Parallel()
	logging, finish := make(chan struct{}), make(chan struct{})
	p := proxy.New(proxy.Config{Access: func(proxy.Record) {
		close(logging)
		<-finish
	}})
	p.Load(table(t, to("http://a.test", says(t, "here"))))
	s := httptest.NewServer(p.Handler(false))
	t.Cleanup(s.Close)
	var asked sync.WaitGroup
	asked.Go(func() { (&front{Proxy: p, url: s.URL}).get(t, "a.test", "/") })
	<-logging
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if p.Drain(ended, "web/1-0") == nil {
		t.Error("it is drained before the request is logged")
	}
	close(finish)
	if err := p.Drain(t.Context(), "web/1-0"); err != nil {
		t.Error(err)
	}
	asked.Wait()
}

// A client that keeps a WebSocket open after its copy has ended it does not keep the copy from stopping, without TLS and with it.
func TestWebSocketsThatCopiesEnd(t *testing.T) {
	t.Parallel()
	f := newFront(t, to("http://a.test", server(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.WriteHeader(http.StatusSwitchingProtocols)
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			c.Close()
		}
	})))
	secure := httptest.NewTLSServer(f.Handler(false))
	t.Cleanup(secure.Close)
	for _, dial := range []func() (net.Conn, error){
		func() (net.Conn, error) { return net.Dial("tcp", strings.TrimPrefix(f.url, "http://")) },
		func() (net.Conn, error) {
			return tls.Dial("tcp", strings.TrimPrefix(secure.URL, "https://"), &tls.Config{InsecureSkipVerify: true})
		},
	} {
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || r.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%v %+v", err, r)
		}
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the client reads %v", err)
		}
		if err := f.Drain(t.Context(), "web/1-0"); err != nil {
			t.Error(err)
		}
	}
}

// WebSockets, in short: the proxy passes bytes both ways after the upgrade, and no other upgrade.
func TestUpgrades(t *testing.T) {
	t.Parallel()
	f := newFront(t, to("http://a.test", server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			_, _ = io.WriteString(w, "plain")
			return
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
		w.WriteHeader(http.StatusSwitchingProtocols)
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.Copy(c, rw)
	})))
	c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	lines := bufio.NewReader(c)
	r, err := http.ReadResponse(lines, nil)
	if err != nil || r.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v %+v", err, r)
	}
	for _, word := range []string{"ping\n", "pong\n"} {
		fmt.Fprint(c, word)
		if got, err := lines.ReadString('\n'); got != word {
			t.Fatalf("echo %q, %v", got, err)
		}
	}
	if open := f.Open(); open["web/1-0"] != 1 {
		t.Errorf("under way are %v", open)
	}
	c.Close()
	if err := f.Drain(t.Context(), "web/1-0"); err != nil {
		t.Error(err)
	}
	f.mu.Lock()
	if last := f.records[len(f.records)-1]; last.Status != 101 {
		t.Errorf("logged %+v", last)
	}
	f.mu.Unlock()
	if got := f.raw(t, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"); !strings.Contains(got, "200 OK") || !strings.Contains(got, "plain") {
		t.Errorf("h2c: %s", got)
	}
}

// Events of a server arrive one by one.
func TestServerSentEventsAreFlushed(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	f := newFront(t, to("http://a.test", server(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			fmt.Fprint(w, "data: x\n\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	})))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "a.test"
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	lines := bufio.NewReader(a.Body)
	for range 3 {
		if line, err := lines.ReadString('\n'); line != "data: x\n" {
			t.Fatalf("%q, %v", line, err)
		}
		_, _ = lines.ReadString('\n')
		next <- struct{}{}
	}
}

// gRPC: HTTP/2 to the copy, with trailers.
func TestHTTP2ToTheCopy(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		body, _ := io.ReadAll(r.Body)             // first: when the answer to HTTP/1.1 begins, net/http may drop the rest of the request
		_ = http.NewResponseController(w).Flush() // without a length, as gRPC servers answer
		_, _ = fmt.Fprintf(w, "%s %s %s", r.Proto, r.Header.Get("Te"), body)
		w.Header().Set("Grpc-Status", "0")
	})}
	s.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	route := to("http://a.test", l.Addr().String())
	route.Protocol = taskdef.ProtocolH2C
	f := newFront(t, route)
	r, err := http.NewRequest(http.MethodPost, f.url, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "a.test"
	r.Header.Set("Te", "trailers")
	r.Header.Set("Content-Type", "application/grpc")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	body, _ := io.ReadAll(a.Body)
	if string(body) != "HTTP/2.0 trailers body" || a.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("%q, trailers %v", body, a.Trailer)
	}
}

func TestBodiesAreLimited(t *testing.T) {
	t.Parallel()
	var got atomic.Int64
	route := to("http://a.test", server(t, func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		got.Add(n)
	}))
	route.MaxBody = 1000
	f := newFront(t, route)
	post := func(body io.Reader) int {
		r, err := http.NewRequest(http.MethodPost, f.url, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "a.test"
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a.StatusCode
	}
	if status := post(bytes.NewReader(make([]byte, 1000))); status != 200 || got.Load() != 1000 {
		t.Errorf("%d, and %d bytes", status, got.Load())
	}
	if status := post(bytes.NewReader(make([]byte, 1001))); status != 413 || got.Load() != 1000 {
		t.Errorf("one byte more: %d, and %d bytes", status, got.Load())
	}
	if status := post(io.MultiReader(bytes.NewReader(make([]byte, 5000)))); status != 413 { // chunked
		t.Errorf("chunked: %d", status)
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	var passed string
	route := to("http://a.test", server(t, func(_ http.ResponseWriter, r *http.Request) { passed = r.Header.Get("Authorization") }))
	route.Auth = "podman:users"
	f := newFront(t, route)
	login := func(name, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(name, password) }
	}
	if status, _, _ := f.get(t, "a.test", "/", login("ann", "secret")); status != 401 {
		t.Errorf("without users: %d", status) // the secret could not be read: nobody is let in
	}
	hash, err := pbkdf2.Key(sha256.New, "secret", []byte("salt"), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	route.Users = []routefile.User{{Name: "ann", Salt: []byte("salt"), Hash: hash, Iterations: 10}}
	f.Load(table(t, route))
	for range 2 {
		if status, _, _ := f.get(t, "a.test", "/", login("ann", "secret")); status != 200 || passed != "" {
			t.Errorf("%d, and the copy got %q", status, passed)
		}
	}
	for _, c := range [][2]string{{"ann", "wrong"}, {"bob", "secret"}, {"", ""}} {
		if status, _, h := f.get(t, "a.test", "/", login(c[0], c[1])); status != 401 || h.Get("WWW-Authenticate") == "" {
			t.Errorf("%v: %d", c, status)
		}
	}
}

// What is read in two ways by two servers reaches a copy as one request, or not at all.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	f := newFront(t, to("http://a.test", server(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Method+" "+r.URL.Path+" "+string(body))
	})))
	smuggled := "GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n"
	for _, c := range []struct{ name, text, want string }{
		{"both lengths", "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "POST / "},
		{"two lengths", "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\nContent-Length: " + fmt.Sprint(len(smuggled)) + "\r\n\r\n" + smuggled, ""},
		{"a list of lengths", "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0, " + fmt.Sprint(len(smuggled)) + "\r\n\r\n" + smuggled, ""},
		{"a length with a sign", "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: +4\r\n\r\nbody", ""},
		{"an unknown coding", "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", ""},
		{"a coding twice", "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", ""},
		{"a space before the colon", "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length : 4\r\n\r\nbody", ""},
		{"a folded header", "GET / HTTP/1.1\r\nHost: a.test\r\nX-A: b\r\n Transfer-Encoding: chunked\r\n\r\n", ""},
		{"two hosts", "GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n", ""},
		{"no host", "GET / HTTP/1.1\r\n\r\n", ""},
		{"a host with a user", "GET / HTTP/1.1\r\nHost: a.test@b.test\r\n\r\n", ""},
		{"a host in the address", "GET http://b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", ""},
		{"a tunnel", "CONNECT a.test:80 HTTP/1.1\r\nHost: a.test\r\n\r\n", ""},
		{"all of it", "OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n", ""},
		{"a null byte", "GET /\x00 HTTP/1.1\r\nHost: a.test\r\n\r\n", ""},
		{"a chunk size that is too large", "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nx", ""},
	} {
		mu.Lock()
		got = nil
		mu.Unlock()
		answer := f.raw(t, c.text)
		mu.Lock()
		all := strings.TrimSuffix(strings.TrimSuffix(strings.Join(got, "|"), "GET /last "), "|")
		mu.Unlock()
		if c.want != "" && all != c.want || c.want == "" && strings.Contains(all, "smuggled") || strings.Contains(answer, "200 OK") && c.want == "" && c.name != "all of it" && all != "" && !strings.HasPrefix(all, "GET / ") {
			t.Errorf("%s: the copy got %q, and the client\n%s", c.name, all, answer)
		}
		if c.want == "" && c.name != "a folded header" && all != "" && c.name != "a chunk size that is too large" {
			t.Errorf("%s: the copy got %q", c.name, all)
		}
	}
}

// A client that takes nothing of an answer is cut, and its request to the copy with it.
func TestClientsThatDoNotRead(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	route := to("http://a.test", server(t, func(w http.ResponseWriter, _ *http.Request) {
		defer close(ended)
		for {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}))
	route.ReadTimeout = time.Second
	f := newFront(t, route)
	c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
	<-ended
	if err := f.Drain(t.Context(), "web/1-0"); err != nil {
		t.Error(err)
	}
}

func TestSlowBodies(t *testing.T) {
	t.Parallel()
	route := to("http://a.test", server(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	route.ReadTimeout = time.Second
	f := newFront(t, route)
	c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\nx")
	answer, _ := io.ReadAll(c) // the proxy closes the connection
	if !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
		t.Errorf("answer %q", answer)
	}
}
