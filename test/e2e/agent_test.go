//go:build e2e

//e2e:bed systemd

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/test/testbed"
)

// agentSocket is where the box's agent listens.
func (b *box) agentSocket() string { return filepath.Join(b.dir, "agent.sock") }

// agent starts the box's agent and returns when it answers.
func (b *box) agent(args ...string) *process {
	b.t.Helper()
	b.env = append(b.env, "PODTASK_SOCKET="+b.agentSocket())
	p := b.start(append([]string{"agent", "--log-level=debug"}, args...)...)
	ended, answers := false, false
	testbed.Until(func() bool {
		c, err := api.Dial(context.Background(), b.agentSocket())
		if err == nil {
			c.Close()
		}
		select {
		case <-p.ended:
			ended = true
		default:
			answers = err == nil
		}
		return ended || answers
	})
	if !answers {
		b.t.Fatalf("the agent does not answer; it has ended: %v; it says\n%s", ended, lastLines(p.err.String(), 30))
	}
	b.t.Cleanup(func() {
		if b.t.Failed() {
			b.t.Logf("the agent with process %d printed at last\n%s", p.cmd.Process.Pid, lastLines(p.err.String(), 30))
		}
	})
	return p
}

// lastLines are the last n lines of a text.
func lastLines(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// end sends SIGTERM to the agent and waits for its orderly end.
func (p *process) end() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	p.want(0)
}

// startedAt is the time at which Podman started the task's first container.
func (b *box) startedAt(ref string) string {
	b.t.Helper()
	return b.podman("inspect", "--format", "{{.State.StartedAt}}", b.inspect(ref).Containers[0].RuntimeID)
}

func TestContainersOutliveTheAgent(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	first := b.agent()
	id := b.detach("--wait=running", b.waiter())
	b.up(id)
	if got := b.inspect(id).Owner; got.PID != first.cmd.Process.Pid || !got.Alive {
		t.Errorf("owner %+v, want the agent %d", got, first.cmd.Process.Pid)
	}
	began := b.startedAt(id)
	first.end()
	if got := b.running(); strings.Count(got, "\n") != 0 || got == "" {
		t.Fatalf("containers after the agent's end: %q", got)
	}
	second := b.agent()
	eventually(t, "the next agent's owning the task", func() bool { return b.inspect(id).Owner.PID == second.cmd.Process.Pid })
	second.kill()
	third := b.agent()
	eventually(t, "the third agent's owning the task", func() bool { return b.inspect(id).Owner.PID == third.cmd.Process.Pid })
	if got := b.startedAt(id); got != began {
		t.Errorf("the container started at %s, now at %s", began, got)
	}
	b.tell(id, "app", "/tmp/go")
	if got := b.want(0, "wait", id).out; got != "7\n" {
		t.Errorf("wait printed %q", got)
	}
	b.want(0, "rm", id)
	third.end()
	if got := b.objects(); got != "" {
		t.Errorf("left: %s", got)
	}
}

func TestForegroundThroughTheAgent(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	agent := b.agent()
	run := b.start("run", "--name", b.family, b.waiter())
	b.up(b.family)
	if got := b.inspect(b.family).Owner.PID; got != agent.cmd.Process.Pid {
		t.Errorf("owner %d, want the agent %d", got, agent.cmd.Process.Pid)
	}
	b.tell(b.family, "app", "/tmp/go")
	r := run.want(7)
	for _, line := range []string{"up\n", "gone\n"} {
		if !strings.Contains(r.out, line) {
			t.Errorf("%q is missing in %q", line, r.out)
		}
	}

	again := b.start("run", "--name", b.family, b.waiter())
	b.await("app RUNNING")
	eventually(t, "the second task", func() bool { return b.inspect(b.family).Status == "RUNNING" })
	b.up(b.family)
	again.interrupt()
	if r := again.want(5); !strings.Contains(r.err, "again to kill") {
		t.Errorf("it printed %s", r.err)
	}
	if got := b.inspect(b.family); got.StopCode != "UserInitiated" || !strings.Contains(got.StoppedReason, "SIGINT") {
		t.Errorf("%s: %s", got.StopCode, got.StoppedReason)
	}
}

// With --rm nothing is left of a task whose `podtask run` was killed: not when it ran on,
// not when it had stopped and its logs were still being written.
func TestAgentRemovesTheTaskOfAKilledRunWithRm(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	run := b.start("run", "--rm", "--name", b.family, b.waiter())
	b.up(b.family)
	id := b.inspect(b.family).ID
	run.kill()
	b.tell(id, "app", "/tmp/go")
	eventually(t, "the removal", func() bool { return b.podtask("inspect", id).code == 125 })

	reads, writes, err := os.Pipe() // without a reader of what run prints
	if err != nil {
		t.Fatal(err)
	}
	defer reads.Close()
	run = b.startWith(func(c *exec.Cmd) { c.Stdout = writes }, "run", "--rm", "--name", b.family, b.define(ctr{Name: "app", Command: words("lines 20000")}))
	writes.Close()
	eventually(t, "the end of the task, whose logs are not all read", func() bool {
		return strings.Contains(b.podtask("ps", "-a", "--filter", "name="+b.family).out, "exited")
	})
	id = b.inspect(b.family).ID
	run.kill()
	// The clean-up comes once a minute; this makes it come now.
	if err := os.Remove(filepath.Join(b.stateHome(), "podtask", "cleaned-up")); err != nil {
		t.Error(err)
	}
	eventually(t, "the removal", func() bool { return b.podtask("inspect", id).code == 125 })
	if got := b.objects(); got != "" {
		t.Errorf("left: %s", got)
	}
}

func TestForegroundGoesOnWhenTheAgentIsKilled(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	agent := b.agent()
	run := b.start("run", "--name", b.family, b.waiter())
	b.up(b.family)
	agent.kill()
	eventually(t, "the task's next owner", func() bool { return b.inspect(b.family).Owner.PID == run.cmd.Process.Pid })
	b.tell(b.family, "app", "/tmp/go")
	if r := run.want(7); strings.Count(r.out, "up\n") != 1 || strings.Count(r.out, "gone\n") != 1 {
		t.Errorf("it printed %q", r.out)
	}
}

func TestAgentTakesTheTaskOfAKilledOwner(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	run := b.start("run", "--name", b.family, b.waiter())
	b.up(b.family)
	began := b.startedAt(b.family)
	agent := b.agent()
	if got := b.inspect(b.family).Owner.PID; got != run.cmd.Process.Pid {
		t.Errorf("owner %d, want the living one %d", got, run.cmd.Process.Pid)
	}
	if r := b.podtask("agent"); r.code != 125 || !strings.Contains(r.err, fmt.Sprint(agent.cmd.Process.Pid)) {
		t.Errorf("a second agent: %d %s", r.code, r.err)
	}
	run.kill()
	eventually(t, "the agent's owning the task", func() bool { return b.inspect(b.family).Owner.PID == agent.cmd.Process.Pid })
	if got := b.startedAt(b.family); got != began {
		t.Errorf("the container started at %s, now at %s", began, got)
	}
	b.want(0, "stop", b.family)
	b.want(0, "rm", b.family)
}

func TestAgentStopsItsTasksIfTold(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	agent := b.agent("--stop-tasks=always")
	id := b.detach("--wait=running", b.waiter())
	b.up(id)
	agent.end()
	if got := b.inspect(id); got.Status != "STOPPED" || got.codes() != "app=5" {
		t.Errorf("%s %s", got.Status, got.codes())
	}
}

func TestBusyAgentAnswersAThousandRequests(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	ids := []string{b.detach(b.waiter()), b.detach(b.waiter()), b.detach(b.waiter())}
	c, err := api.Dial(t.Context(), b.agentSocket())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for range 25 {
				if _, err := c.Tasks(t.Context()); err != nil {
					t.Error(err)
				}
				if got, err := c.Task(t.Context(), ids[i%len(ids)]); err != nil || got.ID != ids[i%len(ids)] {
					t.Error(got.ID, err)
				}
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		b.want(0, "rm", "-f", id)
	}
}

func TestTaskThroughTheAPIAlone(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	c, err := api.Dial(t.Context(), b.agentSocket())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	definition, err := os.ReadFile(b.hello(b.testbox()))
	if err != nil {
		t.Fatal(err)
	}
	made, err := c.Create(t.Context(), api.NewTask{Definition: definition, Name: b.family})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(t.Context(), api.NewTask{Definition: []byte(`{"family":"x"}`)}); !api.Is(err, api.BadRequest) {
		t.Errorf("an invalid definition: %v", err)
	}
	var last api.Task
	if err := c.Watch(t.Context(), made.ID, func(task api.Task) bool { last = task; return true }); err != nil {
		t.Fatal(err)
	}
	if last.Status != "STOPPED" || last.ExitCode == nil || *last.ExitCode != 0 {
		t.Errorf("it ended as %s with %s: %s", last.Status, last.ExitCode, last.StoppedReason)
	}
	var lines []string
	if err := c.Logs(t.Context(), made.ID, api.LogQuery{Tail: -1}, func(l api.LogLine) error { lines = append(lines, l.Text); return nil }); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(lines, "\n"), "hello") {
		t.Errorf("logs %q", lines)
	}
	var seqs []uint64
	if err := c.Events(t.Context(), api.EventQuery{Task: made.ID}, func(e api.Event) error { seqs = append(seqs, e.Seq); return nil }); err != nil || len(seqs) < 5 {
		t.Fatalf("events %v, %v", seqs, err)
	}
	resumed := 0
	if err := c.Events(t.Context(), api.EventQuery{Task: made.ID, After: seqs[2]}, func(api.Event) error { resumed++; return nil }); err != nil || resumed != len(seqs)-3 {
		t.Errorf("%d events after the third of %d, %v", resumed, len(seqs), err)
	}
	unix := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", b.agentSocket())
	}}}
	defer unix.CloseIdleConnections()
	eventually(t, "metrics of the task", func() bool {
		resp, err := unix.Get("http://podtask/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			`podtask_container_exits_total{outcome="success"} 1`, `podtask_tasks{status="STOPPED"} 1`,
			`podtask_operation_duration_seconds_count{operation="CreateContainer",outcome="ok"} 1`,
		} {
			if !strings.Contains(string(body), want) {
				return false
			}
		}
		return true
	})
	if err := c.Remove(t.Context(), made.ID, "the test", false); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the removal", func() bool { _, err := c.Task(t.Context(), made.ID); return api.Is(err, api.NotFound) })
	if got := b.objects(); got != "" {
		t.Errorf("left: %s", got)
	}
}
