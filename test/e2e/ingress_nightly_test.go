//go:build e2e && bed_systemd && nightly

package e2e

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// steadyHTTP asks an address at a rate, whether or not the answers before have come: by HTTP/2 and HTTP/1.1, one of
// twenty requests on a connection of its own.
type steadyHTTP struct {
	t       *testing.T
	stop    chan struct{}
	all     sync.WaitGroup
	mu      sync.Mutex
	answers map[string]int
	lost    []error
	slowest time.Duration
}

func startHTTP(t *testing.T, u ingressUnit, b *box, url string, perSecond int) *steadyHTTP {
	s := &steadyHTTP{t: t, stop: make(chan struct{}), answers: map[string]int{}}
	two, one, fresh := u.client(b), u.client(b), u.client(b)
	for _, c := range []*http.Client{one, fresh} {
		c.Transport.(*http.Transport).ForceAttemptHTTP2 = false
		c.Transport.(*http.Transport).TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	one.Transport.(*http.Transport).MaxIdleConnsPerHost = 256
	fresh.Transport.(*http.Transport).DisableKeepAlives = true
	begin, every := time.Now(), time.Second/time.Duration(perSecond)
	s.all.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; {
			select {
			case <-s.stop:
				return
			case <-tick.C:
			}
			for ; n < int(time.Since(begin)/every); n++ {
				c := two
				if n%20 == 0 {
					c = fresh
				} else if n%2 == 0 {
					c = one
				}
				s.all.Go(func() { s.ask(c, url) })
			}
		}
	})
	return s
}

func (s *steadyHTTP) ask(c *http.Client, url string) {
	asked := time.Now()
	text, err := askURL(c, url)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slowest = max(s.slowest, time.Since(asked))
	if err != nil {
		s.lost = append(s.lost, err)
		return
	}
	s.answers[text]++
}

// none ends the load, checks that no request was lost, and returns the answers.
func (s *steadyHTTP) none(what string) map[string]int {
	s.t.Helper()
	close(s.stop)
	s.all.Wait()
	s.t.Logf("%s: answers %v, the slowest after %v", what, s.answers, s.slowest.Round(time.Millisecond))
	if n := len(s.lost); n > 0 {
		s.t.Errorf("%s: %d requests were lost, the first: %v", what, n, s.lost[0])
	}
	return s.answers
}

// A thousand requests a second through the ingress proxy, by HTTP/1.1 and HTTP/2, lose none while a service is
// updated, while a canary shifts, while the agent is killed and while another proxy takes over.
func TestIngressLosesNoneOfAThousandASecond(t *testing.T) {
	b := newBox(t)
	agent := b.agent()
	url := "https://app.localhost"
	b.want(0, "service", "create", b.family, b.define(served("one")), "--count=3", "--ingress="+url+"=app:8080", "--drain=5s", "--wait", "--timeout=4m")
	proxy := b.ingressUnit()
	eventually(t, "an answer", func() bool { text, err := askURL(proxy.client(b), url); return err == nil && text == "one" })

	load := startHTTP(t, proxy, b, url, 1000)
	b.want(0, "service", "update", b.family, b.define(served("two")), "--wait", "--timeout=4m")
	if answers := load.none("rolling update"); answers["one"] == 0 || answers["two"] == 0 {
		t.Errorf("answers %v", answers)
	}
	load = startHTTP(t, proxy, b, url, 1000)
	b.want(0, "service", "update", b.family, b.define(served("three")), "--strategy=canary", "--canary-percent=25", "--canary-bake=5s", "--wait", "--timeout=4m")
	if answers := load.none("canary"); answers["two"] == 0 || answers["three"] == 0 {
		t.Errorf("answers %v", answers)
	}
	load = startHTTP(t, proxy, b, url, 1000)
	agent.kill()
	b.agent()
	b.want(0, "service", "update", b.family, "--force", "--strategy=rolling", "--wait", "--timeout=4m")
	load.none("agent killed, and an update by the next")
	load = startHTTP(t, proxy, b, url, 1000)
	before := proxy.pid(t)
	proxy.systemctl("reload", "podtask-ingress.service")
	eventually(t, "another process", func() bool { return proxy.pid(t) != before })
	b.want(0, "service", "update", b.family, "--force", "--wait", "--timeout=4m")
	load.none(fmt.Sprintf("process %d replaced", before))
	b.removeService()
}
