//go:build e2e && (bed_plain || bed_systemd) && nightly

//e2e:bed systemd

package e2e

import (
	"fmt"
	"testing"
)

// A thousand requests a second through the ingress proxy, by HTTP/1.1 and HTTP/2, lose none while a service is
// updated, while a canary shifts, while the agent is killed and while another proxy takes over.
func TestIngressLosesNoneOfAThousandASecond(t *testing.T) {
	b := newBox(t)
	agent := b.agent()
	url := "https://app.localhost"
	b.want(0, "service", "create", b.family, b.define(served("one")), "--count=3", "--ingress="+url+"=app:8080", "--drain=5s", "--wait", "--timeout=4m")
	proxy := b.ingressProxy()
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
	before := proxy.pid()
	proxy.do("reload")
	eventually(t, "another process", func() bool { return proxy.pid() != before })
	b.want(0, "service", "update", b.family, "--force", "--wait", "--timeout=4m")
	load.none(fmt.Sprintf("process %d replaced", before))
	b.removeService()
}

// A thousand requests a second, and clients of other protocols, lose nothing while a service is updated, rolled back and scaled.
func TestIngressClientsOfAThousandASecond(t *testing.T) { clientsThroughChanges(t, 1000) }
