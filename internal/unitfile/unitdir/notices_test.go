package unitdir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"github.com/podtask/podtask/internal/unitfile/unitdir"
)

func TestServicesTellOfFailuresIfTheConfigurationHasNotices(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"": false, "log-level = \"info\"\n": false, "# [[notify]]\n": false, "[[reference]]\n": false, "log-level = \"info\"\n [[ notify ]] # me\n": true} {
		base := t.TempDir()
		dir := filepath.Join(base, "podtask", "podtask.toml.d")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "a.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		getenv := func(name string) string { return map[string]string{"XDG_CONFIG_HOME": base}[name] }
		source := taskunit.Source{Name: "web.task", File: taskunit.Read("/u/web.task", "[Task]\nDefinition=/x.json\n")}
		services, problems := taskunit.Generate([]taskunit.Source{source}, taskunit.Options{Program: "podtask", Notices: unitdir.Notices(getenv)})
		if len(problems) > 0 || len(services) != 1 {
			t.Fatalf("%v", problems)
		}
		if got := strings.Contains(services[0].Text, "\nOnFailure=podtask-notify.service\n"); got != want {
			t.Errorf("%q: OnFailure is there: %v", text, got)
		}
	}
}
