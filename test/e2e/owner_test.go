//go:build e2e

//e2e:bed systemd

package e2e

import (
	"regexp"
	"strings"
	"testing"
)

// waiter is a task that runs until tell makes /tmp/go, and then exits with 7.
func (b *box) waiter() (path string) {
	return b.define(ctr{Name: "app", Command: words("term 5 -- print up -- write /tmp/up -- wait /tmp/go -- print gone -- exit 7")})
}

// up waits until the waiter answers to signals.
func (b *box) up(ref string) {
	b.t.Helper()
	b.await("app RUNNING")
	b.podman("exec", b.inspect(ref).Containers[0].RuntimeID, "/testbox", "wait", "/tmp/up")
}

func TestDetachedTaskFromOtherProcesses(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.want(0, "run", "-d", "--name", "one", b.waiter())
	id := strings.TrimSuffix(r.out, "\n")
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(id) {
		t.Fatalf("run -d printed %q", r.out)
	}
	b.up(id)
	if got := b.want(0, "ps", "-q", "--no-trunc").out; got != id+"\n" {
		t.Errorf("ps printed %q", got)
	}
	table := b.want(0, "ps", "-o", "wide").out
	for _, word := range []string{"ID", "STATUS", id[:12], "one", "running"} {
		if !strings.Contains(table, word) {
			t.Errorf("ps does not show %q:\n%s", word, table)
		}
	}
	for _, ref := range []string{id, id[:8], "one"} {
		if got := b.inspect(ref); got.ID != id || got.Status != "RUNNING" || !got.Owner.Alive || got.Owner.PID == 0 {
			t.Errorf("inspect %s: %s %s %+v", ref, got.ID, got.Status, got.Owner)
		}
	}
	logs, waiting := b.start("logs", "-f", id), b.start("wait", id)
	b.tell(id, "app", "/tmp/go")
	if got := waiting.want(0).out; got != "7\n" {
		t.Errorf("wait printed %q", got)
	}
	if got := logs.want(0).out; !strings.Contains(got, "up") || !strings.Contains(got, "gone") {
		t.Errorf("logs -f printed %q", got)
	}
	if got := b.want(0, "ps", "-q").out; got != "" {
		t.Errorf("ps lists a stopped task: %q", got)
	}
	if got := b.want(0, "ps", "-a", "-q", "--no-trunc").out; got != id+"\n" {
		t.Errorf("ps -a printed %q", got)
	}
	inOrder(t, b.events(), "app MANIFEST_PULLED", "app PULLED", "app CREATED", "app RUNNING", "app STOPPED", "task STOPPED")
	b.want(0, "rm", id)
	b.want(125, "inspect", id)
	if got := b.objects(); got != "" {
		t.Errorf("rm left %s", got)
	}
}

func TestStopFromAnotherTerminal(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	run := b.start("run", "--name", b.family, b.waiter())
	b.up(b.family)
	stops := []*process{b.start("stop", b.family), b.start("stop", b.family)}
	for _, stop := range stops {
		stop.want(0)
	}
	run.want(5)
	if got := b.inspect(b.family); got.Status != "STOPPED" || got.StopCode != "UserInitiated" || *got.ExitCode != 5 {
		t.Errorf("%s %s %d", got.Status, got.StopCode, *got.ExitCode)
	}
	b.want(0, "stop", b.family) // a stopped task is stopped already
	if n := count(b.events(), "app STOPPED"); n != 1 {
		t.Errorf("app STOPPED is reported %d times", n)
	}
}

func TestRemoveOfRunningTaskNeedsForce(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--wait=running", b.waiter())
	r := b.want(125, "rm", id)
	if !strings.Contains(r.err, "-f") && !strings.Contains(r.err, "stop") {
		t.Errorf("the error does not say what to do: %s", r.err)
	}
	if got := b.inspect(id).Status; got != "RUNNING" {
		t.Errorf("status %s after a refused rm", got)
	}
	b.want(0, "rm", "-f", id)
	b.want(125, "inspect", id)
	if got := b.objects(); got != "" {
		t.Errorf("rm -f left %s", got)
	}
}

func TestNameIsGivenOnce(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--wait=running", "--name", "shop", b.waiter())
	r := b.want(125, "run", "--name", "shop", b.waiter())
	for _, want := range []string{"shop", id[:12]} {
		if !strings.Contains(r.err, want) {
			t.Errorf("the error does not name %q: %s", want, r.err)
		}
	}
	if got := b.want(0, "ps", "-a", "-q", "--no-trunc").out; got != id+"\n" {
		t.Errorf("there is a second task: %s", got)
	}
	b.want(0, "stop", "shop")
	second := b.detach("--name", "shop", b.waiter()) // a stopped task gives its name away
	if got := b.inspect("shop").ID; got != second {
		t.Errorf("shop is %s, want the one that runs: %s", got, second)
	}
}

func TestRunWithRmLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.want(0, "run", "--rm", b.hello(b.testbox()))
	if !strings.Contains(r.out, "hello") {
		t.Errorf("it printed %q", r.out)
	}
	if got := b.want(0, "ps", "-a", "-q").out + b.objects(); got != "" {
		t.Errorf("--rm left %s", got)
	}
}

func TestDetachedRunWithRmLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--rm", b.waiter())
	b.up(id)
	waiting := b.start("wait", id)
	b.tell(id, "app", "/tmp/go")
	if got := waiting.want(0).out; got != "7\n" {
		t.Errorf("wait printed %q", got)
	}
	eventually(t, "the end of the owner", func() bool { return len(b.owners()) == 0 })
	if got := b.want(0, "ps", "-a", "-q").out + b.objects(); got != "" {
		t.Errorf("--rm left %s", got)
	}
}

func TestTasksDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	first := b.detach("--wait=running", b.waiter())
	second := b.detach("--wait=running", b.waiter())
	b.want(0, "stop", first)
	if got := b.inspect(second).Status; got != "RUNNING" {
		t.Errorf("stopping one task left the other %s", got)
	}
	b.want(0, "rm", first)
	b.tell(second, "app", "/tmp/go")
	if got := b.want(0, "wait", second).out; got != "7\n" {
		t.Errorf("wait printed %q", got)
	}
}
