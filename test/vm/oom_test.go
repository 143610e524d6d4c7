//go:build e2e && bed_vm

package vm

import "testing"

// outOfMemory tells whether the container's reasons name the killer.
func outOfMemory(task task) bool {
	for _, e := range task.Containers[0].Errors {
		if e.Name == "OutOfMemoryError" {
			return true
		}
	}
	return false
}

// overrun runs a task whose container takes more memory than it may, and
// returns how it ended.
func overrun(t *testing.T) task {
	t.Helper()
	path := define(t, "oom", "", "", box("app", "alloc 64", 32))
	out, errs, code := command(t, bin(), "run", "--name", "oom", path)
	if code != 137 {
		t.Fatalf("code %d, want 137; it printed\n%s%s", code, out, errs)
	}
	ended := inspect(t, "oom")
	podtask(t, "rm", "oom")
	return ended
}

func TestOutOfMemoryIsReported(t *testing.T) {
	ended := overrun(t)
	if !outOfMemory(ended) {
		// Conmon may miss the event when the container is gone too quickly.
		t.Log("Podman's OOM flag was not set; trying once more, which is the only retry there is")
		ended = overrun(t)
	}
	if c := ended.Containers[0]; !outOfMemory(ended) || c.ExitCode == nil || *c.ExitCode != 137 {
		t.Errorf("it ended as %+v, want code 137 and an OutOfMemoryError", c)
	}
}

func TestContainerSurvivesItsChildsOutOfMemory(t *testing.T) {
	id := detach(t, define(t, "child", "", "", box("app", "wait /tmp/go -- exit 7", 32)))
	ctr := inspect(t, id).Containers[0].RuntimeID
	if _, errs, code := command(t, "podman", "exec", ctr, "/testbox", "alloc", "64"); code != 137 {
		t.Fatalf("the child ended with code %d, want 137: %s", code, errs)
	}
	must(t, "podman", "exec", ctr, "/testbox", "write", "/tmp/go")
	if got := podtask(t, "wait", id); got != "7" {
		t.Errorf("wait printed %q, want 7", got)
	}
	if c := inspect(t, id).Containers[0]; c.ExitCode == nil || *c.ExitCode != 7 {
		t.Errorf("it ended as %+v, want code 7", c)
	}
}
