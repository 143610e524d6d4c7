//go:build e2e && bed_plain

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/podtask/podtask/internal/unitfile/taskunit"
)

// TestExamplesRun runs the examples that are task definitions, with testbox in the place of
// the programs: the order, the secret, the volumes and the health checks are theirs.
func TestExamplesRun(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	image := b.testbox()
	const secret, volume = "blog-db-password", "blog-data"
	create := exec.Command("podman", "secret", "create", secret, "-")
	create.Stdin = strings.NewReader("plum")
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		_ = exec.Command("podman", "secret", "rm", secret).Run()
		_ = exec.Command("podman", "volume", "rm", "--force", volume).Run()
	})
	for _, example := range []struct{ file, ends, does string }{
		{"web/task.yaml", "web", "resolve db"},
		{"batch/report.task", "report", "cannot write /data/today no"},
		{"registry/task.yaml", "app", ""},
		{"units/hello.task", "web", ""},
	} {
		src, err := os.ReadFile(filepath.Join(os.Getenv("PODTASK_EXAMPLES"), example.file))
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := taskunit.DefinitionText(string(src)); ok {
			src = text
		}
		var definition map[string]any
		if err := yaml.Unmarshal(src, &definition); err != nil {
			t.Fatalf("%s: %v", example.file, err)
		}
		for _, item := range definition["containerDefinitions"].([]any) {
			ports, _ := item.(map[string]any)["portMappings"].([]any)
			for _, p := range ports {
				delete(p.(map[string]any), "hostPort") // other tests run at the same time
			}
		}
		if src, err = json.Marshal(definition); err != nil {
			t.Fatal(err)
		}
		path := b.file(strings.ReplaceAll(example.file, "/", "-")+".json", b.withTestbox(src, image, example.ends, example.does))
		r := b.podtask("run", path, "--rm", "--limits", "off")
		if r.code != 0 || !strings.Contains(r.out, "| done") {
			t.Errorf("%s ends with %d:\n%s%s", example.file, r.code, r.out, r.err)
		}
	}
}
