package convert_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/podtask/podtask/internal/define/composefile"
	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/internal/define/convert/compose"
	"github.com/podtask/podtask/internal/define/convert/quadlet"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"github.com/podtask/podtask/pkg/taskdef"
)

var update = flag.Bool("update", false, "rewrite the expected files")

// golden holds a result against testdata/NAME.want, and its parts against the
// programs that are to read them.
func golden(t *testing.T, name string, r convert.Result) {
	t.Helper()
	if _, _, err := taskdef.Parse("shop.json", r.Definition); err != nil {
		t.Errorf("the definition is not valid: %v\n%s", err, r.Definition)
	}
	services, problems := taskunit.Generate([]taskunit.Source{{Name: "shop.task", File: taskunit.Read("/u/shop.task", r.Unit)}}, taskunit.Options{Program: "podtask"})
	if len(services) != 1 || taskunit.Errors(problems) > 0 {
		t.Errorf("the unit makes no service: %v\n%s", problems, r.Unit)
	}
	got := string(txtar.Format(&txtar.Archive{Files: []txtar.File{
		{Name: "shop.task", Data: []byte(r.Unit)}, {Name: "shop.json", Data: r.Definition}, {Name: "lost", Data: []byte(strings.Join(r.Lost, "\n") + "\n")},
	}}))
	file := "testdata/" + name + ".want"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

func TestCompose(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("testdata/shop.compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r, err := compose.Convert("/srv/shop/compose.yaml", "shop", src, compose.Options{Load: composefile.Load})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "shop.compose", r)
}

// A file with variables, merges, secrets, profiles and most of what a definition can say.
func TestComposeWithAllMembers(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("testdata/blog.compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r, err := compose.Convert("/srv/blog/compose.yaml", "blog", src, compose.Options{Load: composefile.Load, Lookup: func(name string) (string, bool) {
		return "6.5", name == "WORDPRESS_VERSION"
	}})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "blog.compose", r)
}

func TestComposeVariablesAndProfiles(t *testing.T) {
	t.Parallel()
	vars := compose.Options{Load: composefile.Load, Profiles: []string{"debug"}, Lookup: func(name string) (string, bool) { return "seen", name == "SET" }}
	for _, tt := range []struct{ image, want, lost string }{
		{"a:${SET}", "docker.io/library/a:seen", ""},
		{"a:$SET", "docker.io/library/a:seen", ""},
		{"a:${UNSET:-1}", "docker.io/library/a:1", ""},
		{"a:${UNSET}x", "docker.io/library/a:x", "c.yaml:1: variable UNSET is not set here: it is empty"},
		{"a:${SET:+2}", "docker.io/library/a:2", ""},
	} {
		r, err := compose.Convert("c.yaml", "x", []byte("services: {web: {image: \""+tt.image+"\", profiles: [debug]}}"), vars)
		if err != nil || !strings.Contains(string(r.Definition), `"image": "`+tt.want+`"`) || strings.Join(r.Lost, "") != tt.lost {
			t.Errorf("%s: %v %q %s", tt.image, err, r.Lost, r.Definition)
		}
	}
	for src, want := range map[string]string{
		"services: {web: {image: \"${UNSET:?give it}\"}}":                                "c.yaml:1: variable UNSET must be set: give it",
		"services: {web: {image: \"${hunter2!}\"}}":                                      "c.yaml:1: a variable is written wrongly",
		"services: {web: {image: a, extends: {service: b}}}":                             "service \"b\" not found",
		"include: [none.yaml]\nservices: {web: {image: a}}":                              "none.yaml: no such file",
		"include: [/dev/zero]\nservices: {web: {image: a}}":                              "/dev/zero, which is no file",
		"services: {web: {build: .}}":                                                    "c.yaml:1: web.build: podtask builds no images: run `podman build -t localhost/convert-web .`",
		"services: {web: {image: a, profiles: [other]}}":                                 "no services to convert",
		"services:\n  web:\n    image: a\n    imagee: b":                                 "c.yaml:4: a Compose file has no member services.web.imagee: did you mean \"image\"?",
		"services:\n  web:\n    image: a\n    healthcheck: {tset: b}":                    "c.yaml:4: a Compose file has no member services.web.healthcheck.tset: did you mean \"test\"?",
		"services:\n  web: {image: a}\nvolume:\n  x: {}":                                 "c.yaml:3: a Compose file has no member volume: did you mean \"volumes\"?",
		"services:\n  web:\n    image: {{ image }}\n":                                    "c.yaml:3:12: \"{{ image }}\" is a tag of a template that was not rendered",
		"services:\n  web:\n    image: \"{{ image }}\"\n":                                "c.yaml:3: web.image: \"{{ image }}\" is a tag of a template",
		"services:\n{% if x %}\n  web: {image: a}\n{% endif %}\n":                        "c.yaml:2:1: \"{% if x %}\" is a tag of a template",
		"services:\n  web:\n    image: a\n    hostname: w-{{.Task.Slot}}\n    imagee: b": "a Compose file has no member services.web.imagee",
	} {
		if _, err := compose.Convert("c.yaml", "x", []byte(src), vars); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", src, err, want)
		}
	}
}

// Compose allows dots in names, and the ECS model does not.
func TestNamesThatTheModelDoesNotTake(t *testing.T) {
	t.Parallel()
	r, err := compose.Convert("/srv/shop/docker-compose.prod.yml", "docker-compose.prod", []byte("services:\n  db.main: {image: x}\n  web: {image: y, depends_on: [db.main]}\n"), compose.Options{Load: composefile.Load})
	if err != nil {
		t.Fatal(err)
	}
	task, _, err := taskdef.Parse("x.json", r.Definition)
	if err != nil {
		t.Fatal(err)
	}
	db, web := task.Containers[0], task.Containers[1]
	if task.Family != "docker-compose-prod" || db.Name != "db-main" || len(web.DependsOn) != 1 || web.DependsOn[0].Container != 0 {
		t.Errorf("%s: %s, %+v", task.Family, db.Name, web.DependsOn)
	}
	if len(r.Lost) != 1 || !strings.Contains(r.Lost[0], "db.main, which becomes db-main") {
		t.Errorf("lost: %q", r.Lost)
	}
}

func TestQuadlet(t *testing.T) {
	t.Parallel()
	a, err := txtar.ParseFile("testdata/shop.quadlet.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var files []taskunit.File
	for _, f := range a.Files {
		files = append(files, taskunit.Read("/srv/shop/"+f.Name, string(f.Data)))
	}
	r, err := quadlet.Convert("shop", files, quadlet.Manager{})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "shop.quadlet", r)
}

func TestTask(t *testing.T) {
	t.Parallel()
	task, _, err := taskdef.Parse("shop.json", []byte(`{"family": "other", "networkMode": "bridge", "memory": "512", "cpu": "512", "containerDefinitions": [
		{"name": "db", "image": "db:1", "memory": 64, "healthCheck": {"command": ["CMD", "ready"], "startPeriod": 7}},
		{"name": "log", "image": "log:1", "essential": false, "volumesFrom": [{"sourceContainer": "web", "readOnly": true}], "memoryReservation": 16, "startTimeout": 9,
		 "secrets": [{"name": "TOKEN", "valueFrom": "podman:token"}], "environmentFiles": [{"type": "s3", "value": "/srv/log.env"}],
		 "linuxParameters": {"capabilities": {"drop": ["NET_RAW"]}}, "restartPolicy": {"enabled": true, "ignoredExitCodes": [3], "x-podtask": {"backOff": 2}}},
		{"name": "web", "image": "web:1", "cpu": 10,
		 "mountPoints": [{"sourceVolume": "html", "containerPath": "/srv", "readOnly": true}, {"sourceVolume": "data", "containerPath": "/data"}, {"sourceVolume": "tmp", "containerPath": "/tmp"}], "essential": false, "command": ["a", "b"], "environment": [{"name": "A", "value": "1"}],
		 "portMappings": [{"containerPort": 80, "hostPort": 8080}], "dependsOn": [{"containerName": "db", "condition": "HEALTHY"}],
		 "ulimits": [{"name": "nofile", "softLimit": 10, "hardLimit": 20}]}],
		"volumes": [{"name": "html", "host": {"sourcePath": "/srv/html"}}, {"name": "data", "dockerVolumeConfiguration": {"scope": "shared", "autoprovision": true}}, {"name": "tmp"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := convert.Task("shop", task, convert.Sent("/run/sessions"))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "shop.task", r)
	if diff := cmp.Diff([]string{"web: linux"}, r.Lost); diff != "" {
		t.Error(diff)
	}
}

// What another machine sent for one run is not named in a definition that lasts.
func TestTaskWithFilesOfAnotherMachine(t *testing.T) {
	t.Parallel()
	task, _, err := taskdef.Parse("web.json", []byte(`{"family": "web", "containerDefinitions": [{"name": "app", "image": "web:1",
		"secrets": [{"name": "A", "valueFrom": "env:PODTASK_SENT_1"}, {"name": "B", "valueFrom": "podman:b"}],
		"environmentFiles": [{"type": "s3", "value": "/run/sessions/X/home/me/a.env"}, {"type": "s3", "value": "/srv/b.env"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := convert.Task("web", task, convert.Sent("/run/sessions"))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(r.Definition); strings.Contains(text, "SENT") || strings.Contains(text, "a.env") || !strings.Contains(text, "podman:b") || !strings.Contains(text, "/srv/b.env") {
		t.Error(text)
	}
	if len(r.Lost) != 1 || !strings.Contains(r.Lost[0], "app: secret A") {
		t.Errorf("%q", r.Lost)
	}
	if len(task.Containers[0].Secrets) != 2 || len(task.Containers[0].EnvironmentFiles) != 2 {
		t.Error("the task itself was changed")
	}
}

func TestNothingToConvert(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"", "[]", "version: 3", "services: {}", "a: b: c"} {
		if _, err := compose.Convert("compose.yaml", "x", []byte(src), compose.Options{Load: composefile.Load}); err == nil || !strings.Contains(err.Error(), "compose.yaml") {
			t.Errorf("%q: %v", src, err)
		}
	}
	if _, err := quadlet.Convert("x", []taskunit.File{taskunit.Read("x.pod", "[Pod]\n")}, quadlet.Manager{}); err == nil {
		t.Error("a pod without containers is converted")
	}
}

// FuzzQuadlet does the same for a .container file beside a .pod.
func FuzzQuadlet(f *testing.F) {
	f.Add("[Pod]\nPublishPort=8080:80\nNetwork=pasta\n", "[Container]\nImage=x\nPod=x.pod\nExec=\"a b\" c\nEnvironment=A=b \"C=d e\"\nVolume=data:/d:ro\nPublishPort=[::1]:1:2/udp\nHealthCmd=a || b\nHealthInterval=1m\nStopTimeout=5\nMemory=1g\n")
	f.Add("", "[Unit]\nRequires=b.container\n[Container]\nImage=%i\nSecret=a,type=env,target=B\nUlimit=nofile=1:2\nTmpfs=/t:size=1m\n[Service]\nRestart=always\n")
	f.Fuzz(func(t *testing.T, pod, container string) {
		r, err := quadlet.Convert("x", []taskunit.File{taskunit.Read("/u/x.pod", pod), taskunit.Read("/u/x.container", container)}, quadlet.Manager{Home: "/home/u"})
		if err != nil {
			return
		}
		if _, _, err := taskdef.Parse("x.json", r.Definition); err != nil && strings.Contains(err.Error(), "not valid JSON") {
			t.Errorf("%v\n%s", err, r.Definition)
		}
	})
}

// Whatever the source says, conversion ends, and what comes of it is JSON that
// the parser of definitions can at least read.
func FuzzCompose(f *testing.F) {
	if src, err := os.ReadFile("testdata/shop.compose.yaml"); err == nil { // it is not there where OSS-Fuzz runs this
		f.Add(src)
	}
	f.Add([]byte("services: &a {x: {<<: *a, image: y}}"))
	f.Fuzz(func(t *testing.T, src []byte) {
		r, err := compose.Convert("c.yaml", "x", src, compose.Options{Load: composefile.Load})
		if err != nil {
			return
		}
		if _, _, err := taskdef.Parse("x.json", r.Definition); err != nil && strings.Contains(err.Error(), "not valid JSON") {
			t.Errorf("%v\n%s", err, r.Definition)
		}
	})
}

func TestComposeLogging(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ logging, want, lost string }{
		{"{driver: awslogs, options: {awslogs-group: /shop, awslogs-region: eu-west-1, tag: x}}", `"awslogs-group": "/shop"`, ""},
		{"{driver: syslog, options: {syslog-address: 'tcp://127.0.0.1:514'}}", `"syslog-address": "tcp://127.0.0.1:514"`, ""},
		{"{driver: local, options: {max-size: 1m, max-file: '3'}}", `"max-size": "1m"`, "compose.yaml:4: a.logging.options.max-file: the driver json-file has no such option here"},
		{"{driver: gcplogs}", `"name": "a"`, "compose.yaml:4: a.logging: podtask has no log driver gcplogs"},
	} {
		src := "services:\n  a:\n    image: quay.io/a/b:1\n    logging: " + tt.logging + "\n"
		r, err := compose.Convert("compose.yaml", "shop", []byte(src), compose.Options{Load: composefile.Load})
		if err != nil || !strings.Contains(string(r.Definition), tt.want) || strings.Join(r.Lost, "") != tt.lost {
			t.Errorf("%s: %v %q %s", tt.logging, err, r.Lost, r.Definition)
		}
	}
}

func TestComposeSecretOwnerMustBeANumber(t *testing.T) {
	t.Parallel()
	src := "services:\n  a:\n    image: quay.io/a/b:1\n    secrets:\n      - {source: s, uid: www}\nsecrets:\n  s: {file: ./s}\n"
	r, err := compose.Convert("compose.yaml", "shop", []byte(src), compose.Options{Load: composefile.Load})
	if want := `compose.yaml:5: a.secrets.uid: "www" is not a number`; err != nil || strings.Join(r.Lost, "") != want {
		t.Errorf("%v %q, want %s", err, r.Lost, want)
	}
}
