//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// One container of a task is restarted while the other runs on; the task and its record are the same.
func TestOneContainerIsRestarted(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--wait=running", "--name", b.family, b.define(
		ctr{Name: "db", Command: words("sleep forever"), StopTimeout: 5},
		ctr{Name: "web", Command: words("sleep forever"), StopTimeout: 5}))
	before := b.inspect(id)
	if got := b.want(0, "restart", b.family+"/web").out; got != b.family+"/web\n" {
		t.Errorf("restart printed %q", got)
	}
	after := b.inspect(id)
	if after.Status != "RUNNING" || after.Containers[1].RestartCount != 1 || after.Containers[1].RuntimeID != before.Containers[1].RuntimeID {
		t.Errorf("%s: %+v", after.Status, after.Containers[1])
	}
	if after.Containers[0].Status != "RUNNING" || after.Containers[0].RestartCount != 0 {
		t.Errorf("the other container: %+v", after.Containers[0])
	}
	if r := b.want(125, "restart", b.family+"/nothing"); !strings.Contains(r.err, `no container "nothing": it has db, web`) {
		t.Errorf("it says %s", r.err)
	}
	b.want(0, "stop", id)
	if r := b.want(125, "restart", b.family+"/web"); !strings.Contains(r.err, "podtask restart "+b.family) {
		t.Errorf("of a stopped task it says %s", r.err)
	}
}
