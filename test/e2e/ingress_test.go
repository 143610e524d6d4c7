//go:build e2e && (bed_plain || bed_systemd)

//e2e:bed systemd

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/ingress"
)

// ingressProxy is the ingress proxy on two ports of the loopback.
type ingressProxy struct {
	plain, secure int
	// do starts, stops, restarts or reloads it, or kills it and has it start again.
	do func(verb string)
	// pid is its process.
	pid func() int
}

// ingressProxy runs the proxy until the test ends: as services of the user where there is systemd, else as a process.
func (b *box) ingressProxy() ingressProxy {
	b.t.Helper()
	if bed.name == "systemd" {
		return b.ingressUnits()
	}
	return b.ingressProcess()
}

// client sends all requests to the proxy, and trusts the internal authority.
func (u ingressProxy) client(b *box) *http.Client {
	b.t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(b.want(0, "ingress", "trust", "--export=-").out)) {
		b.t.Fatal("no certificate of the authority")
	}
	return &http.Client{
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 8,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				port := u.plain
				if strings.HasSuffix(address, ":443") {
					port = u.secure
				}
				return (&net.Dialer{}).DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", port))
			},
		},
	}
}

// askURL returns the greeting of a copy.
func askURL(c *http.Client, url string) (string, error) {
	r, err := c.Post(url+"/env/GREETING", "text/plain", strings.NewReader("hello"))
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %s, %v: %s", r.Status, err, text)
	}
	greeting, _, _ := strings.Cut(string(text), " ")
	return greeting, nil
}

// askSteadily asks until the end, and returns the answers. None may be lost.
func askSteadily(t *testing.T, c *http.Client, url string) (end func() map[string]int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	answers, stop := map[string]int{}, make(chan struct{})
	for range 4 {
		all.Go(func() {
			pace := time.NewTicker(10 * time.Millisecond)
			defer pace.Stop()
			for {
				select {
				case <-stop:
					return
				case <-pace.C:
				}
				text, err := askURL(c, url)
				mu.Lock()
				if err != nil {
					t.Errorf("a request was lost: %v", err)
				}
				answers[text]++
				mu.Unlock()
			}
		})
	}
	once := sync.OnceFunc(func() { close(stop); all.Wait() })
	t.Cleanup(once)
	return func() map[string]int { once(); t.Logf("answers: %v", answers); return answers }
}

// held is a request whose body is not sent yet, so that it is under way.
type held struct {
	body   *io.PipeWriter
	answer chan string
}

func hold(c *http.Client, url string) held {
	from, to := io.Pipe()
	h := held{to, make(chan string, 1)}
	go func() {
		r, err := c.Post(url+"/env/GREETING", "text/plain", from)
		if err != nil {
			h.answer <- err.Error()
			return
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		h.answer <- fmt.Sprintf("%d %s %v", r.StatusCode, strings.TrimSpace(string(text)), err)
	}()
	_, _ = to.Write([]byte("hel"))
	return h
}

// finish sends the rest, and returns the answer.
func (h held) finish() string {
	_, _ = h.body.Write([]byte("lo"))
	_ = h.body.Close()
	return <-h.answer
}

// status is that of a request with a name and a password.
func status(t *testing.T, c *http.Client, url, name, password string) int {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url+"/env/GREETING", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth(name, password)
	a, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	return a.StatusCode
}

// A service behind the ingress proxy: an update under steady requests loses none, the end of the agent cuts
// none, another process takes over from the proxy without a cut, and one that is killed comes back.
func TestIngressServesAService(t *testing.T) {
	b := newBox(t)
	agent := b.agent()
	definition := b.define(served("one"))
	create := []string{"service", "create", b.family, definition, "--count=2", "--wait", "--timeout=4m"}
	if r := b.want(125, append(create, "--ingress=https://app.localhost=app:80")...); !strings.Contains(r.err, "portMappings") {
		t.Errorf("a port that is not published: %s", r.err)
	}
	b.want(0, append(create, "--ingress=https://app.localhost=app:8080")...)
	if r := b.want(0, "why", b.family); !strings.Contains(r.out, "podtask ingress serve") {
		t.Errorf("without a proxy, why printed %s", r.out)
	}
	if r := b.want(125, "ingress", "status"); !strings.Contains(r.err, "is not running") {
		t.Errorf("without a proxy, status printed %s", r.err)
	}
	if r := b.want(125, "service", "create", b.family+"2", definition, "--ingress=https://APP.localhost./=app:8080"); !strings.Contains(r.err, "service "+b.family+" has https://app.localhost already") {
		t.Errorf("an address of another service: %s", r.err)
	}
	proxy := b.ingressProxy()
	c, url := proxy.client(b), "https://app.localhost"
	if text, err := askURL(c, url); text != "one" {
		t.Fatalf("answer %q, %v", text, err)
	}
	eventually(t, "why without the proxy's absence", func() bool { return !strings.Contains(b.want(0, "why", b.family).out, "podtask ingress serve") })
	r, err := c.Get("http://app.localhost/env/GREETING?a=b")
	if err != nil || r.StatusCode != http.StatusMovedPermanently || r.Header.Get("Location") != "https://app.localhost/env/GREETING?a=b" {
		t.Errorf("without TLS: %v, %+v", err, r)
	}
	inside := func(path string) error {
		_, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", proxy.pid(), filepath.Join(bed.runtime, path)))
		return err
	}
	for _, path := range []string{"bus", "podman", "systemd/private", "podtask/podtask.sock", "libpod"} {
		if bed.name == "systemd" && inside(path) == nil {
			t.Errorf("the proxy sees %s", path)
		}
	}
	if err := inside("podtask/ingress/ingress.sock"); err != nil {
		t.Errorf("its own socket: %v", err)
	}
	var s ingress.Status
	if err := json.Unmarshal([]byte(b.want(0, "ingress", "status", "--format=json").out), &s); err != nil || len(s.Routes) != 1 || len(s.Certificates) != 1 || s.Certificates[0].Issuer != "internal" {
		t.Errorf("status %+v, %v", s, err)
	}

	// An update, with a request that lasts as long.
	slow := hold(c, url)
	end := askSteadily(t, c, url)
	b.want(0, "service", "update", b.family, b.define(served("two")), "--wait", "--timeout=4m", "--drain=10s")
	if answers := end(); answers["one"] == 0 || answers["two"] == 0 {
		t.Errorf("answers by copies: %v, want some of both revisions", answers)
	}
	if got := slow.finish(); !strings.HasPrefix(got, "200 one") && !strings.HasPrefix(got, "502") { // its copy had 10 s
		t.Errorf("the request that lasted answered %s", got)
	}

	// The agent is killed while a request is under way. Routes stay.
	slow = hold(c, url)
	agent.kill()
	end = askSteadily(t, c, url)
	b.agent()
	if got := slow.finish(); !strings.HasPrefix(got, "200 two 5") {
		t.Errorf("the request during which the agent was killed answered %s", got)
	}
	if r := b.want(0, "ingress", "ls"); !strings.Contains(r.out, "https://app.localhost") {
		t.Errorf("ls printed %s", r.out)
	}

	// Another process takes over; what is under way finishes in the old one.
	slow = hold(c, url)
	before := proxy.pid()
	proxy.do("reload")
	eventually(t, "another process", func() bool { return proxy.pid() != before })
	if got := slow.finish(); !strings.HasPrefix(got, "200 two 5") {
		t.Errorf("the request during which the proxy was replaced answered %s", got)
	}
	end()

	// The proxy is killed. Clients that connect wait until it is back.
	proxy.do("kill")
	c.CloseIdleConnections()
	eventually(t, "an answer of a new proxy", func() bool {
		text, err := askURL(proxy.client(b), url)
		return err == nil && text == "two"
	})
	if logs := b.want(0, "ingress", "logs", "--tail=1", b.family).out; !strings.Contains(logs, `"service":"`+b.family+`"`) {
		t.Errorf("logs printed %s", logs)
	}

	// A canary gets its part of the requests, and users have to log in.
	end = askSteadily(t, c, url)
	b.want(0, "service", "update", b.family, b.define(served("three")), "--strategy=canary", "--canary-percent=25", "--canary-bake=3s", "--wait", "--timeout=4m")
	if answers := end(); answers["two"] == 0 || answers["three"] == 0 || answers["three"] > answers["two"]*20 {
		t.Errorf("answers by copies: %v, want some of both revisions", answers)
	}
	users := b.file("users", "ann:correct horse\n")
	b.want(0, "service", "update", b.family, "--ingress=https://app.localhost=app:8080,auth=file:"+users)
	eventually(t, "a user who may", func() bool { return status(t, c, url, "ann", "correct horse") == http.StatusOK })
	if code := status(t, c, url, "ann", "battery"); code != http.StatusUnauthorized {
		t.Errorf("with a wrong password: %d", code)
	}
	if r := b.want(0, "service", "inspect", b.family); strings.Contains(r.out, "correct horse") {
		t.Error("the service shows a password")
	}
	b.filesWithout("correct horse", b.stateHome())
	b.want(0, "service", "update", b.family, "--ingress=none")
	eventually(t, "a list without the address", func() bool { return !strings.Contains(b.want(0, "ingress", "ls").out, "app.localhost") })
	b.removeService()
}
