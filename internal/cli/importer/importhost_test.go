package importer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/connect/sshhost"
)

// TestAnswerOfAHostThatImports: of what a host answers only a valid definition is taken, and lines about what is lost.
func TestAnswerOfAHostThatImports(t *testing.T) {
	t.Parallel()
	const definition = `{\"family\": \"web\", \"containerDefinitions\": [{\"name\": \"app\", \"image\": \"web:1\"}]}`
	box := sshhost.Host{Name: "box"}
	r, err := readImport([]byte(`{"kind": "a task", "files": [{"path": "../../x/web.json", "content": "`+definition+`"},
		{"path": "web.task", "content": "[Service]\nExecStartPre=evil\n"}], "lost": [{"message": "app: linux"}], "commands": ["evil"]}`), box, "web.json")
	if err != nil || !strings.Contains(string(r.Definition), "web:1") || len(r.Lost) != 1 || r.Unit != "" || len(r.Files) > 0 {
		t.Errorf("%+v %v", r, err)
	}
	for _, answer := range []string{"", "{}", `{"files": [{"path": "other.json", "content": "` + definition + `"}]}`, `{"files": [{"path": "web.json", "content": "{}"}]}`, `{"files": 1}`} {
		if _, err := readImport([]byte(answer), box, "web.json"); err == nil || !strings.Contains(err.Error(), "ssh://box") {
			t.Errorf("%s: %v", answer, err)
		}
	}
}

// A definition of another host names no file, variable or program of this machine: a run with it would send what they hold there.
func TestADefinitionOfAHostNamesNothingHere(t *testing.T) {
	t.Parallel()
	const definition = `{"family": "web", "containerDefinitions": [{"name": "app", "image": "web:1", "repositoryCredentials": {"credentialsParameter": "file:/srv/me/login"},
		"environmentFiles": [{"type": "s3", "value": "/srv/me/.netrc"}], "secrets": [{"name": "A", "valueFrom": "file:/srv/me/.ssh/id_rsa"},
		{"name": "B", "valueFrom": "env:TOKEN"}, {"name": "C", "valueFrom": "command:cat /srv/me/key"}, {"name": "D", "valueFrom": "podman:d"},
		{"name": "E", "valueFrom": "arn:aws:ssm:eu-west-1:123456789012:parameter/e"}]}]}`
	answer, err := json.Marshal(map[string]any{"files": []map[string]string{{"path": "web.json", "content": definition}}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := readImport(answer, sshhost.Host{Name: "box"}, "web.json")
	if err != nil {
		t.Fatal(err)
	}
	text := string(r.Definition)
	for _, word := range []string{"/srv/me", "TOKEN", "command:"} {
		if strings.Contains(text, word) {
			t.Errorf("the definition has %s: %s", word, text)
		}
	}
	if !strings.Contains(text, "podman:d") || !strings.Contains(text, "parameter/e") || !strings.Contains(fmt.Sprint(r.Lost), "secret A") {
		t.Errorf("%s %q", text, r.Lost)
	}
}

func TestWhatNamesATask(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("manifest", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]bool{"web": true, "0123abcd": true, "-": false, "manifest": false, "web.yaml": false, filepath.Join("a", "b"): false} {
		if namesTask(from) != want {
			t.Errorf("%s: %v", from, !want)
		}
	}
}

func FuzzImportAnswer(f *testing.F) {
	f.Add([]byte(`{"files": [{"path": "web.json", "content": "{\"family\": \"web\", \"containerDefinitions\": [{\"name\": \"app\", \"image\": \"web:1\"}]}"}]}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		r, err := readImport(answer, sshhost.Host{Name: "box"}, "web.json")
		if err == nil && len(r.Definition) == 0 || r.Unit != "" {
			t.Errorf("%+v", r)
		}
	})
}
