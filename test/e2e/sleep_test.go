//go:build e2e && (bed_plain || bed_systemd)

//e2e:bed systemd

package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/api"
)

// sleeper returns what the agent says of the service of the test.
func (b *box) sleeper() api.Service {
	b.t.Helper()
	var all []api.Service
	if r := b.want(0, "service", "inspect", b.family); json.Unmarshal([]byte(r.out), &all) != nil || len(all) != 1 {
		b.t.Fatalf("inspect printed %s", r.out)
	}
	return all[0]
}

// fewHandshakes lets a client make 32 TLS handshakes at a time. The HTTP/2 server of Go closes a connection whose first frame does not
// come within two seconds, and with it all requests on it: a thousand handshakes at once take a busy machine longer.
func fewHandshakes(t *http.Transport) {
	free, dial, config := make(chan struct{}, 32), t.DialContext, t.TLSClientConfig.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		free <- struct{}{}
		defer func() { <-free }()
		inner, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		own := config.Clone()
		own.ServerName, _, _ = net.SplitHostPort(address)
		c := tls.Client(inner, own)
		if err := c.HandshakeContext(ctx); err != nil {
			inner.Close()
			return nil, err
		}
		return c, nil
	}
}

// fallsAsleep waits until no copy runs.
func (b *box) fallsAsleep() {
	b.t.Helper()
	eventually(b.t, "a service that sleeps", func() bool { s := b.sleeper(); return s.Sleep == api.SleepAsleep && s.Steady })
	if s := b.sleeper(); s.RunningCount != 0 {
		b.t.Errorf("%d copies run of a service that sleeps", s.RunningCount)
	}
}

// visit has clients ask at once, each with a connection of its own. None may be lost.
func visit(t *testing.T, clients int, ask func() (string, error)) {
	t.Helper()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			if text, err := ask(); err != nil || text != "one" {
				t.Errorf("a first connection was lost: %q, %v", text, err)
			}
		})
	}
	all.Wait()
}

func fresh() *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
}

// A service sleeps when nobody uses it, also after its agent was killed, and many first connections start one copy.
func TestSleepAndWakeByListener(t *testing.T) {
	b := newBox(t)
	agent := b.agent()
	at := freePort(t)
	create := []string{"service", "create", b.family, b.define(served("one")), "--sleep-after=2s", "--wait", "--timeout=4m"}
	if r := b.want(125, create...); !strings.Contains(r.err, "--listen, --name-as, --ingress") {
		t.Errorf("without an address: %s", r.err)
	}
	b.want(0, append(create, fmt.Sprintf("--listen=127.0.0.1:%d=app:8080", at), "--count=2")...)
	ask := func() (string, error) { return askURL(fresh(), fmt.Sprintf("http://127.0.0.1:%d", at)) }
	b.fallsAsleep()
	for verb, want := range map[string]string{"ls": "asleep", "ps": "is asleep"} {
		args := []string{"service", verb}
		if verb == "ps" {
			args = append(args, b.family)
		}
		if r := b.want(0, args...); !strings.Contains(r.out+r.err, want) {
			t.Errorf("%s printed %s%s", verb, r.out, r.err)
		}
	}
	if r := b.want(0, "why", b.family); !strings.Contains(r.out, "the next connection wakes it") {
		t.Errorf("why printed %s", r.out)
	}

	before := b.sleeper()
	visit(t, 1000, ask)
	after := b.sleeper()
	if after.Wakes != before.Wakes+1 {
		t.Errorf("it was woken %d times by connections that came at once", after.Wakes-before.Wakes)
	}
	// A connection that is open keeps it awake.
	kept := openLine(t, at)
	kept.wantAnswer("at first")
	eventually(t, "two copies", func() bool { return b.sleeper().HealthyCount == 2 })
	idle := time.Now()
	eventually(t, "twice the time after which it sleeps", func() bool { return time.Since(idle) > 5*time.Second })
	if s := b.sleeper(); s.Sleep != api.SleepAwake || s.HealthyCount != 2 {
		t.Errorf("with an open connection it is %s, %d copies", s.Sleep, s.HealthyCount)
	}
	kept.wantAnswer("after a while")
	kept.Close()
	b.fallsAsleep()

	// The agent is killed while the service sleeps, and while it wakes.
	agent.kill()
	agent = b.agent()
	if s := b.sleeper(); s.Sleep != api.SleepAsleep || s.RunningCount+s.PendingCount != 0 {
		t.Errorf("after the agent was killed: %s, %d copies", s.Sleep, s.RunningCount+s.PendingCount)
	}
	visit(t, 1, ask)
	b.fallsAsleep()
	lost := openLine(t, at) // it ends with the agent, which holds it
	fmt.Fprint(lost, "GET /env/GREETING HTTP/1.1\r\nHost: app\r\n\r\n")
	eventually(t, "a service that wakes", func() bool { return b.sleeper().Sleep != api.SleepAsleep })
	agent.kill()
	b.agent()
	before = b.sleeper()
	eventually(t, "a copy", func() bool { return b.sleeper().HealthyCount > 0 })
	if s := b.sleeper(); s.Wakes != before.Wakes {
		t.Errorf("it was woken %d times more", s.Wakes-before.Wakes)
	}
	visit(t, 20, ask)
	b.fallsAsleep()

	// A command in the service wakes it, too, and so does a person.
	if r := b.want(0, "exec", b.family, "--", "/testbox", "exists", "/testbox"); !strings.Contains(r.err, "waking it") {
		t.Errorf("exec printed %s", r.err)
	}
	b.fallsAsleep()
	b.want(0, "service", "wake", b.family, "--wait", "--timeout=4m")
	b.fallsAsleep()

	// A deployment is tried, and the service sleeps again.
	r := b.want(0, "service", "update", b.family, b.define(served("two")), "--wait", "--timeout=4m")
	if s := b.sleeper(); s.Sleep != api.SleepAsleep || s.RunningCount != 0 || s.Deployments[0].RolloutState != "COMPLETED" {
		t.Errorf("%s after an update: %s%+v", s.Sleep, r.err, s.Deployments)
	}
	if text, err := ask(); text != "two" {
		t.Errorf("it woke with %q, %v", text, err)
	}
	b.removeService()
}

// A public address wakes a service: requests are held by the proxy, also while the agent is killed; a client who waits too long is
// told to come back; a WebSocket keeps it awake; and a task reaches it by its name.
func TestSleepAndWakeByIngressAndName(t *testing.T) {
	b := newBox(t)
	agent := b.agent()
	proxy := b.ingressProxy()
	b.want(0, "service", "create", b.family, b.define(served("one")), "--ingress=https://app.localhost=app:8080", "--name-as=app:80=app:8080",
		"--namespace="+b.family, "--sleep-after=2s", "--wait", "--timeout=4m")
	c, url := proxy.client(b), "https://app.localhost"
	fewHandshakes(c.Transport.(*http.Transport))
	ask := func() (string, error) { return askURL(c, url) }
	b.fallsAsleep()
	before := b.sleeper()
	visit(t, 1000, ask)
	if s := b.sleeper(); s.Wakes != before.Wakes+1 {
		t.Errorf("it was woken %d times by requests that came at once", s.Wakes-before.Wakes)
	}
	socket, err := proxy.dialSocket(b, "app.localhost")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := askSocket(socket, "hello"); err != nil {
		t.Error(err)
	}
	idle := time.Now()
	eventually(t, "twice the time after which it sleeps", func() bool { return time.Since(idle) > 5*time.Second })
	if _, err := askSocket(socket, "hello"); err != nil || b.sleeper().Sleep != api.SleepAwake {
		t.Errorf("with a WebSocket it is %s, %v", b.sleeper().Sleep, err)
	}
	socket.Close()
	b.fallsAsleep()

	// The agent is killed while the proxy holds requests: the next one wakes the service for them.
	agent.kill()
	var held sync.WaitGroup
	held.Go(func() { visit(t, 20, ask) })
	agent = b.agent()
	held.Wait()
	b.fallsAsleep()
	held.Go(func() { visit(t, 20, ask) })
	eventually(t, "a service that wakes", func() bool { return b.sleeper().Sleep != api.SleepAsleep })
	agent.kill()
	b.agent()
	held.Wait()
	b.fallsAsleep()

	// A name wakes it, too.
	b.want(0, "run", "--rm", "--namespace="+b.family, b.define(ctr{Name: "client", Command: words("get http://app:80/env/GREETING")}))
	if s := b.sleeper(); s.Wakes <= before.Wakes+3 {
		t.Errorf("the name did not wake it: %d times", s.Wakes)
	}
	b.fallsAsleep()

	// A copy that never becomes healthy: clients are told to come back.
	bad := served("one")
	bad.Health = healthyIf("exists /tmp/never")
	b.want(0, "service", "update", b.family, b.define(bad), "--no-rollback", "--hold=2s")
	r, err := c.Get(url + "/env/GREETING")
	if err != nil || r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
		t.Errorf("%v, %+v", err, r)
	}
	b.removeService()
}
