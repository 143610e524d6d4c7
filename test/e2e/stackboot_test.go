//go:build e2e && bed_systemd

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// When everything was killed at once, as by a failure of power, the next agent starts the services of a stack in their order, past the job
// that has completed, which does not run again.
func TestStackComesBackInOrder(t *testing.T) {
	b := newBox(t)
	agent := b.agent()
	own := b.stackFile("own/stack.yaml", fmt.Sprintf(`name: %s
members:
  db: {image: "%[2]s", command: [sleep, 8s, --, serve, "5432"], ports: [5432], healthcheck: {test: [CMD, /testbox, get, "http://127.0.0.1:5432/"], interval: 5s, retries: 10}}
  migrate: {image: "%[2]s", command: [get, "http://db:5432/", --, print, migrated], job: true, after: [db]}
  web: {image: "%[2]s", command: [get, "http://db:5432/", --, serve, "8080"], ports: [8080], after: [migrate]}
`, b.family, b.testbox()))
	b.want(0, "stack", "up", own)
	before := b.members(b.family)
	job := strings.TrimSpace(b.want(0, "ps", "--all", "--quiet", "--no-trunc", "--filter", "name="+before["migrate"].Object).out)
	old := b.copiesOf(b.family, "db", "web")
	agent.kill()
	b.podman("kill", "--all", "--signal=KILL")

	agent = b.agent()
	eventually(t, "why says what is waited for", func() bool {
		return strings.Contains(b.want(0, "stack", "why", b.family).out, ", after which it starts, is not healthy; after a start of the agent its first copy waits for that")
	})
	b.want(0, "stack", "start", b.family)
	now := b.members(b.family)
	if now["web"].Healthy != 1 || now["migrate"].Status != "exited (0)" {
		t.Errorf("%+v", now)
	}
	if again := strings.TrimSpace(b.want(0, "ps", "--all", "--quiet", "--no-trunc", "--filter", "name="+before["migrate"].Object).out); again != job {
		t.Errorf("the job was %s, and is %s", job, again)
	}
	fresh := b.copiesOf(b.family, "db", "web")
	if fresh["db"] == old["db"] || fresh["web"] == old["web"] {
		t.Errorf("the copies were not ended: %v, %v", old, fresh)
	}
	// The first new copy of web found the database, so that no copy of it has failed.
	if out := b.want(0, "service", "ps", "--all", "--quiet", b.family+"-web").out; len(strings.Fields(out)) > 2 {
		t.Errorf("copies of web: %s", out)
	}
	b.removeStack(b.family)
	agent.end()
}

// A change that is interrupted, and commands beside one that goes on, say what has happened and what comes next.
func TestStackIsInterrupted(t *testing.T) {
	b := newBox(t)
	agent := b.agent()
	own := b.stackFile("own/stack.yaml", fmt.Sprintf(`name: %s
members:
  db: {image: "%[2]s", command: [sleep, forever], healthcheck: {test: [CMD, /testbox, exists, /no], interval: 5s, retries: 10, start_period: 300s}}
  web: {image: "%[2]s", command: [sleep, forever], after: [db]}
`, b.family, b.testbox()))
	up := b.start("stack", "up", own)
	eventually(t, "it waits", func() bool { return strings.Contains(up.err.String(), "waiting until db is healthy") })
	for _, args := range [][]string{{"stack", "up", own}, {"stack", "rm", b.family}, {"stack", "rollback", b.family}} {
		if r := b.want(125, args...); !strings.Contains(r.err, "another process changes the stack "+b.family) || !strings.Contains(r.err, "`podtask stack why "+b.family+"`") {
			t.Errorf("%v beside it: %s", args, r.err)
		}
	}
	if r := b.want(0, "stack", "why", b.family); !strings.Contains(r.out, "a process works on it") {
		t.Errorf("why: %s", r.out)
	}
	up.interrupt()
	if r := up.want(130); !strings.Contains(r.err, "has not ended: it was stopped at this step, and services run as they are. `podtask stack up` continues it") {
		t.Errorf("interrupted: %s", r.err)
	}
	if r := b.want(0, "stack", "ps", b.family); !strings.Contains(r.out, "db") || !strings.Contains(r.err, "`podtask stack rollback "+b.family+"` puts it back") {
		t.Errorf("ps: %s%s", r.out, r.err)
	}
	b.removeStack(b.family)
	agent.end()
}

// A job that one change has begun is waited for by another change, and runs once.
func TestStackWaitsForAJobOfAnotherChange(t *testing.T) {
	b := newBox(t)
	agent := b.agent()
	file := func(web string) string {
		return b.stackFile("own/stack.yaml", fmt.Sprintf(`name: %s
members:
  migrate: {image: "%[2]s", command: [sleep, 20s], job: true}
  web: {image: "%[2]s", command: [sleep, %[3]s], after: [migrate]}
`, b.family, b.testbox(), web))
	}
	up := b.start("stack", "up", file("forever"))
	eventually(t, "it waits", func() bool { return strings.Contains(up.err.String(), "waiting until migrate is completed") })
	up.interrupt()
	up.want(130)
	r := b.want(0, "stack", "up", file("1h"))
	if done, web := strings.Index(r.err, "migrate is completed"), strings.Index(r.err, "web is applied"); done < 0 || web < done || strings.Contains(r.err, "migrate runs as") {
		t.Errorf("the other change: %s", r.err)
	}
	if tasks := strings.Fields(b.want(0, "ps", "--all", "--quiet", "--filter", "name="+b.members(b.family)["migrate"].Object).out); len(tasks) != 1 {
		t.Errorf("tasks of the job: %v", tasks)
	}
	b.removeStack(b.family)
	agent.end()
}
