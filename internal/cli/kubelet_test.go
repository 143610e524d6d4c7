package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProgramsAreFoundBesideThisOneThenInPath(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	p := &program{executable: func() (string, error) { return filepath.Join(dir, "podtask"), nil }}
	t.Setenv("PATH", elsewhere)
	if _, err := p.findProgram(kubeletProgram); err == nil || !strings.Contains(err.Error(), "is not installed") {
		t.Fatalf("nowhere: %v", err)
	}
	for _, in := range []string{elsewhere, dir} {
		want := filepath.Join(in, kubeletProgram)
		if err := os.WriteFile(want, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if got, err := p.findProgram(kubeletProgram); err != nil || got != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	}
}
