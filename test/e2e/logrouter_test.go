//go:build e2e

//e2e:bed plain

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// routed is a task of a log router, which does steps, and an app that logs to it. What the router
// prints is kept as a whole, and it has a minute for the last lines.
func routed(b *box, router, app string, change func(*ctr)) (path string) {
	r := ctr{Name: "router", Command: words(router), Essential: optional, StopTimeout: 60, More: obj{
		"user": "1000", "firelensConfiguration": obj{"type": "fluentbit"},
		"logConfiguration": obj{"logDriver": "json-file", "options": obj{"max-size": "500m"}},
	}}
	if change != nil {
		change(&r)
	}
	return b.write(def{Network: "awsvpc", Containers: []ctr{r, {Name: "app", Command: words(app), More: logTo("awsfirelens", obj{"Name": "null"})}}})
}

const routes = "route /fluent-bit/etc/fluent-bit.conf"

// killedAt runs podtask, which a fail point kills with -9.
func killedAt(b *box, point string, args ...string) {
	b.t.Helper()
	env := b.env
	b.env = append(b.env[:len(env):len(env)], "PODTASK_FAILPOINT="+point)
	r := b.podtask(args...)
	b.env = env
	if r.code != -1 {
		b.t.Fatalf("at %s, %v was not killed, but ended with %d\n%s", point, args, r.code, r.err)
	}
}

// The owner of a task is killed at each point of the delivery to a log router: while the file is
// rotated, between the acknowledgement and the position, before and after the last lines were
// passed on. All lines arrive, and not more than a batch twice for each kill.
func TestKilledOwnersPassOnAllLines(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.env = append(b.env, "PODTASK_LOG_MAX_SIZE=256k") // files of 64 KiB
	const lines, batch = 1500, 1000                    // more than a file
	app := fmt.Sprintf("lines %d", lines)
	points := []string{"log-position", "log-linked", "log-reopened"}
	for i, point := range points {
		app += fmt.Sprintf(" -- wait /tmp/%s -- lines %d %d", point, lines, 1+(i+1)*lines)
	}
	killedAt(b, "log-acknowledged", "run", "--name", b.family, routed(b, routes, app+" -- wait /tmp/go -- print last", nil))
	for _, point := range points {
		b.tell(b.family, "app", "/tmp/"+point)
		killedAt(b, point, "wait", b.family)
	}
	b.tell(b.family, "app", "/tmp/go")
	flush := []string{"before-effect/FlushLogs", "after-effect/FlushLogs"}
	for _, point := range flush {
		killedAt(b, point, "wait", b.family)
	}
	b.want(0, "wait", b.family)
	seen, all := map[string]int{}, 0
	for line := range strings.Lines(b.lines(b.family, "router") + "\n") {
		if text, ok := strings.CutPrefix(line, "app stdout "); ok {
			seen[strings.TrimSpace(text)]++
			all++
		}
	}
	for _, line := range append(numbered((1+len(points))*lines), "last") {
		if seen[line] == 0 {
			t.Errorf("%s is missing", line)
		}
	}
	if kills := 1 + len(points) + len(flush); all-len(seen) > kills*batch {
		t.Errorf("%d lines came again after %d kills", all-len(seen), kills)
	}
	if n := count(b.events(), "app LOGS_LOST"); n != 0 {
		t.Errorf("LOGS_LOST is reported %d times", n)
	}
}

// A log router that is killed and restarted gets the lines that waited for it.
func TestLinesWaitForARouterThatWasKilled(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach(routed(b, routes, "print first -- wait /tmp/two -- print second -- wait /tmp/go -- print last", func(r *ctr) {
		r.Restart = restarts(3)
	}))
	arrived := func(text string) func() bool {
		return func() bool { return strings.Contains(b.lines(id, "router"), "app stdout "+text) }
	}
	eventually(t, "the first line", arrived("first"))
	b.podman("kill", b.inspect(id).Containers[0].RuntimeID)
	b.tell(id, "app", "/tmp/two")
	eventually(t, "the second line", arrived("second"))
	b.tell(id, "app", "/tmp/go")
	b.want(0, "wait", id)
	if got := b.lines(id, "router"); !strings.Contains(got, "app stdout last") {
		t.Errorf("the router has got\n%s", got)
	}
	if n := count(b.events(), "app LOGS_LOST"); n != 0 {
		t.Errorf("LOGS_LOST is reported %d times", n)
	}
}

// A log router that fails, does not listen, or acknowledges nothing holds up the end of its task
// for no longer than its stop timeout. The lines stay here, and are counted as lost to it.
func TestARouterThatTakesNothingIsReported(t *testing.T) {
	t.Parallel()
	for name, router := range map[string]string{
		"never up": "exit 1", "deaf": "sleep forever", "never acknowledges": "mute /fluent-bit/etc/fluent-bit.conf",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			r := b.want(0, "run", "--name", b.family, routed(b, router, "print hello", func(r *ctr) { r.StopTimeout = 2 }))
			if !strings.Contains(r.err, "not all output of a container reached the log router") {
				t.Errorf("it says %s", r.err)
			}
			if n := count(b.events(), "app LOGS_LOST"); n != 1 {
				t.Errorf("LOGS_LOST is reported %d times", n)
			}
			if got := b.want(0, "logs", "--routes", b.family).out; !strings.Contains(got, "the log router has ended") {
				t.Errorf("the routes are %s", got)
			}
			b.wantLines(b.family, "app", "hello")
		})
	}
}
