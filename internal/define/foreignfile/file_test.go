package foreignfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/foreign"
	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/pkg/taskdef"
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
		_, err := foreign.Read(toolfile.Request{
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

// A problem of the text that was made of several documents is shown at the line of the document that it is in.
func TestProblemsOfDocumentsAreThoseOfTheFile(t *testing.T) {
	t.Parallel()
	src := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  nodeName: x\n  containers:\n    - {name: a, image: a, envFrom: [{configMapRef: {name: c}}]}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\nbinaryData: {k: '?'}\n"
	all, err := foreign.ReadAll(toolfile.Request{File: "all.yaml", Source: []byte(src)}, "s", "tag")
	if err != nil || len(all) != 1 || len(all[0].Documents) != 2 {
		t.Fatal(all, err)
	}
	text, _ := Text(all[0])
	for i, want := range []struct {
		pointer string
		line    int
	}{{"/spec/nodeName", 9}, {"/binaryData/k", 16}} {
		line := 1 + 2*i // each document has one, with a separator between them
		if p := all[0].Locate(taskdef.Problem{Pointer: want.pointer, Line: line}, text); p.File != "all.yaml" || p.Line != want.line {
			t.Errorf("%s is at %s", want.pointer, p)
		}
	}
}
