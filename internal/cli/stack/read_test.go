package stack

import (
	"os"
	"path/filepath"
	"strings"
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
		p, err := m.print("")
		if err != nil {
			t.Fatal(err)
		}
		prints = append(prints, p)
	}
	if prints[0] == prints[1] {
		t.Error("another content of a file is not seen")
	}
}

// A manifest of a directory that is broken is an error: a stack without it would lose its services.
func TestABrokenManifestIsNotLeftOut(t *testing.T) {
	t.Parallel()
	const good = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n"
	for name, tt := range map[string]struct {
		text string
		want string // empty: it is passed by
	}{
		"no YAML":            {good + "  oops: {broken\n", "b.yaml is beside manifests and cannot be read"},
		"no YAML in the end": {"a: 1\n---\n" + strings.Replace(good, "Service", "[Service", 1), "b.yaml is beside manifests and cannot be read"},
		"too large":          {"# " + strings.Repeat("x", 20<<20), "b.yaml"},
		"another file":       {"a: 1\n", ""},
		"nothing":            {"", ""},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{"a.yaml": good, "b.yaml": tt.text} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		all, err := sourcesOf(dir)
		if tt.want == "" && (err != nil || len(all) != 1) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %d files, %v", name, len(all), err)
		}
	}
}
