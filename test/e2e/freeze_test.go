//go:build e2e && !bed_plain

package e2e

import (
	"strings"
	"testing"
)

func TestPauseAndUnpause(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	task := b.define(
		ctr{Name: "app", Command: words("sleep forever"), StopTimeout: 5, Health: healthyIf("exists /testbox")},
		ctr{Name: "side", Command: words("sleep forever"), StopTimeout: 5})
	id := b.detach("--wait=healthy", "--name", b.family, task)
	other := b.detach("--wait=running", task)
	status := func(id string) string { return b.want(0, "ps", "--filter", "id="+id, "--format", "{{.Status}}").out }

	for range 2 { // twice is as good as once
		if got := b.want(0, "pause", b.family).out; got != id+"\n" {
			t.Errorf("pause printed %q", got)
		}
		if got := status(id) + status(other); got != "RUNNING (paused)\nRUNNING\n" {
			t.Errorf("ps says %q", got)
		}
	}
	eventually(t, "why to tell of the pause", func() bool { // Podman may just be asked about it
		return strings.Contains(b.want(0, "why", b.family).out, "podtask unpause "+b.family)
	})
	if r := b.want(125, "exec", b.family, "app", "/testbox", "print", "x"); !strings.Contains(r.err, "podtask unpause "+b.family) {
		t.Errorf("exec says %s", r.err)
	}
	for range 2 {
		b.want(0, "unpause", b.family)
		if got := status(id); got != "RUNNING\n" {
			t.Errorf("ps says %q", got)
		}
	}
	if got := b.inspect(id); got.Health != "HEALTHY" {
		t.Errorf("health %s", got.Health)
	}

	b.want(0, "pause", "--all")
	if got := status(id) + status(other); got != "RUNNING (paused)\nRUNNING (paused)\n" {
		t.Errorf("ps says %q", got)
	}
	b.want(0, "unpause", "--filter", "name="+b.family)
	if got := status(id) + status(other); got != "RUNNING\nRUNNING (paused)\n" {
		t.Errorf("ps says %q", got)
	}
	b.want(0, "stop", other) // resumes it first
	if got := b.inspect(other).codes(); got != "app=143 side=143" {
		t.Errorf("%s", got)
	}
	if r := b.want(125, "pause", other); !strings.Contains(r.err, "STOPPED") {
		t.Errorf("pause of a stopped task: %s", r.err)
	}
}
