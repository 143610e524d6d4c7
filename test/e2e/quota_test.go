//go:build e2e

//e2e:bed systemd

package e2e

import (
	"strings"
	"testing"
)

// The number of containers is a budget as the kernel's quotas are, and small enough to be
// reached here.
func TestTasksWaitForRoomForTheirContainers(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.env = append(b.env, "PODTASK_BUDGET_CONTAINERS=3")
	pair := b.define(ctr{Name: "a", Command: words("sleep forever")}, ctr{Name: "b", Command: words("sleep forever")})
	first := b.detach("--name", "first", pair)
	b.want(0, "wait", "--condition", "running", first)
	second := b.detach("--name", "second", pair)
	if got := b.untilQueued("second"); !strings.Contains(got, "waits for 2 of PODTASK_BUDGET_CONTAINERS (1 of 3 free), used by first (") {
		t.Errorf("why says %q", got)
	}
	if got := b.want(0, "ps").out; !strings.Contains(got, "queued (PODTASK_BUDGET_CONTAINERS)") {
		t.Errorf("ps does not show it:\n%s", got)
	}
	b.want(0, "stop", first)
	b.want(0, "wait", "--condition", "running", second)
	b.want(0, "stop", second)
	big := b.define(ctr{Name: "a"}, ctr{Name: "b"}, ctr{Name: "c"}, ctr{Name: "d"})
	if r := b.want(125, "run", big); !strings.Contains(r.err, "4 containers need 4 of PODTASK_BUDGET_CONTAINERS, which is 3: raise it") {
		t.Errorf("a task that never fits: %s", r.err)
	}
}
