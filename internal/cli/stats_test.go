package cli

import (
	"strings"
	"testing"
)

func TestStatsOfWhatDoesNotRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("web")
	out, errs, code := w.podtask("stats", "--no-stream", "--interval", "100ms", "--format", "json", "web")
	if code != 0 || strings.TrimSpace(out) != "[]" {
		t.Errorf("code %d, %q\n%s", code, out, errs)
	}
	if _, errs, code := w.podtask("stats", "none"); code != 125 || !strings.Contains(errs, "no task") {
		t.Errorf("an unknown task: code %d, %s", code, errs)
	}
	if _, errs, code := w.podtask("stats", "--interval", "1ms"); code != 125 || !strings.Contains(errs, "--interval") {
		t.Errorf("a short interval: code %d, %s", code, errs)
	}
}
