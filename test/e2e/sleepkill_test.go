//go:build e2e && (bed_plain || bed_systemd)

//e2e:bed systemd

package e2e

import (
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The agent, the ingress proxy and Podman's service are killed at random moments while a service wakes, several times each. Requests that the
// proxy holds are answered unless the proxy itself was killed; then the next one is. Afterwards the service sleeps again, and runs nothing.
// The seed is printed; PODTASK_SEED repeats it.
func TestKilledWhileAServiceWakes(t *testing.T) {
	r := rand.New(rand.NewPCG(seedOf(t), 0))
	b := newBox(t)
	agent := b.agent()
	proxy := b.ingressProxy()
	b.want(0, "service", "create", b.family, b.define(served("one")), "--ingress=https://app.localhost=app:8080", "--sleep-after=2s", "--wait", "--timeout=4m")
	c := proxy.client(b)
	ask := func() (string, error) { return askURL(c, "https://app.localhost") }
	victims := []string{"agent", "proxy", "podman"}
	for round := range 4 * len(victims) {
		victim := victims[round%len(victims)]
		b.fallsAsleep()
		before := b.sleeper().Wakes
		var held sync.WaitGroup
		held.Go(func() {
			if victim != "proxy" {
				visit(t, 5, ask)
				return
			}
			_, _ = ask() // its connection ends with the proxy
		})
		at := time.Duration(r.IntN(1200)) * time.Millisecond
		<-time.After(at)
		switch victim {
		case "agent":
			agent.kill()
			agent = b.agent()
		case "proxy":
			proxy.do("kill")
			eventually(t, "an answer of the next proxy", func() bool { text, err := ask(); return err == nil && text == "one" })
		default:
			if pid := servicePID(); pid != 0 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		held.Wait()
		t.Logf("round %d: %s was killed after %s; %d wakes", round, victim, at, b.sleeper().Wakes-before)
		if t.Failed() {
			break
		}
	}
	b.fallsAsleep()
	b.removeService()
}
