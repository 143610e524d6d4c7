//go:build e2e

//e2e:bed systemd

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/api"
)

// revision registers a definition of one container and returns its FAMILY:REVISION.
func (b *box) revision(c ctr) string {
	b.t.Helper()
	return strings.TrimSpace(b.want(0, "taskdef", "register", b.define(c)).out)
}

// copyOf is a container that runs until it is told to end; n makes a revision of it.
func copyOf(n string) ctr {
	return ctr{Name: "app", Command: words("term 0 -- write /tmp/well -- print " + n + " -- wait /tmp/go"), Health: healthyIf("exists /tmp/well")}
}

// service is what inspect says of the box's service.
func (b *box) service() api.Service {
	b.t.Helper()
	var all []api.Service
	if err := json.Unmarshal([]byte(b.want(0, "service", "inspect", b.family).out), &all); err != nil || len(all) != 1 {
		b.t.Fatalf("%d services, %v", len(all), err)
	}
	return all[0]
}

// well are the names of the copies that are well.
func (b *box) well() (names []string) {
	b.t.Helper()
	for _, t := range b.service().Tasks {
		if t.Healthy {
			names = append(names, t.Name)
		}
	}
	return names
}

// removeService removes the box's service and checks that nothing is left of it.
func (b *box) removeService() {
	b.t.Helper()
	b.want(0, "service", "rm", "--force", "--wait", "--timeout=4m", b.family)
	if got := b.want(0, "ps", "-aq").out + b.objects(); got != "" {
		b.t.Errorf("left: %s", got)
	}
}

func TestServiceReplacesCopies(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	if r := b.want(125, "service", "ls"); !strings.Contains(r.err, "podtask agent") {
		t.Errorf("without an agent it printed %q", r.err)
	}
	b.agent()
	b.want(0, "service", "create", b.family, b.define(copyOf("one")), "--count=3", "--wait", "--timeout=4m")
	names := b.well()
	if len(names) != 3 || b.service().TaskDefinition != b.family+":1" {
		t.Fatalf("%v are well, of %s", names, b.service().TaskDefinition)
	}
	labels := b.podman("ps", "--filter", "label=podtask.service="+b.family, "--filter", "label=podtask.container=app", "--format", "{{.ID}}")
	if strings.Count(labels, "\n") != 2 {
		t.Errorf("with the service's label: %q", labels)
	}
	if got := b.want(0, "ps", "-q", "--filter", "service="+b.family, "--filter", "status=running").out; strings.Count(got, "\n") != 3 {
		t.Errorf("ps finds of the service: %q", got)
	}

	// One is killed, one becomes unhealthy.
	b.podman("kill", b.inspect(names[0]).Containers[0].RuntimeID)
	b.podman("exec", b.inspect(names[1]).Containers[0].RuntimeID, "/testbox", "remove", "/tmp/well")
	eventually(t, "two replacements", func() bool {
		now := b.well()
		return len(now) == 3 && now[0] == names[2]
	})
	if r := b.want(0, "why", b.family); !strings.Contains(r.out, "3 copies") && !strings.Contains(r.out, "3 of 3") {
		t.Errorf("why printed %q", r.out)
	}
	for _, said := range []string{"failed container health checks", "Z steady\n"} {
		if got := b.want(0, "service", "events", b.family).out; !strings.Contains(got, said) {
			t.Errorf("%q is missing in %s", said, got)
		}
	}
	if r := b.want(125, "service", "rm", b.family); !strings.Contains(r.err, "scale") {
		t.Errorf("rm printed %q", r.err)
	}
	b.want(0, "service", "scale", b.family+"=1", "--wait", "--timeout=4m")
	if got := b.running(); strings.Count(got, "\n") != 0 || got == "" {
		t.Errorf("after scaling down run: %q", got)
	}
	b.removeService()
}

// What no registry can have is an error of create and update too: nothing is deployed.
func TestMissingLocalImageIsAnErrorOfAService(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	missing := "localhost/" + b.family + ":1"
	refused := func(args ...string) {
		t.Helper()
		if r := b.want(125, append([]string{"service"}, args...)...); !strings.Contains(r.err, ": container app: there is no image "+missing+" on this host: build it with `podman build -t "+missing+" .`") {
			t.Errorf("%v says %q", args, r.err)
		}
	}
	refused("create", b.family, b.hello(missing))
	if got := b.want(0, "service", "ls", "-q").out; got != "" {
		t.Errorf("there are the services %q", got)
	}
	b.want(0, "service", "create", "--wait", b.family, b.define(ctr{Name: "app", Command: words("sleep forever")}))
	refused("update", b.family, b.hello(missing))
	refused("update", b.family, "--image", missing)
	var all []api.Service
	if err := json.Unmarshal([]byte(b.want(0, "service", "inspect", b.family).out), &all); err != nil || len(all) != 1 || len(all[0].History) != 1 {
		t.Errorf("%v: after the refusals the history is %+v", err, all)
	}
	b.removeService()
}

func TestServiceRollsForwardAndBack(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	first := b.agent()
	b.want(0, "service", "create", b.family, b.define(copyOf("one")), "--count=2", "--wait", "--timeout=4m")
	good := b.revision(copyOf("two"))

	// The agent is killed in the middle of the roll; the next one ends it.
	b.want(0, "service", "update", b.family, "--family", good)
	eventually(t, "the first copy of the new revision", func() bool {
		for _, task := range b.service().Tasks {
			if strings.HasSuffix(task.Deployment, "/2") {
				return true
			}
		}
		return false
	})
	first.kill()
	b.agent()
	eventually(t, "the end of the roll", func() bool { s := b.service(); return s.Steady && s.TaskDefinition == good })
	if got := b.running(); strings.Count(got, "\n") != 1 {
		t.Errorf("%q run, want two copies", got)
	}
	kept := b.well()

	bad := b.revision(ctr{Name: "app", Command: words("print three -- exit 3")})
	r := b.want(125, "service", "update", b.family, bad, "--wait", "--timeout=4m")
	if !strings.Contains(r.err, "runs "+good+" again") {
		t.Errorf("a bad revision: %s", r.err)
	}
	if s := b.service(); s.Rollbacks != 1 || strings.Join(b.well(), " ") != strings.Join(kept, " ") {
		t.Errorf("%d rollbacks, %v are well, want %v", s.Rollbacks, b.well(), kept)
	}
	b.want(0, "service", "rollback", b.family, "--wait", "--timeout=4m")
	if s := b.service(); s.TaskDefinition != b.family+":1" {
		t.Errorf("rolled back to %s", s.TaskDefinition)
	}
	want := []string{"1 SUCCESSFUL", "2 SUCCESSFUL", "3 ROLLBACK_SUCCESSFUL", "1 SUCCESSFUL"} // deployments, and what became of them
	shown := strings.Split(strings.TrimSpace(b.want(0, "service", "history", b.family, "--format", "{{.Deployment}} {{.Status}}").out), "\n")
	for i, line := range shown {
		if len(shown) != len(want) || line != b.family+"/"+want[i] {
			t.Errorf("the history is %q, want %q", shown, want)
			break
		}
	}
	if table := b.want(0, "service", "history", b.family).out; !strings.Contains(table, "back to "+b.family+"/2: circuit breaker: ") {
		t.Errorf("why the third was given up is missing in:\n%s", table)
	}
	b.removeService()
}

// An update keeps the changes that it does not name, and does nothing if nothing differs.
func TestServiceUpdateKeepsWhatItDoesNotName(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	first, _ := b.push("app:1", b.freshImage("first"))
	second, _ := b.push("app:2", b.freshImage("second"))
	c := copyOf("one")
	c.Image = first
	b.want(0, "service", "create", b.family, b.define(c), "-e", "MODE=prod", "-e", "LEVEL=1", "--memory=64m", "--limits=off", "--breaker-threshold=7", "--wait", "--timeout=4m")
	shown := func() string {
		t.Helper()
		name := b.well()[0]
		copied, memory := b.inspect(name), b.want(0, "inspect", name, "--format", "{{.Memory}}").out
		env := b.podman("inspect", "--format", "{{range .Config.Env}}{{println .}}{{end}}", copied.Containers[0].RuntimeID)
		seen := []string{copied.Containers[0].Image}
		for _, v := range []string{"MODE=prod", "LEVEL=1", "LEVEL=2"} {
			if strings.Contains(env, v+"\n") {
				seen = append(seen, v)
			}
		}
		return strings.Join(append(seen, strings.TrimSpace(memory)), " ")
	}
	want := func(words ...string) {
		t.Helper()
		if got := shown(); got != strings.Join(words, " ") {
			t.Errorf("the copy has %s, want %s", got, words)
		}
	}
	want(first, "MODE=prod", "LEVEL=1", "67108864")
	b.want(0, "service", "update", b.family, "--image="+second, "--wait", "--timeout=4m")
	want(second, "MODE=prod", "LEVEL=1", "67108864")
	b.want(0, "service", "update", b.family, "-e", "LEVEL=2", "--no-rollback", "--wait", "--timeout=4m")
	want(second, "MODE=prod", "LEVEL=2", "67108864")
	s := b.service()
	if breaker := s.DeploymentConfiguration.DeploymentCircuitBreaker; breaker.Rollback || breaker.Threshold == nil || breaker.Threshold.Value != 7 {
		t.Errorf("the circuit breaker is %+v", breaker)
	}
	if r := b.want(0, "service", "update", b.family, "-e", "LEVEL=2", "--wait"); !strings.Contains(r.err, "as before; --force") || b.service().Deployments[0].ID != s.Deployments[0].ID {
		t.Errorf("an update without a difference: %s", r.err)
	}
	b.want(0, "service", "update", b.family, "-e", "LEVEL=2", "--force", "--wait", "--timeout=4m")
	want(second, "MODE=prod", "LEVEL=2", "67108864")
	if r := b.want(0, "service", "update", b.family, "--family", b.family+":1", "-e", "LEVEL=1", "--wait", "--timeout=4m"); !strings.Contains(r.err, "dropped, because the definition is given anew: -e MODE, --memory, --limits") {
		t.Errorf("a definition anew: %s", r.err)
	}
	want(first, "LEVEL=1", "0")
	b.removeService()
}

// served is a copy that serves name on port 8080.
func served(name string) ctr {
	return ctr{
		Name: "app", Command: words("term 0 -- serve 8080 -- write /tmp/well"), Health: healthyIf("exists /tmp/well"),
		Environment: []envVar{{"GREETING", name}}, Ports: []port{{Container: 8080}},
	}
}

// Clients that connect all the time lose no request while a service is rolled to another
// revision, and while its agent keeps the address. A new agent listens at the same address.
func TestServiceAddressLosesNoRequestInAnUpdate(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	first := b.agent()
	at := freePort(t)
	listen := fmt.Sprintf("--listen=127.0.0.1:%d=app:8080", at)
	if r := b.want(125, "service", "create", b.family, b.define(served("one")), fmt.Sprintf("--listen=127.0.0.1:%d=app:80", at)); !strings.Contains(r.err, "portMappings") {
		t.Errorf("a port that is not published: %s", r.err)
	}
	b.want(0, "service", "create", b.family, b.define(served("one")), "--count=2", listen, "--wait", "--timeout=4m")
	b.wantAnswer(at, "one")
	if r := b.want(125, "service", "create", b.family+"2", b.define(served("one")), listen); !strings.Contains(r.err, "service "+b.family+" listens on") {
		t.Errorf("an address of another service: %s", r.err)
	}

	requests := askAlways(t, at, load{clients: 4, most: 5000, pace: 3 * time.Millisecond})
	b.want(0, "service", "update", b.family, b.define(served("two")), "--wait", "--timeout=4m")
	if answers := requests(); answers["one"] == 0 || answers["two"] == 0 {
		t.Errorf("answers by copies: %v, want some of both revisions", answers)
	}

	first.kill()
	wantClosed(t, at)
	b.agent()
	b.wantAnswer(at, "two")
	if l := b.service().Listeners; len(l) != 1 || l[0].Problem != "" {
		t.Errorf("listeners %+v", l)
	}
	b.want(0, "service", "update", b.family, "--listen=none")
	wantClosed(t, at)
	b.removeService()
}

// load is how a service is asked: by so many clients, each at a pace, and how often at most.
type load struct {
	clients, most int
	pace          time.Duration
}

// askAlways has clients ask a port on connections of their own, until requests is called. It
// returns how many answers there were, by their text. Each request must have one. The log says
// how many in a second this host had time for.
func askAlways(t *testing.T, port int, how load) (requests func() map[string]int) {
	var mu sync.Mutex
	answers := map[string]int{}
	stop := make(chan struct{})
	var all sync.WaitGroup
	begin, last := time.Now(), time.Time{}
	for range how.clients {
		all.Go(func() {
			pace := time.NewTicker(how.pace)
			defer pace.Stop()
			for range how.most {
				select {
				case <-stop:
					return
				case <-pace.C:
				}
				text, err := greeting(port)
				if err != nil {
					t.Errorf("a request was lost: %v", err)
					return
				}
				mu.Lock()
				answers[text]++
				last = time.Now()
				mu.Unlock()
			}
		})
	}
	end := sync.OnceFunc(func() { close(stop); all.Wait() })
	t.Cleanup(end)
	return func() map[string]int {
		end()
		total, took := 0, last.Sub(begin)
		for _, n := range answers {
			total += n
		}
		t.Logf("answers: %v, %.0f per second for %v", answers, float64(total)/took.Seconds(), took.Round(time.Second))
		return answers
	}
}

// greeting is the answer to one request, on a connection of its own. It costs less than one of an http.Client.
func greeting(port int) (answer string, err error) {
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, "GET /env/GREETING HTTP/1.1\r\nHost: service\r\nConnection: close\r\n\r\n"); err != nil {
		return "", err
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s: %s", r.Status, text)
	}
	return strings.TrimSpace(string(text)), err
}
