package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The task of a unit is removed when its service stops: who asks for it is told where the log is.
func TestTheTaskOfAUnitThatDoesNotRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env = map[string]string{"PODTASK_UNIT_DIRS": w.dir}
	if err := os.WriteFile(filepath.Join(w.dir, "web.task"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"why", "logs"} {
		if _, stderr, code := w.podtask(verb, "web"); code != 125 || !strings.Contains(stderr, "`journalctl --user -u web-task` has its log") {
			t.Errorf("%s: exit code %d, %s", verb, code, stderr)
		}
		if _, stderr, code := w.podtask(verb, "shop"); code != 125 || !strings.Contains(stderr, "no task") {
			t.Errorf("%s: exit code %d, %s", verb, code, stderr)
		}
	}
}
