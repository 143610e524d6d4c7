package compose

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/podtask/podtask/internal/define/composefile"
	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/pkg/taskdef"
)

// project writes the files of an archive and returns their directory.
func project(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(archive)).Files {
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// compose converts the file compose.yaml of a project.
func convertProject(t *testing.T, archive string) (taskdef.Task, convert.Result) {
	t.Helper()
	dir := project(t, archive)
	file := filepath.Join(dir, "compose.yaml")
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Convert(file, "shop", src, Options{Load: composefile.Load})
	if err != nil {
		t.Fatal(err)
	}
	task, _, err := taskdef.Parse("shop.json", r.Definition)
	if err != nil {
		t.Fatal(err)
	}
	return task, r
}

func TestComposeReadsIncludedAndExtendedFiles(t *testing.T) {
	t.Parallel()
	task, r := convertProject(t, `
-- compose.yaml --
version: "3.9"
include:
  - db/compose.yaml
services:
  web:
    extends: {file: base.yaml, service: app}
    image: quay.io/shop/web:2
    environment: {B: mine}
    container_name: shop-web
-- base.yaml --
services:
  app:
    image: quay.io/shop/base:1
    working_dir: /srv
    environment: {A: base, B: base}
    env_file: ./app.env
    stop_signal: SIGQUIT
-- db/compose.yaml --
services:
  db:
    image: quay.io/shop/db:${DB_VERSION}
    volumes: [./init:/init:ro]
-- db/.env --
DB_VERSION=16
`)
	got := map[string]string{}
	for _, c := range task.Containers {
		got[c.Name] = c.Image + " " + c.WorkingDirectory
		for _, e := range c.Environment {
			got[c.Name+"."+e.Name] = e.Value
		}
	}
	want := map[string]string{
		"web": "quay.io/shop/web:2 /srv", "web.A": "base", "web.B": "mine", "db": "quay.io/shop/db:16 ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(task.Volumes) != 1 || !strings.HasSuffix(task.Volumes[0].HostPath, "/db/init") {
		t.Errorf("volumes %+v", task.Volumes)
	}
	// What another file says is listed with the closest line of this one.
	if diff := cmp.Diff([]string{
		"compose.yaml:9: web.container_name shop-web: its name in Podman begins with podtask- and the task's ID; commands name it web, other containers by both names",
	}, r.Lost); diff != "" {
		t.Error(diff)
	}
}

func TestComposeReplicasAndNetworks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		services string
		want     int
		lost     string
	}{
		{"web: {image: a}", 1, ""},
		{"web: {image: a, deploy: {replicas: 3}}", 3, ""},
		{"web: {image: a, scale: 2}\n  log: {image: b, deploy: {replicas: 2}}", 2, ""},
		{"web: {image: a, depends_on: {log: {condition: service_started, required: false}}}\n  log: {image: b, scale: 0}", 1, "compose.yaml:3: service log: it has no replicas"},
		{"web: {image: a}\n  log: {image: b, network_mode: \"service:web\"}", 1, ""},
		{"web: {image: a, deploy: {replicas: 3}}\n  log: {image: b}", 1, "compose.yaml:2: web has 3 replicas"},
	} {
		_, r := convertProject(t, "-- compose.yaml --\nservices:\n  "+tt.services+"\n")
		if lost := strings.Join(r.Lost, "; "); r.Copies != tt.want || !strings.HasPrefix(lost, tt.lost) || (tt.lost == "") != (lost == "") {
			t.Errorf("%s: %d copies, lost %q, want %d, %q", tt.services, r.Copies, lost, tt.want, tt.lost)
		}
	}
}

func TestComposeMembersOfTheHost(t *testing.T) {
	t.Parallel()
	task, r := convertProject(t, `
-- compose.yaml --
services:
  web:
    image: a
    network_mode: host
    mem_limit: 64m
    memswap_limit: 96m
    devices: ["/dev/fuse", "/dev/null:/dev/nothing:r"]
    configs: [site, {source: other, target: /etc/other}]
    volumes_from: ["db:ro"]
  db:
    image: b
    network_mode: host
    cpus: 0.3
    volumes: ["./data:/data:Z", "nfs:/nfs"]
    deploy: {restart_policy: {condition: on-failure, max_attempts: 4, delay: 5s}}
volumes:
  nfs: {driver_opts: {type: nfs, o: addr=nas, device: ":/x"}, labels: {a: b}}
configs:
  site: {file: ./site.conf}
  other: {content: text}
`)
	web, db := task.Containers[0], task.Containers[1]
	if task.Network != taskdef.NetworkHost || *web.Linux.MaxSwap != 32<<20 || len(web.Linux.Devices) != 2 || len(web.VolumesFrom) != 1 || !web.VolumesFrom[0].ReadOnly {
		t.Errorf("%s %+v %+v", task.Network, web.Linux, web.VolumesFrom)
	}
	if d := web.Linux.Devices[1]; d.ContainerPath != "/dev/nothing" || len(d.Permissions) != 1 {
		t.Errorf("device %+v", d)
	}
	if len(web.Mounts) != 1 || web.Mounts[0].Path != "/site" || !web.Mounts[0].ReadOnly {
		t.Errorf("mounts %+v", web.Mounts)
	}
	if !strings.Contains(string(r.Definition), `"cpuLimit": 0.3`) || db.Restart == nil {
		t.Errorf("%s", r.Definition)
	}
	data, _ := task.Volume("data")
	nfs, ok := task.Volume(db.Mounts[1].Volume)
	if data.Relabel != "private" || !ok || nfs.DriverOpts["device"] != ":/x" || nfs.Labels["a"] != "b" {
		t.Errorf("volumes %+v", task.Volumes)
	}
	if files := web.Extensions.SecretFiles; len(files) != 1 || files[0].Path != "/etc/other" || len(r.Files) != 1 || string(r.Files[0].Data) != "text" {
		t.Errorf("files %+v, %+v", files, r.Files)
	}
	want := []string{"compose.yaml:15: db.deploy.restart_policy.delay: the pauses between restarts begin with a second and double"}
	if diff := cmp.Diff(want, r.Lost); diff != "" {
		t.Error(diff)
	}
}

// A task reads a file of variables as ECS does. What Compose reads otherwise is named, and no
// value is shown.
func TestComposeEnvFilesThatReadOtherwise(t *testing.T) {
	t.Parallel()
	const other = ": Compose takes quotes, comments, blanks and ${NAME} out of values, a task keeps them, so x.web.env has the values: import again after a change of a.env"
	for name, tt := range map[string]struct {
		files string // of the service, and the files
		lost  []string
	}{
		"same":        {"[a.env]\n-- a.env --\n# c\nA=1\nB=two words\nC=a#b\nD=\nE=a=b\n", nil},
		"quotes":      {"[a.env]\n-- a.env --\nA='hunter2'\nB=\"hunter2\"\nC=hunter2\n", []string{"4: web.env_file a.env: A, B" + other}},
		"comment":     {"[a.env]\n-- a.env --\nA=hunter2 # c\n", []string{"4: web.env_file a.env: A" + other}},
		"variable":    {"[a.env]\n-- a.env --\nA=hunter2\nB=${A}\nC=$HOST\nD=${NONE:-x}\nE=$NONE\n", []string{"4: web.env_file a.env: B, C, D, E" + other}},
		"twice":       {"[a.env]\n-- a.env --\nA=1\nA=2\n", []string{"4: web.env_file a.env: A" + other}},
		"colon":       {"[a.env]\n-- a.env --\nA: hunter2=2\n", []string{"4: web.env_file a.env: A" + other}},
		"lines":       {"[a.env]\n-- a.env --\nA=\"a\nB=hunter2\"\n", []string{"4: web.env_file a.env: A" + other}},
		"export":      {"[a.env]\n-- a.env --\n\nexport A=hunter2\n", []string{"4: web.env_file a.env: A" + other}},
		"overridden":  {"[a.env]\n    environment: {A: b}\n-- a.env --\nA='hunter2'\n", nil},
		"later":       {"[a.env, b.env]\n-- a.env --\nA='hunter2'\nB=1\n-- b.env --\nA=1\n", nil},
		"two":         {"\n      - a.env\n      - {path: b.env, required: false}\n-- a.env --\nA=1\nB='hunter2'\n-- b.env --\nC=$A\n", []string{"5: web.env_file a.env: B" + other, "6: web.env_file b.env: C" + strings.NewReplacer("x.web.env", "x.web-2.env", "a.env", "b.env").Replace(other)}},
		"raw":         {"[{path: a.env, format: raw}]\n-- a.env --\nA='$x'\n", nil},
		"none":        {"[a.env]\n", nil},
		"no file":     {"[/dev/zero]\n", nil},
		"Compose not": {"[a.env]\n-- a.env --\nA='hunter2\n", nil},
		"multiplied":  {"[a.env]\n-- a.env --\nA=" + strings.Repeat("x", 100_000) + "\nB=" + strings.Repeat("$A", 1000) + "\nC=" + strings.Repeat("$B", 1000) + "\n", []string{"4: web.env_file a.env: the task cannot start with it: its values have more than 1048576 bytes with the variables in them"}},
	} {
		file := filepath.Join(project(t, "-- compose.yaml --\nservices:\n  web:\n    image: a\n    env_file: "+tt.files), "compose.yaml")
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Convert(file, "x", src, Options{Load: composefile.Load, Lookup: func(name string) (string, bool) { return "hunter2", name == "HOST" }})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i := range tt.lost {
			tt.lost[i] = "compose.yaml:" + tt.lost[i]
		}
		if diff := cmp.Diff(tt.lost, append(r.Lost, r.Needs...)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
		if strings.Contains(string(r.Definition)+strings.Join(r.Lost, ""), "hunter2") {
			t.Errorf("%s: a value is shown", name)
		}
	}
}

// A file that never ends, or many of them, cost nothing.
func TestComposeReadsOrdinaryFilesOnly(t *testing.T) {
	t.Parallel()
	for name, archive := range map[string]string{
		"include":     "-- compose.yaml --\ninclude: [/dev/zero]\nservices: {a: {image: x}}\n",
		"nested":      "-- compose.yaml --\ninclude: [b.yaml]\nservices: {a: {image: x}}\n-- b.yaml --\nservices: {b: {image: y, extends: {file: /dev/zero, service: z}}}\n",
		"environment": "-- compose.yaml --\ninclude: [{path: b.yaml, env_file: /dev/zero}]\n-- b.yaml --\nservices: {b: {image: y}}\n",
		"variable":    "-- compose.yaml --\ninclude: [\"${DIR:-/dev}/zero\"]\nservices: {a: {image: x}}\n",
	} {
		file := filepath.Join(project(t, archive), "compose.yaml")
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Convert(file, "x", src, Options{Load: composefile.Load}); err == nil || !strings.Contains(err.Error(), "reads /dev/zero, which is no file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A fixed port would be taken by the first copy: the service listens there instead.
func TestComposeReplicasListen(t *testing.T) {
	t.Parallel()
	task, r := convertProject(t, `
-- compose.yaml --
services:
  web:
    image: a
    deploy: {replicas: 3}
    ports: ["127.0.0.1:8080:80", "8443:443", "9000", "53:53/udp"]
`)
	if diff := cmp.Diff([]string{"127.0.0.1:8080=web:80", "8443=web:443"}, r.Listen); diff != "" || r.Copies != 3 {
		t.Error(r.Copies, diff)
	}
	if diff := cmp.Diff([]string{"compose.yaml:5: port 53/udp of web: each copy gets a free port, because a service forwards TCP only"}, r.Lost); diff != "" {
		t.Error(diff)
	}
	for _, p := range task.Containers[0].Ports {
		if p.HostPort != 0 {
			t.Errorf("host port %d is fixed", p.HostPort)
		}
	}
}

// What people's Compose files have and what was lost or wrong once, each with what becomes of it.
func TestComposeNamesValuesAndPrograms(t *testing.T) {
	t.Parallel()
	find := func(task taskdef.Task, name string) taskdef.Container {
		i, ok := task.Index(name)
		if !ok {
			t.Fatalf("there is no container %s", name)
		}
		return task.Containers[i]
	}
	t.Run("a variable without a value is that of .env", func(t *testing.T) {
		t.Parallel()
		src := []byte("services:\n  db: {image: a, environment: [DB_USER, NOVALUE]}\n")
		r, err := Convert("/srv/shop/compose.yaml", "shop", src, Options{
			Load:   composefile.Load,
			Lookup: func(name string) (string, bool) { return "u1", name == "DB_USER" },
		})
		if err != nil {
			t.Fatal(err)
		}
		task, _, err := taskdef.Parse("shop.json", r.Definition)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]taskdef.EnvVar{{Name: "DB_USER", Value: "u1"}}, find(task, "db").Environment); diff != "" {
			t.Error(diff)
		}
		if lost := strings.Join(r.Lost, "; "); !strings.Contains(lost, "variable NOVALUE of db") || strings.Contains(lost, "DB_USER") {
			t.Error(lost)
		}
	})
	t.Run("an emptied entrypoint", func(t *testing.T) {
		t.Parallel()
		task, _ := convertProject(t, "-- compose.yaml --\nservices:\n  a: {image: a, entrypoint: \"\", command: [/bin/echo, hi]}\n  b: {image: a, entrypoint: [], command: [/bin/echo, hi]}\n  c: {image: a, command: [/bin/echo, hi]}\n")
		for name, want := range map[string][]string{"a": {""}, "b": {""}, "c": nil} {
			if diff := cmp.Diff(want, find(task, name).EntryPoint); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	})
	t.Run("an emptied command", func(t *testing.T) {
		t.Parallel()
		task, r := convertProject(t, "-- compose.yaml --\nservices:\n  a: {image: a, command: []}\n  b: {image: a, command: \"\"}\n  c: {image: a}\n  d: {image: a, entrypoint: [], command: []}\n")
		for name, want := range map[string]bool{"a": true, "b": true, "c": false, "d": false} {
			if got := find(task, name).Extensions.EmptyCommand; got != want {
				t.Errorf("%s: %v", name, got)
			}
		}
		if len(r.Lost) > 0 {
			t.Errorf("%q", r.Lost)
		}
	})
	t.Run("signals", func(t *testing.T) {
		t.Parallel()
		task, r := convertProject(t, "-- compose.yaml --\nservices:\n  a: {image: a, stop_signal: SIGQUIT}\n  b: {image: a, stop_signal: usr1}\n  c: {image: a, stop_signal: \"15\"}\n  d: {image: a, stop_signal: NO}\n")
		for name, want := range map[string]string{"a": "SIGQUIT", "b": "SIGUSR1", "c": "SIGTERM", "d": ""} {
			if got := find(task, name).Extensions.Kube.StopSignal; got != want {
				t.Errorf("%s: %s", name, got)
			}
		}
		if lost := strings.Join(r.Lost, "; "); !strings.Contains(lost, "d.stop_signal NO: there is no such signal") {
			t.Error(lost)
		}
	})
	t.Run("aliases, container_name and links", func(t *testing.T) {
		t.Parallel()
		task, r := convertProject(t, "-- compose.yaml --\nservices:\n  db: {image: a, container_name: the-db, networks: {default: {aliases: [pg.internal, pg]}}}\n  web: {image: a, depends_on: [db], links: [\"db:database\"]}\n")
		got := map[string]bool{}
		for _, l := range find(task, "web").Net.Links {
			got[l.Alias] = true
		}
		for _, want := range []string{"pg", "pg.internal", "the-db", "database"} {
			if !got[want] {
				t.Errorf("%s does not lead to db: %v; lost %v", want, got, r.Lost)
			}
		}
	})
	t.Run("a name that would make a circle", func(t *testing.T) {
		t.Parallel()
		_, r := convertProject(t, "-- compose.yaml --\nservices:\n  db: {image: a}\n  web: {image: a, depends_on: [db], networks: {default: {aliases: [www]}}}\n")
		if lost := strings.Join(r.Lost, "; "); !strings.Contains(lost, "the name www") {
			t.Error(lost)
		}
	})
	t.Run("a network of several projects", func(t *testing.T) {
		t.Parallel()
		_, r := convertProject(t, "-- compose.yaml --\nservices:\n  web: {image: a, ports: [\"8080:80\"], networks: {edge: {aliases: [shop]}}}\nnetworks:\n  edge: {external: true, name: front}\n")
		if lost := strings.Join(r.Lost, "; "); !strings.Contains(lost, "--namespace front --name-as web:80=web:80 --name-as shop:80=web:80`") {
			t.Error(lost)
		}
	})
	t.Run("the host's gateway", func(t *testing.T) {
		t.Parallel()
		_, r := convertProject(t, "-- compose.yaml --\nservices:\n  web: {image: a, extra_hosts: [\"host.docker.internal:host-gateway\", \"box:host-gateway\"]}\n")
		if lost := strings.Join(r.Lost, "; "); strings.Contains(lost, "extra_hosts host.docker.internal") || !strings.Contains(lost, "extra_hosts box") {
			t.Error(lost)
		}
	})
	t.Run("a range of host ports", func(t *testing.T) {
		t.Parallel()
		task, r := convertProject(t, "-- compose.yaml --\nservices:\n  a: {image: a, ports: [\"127.0.0.1:26789-26799:8080\"]}\n")
		if p := find(task, "a").Ports; len(p) != 1 || p[0].ContainerPort != 8080 || p[0].HostPort != 0 || p[0].AnyOf.String() != "26789-26799" || len(r.Lost) > 0 {
			t.Errorf("%+v, lost %q", p, r.Lost)
		}
	})
	t.Run("an optional file of variables", func(t *testing.T) {
		t.Parallel()
		task, r := convertProject(t, "-- compose.yaml --\nservices:\n  a: {image: a, env_file: [{path: missing.env, required: false}]}\n")
		if n := len(find(task, "a").EnvironmentFiles); n != 0 || len(r.Lost) > 0 {
			t.Errorf("%d files, lost %v", n, r.Lost)
		}
	})
	t.Run("all share the network of one", func(t *testing.T) {
		t.Parallel()
		task, _ := convertProject(t, "-- compose.yaml --\nservices:\n  vpn: {image: a}\n  app: {image: a, network_mode: \"service:vpn\"}\n")
		if task.Extensions.Network != taskdef.NetworkShared {
			t.Errorf("the network is %q", task.Extensions.Network)
		}
	})
}

// Some services sharing a network is refused: silently another network would bypass a VPN.
func TestComposeRefusesANetworkThatSomeShare(t *testing.T) {
	t.Parallel()
	src := "services:\n  vpn: {image: a}\n  app: {image: a, network_mode: \"service:vpn\"}\n  db: {image: a}\n"
	dir := project(t, "-- compose.yaml --\n"+src)
	_, err := Convert(filepath.Join(dir, "compose.yaml"), "x", []byte(src), Options{Load: composefile.Load})
	if err == nil || !strings.Contains(err.Error(), "compose.yaml:3: app.network_mode: app would share the network of vpn alone") {
		t.Errorf("%v", err)
	}
}

func TestDotEnv(t *testing.T) {
	t.Parallel()
	environment := map[string]string{"HOME": "/srv/ann", "GIVEN": "shell"}
	got, err := DotEnv([]byte("# places\nDATA=${HOME}/data\nGIVEN=file\nBOTH=$DATA:$GIVEN\nELSE=${NONE:-else} ${NONE}\nHOME\nUNSET\n"), environment)
	want := map[string]string{"DATA": "/srv/ann/data", "GIVEN": "file", "BOTH": "/srv/ann/data:shell", "ELSE": "else ", "HOME": "/srv/ann"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := DotEnv([]byte("NAME=secret\n'"), nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a quote that does not end: %v", err)
	}
	doubles := "A0=" + strings.Repeat("x", 100) + "\n"
	for i := range 40 {
		doubles += fmt.Sprintf("A%d=$A%d$A%d\n", i+1, i, i)
	}
	if _, err := DotEnv([]byte(doubles), nil); err == nil {
		t.Error("values that double forty times are read")
	}
}

// A loss of a file that is merged over the first one has the place there.
func TestLossesOfAnOverride(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"compose.yaml":          "services:\n  web:\n    image: web\n    isolation: a\n    cgroup_parent: a\n",
		"compose.override.yaml": "services:\n  web:\n    cgroup_parent: b\n    build: .\n    userns_mode: host\n  more:\n    image: more\n    isolation: b\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "compose.yaml")
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Convert(file, "x", src, Options{Load: composefile.Load, Override: Override(file)})
	if err != nil {
		t.Fatal(err)
	}
	lost := strings.Join(r.Lost, "\n")
	for _, want := range []string{"compose.yaml:4: web.isolation", "compose.override.yaml:3: web.cgroup_parent", "compose.override.yaml:4: web.build", "compose.override.yaml:5: web.userns_mode", "compose.override.yaml:8: more.isolation"} {
		if !strings.Contains(lost, want) {
			t.Errorf("no %q in\n%s", want, lost)
		}
	}
}

// What is wrong with the definition has the place in the Compose file, and all of it is said.
func TestFaultsOfTheDefinition(t *testing.T) {
	t.Parallel()
	src := "services:\n  web:\n    image: web\n    stop_grace_period: 200h\n    labels:\n      a: b\n      podtask.x: y\n"
	const want = "compose.yaml:4: /services/web/stop_grace_period"
	for name, convert := range map[string]func() error{
		"task": func() error {
			_, err := Convert("/x/compose.yaml", "x", []byte(src), Options{Load: composefile.Load})
			return err
		},
		"stack": func() error {
			_, err := ConvertStack("/x/compose.yaml", "x", []byte(src), Options{Load: composefile.Load})
			return err
		},
	} {
		if err := convert(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "compose.yaml:7: /services/web/labels/podtask.x: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
