package stack

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/podtask/podtask/pkg/taskdef"
)

// Variables of a pipe that nobody writes to, or of a device without end, hold no plan up.
func TestVariablesOfPipesAndDevices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe, device, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "zero"), filepath.Join(dir, "file")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", device); err != nil {
		t.Fatal(err)
	}
	var prints []string
	for _, text := range []string{"A=1", "A=2"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m := &member{task: taskdef.Task{Containers: []taskdef.Container{{EnvironmentFiles: []taskdef.EnvironmentFile{{Path: pipe}, {Path: device}, {Path: file}}}}}}
		p, err := m.print()
		if err != nil {
			t.Fatal(err)
		}
		prints = append(prints, p)
	}
	if prints[0] == prints[1] {
		t.Error("another content of a file is not seen")
	}
}
