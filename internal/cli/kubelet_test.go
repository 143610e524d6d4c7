package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/kubelet"
)

func TestProgramsAreFoundBesideThisOneThenInPath(t *testing.T) {
	dir, commandHints := t.TempDir(), t.TempDir()
	p := &command.Program{Executable: func() (string, error) { return filepath.Join(dir, "podtask"), nil }}
	t.Setenv("PATH", commandHints)
	if _, err := p.FindProgram(kubelet.Program); err == nil || !strings.Contains(err.Error(), "is not installed") {
		t.Fatalf("nowhere: %v", err)
	}
	for _, in := range []string{commandHints, dir} {
		want := filepath.Join(in, kubelet.Program)
		if err := os.WriteFile(want, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if got, err := p.FindProgram(kubelet.Program); err != nil || got != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	}
}
