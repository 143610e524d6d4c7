//go:build e2e && bed_vm

package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/cgroups"
)

// manager is the cgroup of the user's manager.
func manager() string {
	uid := os.Getuid()
	return fmt.Sprintf("/sys/fs/cgroup/user.slice/user-%d.slice/user@%d.service", uid, uid)
}

// setting is what the kernel says in a cgroup's file.
func setting(t *testing.T, group, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(group, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// members is the number of processes in a cgroup and those below it.
func members(t *testing.T, group string) (pids []string) {
	t.Helper()
	err := filepath.WalkDir(group, func(path string, _ os.DirEntry, err error) error {
		if err == nil && filepath.Base(path) == "cgroup.procs" {
			pids = append(pids, strings.Fields(setting(t, filepath.Dir(path), "cgroup.procs"))...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

// scope is the cgroup that Podman made for a container, which lies in slice.
func scope(t *testing.T, slice, id string) (group string) {
	t.Helper()
	_ = filepath.WalkDir(slice, func(path string, _ os.DirEntry, _ error) error {
		if filepath.Base(path) == "libpod-"+id+".scope" {
			group = path
		}
		return nil
	})
	if group == "" {
		t.Fatalf("no cgroup of container %s is in %s", id, slice)
	}
	return group
}

// memoryOf is the limit of a container's memory. Debian 12's crun puts it on a
// cgroup within the scope.
func memoryOf(t *testing.T, scope string) string {
	t.Helper()
	if got := setting(t, scope, "memory.max"); got != "max" {
		return got
	}
	return setting(t, filepath.Join(scope, "container"), "memory.max")
}

func TestLimitsAreInTheKernel(t *testing.T) {
	id := detach(t, define(t, "limits", "512", "96", box("app", "sleep forever", 32), box("side", "sleep forever", 0)))
	slice := filepath.Join(manager(), "podtask"+id+".slice")
	for file, want := range map[string]string{"memory.max": "100663296", "cpu.max": "50000 100000"} {
		if got := setting(t, slice, file); got != want {
			t.Errorf("%s of the task is %s, want %s", file, got, want)
		}
	}

	task := inspect(t, id)
	app := scope(t, slice, task.Containers[0].RuntimeID)
	if got := memoryOf(t, app); got != "33554432" {
		t.Errorf("memory.max of app is %s, want 33554432", got)
	}
	side := scope(t, slice, task.Containers[1].RuntimeID)
	if got := memoryOf(t, side); got != "max" {
		t.Errorf("memory.max of side is %s, want max", got)
	}

	inSlice := members(t, slice)
	pids := strings.Fields(must(t, "podman", "ps", "--filter", "pod="+task.PodID, "--format", "{{.ID}}"))
	if len(pids) != 3 {
		t.Fatalf("the pod has containers %v, want app, side and the infra container", pids)
	}
	for _, c := range pids {
		for _, process := range []string{"Pid", "ConmonPid"} {
			if pid := must(t, "podman", "inspect", "--format", "{{.State."+process+"}}", c); !slices.Contains(inSlice, pid) {
				t.Errorf("the %s of container %s, %s, is not in the task's slice: %v", process, c, pid, inSlice)
			}
		}
	}

	podtask(t, "rm", "--force", id)
	if _, err := os.Stat(slice); !os.IsNotExist(err) {
		t.Errorf("the slice is still there: %v", err)
	}
}

// delegate sets the controllers that the user's manager gets and restarts it.
func delegate(t *testing.T, lines string) {
	t.Helper()
	script := `mkdir -p "$(dirname "$1")" && printf "[Service]\n$2" >"$1" && systemctl daemon-reload && systemctl restart "user@$3.service"`
	must(t, "sudo", "-n", "sh", "-c", script, "sh", cgroups.DelegateDropIn, lines, fmt.Sprint(os.Getuid()))
}

func TestControllerThatIsNotDelegatedIsNamed(t *testing.T) {
	path := define(t, "undelegated", "512", "96", box("app", "print hello", 0))
	delegate(t, `Delegate=no\nDelegate=memory pids\n`)
	t.Cleanup(func() {
		delegate(t, `Delegate=cpu memory pids\n`)
		if out := podtask(t, "run", "--rm", path); !strings.Contains(out, "hello") {
			t.Errorf("with all controllers the task printed %q", out)
		}
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
}
