//go:build e2e && bed_systemd

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// scheduledRun is a run in the history of a schedule.
type scheduledRun struct {
	Due, Status, Task string
	Manual            bool
	ExitCode          *int
}

// history returns the runs of a schedule, the newest first.
func (b *box) history(schedule string) (runs []scheduledRun) {
	b.t.Helper()
	if err := json.Unmarshal([]byte(b.want(0, "schedule", "history", "--format=json", schedule).out), &runs); err != nil {
		b.t.Fatal(err)
	}
	return runs
}

// A schedule is woken by systemd, each time once, also if the process is killed that starts its runs, and ends
// with its timer.
func TestSchedule(t *testing.T) {
	b := newBox(t)
	name := b.family
	job := b.define(ctr{Name: "job", Command: words("exit 3")})
	b.want(3, "run", "--rm", job) // starts Podman's service, which would keep the unit of an owner in memory
	b.want(0, "schedule", "create", name, job, "--at", "*:*:0/2", "--overlap=allow")
	t.Cleanup(func() {
		b.podtask("schedule", "rm", "--force", name)
	})
	b.ownUnits("podtask-schedule-"+name, scheduleExposure, ".timer")
	ended := func(n int) func() bool {
		return func() bool {
			runs := b.history(name)
			return len(runs) >= n && slices.ContainsFunc(runs, func(r scheduledRun) bool { return r.Status == "ended" && r.ExitCode != nil && *r.ExitCode == 3 })
		}
	}
	eventually(t, "it runs again and again", ended(3))
	for range 3 { // whatever it does just now
		_ = exec.Command("systemctl", "--user", "kill", "--signal=KILL", "podtask-schedule-"+name+".service").Run()
		eventually(t, "it runs on after a kill", ended(len(b.history(name))+1))
	}
	if out := b.want(0, "schedule", "ls").out; !strings.Contains(out, name) || !strings.Contains(out, "active") {
		t.Errorf("ls:\n%s", out)
	}
	b.want(0, "schedule", "pause", name)
	seen := map[string]bool{}
	for _, r := range b.history(name) {
		if seen[r.Due] {
			t.Errorf("two runs for %s", r.Due)
		}
		seen[r.Due] = true
	}
	id := strings.TrimSpace(b.want(0, "schedule", "run", name).out)
	b.want(0, "wait", id)
	if r := b.history(name)[0]; !r.Manual || r.Task != id || r.ExitCode == nil || *r.ExitCode != 3 {
		t.Errorf("a run by hand: %+v", r)
	}
	if r := b.want(125, "schedule", "create", name, b.waiter(), "--at=daily"); !strings.Contains(r.err, "there is a schedule") {
		t.Errorf("a second schedule of the name: %s", r.err)
	}
	b.want(0, "schedule", "resume", name)
	before := len(b.history(name))
	eventually(t, "it continues", func() bool { return len(b.history(name)) > before })
	b.want(0, "schedule", "rm", "--force", name)
	home, _ := os.UserHomeDir()
	if left, _ := filepath.Glob(filepath.Join(home, ".config/systemd/user/*", "*"+name+"*")); len(left) > 0 {
		t.Errorf("units are left: %s", left)
	}
}

// A schedule with the rule forbid runs no second task beside the first; with replace, the first one is stopped. Times that
// passed while there was no timer are made up for by one run.
func TestScheduleOverlapsAndCatchesUp(t *testing.T) {
	b := newBox(t)
	forbid, replace, late := b.family+"-forbid", b.family+"-replace", b.family+"-late"
	t.Cleanup(func() { b.podtask("schedule", "rm", "--force", forbid, replace, late) })
	b.want(3, "run", "--rm", b.define(ctr{Name: "job", Command: words("exit 3")})) // starts Podman's service
	b.want(0, "schedule", "create", forbid, b.waiter(), "--at", "*-02-29 UTC")
	b.want(0, "schedule", "create", replace, b.waiter(), "--at", "cron(0 0 29 FEB ? *)", "--overlap=replace")
	run := func(name string) string { return strings.TrimSpace(b.want(0, "schedule", "run", name).out) }
	first := run(forbid)
	if r := b.want(125, "schedule", "run", forbid); !strings.Contains(r.err, "forbid") {
		t.Errorf("a second run: %s", r.err)
	}
	if r := b.want(125, "schedule", "rm", forbid); !strings.Contains(r.err, "--force") {
		t.Errorf("rm of what runs: %s", r.err)
	}
	old := run(replace)
	fresh := run(replace)
	if got := b.inspect(old); got.Status != "STOPPED" || !strings.Contains(got.StoppedReason, "next run of schedule") {
		t.Errorf("the earlier run is %s: %s", got.Status, got.StoppedReason)
	}
	if runs := b.history(replace); len(runs) != 2 || runs[0].Task != fresh || runs[0].Status != "running" || runs[1].Status != "ended" {
		t.Errorf("%+v", runs)
	}
	b.want(0, "schedule", "rm", "--force", forbid, replace)
	if got := b.inspect(first).Status; got != "STOPPED" {
		t.Errorf("after rm --force: %s", got)
	}

	b.want(0, "schedule", "create", late, b.define(ctr{Name: "job", Command: words("exit 0")}), "--at", "*:*:*", "--catch-up", "--overlap=allow")
	timer := "podtask-schedule-" + late + ".timer"
	systemctl := func(verb string) {
		if out, err := exec.Command("systemctl", "--user", verb, timer).CombinedOutput(); err != nil {
			t.Fatalf("systemctl %s: %v %s", verb, err, out)
		}
	}
	systemctl("stop")
	before := len(b.history(late))
	eventually(t, "the next times pass", func() bool {
		var rows []struct{ State string }
		return json.Unmarshal([]byte(b.want(0, "schedule", "ls", "--format=json").out), &rows) == nil && len(rows) == 1 && rows[0].State == "no-timer"
	})
	b.want(0, "schedule", "resume", late)
	eventually(t, "it catches up", func() bool { return len(b.history(late)) > before })
	seen := map[string]bool{}
	for _, r := range b.history(late) {
		if seen[r.Due] {
			t.Errorf("two runs for %s", r.Due)
		}
		seen[r.Due] = true
	}
}

// What the flags of run say holds for each run of a schedule, and why tells what it waits for.
func TestScheduleTakesTheFlagsOfRun(t *testing.T) {
	b := newBox(t)
	name := b.family
	t.Cleanup(func() { b.podtask("schedule", "rm", "--force", name) })
	b.want(0, "run", "--rm", b.define(ctr{Name: "job", Command: words("exit 0")})) // starts Podman's service
	job := b.define(ctr{Name: "job", Command: words("env GREETING -- sleep forever")}, ctr{Name: "sidecar", Command: words("sleep forever")})
	b.want(0, "schedule", "create", name, job, "--at", "*-02-29 UTC", "--env=GREETING=hello", "--leave-out=sidecar", "--stop-after=2s", "--limits=off")
	if r := b.want(0, "why", name); !strings.Contains(r.out, "schedule "+name+" is active: it waits for its next run (*-02-29 UTC). It runs in ") {
		t.Errorf("why: %s", r.out)
	}
	id := strings.TrimSpace(b.want(0, "schedule", "run", name).out)
	b.want(0, "wait", id)
	got := b.inspect(id)
	if len(got.Containers) != 1 || got.Limits != "off" || !strings.Contains(got.StoppedReason, "time limit") && got.StopCode == "" {
		t.Errorf("%+v", got)
	}
	if out := b.want(0, "logs", id).out; !strings.Contains(out, "GREETING=hello") {
		t.Errorf("it printed %s", out)
	}
	if r := b.want(0, "why", name, "--format=json"); !strings.Contains(r.out, `"last"`) || !strings.Contains(r.out, "ended with exit code") {
		t.Errorf("why: %s", r.out)
	}
	b.want(0, "schedule", "pause", name)
	if r := b.want(0, "why", name); !strings.Contains(r.out, "is paused") {
		t.Errorf("why: %s", r.out)
	}
	b.want(0, "schedule", "rm", name)
	b.want(125, "why", name)
}
