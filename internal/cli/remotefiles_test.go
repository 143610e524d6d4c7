package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/connect/sshhost"
	"github.com/podtask/podtask/internal/parts"
)

// newCall returns a call whose files are in a directory of the test.
func newCall(t *testing.T, args ...string) *remoteCall {
	t.Helper()
	p := &command.Program{Stdin: strings.NewReader(""), Getenv: func(string) string { return "" }, Environ: func() []string { return []string{"HERE=1", "OTHER=2"} }}
	app := newApp(p, parts.Build())
	arranged, err := arrange(app, parts.Build(), append([]string{"podtask"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	line := splitLine(arranged)
	return &remoteCall{
		p: p, ctx: t.Context(), host: sshhost.Host{Name: "box"}, route: routes[strings.Join(line.path, " ")], line: line, base: "/base", dir: t.TempDir(),
		files: make(sshhost.Files), caller: make(map[string]string),
	}
}

func (r *remoteCall) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhatADocumentNamesIsSent(t *testing.T) {
	t.Parallel()
	r := newCall(t, "run", "x")
	key := r.write(t, "key", "hunter2\n")
	env := r.write(t, "web.env", "A=1\nHERE\nMISSING\n")
	text := strings.Join([]string{
		`{"containerDefinitions": [{`,
		`  "secrets": [{"name": "A", "valueFrom": "file:key"}, {"name": "B", "valueFrom": "file:` + key + `"},`,
		`    {"name": "C", "valueFrom": "env:OTHER"}, {"name": "D", "valueFrom": "arn:aws:x"}],`,
		`  "environmentFiles": [{"value": "web.env", "type": "s3"}, {"value": "` + env + `"}, {"value": "arn:aws:s3:::b/k"}],`,
		`  "x-podtask": {"secretFiles": [{"path": "/k", "valueFrom": "file:key"}]}`,
		`}]}`,
	}, "\n")
	got, err := r.sendNamed(r.dir, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer(`"A", "valueFrom": "file:key"`, `"A", "valueFrom": "env:PODTASK_SENT_1"`, "file:"+key, "env:PODTASK_SENT_2",
		`{"value": "`+env, `{"value": "/base`+env, `"/k", "valueFrom": "file:key"`, `"/k", "valueFrom": "env:PODTASK_SENT_5"`).Replace(text)
	if string(got) != want {
		t.Errorf("the document became\n%s\nwant\n%s", got, want)
	}
	for name, value := range map[string]string{"PODTASK_SENT_1": "hunter2", "PODTASK_SENT_2": "hunter2", "PODTASK_SENT_5": "hunter2\n", "OTHER": "2", "HERE": "1"} {
		if r.caller[name] != value {
			t.Errorf("%s is %q", name, r.caller[name])
		}
	}
	if len(r.caller) != 5 {
		t.Errorf("variables that nobody named are sent: %v", r.caller)
	}
	if _, ok := r.files[env]; !ok || len(r.files) != 1 {
		t.Errorf("the files are %v", r.files)
	}
	r = newCall(t, "run", "x")
	// What is missing here is missing there too, and reported with all other problems, whatever files the host has.
	got, err = r.sendNamed(r.dir, []byte("containerDefinitions:\n- secrets:\n  - valueFrom: file:/etc/none\n  environmentFiles:\n  - value: none.env\n"))
	if err != nil || !strings.Contains(string(got), "file:/base/etc/none\n") || !strings.Contains(string(got), "value: /base"+r.dir+"/none.env\n") || len(r.caller)+len(r.files) > 0 {
		t.Errorf("what is missing: %s %v", got, err)
	}
	if got, err := r.sendNamed(r.dir, []byte("{ no document")); err != nil || string(got) != "{ no document" {
		t.Errorf("no document: %q %v", got, err)
	}
	if _, err := r.sendNamed(r.dir, []byte(`{"valueFrom": "file:\/none"}`)); err == nil {
		t.Error("an escaped name")
	}
}

func TestFlagsNameFilesOfThisMachine(t *testing.T) {
	t.Parallel()
	r := newCall(t, "run", "--env-file=ENV", "-e", "HERE", "-e", "A=1", "--var", "OTHER", "--map-volume", "v=/srv", "--map-secret", "x=file:KEY", "--map-env-file", "y=ENV", "--locked", "DOC")
	env, key := r.write(t, "a.env", "A=1\n"), r.write(t, "key", "hunter2")
	doc := r.write(t, "web.json", "{}")
	lock := r.write(t, "web.lock", "{}")
	for i, f := range r.line.local {
		r.line.local[i].value = strings.NewReplacer("ENV", env, "KEY", key).Replace(f.value)
	}
	r.line.args[0] = doc
	if err := sendDefinition(0)(r); err != nil {
		t.Fatal(err)
	}
	words := r.line.words()
	for _, want := range []string{"--env-file=/base" + env, "--map-volume=v=/srv", "--map-secret=x=env:PODTASK_SENT_3", "--map-env-file=y=file:/base" + env, "/base" + doc} {
		if !slices.Contains(words, want) {
			t.Errorf("%s is missing in %q", want, words)
		}
	}
	for _, path := range []string{env, doc, lock} {
		if _, ok := r.files[path]; !ok {
			t.Errorf("%s is not sent: %v", path, r.files)
		}
	}
	if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "hunter2") || strings.Contains(w, "=1=") }) || r.caller["HERE"] != "1" || r.caller["OTHER"] != "2" {
		t.Errorf("%q %v", words, r.caller)
	}
	for _, args := range [][]string{{"run", "--map-volume", "v=./x", doc}, {"run", "--env-file", "/none", doc}, {"run", "--override", r.dir, doc}, {"run", "--notify", "healthy", doc}, {"service", "create", "web", "DOC"}} {
		r := newCall(t, args...)
		if args[0] == "service" {
			r.line.args[1] = r.write(t, "s.json", `{"valueFrom": "file:key"}`)
		}
		if err := r.route.prepare(r); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

func TestAUnitIsSentWithWhatBelongsToIt(t *testing.T) {
	t.Parallel()
	r := newCall(t, "unit", "install", "UNIT")
	if err := os.Mkdir(filepath.Join(r.dir, "web.task.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	want := []string{
		r.write(t, "web.task", "[Task]\nDefinition=./web.json\nEnvironmentFile=/etc/there.env\n"), r.write(t, "web.json", "{}"), r.write(t, "web.task.d/a.conf", "[Task]\nTaskName=w\n"),
	}
	r.write(t, "other.json", "{}")
	r.line.args[0] = want[0]
	if err := sendUnits(r); err != nil {
		t.Fatal(err)
	}
	for _, path := range want {
		if _, ok := r.files[path]; !ok {
			t.Errorf("%s is not sent", path)
		}
	}
	if len(r.files) != len(want) || r.line.args[0] != "/base"+want[0] {
		t.Errorf("%v %q", r.files, r.line.args)
	}
	if r.line.args[0] = "none.task"; sendUnits(r) == nil {
		t.Error("a unit that is missing")
	}
}

func FuzzSentDocument(f *testing.F) {
	f.Add([]byte(`{"secrets": [{"valueFrom": "env:HERE"}]}`))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("valueFrom: >\n  file:x\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := newCall(t, "run", "x")
		got, err := r.sendNamed(r.dir, text)
		if err == nil && len(r.caller) == 0 && string(got) != string(text) && !strings.Contains(string(got), r.base) {
			t.Errorf("%q became %q", text, got)
		}
	})
}

// A short definition names files by words of its own.
func TestWhatAShortDefinitionNamesIsSent(t *testing.T) {
	t.Parallel()
	r := newCall(t, "run", "x")
	env := r.write(t, "web.env", "A=1\nHERE\n")
	text := "containers:\n  web:\n    image: i\n    env_file: [web.env, " + env + "]\n    volumes: [data:/d, /srv/x:/x, podman:a.b:/y]\n"
	got, err := r.sendNamed(r.dir, []byte(text))
	if want := strings.Replace(text, " "+env, " /base"+env, 1); err != nil || string(got) != want || r.caller["HERE"] != "1" || len(r.files) != 1 {
		t.Errorf("%v: %s\nwant\n%s, %v, %v", err, got, want, r.files, r.caller)
	}
	if _, err := r.sendNamed(r.dir, []byte("containers: {web: {image: i, volumes: ['./site:/site:ro']}}\n")); err == nil || !strings.Contains(err.Error(), `"./site:/site:ro" mounts a directory of this machine: copy it to`) {
		t.Error(err)
	}
}

func TestGenerateReadsNoFileOfTheHostInThePlaceOfOneHere(t *testing.T) {
	t.Parallel()
	r := newCall(t, "generate", "compose", "x")
	file := r.write(t, "web.yaml", "")
	for _, source := range []string{file, "-"} {
		if err := generateOnHost(newCall(t, "generate", "compose", source)); err == nil || !strings.Contains(err.Error(), "is of this machine") {
			t.Errorf("%s: %v", source, err)
		}
	}
	for _, args := range [][]string{{"generate"}, {"generate", "quadlet", "web"}} {
		if err := generateOnHost(newCall(t, args...)); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
}
