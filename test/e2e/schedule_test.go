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
