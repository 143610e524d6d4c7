//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/test/testbed"
)

// asks is a container that waits for a name and then uses it all the time, each time on a connection of its own, until
// it is told that this is enough.
func asks(url string) ctr {
	return ctr{Name: "app", Command: words("term 0 -- await " + url + " -- ask " + url + " /tmp/enough -- write /tmp/asked -- wait /tmp/go")}
}

// shapes are the networks that a client may have.
func shapes(b *box) map[string]string {
	idle := ctr{Name: "side", Command: words("term 0 -- wait /tmp/go")}
	client := asks("http://orders:8080/env/GREETING")
	all := map[string]string{
		"alone":  b.write(def{Containers: []ctr{client}}),
		"shared": b.write(def{Containers: []ctr{client, idle}, More: obj{"x-podtask": obj{"network": "shared"}}}),
	}
	if testbed.HasBridge() {
		all["bridge"] = b.write(def{Containers: []ctr{client, idle}, Network: "bridge"})
	}
	return all
}

// Tasks reach a service by its name, whatever their network is, also if they were there before the name: through a
// rolling update without a failure, and again after the agent was killed. A service that is gone is refused at once, and its name
// keeps its address.
func TestServiceIsReachedByName(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	agent := b.agent()
	namespace := "--namespace=" + b.family
	copies := make(map[string]string)
	for shape, file := range shapes(b) {
		name := b.family + "-" + shape
		b.want(0, "service", "create", name, file, namespace)
		copies[shape] = name + "-1"
	}
	create := []string{"service", "create", b.family, b.define(served("one")), "--count=2", "--name-as=orders:8080", namespace, "--wait", "--timeout=4m"}
	b.want(0, create...)
	says := func(id, text string) {
		t.Helper()
		eventually(t, id+" hears "+text, func() bool {
			return slices.Contains(strings.Fields(b.podtask("logs", id).out), text)
		})
	}
	for _, id := range copies {
		says(id, "one")
	}
	b.want(0, "service", "update", b.family, b.define(served("two")), "--wait", "--timeout=4m")
	for _, id := range copies {
		says(id, "two")
		b.tell(id, "app", "/tmp/enough")
		says(id, "asked") // no request failed: the container would have ended
	}

	one := func(id string) result {
		return b.podtask("exec", id, "app", "/testbox", "get", "http://orders:8080/env/GREETING")
	}
	agent.kill()
	for shape, id := range copies {
		if r := one(id); r.code == 0 {
			t.Errorf("%s: without an agent the name answers %s", shape, r.out)
		}
	}
	agent = b.agent()
	for shape, id := range copies {
		eventually(t, shape+" reaches the name again", func() bool { return strings.TrimSpace(one(id).out) == "two" })
	}

	address := func(id string) string {
		return strings.TrimSpace(b.want(0, "exec", id, "app", "/testbox", "resolve", "orders").out)
	}
	before := make(map[string]string)
	for shape, id := range copies {
		before[shape] = address(id)
	}
	b.want(0, "service", "rm", "--force", "--wait", "--timeout=4m", b.family)
	for shape, id := range copies {
		if r := one(id); r.code == 0 {
			t.Errorf("%s: a service that is gone answers %s", shape, r.out)
		}
	}
	b.want(0, create...)
	for shape, id := range copies {
		eventually(t, shape+" reaches the new service", func() bool { return strings.TrimSpace(one(id).out) == "one" })
		if now := address(id); now != before[shape] {
			t.Errorf("%s: the name has moved from %s to %s", shape, before[shape], now)
		}
	}
	for shape := range copies {
		b.want(0, "service", "rm", "--force", "--wait", "--timeout=4m", b.family+"-"+shape)
	}
	b.removeService()
	if left, _ := filepath.Glob(filepath.Join(b.stateHome(), "podtask", "names", "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	agent.end()
	if _, err := os.Stat(b.agentSocket()); err == nil {
		t.Error("the socket of the agent is left")
	}
}
