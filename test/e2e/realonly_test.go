//go:build e2e

//e2e:bed systemd

package e2e

import (
	"strings"
	"testing"
)

// These rules have tests on a fake Podman. Here the real one is seen to follow.

// extension is the member for what ECS does not have.
const extension = "x-podtask"

func TestImageWithoutVersionConsistencyIsPulledByItsTag(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	ref, digest := b.push("app:1", b.freshImage("app"))
	id := b.detach("--pull", "always", b.define(ctr{Name: "app", Image: ref, Command: words("exit 0"), More: obj{"versionConsistency": "disabled"}}))
	stopped(b, id)
	if got := b.want(0, "inspect", id).out; strings.Contains(got, digest) {
		t.Errorf("it has a digest:\n%s", got)
	}
	if len(b.requests("manifests/1$")) == 0 {
		t.Error("the tag was not asked for")
	}
}

func TestTaskStopsWhenAContainerIsUnhealthyIfItSaysSo(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	app := ctr{Name: "app", Command: words("sleep forever"), Health: &check{Command: healthyIf("exit 1").Command, Interval: 5, Retries: 1}}
	id := b.detach(b.write(def{Containers: []ctr{app}, More: obj{extension: obj{"stopWhenUnhealthy": true}}}))
	got := stopped(b, id)
	if got.StopCode != "ServiceSchedulerInitiated" || !strings.Contains(got.StoppedReason, "app") {
		t.Errorf("%s: %s", got.StopCode, got.StoppedReason)
	}
}

func TestTaskStopsWhenADependencyEndsIfItSaysSo(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	side := ctr{Name: "side", Command: words("wait /tmp/go"), Essential: optional}
	app := ctr{Name: "app", Command: words("sleep forever"), DependsOn: []on{{"side", "START"}}}
	id := b.detach("--wait=running", b.write(def{Containers: []ctr{side, app}, More: obj{extension: obj{"watchDependencies": true}}}))
	b.tell(id, "side", "/tmp/go")
	got := stopped(b, id)
	if got.StopCode != "ServiceSchedulerInitiated" || !strings.Contains(got.StoppedReason, "side") {
		t.Errorf("%s: %s", got.StopCode, got.StoppedReason)
	}
}

// stopped waits until a task has stopped.
func stopped(b *box, id string) (got task) {
	b.t.Helper()
	eventually(b.t, "the task has stopped", func() bool {
		got = b.inspect(id)
		return got.Status == "STOPPED"
	})
	return got
}
