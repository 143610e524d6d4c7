//go:build e2e && bed_vm

package vm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The agent as docs/agent.md installs it, with a state directory of its own: it shall not
// take the tasks of the other tests. At the end of the machine it stops its task in
// order.

// agentState points this test's commands to the agent's tasks.
func agentState(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(os.Getenv("HOME"), "agent-state")
	t.Setenv("XDG_STATE_HOME", dir)
	return dir
}

// runOrdered starts the agent and gives it a task of two containers: front, which takes
// its two seconds to be killed, and db, on which it depends and which ends at once.
func runOrdered(t *testing.T) {
	dir := agentState(t)
	units := filepath.Join(os.Getenv("HOME"), ".config/systemd/user")
	write(t, filepath.Join(units, "podtask.service.d/state.conf"), "[Service]\nEnvironment=XDG_STATE_HOME="+dir+"\n")
	must(t, "cp", "-r", filepath.Join(filepath.Dir(bin()), "contrib/systemd")+"/.", units)
	must(t, "systemctl", "--user", "daemon-reload")
	must(t, "systemctl", "--user", "enable", "--now", "podtask.socket", "podtask.service")
	db, front := box("db", "term 0 -- sleep forever", 32), box("front", "term ignore -- sleep forever", 32)
	front.DependsOn, front.StopTimeout = []dependency{{"db", "START"}}, 2
	podtask(t, "run", "-d", "--wait=running", "--name", "ordered", defineLasting(t, "ordered", "256", "128", db, front))
	if owner := inspect(t, "ordered").Owner.PID; must(t, "systemctl", "--user", "show", "--property=MainPID", "--value", "podtask.service") != fmt.Sprint(owner) {
		t.Errorf("process %d owns the task, not the agent", owner)
	}
}

// checkOrdered checks after a boot that the task was stopped in order, with the codes of
// its containers.
func checkOrdered(t *testing.T) {
	agentState(t)
	got := inspect(t, "ordered")
	if got.Status != "STOPPED" || !strings.Contains(got.StoppedReason, "the end of the agent") {
		t.Errorf("the agent's task is %s: %s", got.Status, got.StoppedReason)
	}
	ended := map[string]time.Time{}
	for _, c := range got.Containers {
		want := map[string]int{"db": 0, "front": 137}[c.Name]
		if c.ExitCode == nil || *c.ExitCode != want {
			code, _ := json.Marshal(c.ExitCode)
			t.Errorf("%s ended with %s, want %d", c.Name, code, want)
		}
		ended[c.Name] = c.FinishedAt
	}
	if !ended["db"].After(ended["front"]) {
		t.Errorf("db ended at %s, front, which needs it, at %s", ended["db"], ended["front"])
	}
	podtask(t, "rm", "ordered")
}
