package compose

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/composefile"
	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/pkg/taskdef"
)

// convertWith converts the file compose.yaml of a project. Vars are the variables of .env, shell those of the environment
// besides.
func convertWith(t *testing.T, archive string, vars, shell map[string]string) (string, taskdef.Task, convert.Result) {
	t.Helper()
	dir := project(t, archive)
	file := filepath.Join(dir, "compose.yaml")
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	only := map[string]bool{}
	for name := range shell {
		_, there := vars[name]
		only[name] = !there
	}
	r, err := Convert(file, "shop", src, Options{Load: composefile.Load, Shell: only, Lookup: func(name string) (string, bool) {
		if v, ok := shell[name]; ok {
			return v, true
		}
		v, ok := vars[name]
		return v, ok
	}})
	if err != nil {
		t.Fatal(err)
	}
	task, _, err := taskdef.Parse("shop.json", r.Definition)
	if err != nil {
		t.Fatal(err)
	}
	return dir, task, r
}

func written(r convert.Result, name string) string {
	for _, f := range r.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

const sameVariable = `
-- compose.yaml --
services:
  a: {image: localhost/bb:1, configs: [{source: t, target: /t}], secrets: [s]}
configs: {t: {environment: DBPW}}
secrets: {s: {environment: DBPW}}
`

func TestASecretAndAConfigOfOneVariableAreAlike(t *testing.T) {
	t.Parallel()
	for name, shell := range map[string]map[string]string{".env": nil, ".env and the shell": {"DBPW": "b"}} {
		dir, task, r := convertWith(t, sameVariable, map[string]string{"DBPW": "a"}, shell)
		want := "a"
		if shell != nil {
			want = "b" // as in Compose
		}
		files := task.Containers[0].Extensions.SecretFiles
		if len(files) != 2 || len(r.Needs)+len(r.Lost) > 0 || written(r, "shop.t") != want || written(r, "shop.s") != want {
			t.Errorf("%s: %+v %q %q %q", name, files, r.Files, r.Needs, r.Lost)
			continue
		}
		for i, path := range []string{"/run/secrets/s", "/t"} {
			if files[i].Path != path || !strings.HasPrefix(files[i].ValueFrom, "file:"+dir) {
				t.Errorf("%s: %+v", name, files[i])
			}
		}
		if strings.Contains(string(r.Definition), `"b"`) {
			t.Errorf("%s: the definition has the value", name)
		}
	}
}

func TestASecretOfTheShellAloneIsToldWithItsRemedy(t *testing.T) {
	t.Parallel()
	for _, shell := range []map[string]string{{"DBPW": "b"}, nil} {
		_, task, r := convertWith(t, strings.Replace(sameVariable, "configs: [{source: t, target: /t}], ", "", 1), nil, shell)
		if f := task.Containers[0].Extensions.SecretFiles; len(f) != 1 || f[0].ValueFrom != "env:DBPW" {
			t.Errorf("%+v", f)
		}
		if len(r.Needs) != 1 || !strings.Contains(r.Needs[0], "compose.yaml:2: ") || !strings.Contains(r.Needs[0], "file:/PATH in the place of env:DBPW") {
			t.Errorf("%q", r.Needs)
		}
	}
}

func TestASecretFileOfAnyModeStarts(t *testing.T) {
	t.Parallel()
	for mode, mounted := range map[os.FileMode]bool{0o644: true, 0o664: true, 0o640: true, 0o600: false, 0o400: false} {
		dir := project(t, "-- compose.yaml --\nservices: {a: {image: localhost/bb:1, secrets: [s]}}\nsecrets: {s: {file: ./s.txt}}\n-- s.txt --\nx\n")
		if err := os.Chmod(filepath.Join(dir, "s.txt"), mode); err != nil {
			t.Fatal(err)
		}
		src, err := os.ReadFile(filepath.Join(dir, "compose.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := Convert(filepath.Join(dir, "compose.yaml"), "shop", src, Options{Load: composefile.Load})
		if err != nil {
			t.Fatal(err)
		}
		task, _, err := taskdef.Parse("shop.json", r.Definition)
		if err != nil {
			t.Fatal(err)
		}
		c := task.Containers[0]
		told := len(r.Needs) == 1 && strings.Contains(r.Needs[0], "chmod 600 s.txt")
		if got := len(c.Mounts) == 1 && c.Mounts[0].Path == "/run/secrets/s" && c.Mounts[0].ReadOnly; got != mounted || told != mounted || len(c.Extensions.SecretFiles) == 1 == mounted {
			t.Errorf("%o: mounts %+v, files %+v, %q", mode, c.Mounts, c.Extensions.SecretFiles, r.Needs)
		}
	}
}

func TestValuesOfEnvFilesAreThoseOfCompose(t *testing.T) {
	t.Parallel()
	_, task, r := convertWith(t, `
-- compose.yaml --
services:
  web: {image: localhost/bb:1, env_file: [plain.env, quoted.env]}
-- plain.env --
P=1
-- quoted.env --
# comment
export A='one'   # comment
B="two words"
C=${A}-${HOST:-none}
D="line 1
line 2"
`, nil, map[string]string{"HOST": "h"})
	c := task.Containers[0]
	var paths []string
	for _, f := range c.EnvironmentFiles {
		paths = append(paths, f.Path)
	}
	if !slices.Equal(paths, []string{"shop.web-2.env", "plain.env"}) {
		t.Errorf("files %q", paths)
	}
	if got := written(r, "shop.web-2.env"); got != "A=one\nB=two words\nC=one-h\n" {
		t.Errorf("written %q", got)
	}
	if len(c.Secrets) != 1 || c.Secrets[0].Name != "D" || written(r, "shop.web-D") != "line 1\nline 2" {
		t.Errorf("secrets %+v, files %q", c.Secrets, r.Files)
	}
	if len(r.Needs) != 1 || !strings.Contains(r.Needs[0], "import again after a change of quoted.env") {
		t.Errorf("%q", r.Needs)
	}
}

func TestPreStartIsAContainerThatMustSucceed(t *testing.T) {
	t.Parallel()
	_, task, r := convertWith(t, `
-- compose.yaml --
services:
  db: {image: localhost/db:1, restart: always, healthcheck: {test: [CMD, x]}}
  app:
    image: localhost/bb:1
    user: "5"
    depends_on: {db: {condition: service_healthy}}
    volumes: ["data:/data"]
    environment: {A: b}
    pre_start:
    - command: [sh, -c, "echo migrated > /data/f"]
    - {image: localhost/other:1, command: ['true'], user: "7"}
volumes: {data: {}}
`, nil, nil)
	names := map[string]taskdef.Container{}
	var order []string
	for _, c := range task.Containers {
		names[c.Name] = c
		order = append(order, c.Name)
	}
	if !slices.Equal(order, []string{"db", "app-pre-start", "app-pre-start-2", "app"}) {
		t.Fatal(order)
	}
	waits := func(c taskdef.Container) (all []string) {
		for _, d := range c.DependsOn {
			all = append(all, order[d.Container]+" "+string(d.Condition))
		}
		return all
	}
	first, second, app := names["app-pre-start"], names["app-pre-start-2"], names["app"]
	if first.Essential || second.Essential || !app.Essential {
		t.Error("hooks are not essential, the service is")
	}
	if got := waits(first); !slices.Equal(got, []string{"db HEALTHY"}) {
		t.Errorf("the first hook waits for %q", got)
	}
	if got := waits(second); !slices.Equal(got, []string{"db HEALTHY", "app-pre-start SUCCESS"}) {
		t.Errorf("the second hook waits for %q", got)
	}
	if got := waits(app); !slices.Equal(got, []string{"db HEALTHY", "app-pre-start-2 SUCCESS"}) {
		t.Errorf("the service waits for %q", got)
	}
	if first.Image != "localhost/bb:1" || second.Image != "localhost/other:1" || first.User != "5" || second.User != "7" || len(first.Mounts) != 1 || len(first.Environment) != 1 {
		t.Errorf("%+v %+v", first, second)
	}
	if len(r.Lost) > 0 {
		t.Errorf("%q", r.Lost)
	}
}

func TestNewerMembersOfCompose(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ members, lost string }{
		{"post_start: [{command: [x]}]", "a.post_start: nothing is run in a container after its start: "},
		{"pre_stop: [{command: [x]}]", "a.pre_stop: "}, {"platform: linux/arm64", "a.platform: "}, {"pull_policy: always", "a.pull_policy: "}, {"runtime: kata", "a.runtime: "},
		{"userns_mode: host", "a.userns_mode: "}, {"cgroup_parent: x", "a.cgroup_parent: "}, {"isolation: default", "a.isolation: "},
		{"healthcheck: {test: [CMD, x], start_interval: 1s}", "a.healthcheck.start_interval: "},
	} {
		_, _, r := convertWith(t, "-- compose.yaml --\nservices:\n  a:\n    image: localhost/bb:1\n    "+tt.members+"\n", nil, nil)
		if !slices.ContainsFunc(r.Lost, func(l string) bool {
			return strings.HasPrefix(l, "compose.yaml:4: "+tt.lost) && strings.Count(l, ": ") > 2
		}) && tt.members != "isolation: default" {
			t.Errorf("%s: %q has no line with a reason and a remedy", tt.members, r.Lost)
		}
	}
	_, task, r := convertWith(t, "-- compose.yaml --\nservices:\n  a: {image: localhost/bb:1, label_file: ./l, labels: {B: own}, pids_limit: 50}\n-- l --\nA=file\nB=file\n", nil, nil)
	if l := task.Containers[0].Labels; l["A"] != "file" || l["B"] != "own" {
		t.Errorf("labels %v", l)
	}
	if !strings.Contains(r.Unit, "TasksMax=50") || !slices.Equal(r.RunFlags, []string{"--pids-limit", "50"}) || len(r.Lost) > 0 {
		t.Errorf("%s %q %q", r.Unit, r.RunFlags, r.Lost)
	}
	_, err := Convert("compose.yaml", "x", []byte("services:\n  a: {image: b}\n  db:\n    provider: {type: awesomecloud}\n"), Options{Load: composefile.Load})
	if err == nil || !strings.Contains(err.Error(), "compose.yaml:4: db.provider: the program awesomecloud makes it") {
		t.Error(err)
	}
}

func TestDefaultsOfComposeAreWritten(t *testing.T) {
	t.Parallel()
	for members, want := range map[string]int{"": 10, ", stop_grace_period: 1m": 60, ", stop_grace_period: 0s": 1} {
		_, _, r := convertWith(t, "-- compose.yaml --\nservices: {a: {image: localhost/bb:1"+members+"}}\n", nil, nil)
		if line := `"stopTimeout": ` + map[int]string{10: "10", 60: "60", 1: "1"}[want]; !strings.Contains(string(r.Definition), line) {
			t.Errorf("%q: no %s in %s", members, line, r.Definition)
		}
	}
	for image, want := range map[string]string{
		"nginx": "docker.io/library/nginx", "nginx:1": "docker.io/library/nginx:1", "grafana/grafana": "docker.io/grafana/grafana", "quay.io/a/b": "quay.io/a/b",
		"localhost/a": "localhost/a", "localhost:5000/a": "localhost:5000/a", "nginx@sha256:" + strings.Repeat("a", 64): "docker.io/library/nginx@sha256:" + strings.Repeat("a", 64),
	} {
		_, task, _ := convertWith(t, "-- compose.yaml --\nservices: {a: {image: '"+image+"'}}\n", nil, nil)
		if got := task.Containers[0].Image; got != want {
			t.Errorf("%s is written as %s", image, got)
		}
	}
	_, task, _ := convertWith(t, "-- compose.yaml --\nservices: {a: {image: 'shop:dev', build: .}}\n", nil, nil)
	if got := task.Containers[0].Image; got != "localhost/shop:dev" {
		t.Errorf("an image that is built here is %s", got)
	}
}

func TestAnUnsetVariableIsToldWhereItHasNoDefault(t *testing.T) {
	t.Parallel()
	_, _, r := convertWith(t, "-- compose.yaml --\nservices:\n  a:\n    image: localhost/bb:${TAG:-1}\n    # ${TAG}\n    working_dir: /$$TAG\n    hostname: x${TAG}\n", nil, nil)
	if !slices.Contains(r.Lost, "compose.yaml:6: variable TAG is not set here: it is empty") {
		t.Errorf("%q", r.Lost)
	}
}

func TestATaskFailsWithTheDependencyThatNobodyRestarts(t *testing.T) {
	t.Parallel()
	_, task, _ := convertWith(t, "-- compose.yaml --\nservices:\n  a: {image: localhost/bb:1, healthcheck: {test: [CMD, x]}}\n  b: {image: localhost/bb:1, depends_on: {a: {condition: service_healthy}}}\n", nil, nil)
	if task.Containers[0].Essential || !task.Containers[1].Essential {
		t.Error("the container that ends without being healthy would end the task with its own exit code")
	}
}
