package settings_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/notice/settings"
)

// load reads a configuration.
func load(t *testing.T, text string) ([]settings.Rule, error) {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "podtask")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "podtask.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return settings.Load(config.Source{Root: filepath.Join(root, "none"), Getenv: func(name string) string {
		return map[string]string{"XDG_CONFIG_HOME": root}[name]
	}})
}

func TestRules(t *testing.T) {
	t.Parallel()
	rules, err := load(t, `log-level = "info"

[[notify]]
name = "night"
on = ["failed", "unhealthy"]
service = ["web", "db*"]
to = "https://hooks.example.com/x"
key = "file:/srv/key"

[[reference]]
match = "arn:aws:ssm:*"
source = "podman:x"

[[notify]]
name = "mail"
on = "disk"
to = "smtps://mail.example.com"
from = "podtask@example.com"
recipients = "me@example.com"
resolved = false

[[notify]]
name = "program"
on = ["podman-away"]
to = ["/usr/bin/tell", "me"]

[[notify]]
name = "chat"
on = ["certificate"]
to = "podman:chat-url"
format = "slack"
`)
	if err != nil {
		t.Fatal(err)
	}
	if len(rules) != 4 {
		t.Fatalf("%d rules", len(rules))
	}
	if r := rules[0]; r.Target.Key != "file:/srv/key" || r.Target.Format != "json" || !slices.Equal(r.Services, []string{"web", "db*"}) || !strings.HasSuffix(r.Place, "podtask.toml:3") {
		t.Errorf("the first is %+v", r)
	}
	if r := rules[1]; r.Target.Mail.Server != "mail.example.com:465" || !r.Target.Mail.Secure || !r.Quiet {
		t.Errorf("the second is %+v", r)
	}
	if r := rules[3]; r.Target.URLFrom != "podman:chat-url" || r.Target.URL != "" {
		t.Errorf("the fourth is %+v", r)
	}
}

func TestProblemsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	_, err := load(t, `[[notify]]
name = "a b"
on = ["faild", "disk", "disk"]
service = "web"
format = "slak"
to = "http://user:word@example.com/"

[[notify]]
on = []

[[notify]]
name = "x"
on = ["podman-away", "failed"]
to = "podman:url"
tagg = "x"
task = ["[a", "b c"]

[[notify]]
name = "x"
on = ["failed"]
service = "a"
schedule = "b"
to = "smtp://mail.example.com"
user = "me"
key = "file:/k"
`)
	var invalid *config.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	got := err.Error()
	for _, want := range []string{
		`podtask.toml:2: notify: name has 1 to 64`, `podtask.toml:3: notify: on has the unknown condition "faild"; did you mean`, `podtask.toml:3: notify: on has disk twice`,
		`podtask.toml:1: notify: its filters never match disk`, `podtask.toml:5: notify: format "slak" is unknown`, `podtask.toml:6: notify: to has a user in the URL`,
		`podtask.toml:8: notify: name is missing`, `podtask.toml:9: notify: on is empty`, `podtask.toml:8: notify: to is missing, so the notice reaches nobody`,
		`podtask.toml:14: notify: to is kept by Podman, which does not answer`, `podtask.toml:15: notify: tagg is unknown`, `podtask.toml:16: notify: task has the invalid pattern "[a"`,
		`podtask.toml:16: notify: task "b c" matches no name`, `podtask.toml:19: notify: name "x" is the name of the [[notify]] at`, `a task belongs to a service or to a schedule`,
		`podtask.toml:25: notify: key means nothing to mail`, `password and user belong together`, `from is missing`, `recipients is missing, so the notice reaches nobody`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "word@") {
		t.Errorf("a password is in the error:\n%s", got)
	}
}

func TestTheWrongKindOfTable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"notify = 3":                  "write it as [[notify]]",
		"[notify]\nname = \"x\"":      "write it as [[notify]]",
		"[[notify]]\n[notify.filter]": "has no tables",
	} {
		if _, err := load(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzRules: no configuration ends the program, and a rule that is accepted has a name and a target.
func FuzzRules(f *testing.F) {
	f.Add("[[notify]]\nname = \"x\"\non = [\"failed\"]\nto = \"https://example.com\"\n")
	f.Add("[[notify]]\nname = 3\non = [[1]]\nto = [1]\nrecipients = {a=1}\n")
	f.Add("[[notify]]\na.b = 1\n[[notify]]\n")
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := load(t, text)
		for _, r := range rules {
			if err == nil && (r.Name == "" || len(r.On) == 0 || r.Target.URL+r.Target.URLFrom == "" && r.Target.Mail == nil && len(r.Target.Command) == 0) {
				t.Errorf("accepted: %+v", r)
			}
		}
	})
}
