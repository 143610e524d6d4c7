package quadlet

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"github.com/podtask/podtask/pkg/taskdef"
)

// someUser is a user whose systemd replaces specifiers.
var someUser = Manager{User: "ann", UID: "1000", Group: "ann", GID: "1000", Home: "/srv/home/ann", Runtime: "/run/user/1000", Config: "/srv/home/ann/.config"}

// importQuadlet converts one .container file.
func importQuadlet(t *testing.T, name, text string) (taskdef.Container, convert.Result) {
	t.Helper()
	r, err := Convert("x", []taskunit.File{taskunit.Read("/srv/q/"+name, text)}, someUser)
	if err != nil {
		t.Fatal(err)
	}
	task, _, err := taskdef.Parse("x.json", r.Definition)
	if err != nil {
		t.Fatal(err)
	}
	return task.Containers[0], r
}

// What systemd replaces in the command line that Quadlet makes is replaced in the definition. The values are
// those that Quadlet 5.4.2 and systemd 257 give.
func TestQuadletReplacesWhatSystemdReplaces(t *testing.T) {
	t.Parallel()
	ctr, r := importQuadlet(t, "qt.container", `[Container]
Image=localhost/bb:1
Environment=C=$HOME D=%n E=a%%b F=${HOME} "G=$$HOME"
Exec=sh -c "env | grep -E '^[CDE]='; X=val; echo '[' \"$$X\" ']' $X ${Y}. %n %%" $WORDS $NONE
WorkingDir=%h/%N
Label=boot=%b
[Service]
Environment="WORDS=one two"
`)
	want := []string{"sh", "-c", `env | grep -E '^[CDE]='; X=val; echo '[' "$X" ']' $X . qt.service %`, "one", "two"}
	if diff := cmp.Diff(want, ctr.Command); diff != "" {
		t.Error(diff)
	}
	vars := []taskdef.EnvVar{{Name: "C", Value: "$HOME"}, {Name: "D", Value: "qt.service"}, {Name: "E", Value: "a%b"}, {Name: "F", Value: "/srv/home/ann"}, {Name: "G", Value: "$HOME"}}
	if diff := cmp.Diff(vars, ctr.Environment); diff != "" {
		t.Error(diff)
	}
	if ctr.WorkingDirectory != "/srv/home/ann/qt" || ctr.Labels["boot"] != "%b" {
		t.Errorf("directory %q, labels %v", ctr.WorkingDirectory, ctr.Labels)
	}
	lost := []string{
		"qt.container:4: Exec=: ${Y} is a variable of the service, and no Environment= of [Service] sets it: it is empty; write $$ for a dollar sign",
		"qt.container:4: Exec=: $NONE is a variable of the service, and no Environment= of [Service] sets it: it is empty; write $$ for a dollar sign",
		"qt.container:6: Label=: a definition has nothing for the specifier %b, which stays as it is: write what it stands for",
	}
	if diff := cmp.Diff(lost, r.Lost); diff != "" {
		t.Error(diff)
	}
}

func TestQuadletSpecifiersOfNames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ file, text, want string }{
		{"web.container", "%n %N %p [%i]", "web.service web web []"},
		{"web@a.container", "%n %N %p %i %I", "web@a.service web@a web a a"},
		{"web@.container", "%p %i", "web %i"},
		{"a-b.container", "%p %j", "a-b b"},
		{"web.container", "%u %U %t %E %T", "ann 1000 /run/user/1000 /srv/home/ann/.config /tmp"},
		{"web.container", "%s %z 100%", "%s %z 100%"},
	} {
		got, _ := newExpansion(someUser, taskunit.Read("/srv/"+tt.file, "")).specified(tt.text)
		if got != tt.want {
			t.Errorf("%s of %s: %q, want %q", tt.text, tt.file, got, tt.want)
		}
	}
}

func TestQuadletKeys(t *testing.T) {
	t.Parallel()
	ctr, r := importQuadlet(t, "web.container", `[Container]
Image=localhost/usr:1
Volume=data.volume:/data:Z,U
Volume=%h/in:/in:ro,z
Volume=/cache
Tmpfs=/run2
Tmpfs=/run3:size=8m,mode=1777,notmpcopyup
UserNS=keep-id
StopSignal=SIGINT
AddHost=db;db2:10.0.0.1
AddHost=host.docker.internal:host-gateway
AddHost=box:host-gateway
AutoUpdate=registry
Ulimit=nofile=1000:2000
Ulimit=nproc=7
PodmanArgs=--log-tag=x --memory 64m
EnvironmentFile=web.env
Entrypoint=["/bin/sh","-c"]
Environment=GONE=1
Environment=
Environment=KEPT=1
HostName=web-%N
DNS=10.0.0.53
ShmSize=32m
Sysctl=net.core.somaxconn=99
AddDevice=/dev/fuse:rw
NoNewPrivileges=true
AddCapability=CAP_NET_RAW
User=7
Group=8
Network=none
LogDriver=k8s-file
PidsLimit=9
`)
	type member struct{ got, want any }
	for name, m := range map[string]member{
		"extra hosts": {ctr.Net.ExtraHosts, []taskdef.Host{{Name: "db", Address: "10.0.0.1"}, {Name: "db2", Address: "10.0.0.1"}}},
		"ulimits":     {ctr.Linux.Ulimits, []taskdef.Ulimit{{Name: "nofile", Soft: 1000, Hard: 2000}, {Name: "nproc", Soft: 7, Hard: 7}}},
		"tmpfs":       {ctr.Linux.Tmpfs, []taskdef.Tmpfs{{Path: "/run2", Size: 64 << 20}, {Path: "/run3", Size: 8 << 20, Options: []string{"mode=1777"}}}},
		"entry point": {ctr.EntryPoint, []string{"/bin/sh", "-c"}},
		"environment": {ctr.Environment, []taskdef.EnvVar{{Name: "KEPT", Value: "1"}}},
		"host name":   {ctr.Net.Hostname, "web-web"},
		"shm":         {ctr.Linux.ShmSize, int64(32 << 20)},
		"caps":        {ctr.Linux.CapAdd, []string{"NET_RAW"}},
		"user":        {ctr.User, "7:8"},
		"devices":     {len(ctr.Linux.Devices), 1},
		"mounts":      {len(ctr.Mounts), 3},
	} {
		if diff := cmp.Diff(m.want, m.got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for _, line := range []string{"AutoUpdate=registry", "EnvironmentFile=/srv/q/web.env", "Network=none", "TasksMax=9"} {
		if !slices.Contains(strings.Split(r.Unit, "\n"), line) {
			t.Errorf("the unit has no %s:\n%s", line, r.Unit)
		}
	}
	lost := []string{
		"web.container:3: Volume=data.volume:/data:Z,U: U: podtask does not change the owner of files: `podman unshare chown -R UID:GID` does so once",
		"web.container:6: Tmpfs=/run2: a definition gives a tmpfs a size, and none is written: it has 64 MiB; write /run2:size=SIZE for another one",
		"web.container:7: Tmpfs=/run3:size=8m,mode=1777,notmpcopyup: a definition has no option notmpcopyup",
		"web.container:8: UserNS=: " + quadletReasons["Container"]["UserNS"],
		"web.container:12: AddHost=box: the address of the host is known when a container starts; use the name host.docker.internal",
		"web.container:16: PodmanArgs=--log-tag=x: " + quadletReasons["Container"]["PodmanArgs"],
	}
	if diff := cmp.Diff(lost, r.Lost); diff != "" {
		t.Error(diff)
	}
}

// Files of variables and secrets are those of their container.
func TestQuadletOfSeveralContainers(t *testing.T) {
	t.Parallel()
	var files []taskunit.File
	for _, f := range txtar.Parse([]byte(`-- a.container --
[Container]
Image=a
Pod=x.pod
EnvironmentFile=one.env
EnvironmentFile=%h/two.env
Secret=token,type=env,target=TOKEN
Secret=key,mode=0400,uid=5
AutoUpdate=registry
-- b.container --
[Container]
Image=b
Pod=x.pod
AutoUpdate=registry
Secret=key,target=/etc/key
-- x.pod --
[Pod]
AddHost=db:10.0.0.1
`)).Files {
		files = append(files, taskunit.Read("/srv/q/"+f.Name, string(f.Data)))
	}
	r, err := Convert("x", files, someUser)
	if err != nil {
		t.Fatal(err)
	}
	task, _, err := taskdef.Parse("x.json", r.Definition)
	if err != nil {
		t.Fatal(err)
	}
	a, b := task.Containers[0], task.Containers[1]
	if len(a.EnvironmentFiles) != 2 || a.EnvironmentFiles[0].Path != "/srv/home/ann/two.env" || a.EnvironmentFiles[1].Path != "/srv/q/one.env" || len(b.EnvironmentFiles) != 0 {
		t.Errorf("files of variables: %v, %v", a.EnvironmentFiles, b.EnvironmentFiles)
	}
	for _, want := range []string{`"valueFrom": "podman:token"`, `"path": "/run/secrets/key"`, `"path": "/etc/key"`, `"uid": 5`} {
		if !strings.Contains(string(r.Definition), want) {
			t.Errorf("no %s in\n%s", want, r.Definition)
		}
	}
	if len(b.Net.ExtraHosts) != 2 || strings.Contains(r.Unit, "Secret=") {
		t.Errorf("hosts of b: %v; the unit:\n%s", b.Net.ExtraHosts, r.Unit)
	}
	if diff := cmp.Diff([]string{"a.container:8: AutoUpdate= updates the images of all containers"}, r.Lost); diff != "" {
		t.Error(diff)
	}
}

// A definition that podtask would refuse is not written, and a value that Quadlet cannot read is listed.
func TestQuadletIsChecked(t *testing.T) {
	t.Parallel()
	_, err := Convert("x", []taskunit.File{taskunit.Read("/srv/q/x.container", "[Container]\nImage=a\nSysctl=kernel.pid_max=9\n")}, someUser)
	if err == nil || !strings.Contains(err.Error(), "kernel.pid_max") {
		t.Errorf("%v", err)
	}
	_, err = Convert("x", []taskunit.File{taskunit.Read("/srv/q/x.container", "[Container]\n{% if y %}\nImage={{ image }}\nExec=podman ps --format {{.ID}}\n")}, someUser)
	want := `x.container:2: "{% if y %}" is not an assignment: write Key=value; "{% if y %}" is a tag of a template that was not rendered: render the template first, and give its output
x.container:3: Image=: "{{ image }}" is a tag of a template that was not rendered: render the template first, and give its output`
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	_, r := importQuadlet(t, "x.container", "[Container]\nImage=a\nExec=sh \\z\n")
	if want := `x.container:3: Exec=sh \z: it cannot be split into words: check quotes and backslashes`; len(r.Lost) != 1 || r.Lost[0] != want {
		t.Errorf("lost %q", r.Lost)
	}
}

// Keys whose effect was easily overlooked.
func TestQuadletKeysThatSayMore(t *testing.T) {
	t.Parallel()
	ctr, r := importQuadlet(t, "x.container", "[Container]\nImage=a\nEntrypoint=\nExec=sh\nLabel=io.containers.autoupdate=registry team=blue\nEnvironmentHost=no\nHttpProxy=false\nReadOnly=true\nTmpfs=/tmp:size=1m\n")
	if len(ctr.EntryPoint) != 1 || ctr.EntryPoint[0] != "" || len(ctr.Labels) != 1 || !strings.Contains(r.Unit, "\nAutoUpdate=registry\n") {
		t.Errorf("%q %v\n%s", ctr.EntryPoint, ctr.Labels, r.Unit)
	}
	if len(r.Lost) != 1 || !strings.Contains(r.Lost[0], "x.container:8: ReadOnly=") || len(ctr.Linux.Tmpfs) != 3 {
		t.Errorf("%q, %v", r.Lost, ctr.Linux.Tmpfs)
	}
	_, r = importQuadlet(t, "x.container", "[Container]\nImage=a\nPod=none.pod\nLabel=io.containers.autoupdate=local\nStopTimeout=0\n[Unit]\nRequires=db.service\n[X-Note]\nA=b\n")
	if len(r.Lost) != 3 || !strings.Contains(r.Unit, "\nRequires=db.service\n") {
		t.Errorf("%q\n%s", r.Lost, r.Unit)
	}
	_, err := Convert("x", []taskunit.File{taskunit.Read("/srv/q/x.container", "[Container]\nImage=a\nGroup=7\n")}, someUser)
	if err == nil || !strings.Contains(err.Error(), "Group= without User=") {
		t.Error(err)
	}
	files := []taskunit.File{taskunit.Read("/srv/q/a.container", "[Container]\nImage=a\nPod=p.pod\nSecret=source=s,type=env,target=S\n"), taskunit.Read("/srv/q/b@1.container", "[Container]\nImage=b\nPod=p.pod\n"), taskunit.Read("/srv/q/p.pod", "[Pod]\n")}
	r, err = Convert("p", files, someUser)
	if err != nil {
		t.Fatal(err)
	}
	task, _, err := taskdef.Parse("x.json", r.Definition)
	if err != nil || len(task.Containers[0].Net.ExtraHosts) != 1 || task.Containers[0].Secrets[0].ValueFrom != "podman:s" {
		t.Errorf("%+v, %v", task.Containers, err)
	}
}

func TestHealthCommandIsReadAsPodmanDoes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"curl -f http://x":        {"CMD-SHELL", "curl -f http://x"},
		"CMD curl x":              {"CMD", "curl", "x"},
		`["ready"]`:               {"CMD-SHELL", "ready"},
		`["curl", "x y"]`:         {"CMD", "curl", "x y"},
		`["CMD", "curl", "x y"]`:  {"CMD", "curl", "x y"},
		`["CMD-SHELL", "a || b"]`: {"CMD-SHELL", "a || b"},
		"none":                    nil,
	} {
		if diff := cmp.Diff(want, healthCommand(text)); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}
