//go:build e2e && bed_vm

package vm

import (
	"strings"
	"testing"
)

// outOfMemory is what a container's errors say about memory; empty for nothing.
func outOfMemory(task task, container int) string {
	for _, e := range task.Containers[container].Errors {
		if e.Name == "OutOfMemoryError" {
			return e.Message
		}
	}
	return ""
}

// overrun runs a task to its end, which is a SIGKILL, and returns how it ended.
func overrun(t *testing.T, path string) task {
	t.Helper()
	out, errs, code := command(t, bin(), "run", "--name", "oom", path)
	if code != 137 {
		t.Fatalf("code %d, want 137; it printed\n%s%s", code, out, errs)
	}
	ended := inspect(t, "oom")
	podtask(t, "rm", "oom")
	return ended
}

// A container that takes more than it may, and one that takes less than it may
// but with the others more than the task may.
func TestOutOfMemoryNamesWhatWasReached(t *testing.T) {
	for name, tt := range map[string]struct {
		path string
		want []string
	}{
		"the container": {define(t, "own", "", "128", box("app", "alloc 64", 32), box("side", "sleep forever", 0)),
			[]string{"its memory limit of 32 MiB", "of 128 MiB"}},
		"the task": {define(t, "whole", "", "48", box("app", "wait /nothing", 40), box("side", "alloc 64", 0)),
			[]string{"the task used all of its memory limit", "of 48 MiB"}},
	} {
		t.Run(name, func(t *testing.T) {
			ended := overrun(t, tt.path)
			guilty := 0
			if name == "the task" {
				guilty = 1
			}
			said := outOfMemory(ended, guilty)
			for _, want := range tt.want {
				if !strings.Contains(said, want) {
					t.Errorf("it says %q, want %q in it", said, want)
				}
			}
			if c := ended.Containers[guilty]; c.ExitCode == nil || *c.ExitCode != 137 || !strings.Contains(c.Reason, "OutOfMemoryError") {
				t.Errorf("it ended as %+v, want code 137 and an OutOfMemoryError", c)
			}
		})
	}
}
