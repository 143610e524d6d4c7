//go:build e2e && (bed_plain || bed_systemd)

//e2e:bed systemd

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/ingress"
)

// line is a TCP connection of which each request is sent.
type line struct {
	t *testing.T
	net.Conn
	answers *bufio.Reader
}

func openLine(t *testing.T, at int) line {
	t.Helper()
	c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", at), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return line{t, c, bufio.NewReader(c)}
}

// wantAnswer sends a request and wants its answer on the same connection.
func (l line) wantAnswer(when string) {
	l.t.Helper()
	_ = l.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(l, "GET /env/GREETING HTTP/1.1\r\nHost: app\r\n\r\n")
	r, err := http.ReadResponse(l.answers, nil)
	if err != nil || r.StatusCode != http.StatusOK {
		l.t.Errorf("%s, the open connection answers %+v, %v", when, r, err)
		return
	}
	if _, err := io.ReadAll(r.Body); err != nil {
		l.t.Errorf("%s: %v", when, err)
	}
}

// proxyListens reports whether the proxy listens for a service.
func (b *box) proxyListens(service string) bool {
	b.t.Helper()
	var s ingress.Status
	r := b.podtask("ingress", "status", "--format=json")
	return json.Unmarshal([]byte(r.out), &s) == nil && slices.ContainsFunc(s.Listeners, func(l ingress.Listener) bool { return l.Service == service && l.Problem == "" })
}

// A connection through --listen stays open while the agent is killed and another one starts, and while another
// process of the proxy takes over. Without a proxy the agent listens.
func TestListenOutlivesTheAgent(t *testing.T) {
	b := newBox(t)
	agent := b.agent()
	proxy := b.ingressProxy()
	at := freePort(t)
	b.want(0, "service", "create", b.family, b.define(served("one")), fmt.Sprintf("--listen=127.0.0.1:%d=app:8080", at), "--wait", "--timeout=4m")
	eventually(t, "a proxy that listens", func() bool { return b.proxyListens(b.family) })
	kept := openLine(t, at)
	kept.wantAnswer("at first")

	agent.kill()
	kept.wantAnswer("without an agent")
	brief := openLine(t, at)
	brief.wantAnswer("a new one without an agent")
	brief.Close()
	b.agent()
	kept.wantAnswer("with another agent")

	before := proxy.pid()
	proxy.do("reload")
	eventually(t, "another process", func() bool { return proxy.pid() != before })
	kept.wantAnswer("after a handover")
	brief = openLine(t, at)
	brief.wantAnswer("a new one after a handover")
	brief.Close()

	proxy.do("kill")
	// Connections of a process that is killed are lost; new ones have an answer soon.
	eventually(t, "an answer after the proxy was killed", func() bool {
		text, err := get(fmt.Sprintf("http://127.0.0.1:%d/env/GREETING", at))
		return err == nil && text != ""
	})
	kept.Close() // without a service manager the process before still has it
	b.removeService()
	if b.proxyListens(b.family) {
		t.Error("the proxy listens for a service that was removed")
	}
}

// The address moves from the agent to the proxy, and its socket with it: of the clients that connect meanwhile none fails.
func TestListenMovesToTheProxy(t *testing.T) {
	b := newBox(t)
	agent := b.agent()
	at := freePort(t)
	b.want(0, "service", "create", b.family, b.define(served("one")), fmt.Sprintf("--listen=127.0.0.1:%d=app:8080", at), "--wait", "--timeout=4m")
	asked, stop := askBriefly(t, at)
	b.ingressProxy()
	eventually(t, "a proxy that listens", func() bool { return b.proxyListens(b.family) })
	after := asked.Load()
	eventually(t, "requests to the proxy", func() bool { return asked.Load() > after+50 })
	stop()
	if said := agent.err.String(); strings.Contains(said, "does not take a listener") {
		t.Errorf("the agent said %s", said)
	}
	b.removeService()
}

// askBriefly has clients ask with a connection for each request, none of which may fail, until stop.
func askBriefly(t *testing.T, at int) (asked *atomic.Int64, stop func()) {
	c := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	var clients sync.WaitGroup
	asked = new(atomic.Int64)
	end := make(chan struct{})
	for range 8 {
		clients.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				if text, err := askURL(c, fmt.Sprintf("http://127.0.0.1:%d", at)); err != nil || text != "one" {
					t.Errorf("%q, %v", text, err)
					return
				}
				asked.Add(1)
			}
		})
	}
	return asked, func() { close(end); clients.Wait() }
}

// A proxy that ends gives its listeners to the agent, and the next one gets them back: of the clients that connect
// meanwhile none is refused or reset.
func TestListenOutlivesTheProxy(t *testing.T) {
	b := newBox(t)
	agent := b.agent()
	proxy := b.ingressProxy()
	at := freePort(t)
	b.want(0, "service", "create", b.family, b.define(served("one")), fmt.Sprintf("--listen=127.0.0.1:%d=app:8080", at), "--wait", "--timeout=4m")
	eventually(t, "a proxy that listens", func() bool { return b.proxyListens(b.family) })
	asked, stop := askBriefly(t, at)
	for _, verb := range []string{"restart", "restart", "stop", "start"} {
		proxy.do(verb)
		if verb != "stop" {
			eventually(t, "a proxy that listens", func() bool { return b.proxyListens(b.family) })
		}
		before := asked.Load()
		eventually(t, "requests after "+verb, func() bool { return asked.Load() > before+50 })
	}
	stop()
	if said := agent.err.String(); strings.Contains(said, "does not take a listener") || strings.Contains(said, "is not taken from") {
		t.Errorf("the agent said %s", said)
	}
	b.removeService()
}
