//go:build e2e && bed_systemd

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/api"
)

// A command in the service, one that follows its logs, and a task of a schedule that calls its name wake it, also when no record of a
// copy is left.
func TestSleepAndWakeByCommandsAndSchedules(t *testing.T) {
	b := newBox(t)
	b.agent()
	c := served("one")
	c.Command = append(words("print awake --"), c.Command...)
	b.want(0, "service", "create", b.family, b.define(c), "--name-as=app:80=app:8080", "--namespace="+b.family, "--sleep-after=2s", "--wait", "--timeout=4m")
	forgotten := func() {
		t.Helper()
		b.fallsAsleep()
		if ids := strings.Fields(b.want(0, "ps", "--all", "--quiet").out); len(ids) > 0 {
			b.want(0, append([]string{"rm"}, ids...)...)
		}
	}
	forgotten()
	if r := b.want(0, "exec", b.family, "--", "/testbox", "exists", "/testbox"); !strings.Contains(r.err, "waking it") {
		t.Errorf("exec printed %s", r.err)
	}
	forgotten()
	follow := b.start("logs", "-f", b.family)
	eventually(t, "a line of the copy that was woken", func() bool { return strings.Contains(follow.out.String(), "awake") })
	if !strings.Contains(follow.err.String(), "waking it") {
		t.Errorf("logs printed %s", &follow.err)
	}
	forgotten()
	if r := b.podtask("logs", b.family); r.code == 0 || b.sleeper().Sleep != api.SleepAsleep {
		t.Errorf("logs without -f ended with %d, the service is %s", r.code, b.sleeper().Sleep)
	}
	follow.kill()

	visitor := b.family + "-visitor"
	job := b.write(def{Containers: []ctr{{Name: "job", Command: words("get http://app:80/env/GREETING")}}, More: obj{"x-podtask": obj{"namespace": b.family}}})
	b.want(0, "schedule", "create", visitor, job, "--at=*:*:0/5", "--overlap=forbid")
	t.Cleanup(func() { b.podtask("schedule", "rm", "--force", visitor) })
	before := b.sleeper().Wakes
	eventually(t, "a service that a schedule woke", func() bool { return b.sleeper().Wakes > before })
	eventually(t, "a run of the schedule that had its answer", func() bool {
		return slices.ContainsFunc(b.history(visitor), func(r scheduledRun) bool { return r.ExitCode != nil && *r.ExitCode == 0 })
	})
	b.want(0, "schedule", "rm", "--force", visitor)
	forgotten()
	b.removeService()
}
