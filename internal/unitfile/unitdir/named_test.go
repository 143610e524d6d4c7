package unitdir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/unitfile/unitdir"
)

// Who asks for the task of a unit that does not run is told where its log is.
func TestAUnitIsKnownByTheNameOfItsTask(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"web.task", "cache.container"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	getenv := func(name string) string { return map[string]string{"PODTASK_UNIT_DIRS": dir}[name] }
	for _, ref := range []string{"web", "web.task", "web-task", "web-task.service"} {
		if err := unitdir.Named(getenv, ref); err == nil || !strings.Contains(err.Error(), "`journalctl --user -u web-task` has its log") {
			t.Errorf("%s: %v", ref, err)
		}
	}
	for _, ref := range []string{"we", "cache", "cache.container", ""} {
		if err := unitdir.Named(getenv, ref); err != nil {
			t.Errorf("%q: %v", ref, err)
		}
	}
}
