//go:build e2e

//e2e:bed plain

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// logFile is the file that conmon writes for the first container of a task, and segment one
// that is complete.
func logFile(b *box, id string) string {
	return filepath.Join(b.stateHome(), "podtask", "logs", id, "0.log")
}

// rotated reports whether conmon writes another file than segment n.
func rotated(b *box, id string, n int) bool {
	now, err := os.Stat(logFile(b, id))
	before, errBefore := os.Stat(fmt.Sprintf("%s.%d", logFile(b, id), n))
	return err == nil && errBefore == nil && !os.SameFile(now, before)
}

// The file of a container is rotated by whichever process owns the task, and no line is lost
// or comes twice: with an owner that is killed, without one, and across runs.
func TestLogFilesAreRotatedWithoutALoss(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.env = append(b.env, "PODTASK_LOG_MAX_SIZE=3m") // files of 768 KiB
	const lines = 16_000                             // 900 KB
	id := b.detach(b.define(ctr{
		Name: "app", More: logTo("awslogs", obj{"awslogs-group": "g", "awslogs-region": "eu-west-1"}),
		Command: words(fmt.Sprintf("eprint first -- lines %d -- wait /tmp/two -- lines %d -- write /tmp/done -- wait /tmp/three -- print last", lines, lines)),
	}))
	following := b.start("logs", "-f", id)
	eventually(t, "the first rotation", func() bool { return rotated(b, id, 1) })
	b.killOwner(id)
	b.tell(id, "app", "/tmp/two")
	b.podman("exec", b.inspect(id).Containers[0].RuntimeID, "/testbox", "wait", "/tmp/done")
	waiting := b.start("wait", id) // becomes the owner
	eventually(t, "the second rotation", func() bool { return rotated(b, id, 2) })
	b.tell(id, "app", "/tmp/three")
	waiting.want(0)
	for name, got := range map[string]result{"logs": b.want(0, "logs", id), "logs -f": following.want(0)} {
		var want strings.Builder
		for range 2 {
			for i := range lines {
				fmt.Fprintf(&want, "app | line %d\n", i+1)
			}
		}
		want.WriteString("app | last\n")
		if got.out != want.String() || got.err != "app | first\n" {
			t.Errorf("%s shows %d lines of %d, and on stderr %q", name, strings.Count(got.out, "\n"), 2*lines+1, got.err)
		}
	}
	if got := b.want(0, "logs", "-t", "--tail", "1", id, "app").out; !strings.HasSuffix(got, " last\n") || !strings.Contains(got, ".") {
		t.Errorf("the time has no nanoseconds: %s", got)
	}
	b.want(0, "rm", id)
	if left, _ := filepath.Glob(filepath.Join(b.stateHome(), "podtask", "logs", "*", id+"*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(filepath.Dir(logFile(b, id))); err == nil {
		t.Error("the files are left")
	}
}
