package importer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/foreign"
)

// Files that a file names are below its directory, whatever links there are.
func TestFilesStayInTheirDirectory(t *testing.T) {
	t.Parallel()
	outside, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "task.json"), []byte(`{"family": "secret"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "task.json"), filepath.Join(dir, "task.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"task.json", "sub/task.json"} {
		_, err := foreign.Read(foreign.Request{
			File: "ecspresso.yml", Base: "ecspresso.yml", Source: []byte("region: r\ncluster: c\nservice: s\ntask_definition: " + name + "\n"),
			Open: func(name string) ([]byte, error) { return readBelow(dir, name) },
		})
		if err == nil || !strings.Contains(err.Error(), "ecspresso.yml:4:18: read") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := readBelow(dir, "."); err == nil {
		t.Error("a directory is read")
	}
}
