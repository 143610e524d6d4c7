//go:build e2e

//e2e:bed systemd

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// A task is a hook before the new copies are made: one that ends with 0 lets the deployment continue, after a kill of the agent in its
// middle too; one that fails has it rolled back, with the task named.
func TestATaskIsAHook(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	agent := b.agent()
	schema := b.family + "-schema"
	register := func(command string) {
		t.Helper()
		b.want(0, "taskdef", "register", b.file("schema.json", fmt.Sprintf(`{"family": %q, "containerDefinitions": [{"name": "app", "image": %q, "command": %s}]}`, schema, b.testbox(), quoted(words(command)))))
	}
	register("term 0 -- wait /tmp/go")
	hook := "--hook=migrate@pre-scale-up=task:" + schema
	b.want(0, "service", "create", b.family, b.define(served("one")), "--strategy=blue-green", "--bake=0s", hook)
	migration := b.family + "-migrate"
	eventually(t, "the migration", func() bool {
		return b.podtask("inspect", migration).code == 0 && b.inspect(migration).Status == "RUNNING"
	})
	id := b.inspect(migration).ID
	agent.kill()
	b.agent()
	if again := b.inspect(migration).ID; again != id {
		t.Errorf("after a kill of the agent the migration is %s, not %s", again, id)
	}
	b.tell(id, "app", "/tmp/go")
	eventually(t, "the first deployment", func() bool { return strings.Contains(b.want(0, "service", "history", b.family).out, "SUCCESSFUL") })
	if left := b.podtask("inspect", migration); left.code == 0 {
		t.Errorf("the migration that succeeded is left: %s", left.out)
	}

	register("exit 3")
	r := b.podtask("service", "update", b.family, b.define(served("two")), "--wait", "--timeout=4m")
	history := b.want(0, "service", "history", b.family).out
	if r.code == 0 || !strings.Contains(history, "migrate: the container app of the task ") || !strings.Contains(history, " ended with 3") {
		t.Errorf("exit code %d, %s%s", r.code, r.err, history)
	}
	b.want(0, "rm", "-f", migration)
	b.removeService()
}

// quoted are words as a JSON list.
func quoted(all []string) string { return `["` + strings.Join(all, `", "`) + `"]` }
