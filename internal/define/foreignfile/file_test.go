package foreignfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/foreign"
)

// A stream of manifests is one value, and a definition stays as it is.
func TestJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"kind: Job\n---\nkind: Secret\n": `{"apiVersion":"v1","items":[{"kind":"Job"},{"kind":"Secret"}],"kind":"List"}`,
		`{"family": "a"}`:                `{"family":"a"}`,
	} {
		if got, err := JSON([]byte(text)); err != nil || string(got) != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	if _, err := JSON([]byte("a: [")); err == nil {
		t.Error("nonsense is JSON")
	}
}

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
			Open: func(name string) ([]byte, error) { return ReadBelow(dir, name) },
		})
		if err == nil || !strings.Contains(err.Error(), "ecspresso.yml:4:18: read") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadBelow(dir, "."); err == nil {
		t.Error("a directory is read")
	}
}
