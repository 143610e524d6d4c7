package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/pkg/taskdef/refs"
)

// home makes a user's configuration directory with files, and returns the source of it.
func home(t *testing.T, files map[string]string) Source {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, "podtask", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"XDG_CONFIG_HOME": root}
	return Source{Getenv: func(name string) string { return env[name] }, Root: filepath.Join(root, "none")}
}

func TestReferencesOfAllFiles(t *testing.T) {
	t.Parallel()
	src := home(t, map[string]string{
		"podtask.toml": `pull = "once"
reference-timeout = "5s"
[[reference]]
match = "arn:aws:ssm:*:parameter/*"
command = ["/usr/bin/aws", "ssm", "get-parameter", "--name", "{0}", "--with decryption"]

[[reference]]
match = "*"
source = "tree:/srv/aws"
stage = "AWSPREVIOUS"
`,
		"podtask.toml.d/10-more.toml": `reference = [{match = "efs:*", source = "file:/srv/{1}"}]`,
		"map":                         "/b = file:b\n",
	})
	s, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(src.Getenv("XDG_CONFIG_HOME"), "podtask")
	if err := s.SetFlag("map-secret-file", filepath.Join(dir, "map")); err != nil {
		t.Fatal(err)
	}
	table, err := s.Rules()
	want := refs.Table{
		{Match: "/b", Source: "file:" + dir + "/b", Origin: dir + "/map:1"},
		{Match: "efs:*", Source: "file:/srv/{1}", Origin: dir + "/podtask.toml.d/10-more.toml:1"},
		{Match: "arn:aws:ssm:*:parameter/*", Command: []string{"/usr/bin/aws", "ssm", "get-parameter", "--name", "{0}", "--with decryption"}, Origin: dir + "/podtask.toml:3"},
		{Match: "*", Source: "tree:/srv/aws", Stage: "AWSPREVIOUS", Origin: dir + "/podtask.toml:7"},
	}
	if diff := cmp.Diff(want, table); diff != "" || err != nil || s.References.Timeout.Seconds() != 5 {
		t.Error(diff, err, s.References.Timeout)
	}
	// A rule that is added counts without a restart.
	if err := os.WriteFile(filepath.Join(dir, "podtask.toml.d", "20-late.toml"), []byte("[[reference]]\nmatch = \"/late\"\nsource = \"env:LATE\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if table, err = s.Rules(); err != nil || len(table) != 5 || table[1].Match != "/late" {
		t.Error(table, err)
	}
}

func TestReferencesThatAreWrongAreAllNamed(t *testing.T) {
	t.Parallel()
	rules := []struct{ text, says string }{
		{`source = "env:A"`, "match is missing"},
		{`match = "a"`, "source is missing"},
		{`match = "a"` + "\n" + `source = "file:relative"`, "not absolute"},
		{`match = "a"` + "\n" + `source = "vault:x"`, "is not a source"},
		{`match = "a"` + "\n" + `source = "aws:"`, "built without the source aws:"},
		{`match = "a"` + "\n" + `source = "env:A"` + "\n" + `command = ["/bin/x"]`, "both given"},
		{`match = "a"` + "\n" + `command = "/bin/x"`, "list of strings"},
		{`match = "a"` + "\n" + `command = ["x"]`, "absolute path"},
		{`match = "a"` + "\n" + `command = []`, "source is missing"},
		{`match = "a"` + "\n" + `sourc = "env:A"`, `did you mean "source"?`},
		{`match = "/web/*"` + "\n" + `source = "http://127.0.0.1/{1}"`, "answers only Lambda functions"},
		{`match = "alarm:a"` + "\n" + `source = "http://user:secret@127.0.0.1/"`, "a user or a password"},
		{`match = "alarm:a"` + "\n" + `source = "https:///x"`, "is not a URL"},
		{`match = "alarm:a"` + "\n" + `query = "up < 1"`, "URL of a Prometheus server"},
		{`match = 5` + "\n" + `source = "env:A"`, "match must be a string"},
		{`match = "` + strings.Repeat("a", 2000) + `"` + "\n" + `source = "env:A"`, "more than 1024 bytes"},
	}
	var text string
	for _, r := range rules {
		text += "[[reference]]\n" + r.text + "\n"
	}
	_, err := Load(home(t, map[string]string{"podtask.toml": text}))
	var invalid *InvalidError
	if !errors.As(err, &invalid) || len(invalid.Problems) != len(rules) {
		t.Fatal(err)
	}
	for i, p := range invalid.Problems {
		if p.Line == 0 || !strings.Contains(p.String(), rules[i].says) {
			t.Errorf("%q: %s, want %q", rules[i].text, p, rules[i].says)
		}
	}
	for _, text := range []string{"reference = 5", "[reference]\nmatch = \"a\""} {
		if _, err := Load(home(t, map[string]string{"podtask.toml": text})); err == nil || !strings.Contains(err.Error(), "[[reference]]") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestReferencesOfHooksAndAlarms(t *testing.T) {
	t.Parallel()
	s, err := Load(home(t, map[string]string{"podtask.toml": `
[[reference]]
match = "arn:aws:lambda:*:function:smoke-*"
source = "http://127.0.0.1:9000/{2}"

[[reference]]
match = "alarm:errors"
source = "http://127.0.0.1:9090/"
query = 'rate(errors{job="{1}"}[5m]) > 0.1'
`}))
	if err != nil {
		t.Fatal(err)
	}
	table, err := s.Rules()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		ref  refs.Reference
		want string
	}{
		"a function":         {refs.OfFunction("arn:aws:lambda:r:1:function:smoke-web"), "http://127.0.0.1:9000/web"},
		"another function":   {refs.OfFunction("arn:aws:lambda:r:1:function:other"), ""},
		"of another place":   {refs.OfFunction("arn:aws-cn:lambda:r:1:function:smoke-web"), ""},
		"an alarm":           {refs.OfAlarm("errors"), "http://127.0.0.1:9090/api/v1/query?query=rate%28errors%7Bjob%3D%22%7B1%7D%22%7D%5B5m%5D%29+%3E+0.1"},
		"a secret so called": {refs.OfSecret("errors", "errors", "", ""), ""},
	} {
		if got, _ := table.Find(tt.ref); got.Source != tt.want {
			t.Errorf("%s: %q, want %q", name, got.Source, tt.want)
		}
	}
}

func TestSecretMap(t *testing.T) {
	t.Parallel()
	got, err := parseSecretMap("/etc/x/map", "# ours\n\n/a = file:a\r\n/b=command:/bin/pass show =x\n/c=file:/abs\n")
	if err != nil {
		t.Fatal(err)
	}
	want := refs.Table{
		{Match: "/a", Source: "file:/etc/x/a", Origin: "/etc/x/map:3"},
		{Match: "/b", Command: []string{"/bin/pass", "show", "=x"}, Origin: "/etc/x/map:4"},
		{Match: "/c", Source: "file:/abs", Origin: "/etc/x/map:5"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for text, says := range map[string]string{"/a": "/m:1: write ARN=SOURCE", "/a=env:X\n/a=env:Y": "/m:2: \"/a\" is given twice", "\n=x": "/m:2: write", "/a=vault:x": "/m:1: "} {
		if _, err := parseSecretMap("/m", text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

func FuzzSecretMap(f *testing.F) {
	for _, text := range []string{"/a=env:A\n", "# c\n\narn:aws:ssm:r:1:parameter/x = file:x\r\n", "=", "a=b=c", "a=command:x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		known, err := parseSecretMap("/etc/m", text)
		for _, r := range known {
			if err != nil || r.Match == "" || checkRule(r) != nil {
				t.Errorf("%+v, %v", r, err)
			}
		}
	})
}
