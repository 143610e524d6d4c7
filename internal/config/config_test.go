package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// place is a host with files and an environment.
type place struct {
	t   *testing.T
	dir string
	env map[string]string
}

func newPlace(t *testing.T) *place {
	dir := t.TempDir()
	return &place{t: t, dir: dir, env: map[string]string{"XDG_CONFIG_HOME": filepath.Join(dir, "home")}}
}

func (p *place) write(name, text string) string {
	p.t.Helper()
	full := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return full
}

func (p *place) load() (*Settings, error) {
	return Load(Source{Root: p.dir, Getenv: func(name string) string { return p.env[name] }})
}

func TestLaterPlacesWin(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	host := p.write("etc/podtask/podtask.toml", "# of the host\npull = \"once\"\nlimits = \"off\"\nlog-level = \"error\"\n")
	dropIn := p.write("etc/podtask/podtask.toml.d/10-pull.toml", "pull = \"never\"")
	p.write("etc/podtask/podtask.toml.d/README", "no TOML")
	user := p.write("home/podtask/podtask.toml", "\nlimits = \"best-effort\"\n")
	p.env["PODTASK_LOG_LEVEL"] = "info"
	s, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetFlag("stop-tasks", "never"); err != nil {
		t.Fatal(err)
	}
	want := map[string][2]string{
		"pull": {"never", dropIn + ":1"}, "limits": {"best-effort", user + ":2"}, "log-level": {"info", "PODTASK_LOG_LEVEL"},
		"stop-tasks": {"never", "--stop-tasks"}, "log-format": {"auto", "default"},
	}
	for _, k := range Keys() {
		if w, ok := want[k.Name]; ok && (s.Text(k.Name) != w[0] || s.Origin(k.Name) != w[1]) {
			t.Errorf("%s is %q from %s, want %q from %s", k.Name, s.Text(k.Name), s.Origin(k.Name), w[0], w[1])
		}
	}
	if got := strings.Join(s.Files, " "); got != host+" "+dropIn+" "+user {
		t.Errorf("files %s", got)
	}
}

func TestFlagArgsAreTheFlagsOfEveryCommand(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("home/podtask/podtask.toml", "pull-idle = \"90s\"\n")
	p.env["PODTASK_PULL_TIMEOUT"] = "1h"
	s, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	for flag, value := range map[string]string{"budget-cpu": "2", "pull": "never"} {
		if err := s.SetFlag(flag, value); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(s.FlagArgs(), " "); got != "--budget-cpu=2" {
		t.Errorf("flags %s", got)
	}
}

func TestWithoutFilesAllIsDefault(t *testing.T) {
	t.Parallel()
	s, err := newPlace(t).load()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range Keys() {
		if s.Text(k.Name) != k.Default || s.Origin(k.Name) != "default" {
			t.Errorf("%s is %q from %s", k.Name, s.Text(k.Name), s.Origin(k.Name))
		}
	}
}

func TestAllProblemsAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("etc/podtask/podtask.toml", "pul = \"once\"\nlimits = \"some\"\n\n[agent]\nx = 1\n")
	p.write("etc/podtask/podtask.toml.d/a.toml", "pull = [\"once\"]\nlog_level = 3\n")
	p.write("home/podtask/podtask.toml", "pull = once\n")
	p.write("home/podtask/podtask.toml.d/c.toml", "\npull = {{ pull }}\n")
	p.write("home/podtask/podtask.toml.d/b.toml", "state-dir = \"here\"\nmetrics-listen = \"0.0.0.0:1\"\n")
	p.env["PODTASK_STOP_TASKS"], p.env["PODTASK_LOGLEVEL"] = "now", "debug"
	_, err := p.load()
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("the error is %v", err)
	}
	for _, want := range []string{
		"etc/podtask/podtask.toml:1: pul: unknown key; did you mean \"pull\"?",
		`podtask.toml:2: limits: must be enforce, best-effort or off, not "some"`,
		"podtask.toml:4: agent: unknown key",
		"a.toml:1: pull: must be a string, a number",
		"a.toml:2: log_level: unknown key; did you mean \"log-level\"?",
		"home/podtask/podtask.toml:1: not valid TOML (",
		"c.toml:2: \"{{ pull }}\" is a tag of a template that was not rendered: render",
		"PODTASK_LOGLEVEL: unknown variable; did you mean \"PODTASK_LOG_LEVEL\"?",
		`b.toml:1: state-dir: must be an absolute path, not "here"`,
		"b.toml:2: metrics-listen: ",
		`PODTASK_STOP_TASKS: must be shutdown, always or never, not "now"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
	if n := len(invalid.Problems); n != 11 {
		t.Errorf("%d problems:\n%v", n, err)
	}
}

func TestAFileThatCannotBeReadIsAProblem(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if err := os.MkdirAll(filepath.Join(p.dir, "home/podtask/podtask.toml"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := p.load(); err == nil || !strings.Contains(err.Error(), "podtask.toml: is a directory") {
		t.Errorf("the error is %v", err)
	}
}

func TestMetricsAndTheECSAPIAreForThisHostOnly(t *testing.T) {
	t.Parallel()
	for address, good := range map[string]bool{
		"127.0.0.1:9464": true, "[::1]:9464": true, "localhost:0": true, "127.8.0.1:1": true,
		":9464": false, "0.0.0.0:9464": false, "10.0.0.1:1": false, "localhost": false, "localhost:http": false, "[::]:1": false,
	} {
		s := Default()
		if err := s.SetFlag("metrics-listen", address); (err == nil) != good || good && s.Agent.MetricsListen != address {
			t.Errorf("%s: %v", address, err)
		}
		if err := s.SetFlag("aws-listen", address); (err == nil) != good || good && s.Agent.AWSListen != address {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestDomainOfExpressServices(t *testing.T) {
	t.Parallel()
	for domain, good := range map[string]bool{"": true, "apps.example.org": true, "test": true, "*.example.org": false, "https://example.org": false, "example.org/a": false, "example..org": false, "example.org:443": false, "a b": false} {
		s := Default()
		if err := s.SetFlag("aws-express-domain", domain); (err == nil) != good || good && s.AWS.ExpressDomain != domain {
			t.Errorf("%s: %v", domain, err)
		}
	}
}

func TestKeysAreTheCallers(t *testing.T) {
	t.Parallel()
	for _, k := range Keys() {
		for i := range k.Values {
			k.Values[i] = ""
		}
	}
	for _, k := range Keys() {
		if slices.Contains(k.Values, "") {
			t.Errorf("%s has changed: %q", k.Name, k.Values)
		}
	}
}

func TestKeysAreSound(t *testing.T) {
	t.Parallel()
	c := Default()
	last := ""
	for _, k := range Keys() {
		if k.Name <= last {
			t.Errorf("%s stands behind %s", k.Name, last)
		}
		last = k.Name
		if err := k.apply(c, k.Default); err != nil {
			t.Errorf("the default of %s: %v", k.Name, err)
		}
		if strings.HasSuffix(k.Help, ".") || k.Help == "" {
			t.Errorf("the help of %s: %q", k.Name, k.Help)
		}
		for _, v := range k.Values {
			if err := c.SetFlag(k.Name, v); err != nil || c.Text(k.Name) != v {
				t.Errorf("%s = %q: %v", k.Name, v, err)
			}
		}
	}
}

// TestDocument holds docs/configuration.md against the keys; UPDATE_GOLDEN=1 writes it.
func TestDocument(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "docs", "configuration.md")
	old, err := os.ReadFile(path)
	if err != nil && os.Getenv("UPDATE_GOLDEN") == "" {
		t.Fatal(err)
	}
	const begin = "| key | default | values | flag of | what |\n|---|---|---|---|---|\n"
	var table strings.Builder
	table.WriteString(begin)
	for _, k := range Keys() {
		verb := k.Verb
		if verb == "" {
			verb = "all"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s |\n", k.Name, k.Default, strings.Join(k.Values, ", "), verb, k.Help)
	}
	head, _, found := strings.Cut(string(old), begin)
	if !found {
		t.Fatalf("%s has no table of keys", path)
	}
	if text := head + table.String(); text != string(old) {
		if os.Getenv("UPDATE_GOLDEN") == "" {
			t.Fatalf("%s differs: run UPDATE_GOLDEN=1 go test ./internal/config", path)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "pull = \"once\"", "a.b = 1\n[c]\nd = 2\n[[e]]", "x = {y = 1}", "# c\r\nlimits='off'", "\x00 = 1", `"a b" = 1`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, _, problems := parse(text, "f")
		lines := 1 + strings.Count(string(text), "\n")
		for _, e := range entries {
			if e.line < 1 || e.line > lines {
				t.Errorf("%q stands in line %d of %d", e.key, e.line, lines)
			}
		}
		if len(problems) > 0 && problems[0].Key != referenceTable && len(entries) > 0 {
			t.Error("a file with a mistake in its syntax says something")
		}
	})
}
