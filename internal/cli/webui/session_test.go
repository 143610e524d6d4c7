package webui

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// listen serves a page on a port of loopback.
func listen(t *testing.T, actions Actions) *Server {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	page := New(server.Listener.Addr().(*net.TCPAddr).Port, &fake{}, actions, time.Now)
	server.Config.Handler = page
	server.Start()
	t.Cleanup(server.Close)
	return page
}

// newClient is an HTTP client with a cookie jar, for which all names lead to loopback.
func newClient(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: transport}
}

// get returns the code and the body of an answer.
func get(t *testing.T, client *http.Client, address string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// Cookies know no ports: a program on another port of 127.0.0.1 must not get that of the page.
func TestOtherPortsDoNotGetTheCookie(t *testing.T) {
	t.Parallel()
	var visits, cookies atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		visits.Add(1)
		cookies.Add(int32(len(r.Cookies())))
	}))
	t.Cleanup(other.Close)
	page, client := listen(t, nil), newClient(t)
	if code, _ := get(t, client, page.Link()); code != http.StatusOK {
		t.Fatalf("the link answers %d", code)
	}
	if code, body := get(t, client, "http://"+page.host+"/"); code != http.StatusOK || !strings.Contains(body, "web") {
		t.Fatalf("the page answers %d: %s", code, body)
	}
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(other.URL, "http://"))
	for _, name := range []string{"127.0.0.1", "localhost", "other.localhost"} {
		get(t, client, "http://"+net.JoinHostPort(name, port)+"/")
	}
	if visits.Load() != 3 || cookies.Load() != 0 {
		t.Errorf("%d visits had %d cookies", visits.Load(), cookies.Load())
	}
}

// following is a fake whose log goes on until the reader has gone.
type following struct {
	fake
	left chan struct{}
}

func (f *following) Lines(ctx context.Context, _ string, which Lines, fn func(Line) error) error {
	for range 1000 {
		if err := fn(Line{Container: "app", Text: "a line"}); err != nil {
			return err
		}
	}
	if which.Follow {
		<-ctx.Done()
		close(f.left)
	}
	return context.Cause(ctx)
}

// Lines come while the log goes on, and nothing reads it any more once the browser has gone.
func TestLogEndsWithTheBrowser(t *testing.T) {
	t.Parallel()
	f := &following{left: make(chan struct{})}
	server := httptest.NewUnstartedServer(nil)
	page := New(server.Listener.Addr().(*net.TCPAddr).Port, f, nil, time.Now)
	server.Config.Handler = page
	server.Start()
	t.Cleanup(server.Close)
	client := newClient(t)
	get(t, client, page.Link())
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+page.host+"/task/"+web().ID+"/log", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for i := range 1000 {
		if !lines.Scan() {
			t.Fatalf("after %d lines: %v", i, lines.Err())
		}
	}
	leave()
	<-f.left
}

// A second page in the same browser takes nothing from the first one.
func TestTwoPagesInOneBrowser(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	pages := []*Server{listen(t, nil), listen(t, nil)}
	for _, page := range pages {
		get(t, client, page.Link())
	}
	for i, page := range pages {
		if code, _ := get(t, client, "http://"+page.host+"/"); code != http.StatusOK {
			t.Errorf("page %d answers %d", i, code)
		}
	}
	if pages[0].host == pages[1].host || pages[0].cookie == pages[1].cookie {
		t.Errorf("the pages are %s (%s) and %s (%s)", pages[0].host, pages[0].cookie, pages[1].host, pages[1].cookie)
	}
}

// What a page shows does not help to guess its cookie, and the cookie alone changes nothing.
func TestFormTokenIsIndependentOfTheCookie(t *testing.T) {
	t.Parallel()
	f := &fake{}
	b := opened(t, f, f)
	session := b.cookie.Value
	for _, token := range []string{session, "form-" + session[:len(session)/2], session[:13], ""} {
		if w := b.send("POST", "/task/"+web().ID+"/stop", url.Values{"token": {token}}, nil); w.Code != http.StatusForbidden || len(f.done) > 0 {
			t.Errorf("the token %q answers %d, done %q", token, w.Code, f.done)
		}
	}
	page := b.send("GET", "/task/"+web().ID, nil, nil).Body.String()
	for i := range len(session) - 7 {
		if strings.Contains(page, session[i:i+8]) {
			t.Fatalf("the page has a part of the cookie")
		}
	}
}
