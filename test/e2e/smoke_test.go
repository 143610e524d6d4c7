//go:build e2e

// Package e2e holds the tests that need a real Podman: they run inside a test
// bed, as its user, and drive the podtask program as a user would.
//
// The bed gives the environment: PODTASK_BIN is the program's path,
// PODTASK_BED the bed's name ("plain" or "systemd"), PODTASK_EXAMPLES the
// path of a copy of examples/.
package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// run runs a command and returns its standard output; a failure ends the test.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, &stderr)
	}
	return string(out)
}

func TestPodmanIsRootlessAndAnswers(t *testing.T) {
	if got := strings.TrimSpace(run(t, "podman", "info", "--format", "{{.Host.Security.Rootless}}")); got != "true" {
		t.Errorf("rootless = %q, want true", got)
	}
}

func TestProgramTellsItsVersion(t *testing.T) {
	bin := os.Getenv("PODTASK_BIN")
	if _, err := os.Stat(bin); err != nil {
		t.Skipf("PODTASK_BIN names no program: %v", err)
	}
	if out := run(t, bin, "version"); strings.TrimSpace(out) == "" {
		t.Error("podtask version printed nothing")
	}
}
