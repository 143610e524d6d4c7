package cli

import (
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/cli/command"
)

func TestRunFlagsThatChangeTheDefinition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, stderr, code := w.podtask("run", "--publish=http", "--memory=much", "--cpus=-1", "--stop-timeout=soon", "--secret=x,type=y", "web.json")
	for _, flag := range []string{"--publish", "--memory", "--cpus", "--stop-timeout", "--secret"} {
		if !strings.Contains(stderr, flag+": ") {
			t.Errorf("nothing about %s in %s", flag, stderr)
		}
	}
	if code != command.ExitOwnFailure {
		t.Errorf("exit code %d", code)
	}
	for _, line := range [][]string{
		{"run", "--replace", "web.json"},
		{"run", "--notify=soon", "web.json"},
		{"run", "--notify=healthy", "-d", "web.json"},
	} {
		if _, stderr, code := w.podtask(line...); code != command.ExitOwnFailure || !strings.Contains(stderr, "--") {
			t.Errorf("%q: %d, %s", line, code, stderr)
		}
	}
}
