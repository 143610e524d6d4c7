//go:build e2e && bed_systemd

package e2e

import (
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// steady are clients that ask all the time, with a connection for each request.
type steady struct {
	t     *testing.T
	ask   func() error
	asked atomic.Int64
	lost  atomic.Int64
	// under is held for reading during a request: a kill waits until none is under way, because what a process has
	// accepted ends with it.
	under sync.RWMutex
	end   chan struct{}
	all   sync.WaitGroup
}

func newSteady(t *testing.T, ask func() error) *steady {
	s := &steady{t: t, ask: ask, end: make(chan struct{})}
	for range 4 {
		s.all.Go(func() {
			for {
				select {
				case <-s.end:
					return
				default:
				}
				s.under.RLock()
				err := s.ask()
				s.under.RUnlock()
				s.asked.Add(1)
				if err != nil {
					s.lost.Add(1)
					t.Errorf("a request is lost: %v", err)
				}
			}
		})
	}
	return s
}

// kill kills a process between two requests, and waits until some that came after it were answered.
func (s *steady) kill(pid func() int) {
	s.t.Helper()
	before := pid()
	s.under.Lock()
	err := syscall.Kill(before, syscall.SIGKILL)
	s.under.Unlock()
	if err != nil {
		s.t.Fatal(err)
	}
	n := s.asked.Load()
	eventually(s.t, "requests after the kill", func() bool { return s.asked.Load() > n+20 })
	eventually(s.t, "another process", func() bool { now := pid(); return now != 0 && now != before })
}

// until stops after a number of requests.
func (s *steady) until(requests int64) {
	s.t.Helper()
	eventually(s.t, "all requests", func() bool { return s.asked.Load() >= requests })
	close(s.end)
	s.all.Wait()
	s.t.Logf("%d of %d requests were lost", s.lost.Load(), s.asked.Load())
}

// mainPID returns the process of a unit of the user; 0 while there is none.
func mainPID(unit string) func() int {
	return func() int {
		out, _ := exec.Command("systemctl", "--user", "show", "--property=MainPID", "--value", unit).Output()
		n, _ := strconv.Atoi(strings.TrimSpace(string(out)))
		return n
	}
}

// briefClient asks with a connection for each request.
func briefClient() *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
}

// systemd keeps the listeners of services while the agent, which has them without a proxy, is killed and started
// again: connections wait. PODTASK_KILLS sets how often.
func TestListenersOutliveTheAgentsUnit(t *testing.T) {
	b := newBox(t)
	unit := b.agentUnit("[Unit]\nStartLimitIntervalSec=0\n")
	unit.systemctl("start", "podtask.socket", "podtask.service")
	at := freePort(t)
	b.want(0, "service", "create", b.family, b.define(served("one")), fmt.Sprintf("--listen=127.0.0.1:%d=app:8080", at), "--wait", "--timeout=4m")
	c := briefClient()
	s := newSteady(t, func() error {
		text, err := askURL(c, fmt.Sprintf("http://127.0.0.1:%d", at))
		if err == nil && text != "one" {
			err = fmt.Errorf("the answer is %q", text)
		}
		return err
	})
	for range numberOf(t, "PODTASK_KILLS", 3) {
		s.kill(mainPID("podtask.service"))
	}
	unit.systemctl("restart", "podtask.service")
	s.until(1000)
	if kept := unit.show("NFileDescriptorStore"); kept != "1" {
		t.Errorf("systemd keeps %s listeners, want 1", kept)
	}
	b.removeService()
	eventually(t, "a listener that systemd has closed", func() bool { return unit.show("NFileDescriptorStore") == "0" })
	unit.systemctl("stop", "podtask.socket", "podtask.service")
}

// So it does with those of the ingress proxy: addresses of HTTPS, and listeners of services.
func TestListenersOutliveTheIngressUnit(t *testing.T) {
	b := newBox(t)
	b.agent()
	proxy := b.ingressUnits()
	at := freePort(t)
	b.want(0, "service", "create", b.family, b.define(served("one")), fmt.Sprintf("--listen=127.0.0.1:%d=app:8080", at),
		"--ingress=https://app.localhost=app:8080", "--wait", "--timeout=4m")
	eventually(t, "a proxy that listens", func() bool { return b.proxyListens(b.family) })
	secure, plain := proxy.client(b), briefClient()
	secure.Transport.(*http.Transport).DisableKeepAlives = true
	var turn atomic.Int64
	s := newSteady(t, func() error {
		c, url := plain, fmt.Sprintf("http://127.0.0.1:%d", at)
		if turn.Add(1)%2 == 0 {
			c, url = secure, "https://app.localhost"
		}
		text, err := askURL(c, url)
		if err == nil && text != "one" {
			err = fmt.Errorf("%s answers %q", url, text)
		}
		return err
	})
	for range numberOf(t, "PODTASK_KILLS", 3) {
		s.kill(mainPID("podtask-ingress.service"))
		<-time.After(2 * time.Second) // systemd starts a unit five times in ten seconds
	}
	s.until(1000)
	b.removeService()
}
