//go:build e2e && bed_vm

package vm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/cgroups"
)

// delegate sets the controllers that the user's manager gets and restarts it.
func delegate(t *testing.T, lines string) {
	t.Helper()
	script := `mkdir -p "$(dirname "$1")" && printf "[Service]\n$2" >"$1" && systemctl daemon-reload && systemctl restart "user@$3.service"`
	must(t, "sudo", "-n", "sh", "-c", script, "sh", cgroups.DelegateDropIn, lines, fmt.Sprint(os.Getuid()))
}

func TestControllerThatIsNotDelegatedIsNamed(t *testing.T) {
	path := define(t, "undelegated", "512", "96", box("app", "sleep forever", 0))
	delegate(t, `Delegate=no\nDelegate=memory pids\n`)
	t.Cleanup(func() {
		delegate(t, `Delegate=cpu memory pids\n`)
		id := podtask(t, "run", "-d", "--wait=running", path)
		if got := setting(t, sliceOf(id), "cpu.max"); got != "50000 100000" {
			t.Errorf("with all controllers cpu.max is %s", got)
		}
		podtask(t, "rm", "--force", id)
	})
	_, errs, code := command(t, bin(), "run", path)
	if code != 125 {
		t.Errorf("the task was not refused: code %d, %s", code, errs)
	}
	for _, want := range []string{"cpu", cgroups.DelegateDropIn} {
		if !strings.Contains(errs, want) {
			t.Errorf("the error does not name %s: %s", want, errs)
		}
	}
	if got := podtask(t, "ps", "-a", "-q"); got != "" {
		t.Errorf("something was made: %s", got)
	}
	// The rest of the limits is applied where that is enough, and changed.
	id := detach(t, path, "--limits", "best-effort")
	check := func(memory string) {
		t.Helper()
		for file, want := range map[string]string{"memory.max": memory, "pids.max": "4096"} {
			if got := setting(t, sliceOf(id), file); got != want {
				t.Errorf("with best effort %s is %s, want %s", file, got, want)
			}
		}
		if got := podtask(t, "inspect", "--format", "{{.Limits}} {{.UnappliedLimits}}", id); got != "best-effort [cpu]" {
			t.Errorf("inspect says %q of the limits", got)
		}
		if got := podtask(t, "ps", "--format", "{{.Status}}"); !strings.Contains(got, "(no cpu limits)") {
			t.Errorf("ps does not say what the task does without: %s", got)
		}
	}
	check("100663296")
	podtask(t, "update", "--memory", "128m", id)
	check("134217728")
	if _, errs, code := command(t, bin(), "update", "--cpus", "0.25", id); code != 125 || !strings.Contains(errs, cgroups.DelegateDropIn) {
		t.Errorf("an update of what is not delegated: code %d, %s", code, errs)
	}
	check("134217728")
	podtask(t, "rm", "--force", id)

	// A task without cpu requires no cpu controller.
	id = detach(t, define(t, "undeclared", "", "96", box("app", "sleep forever", 0)))
	if got := podtask(t, "inspect", "--format", "{{.Limits}} {{.UnappliedLimits}}", id); got != "enforce []" {
		t.Errorf("inspect says %q of the limits of a task without cpu", got)
	}
	podtask(t, "rm", "--force", id)

	// Doctor says the same, and that tasks can do without.
	out, _, code := command(t, bin(), "doctor", "--quiet")
	if line := "delegation: cgroup controllers cpu are not delegated"; code != 0 || !strings.Contains(out, line) || !strings.Contains(out, cgroups.DelegateDropIn) {
		t.Errorf("doctor, code %d, does not say %q: %s", code, line, out)
	}
}

// With the io controller disks are counted. Whether they can be weighed depends on the
// kernel, and what cannot is said.
func TestDisksWhereTheirControllerIsDelegated(t *testing.T) {
	path := define(t, "disks", "512", "96", box("app", "sleep forever", 0))
	delegate(t, `Delegate=cpu io memory pids\n`)
	t.Cleanup(func() { delegate(t, `Delegate=cpu memory pids\n`) })
	id := detach(t, path)
	var got []struct {
		IO *struct{ Read, Written int }
	}
	out := podtask(t, "stats", "--no-stream", "--interval", "100ms", "--format", "json", id)
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != 1 || got[0].IO == nil {
		t.Errorf("%v: the io of the task is not counted: %s", err, out)
	}
	_, errs, code := command(t, bin(), "update", "--io-weight", "50", id)
	if _, err := os.Stat(filepath.Join(manager(), "io.weight")); err != nil {
		if code != 125 || !strings.Contains(errs, "this kernel has no io.weight") {
			t.Errorf("a kernel that weighs no disks: code %d, %s", code, errs)
		}
	} else if got := setting(t, sliceOf(id), "io.weight"); code != 0 || got != "default 50" {
		t.Errorf("code %d, %s; io.weight is %q", code, errs, got)
	}
}
