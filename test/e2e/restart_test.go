//go:build e2e

//e2e:bed systemd

package e2e

import (
	"slices"
	"strings"
	"testing"
)

// statuses are what the events tell of a container of the box.
func (b *box) statuses(container string) (told []string) {
	for _, e := range b.events() {
		if e.Container == container {
			told = append(told, e.Status)
		}
	}
	return told
}

func TestRestartPolicy(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	path := b.define(
		ctr{Name: "job", Command: words("print run -- tally /tmp/runs 3"), Essential: optional, Restart: restarts(5, 0)},
		ctr{Name: "app", Command: words("exit 7"), DependsOn: []on{{"job", "SUCCESS"}}})
	r := b.want(7, "run", "--name", b.family, path)
	if n := strings.Count(r.out, "run\n"); n != 3 {
		t.Errorf("%d runs in the logs, want 3:\n%s", n, r.out)
	}
	job := b.inspect(b.family).Containers[0]
	if job.RestartCount != 2 || len(job.Runs) != 2 || job.Runs[0].ExitCode != 1 || *job.ExitCode != 0 {
		t.Errorf("%+v", job)
	}
	want := []string{"CREATED", "RUNNING", "RESTARTING", "RUNNING", "RESTARTING", "RUNNING", "STOPPED"}
	if told := b.statuses("job"); !slices.Equal(told[len(told)-len(want):], want) {
		t.Errorf("events: %q", told)
	}
}

func TestRestartsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.want(4, "run", "--name", b.family, b.define(ctr{Name: "app", Command: words("exit 4"), Restart: restarts(2)}))
	got := b.inspect(b.family)
	if app := got.Containers[0]; app.RestartCount != 2 || !strings.Contains(app.Reason, "2 times, which is its maximum") {
		t.Errorf("%+v", app)
	}
}

// A container that a user kills with Podman's own command comes back; a stop does not
// let it.
func TestStopBeatsRestart(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach(b.define(ctr{Name: "app", Command: words("write /tmp/up -- sleep forever"), StopTimeout: 5, Restart: restarts(0)}))
	b.up(id)
	b.podman("kill", b.inspect(id).Containers[0].RuntimeID)
	b.await("app RESTARTING")
	eventually(t, "the restart", func() bool { return b.inspect(id).Containers[0].RestartCount == 1 })
	b.podman("kill", b.inspect(id).Containers[0].RuntimeID)
	b.want(0, "stop", id)
	if got := b.inspect(id); got.Status != "STOPPED" || got.StopCode != "UserInitiated" || b.running() != "" {
		t.Errorf("%s %s", got.Status, got.StopCode)
	}
}

// The owner dies while a container waits for its restart: the next one restarts it.
func TestOwnerIsKilledBeforeARestart(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--name", b.family, b.define(
		ctr{Name: "app", Command: words("tally /tmp/runs 2 -- exit 7"), Restart: restarts(0, 7)}))
	b.await("app RESTARTING")
	b.killOwner(b.family)
	if got := b.want(0, "wait", id).out; got != "7\n" {
		t.Errorf("wait printed %q", got)
	}
	if app := b.inspect(id).Containers[0]; app.RestartCount != 1 {
		t.Errorf("%+v", app)
	}
}
