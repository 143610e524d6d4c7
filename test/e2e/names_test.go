//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/api"
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
	return map[string]string{
		"alone":  b.write(def{Containers: []ctr{client}}),
		"shared": b.write(def{Containers: []ctr{client, idle}, More: obj{"x-podtask": obj{"network": "shared"}}}),
		"bridge": b.write(def{Containers: []ctr{client, idle}, Network: "bridge"}),
	}
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

// Only tasks of the namespace reach its names, and one that opens connections without end leaves the others theirs. A task that no agent runs says
// that it reaches none.
func TestWhoReachesNames(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	file := b.define(ctr{Name: "app", Command: words("term 0 -- wait /tmp/go")})
	alone := b.detach("--namespace="+b.family, file)
	eventually(t, "the task says that it has no names", func() bool {
		errs := b.inspect(alone).Containers[0].Errors
		return len(errs) > 0 && errs[0].Name == "ServiceNamesError" && strings.Contains(errs[0].Message, "no agent runs the task")
	})
	b.want(0, "rm", "--force", alone)
	agent := b.agent()
	url := "http://orders:8080/env/GREETING"
	b.want(0, "service", "create", b.family, b.define(served("one")), "--name-as=orders", "--namespace="+b.family, "--wait", "--timeout=4m")
	if r := b.want(125, "service", "create", b.family+"2", b.define(served("one")), "--name-as=orders", "--namespace="+b.family); !strings.Contains(r.err, "service "+b.family+" has the name orders:8080") {
		t.Errorf("a name that is taken: %s", r.err)
	}
	if s := b.service(); s.Namespace != b.family || len(s.Names) != 1 || s.Names[0] != (api.ServiceName{Name: "orders", Port: 8080, ContainerName: "app", ContainerPort: 8080}) {
		t.Errorf("inspect: namespace %s, names %+v", s.Namespace, s.Names)
	}
	other := b.family + "-other"
	b.want(0, "service", "create", other, b.define(served("one")), "--name-as=other", "--namespace="+b.family)
	if r := b.want(125, "service", "update", other, "--name-as=orders"); !strings.Contains(r.err, "service "+b.family+" has the name orders:8080") {
		t.Errorf("an update to a name that is taken: %s", r.err)
	}
	b.want(0, "service", "rm", "--force", other)
	if r := b.want(125, "run", "-d", "--network=host", "--namespace="+b.family, file); !strings.Contains(r.err, "networkMode") {
		t.Errorf("the host's network: %s", r.err)
	}
	in := b.detach("--namespace="+b.family, file)
	out := b.detach("--namespace=other", file)
	none := b.detach(file)
	step := func(id string, steps string) result {
		return b.podtask(append([]string{"exec", id, "app", "/testbox"}, words(steps)...)...)
	}
	eventually(t, "the task of the namespace gets an answer", func() bool { return strings.TrimSpace(step(in, "get "+url).out) == "one" })
	resolved := strings.Fields(step(in, "resolve orders").out)
	address := resolved[len(resolved)-1]
	for what, id := range map[string]string{"another namespace": out, "no namespace": none} {
		eventually(t, what+" runs", func() bool { return b.inspect(id).Status == "RUNNING" })
		if r := step(id, "cannot resolve orders"); r.code != 0 {
			t.Errorf("%s resolves the name: %s%s", what, r.out, r.err)
		}
		if r := step(id, "get http://"+address+":8080/env/GREETING"); strings.TrimSpace(r.out) == "one" { // what is there is another network's
			t.Errorf("%s reaches %s: %s%s", what, address, r.out, r.err)
		}
	}
	second := b.detach("--namespace="+b.family, file)
	flood := b.start("exec", in, "app", "/testbox", "flood", "orders:8080", "2000")
	eventually(t, "a task beside the flood gets an answer", func() bool { return strings.TrimSpace(step(second, "get "+url).out) == "one" })
	for range 5 {
		if r := step(second, "get "+url); strings.TrimSpace(r.out) != "one" {
			t.Errorf("beside a flood: %s%s", r.out, r.err)
		}
	}
	flood.kill()
	b.want(0, "service", "scale", b.family+"=0", "--wait")
	if r := b.want(0, "why", second); !strings.Contains(r.out, "Connections to orders:8080 find no copy") {
		t.Errorf("why: %s", r.out)
	}
	b.want(0, "rm", "--force", in, out, none, second)
	b.removeService()
	agent.end()
}
