package quadlet

import (
	"cmp"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/members"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
)

// TestEveryKeyOfQuadletHasARow enumerates the key tables in Podman's module.
func TestEveryKeyOfQuadletHasARow(t *testing.T) {
	t.Parallel()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/containers/podman/v5").Output()
	if err != nil {
		t.Skip(err)
	}
	src, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "pkg/systemd/quadlet/quadlet.go"))
	if err != nil {
		t.Fatal(err)
	}
	name := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\s+(Key\w+)\s+= "(\w+)"`).FindAllStringSubmatch(string(src), -1) {
		name[m[1]] = m[2]
	}
	name["KeyDecryptionKey"] = "DecryptionKey"
	keys := []string{"Volume.GID", "Volume.UID"} // of v6.0.2, which is another module
	section := ""
	for _, m := range regexp.MustCompile(`(?m)^\s+(?:GroupName:\s+(\w+)Group,|(Key\w+):\s+true,|(supportedQuadletKeys) = )`).FindAllStringSubmatch(string(src), -1) {
		switch {
		case m[1] != "":
			section = m[1]
		case m[3] != "":
			section = "Quadlet"
		case name[m[2]] == "":
			t.Errorf("%s has no text", m[2])
		default:
			keys = append(keys, section+"."+name[m[2]])
		}
	}
	var rows []members.Row
	for _, r := range Members().Rows {
		if !strings.HasPrefix(r.Member, "Service.") && !strings.HasPrefix(r.Member, "Install.") {
			rows = append(rows, r)
		}
	}
	if len(keys) < 200 {
		t.Errorf("only %d keys found: has the file changed?", len(keys))
	}
	for _, p := range members.Problems(rows, keys) {
		t.Error(p)
	}
}

// What [Pod] says of the stop is of all containers that say nothing themselves, as StopTimeout= of [Task] is.
func TestStopTimeoutOfAPod(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ value, unit, lost string }{
		{"25", "\nStopTimeout=25\n", ""},
		{"0", "", "x.pod:2: [Pod] StopTimeout=0: "},
		{"1m", "", "x.pod:2: StopTimeout=1m is not a number"},
	} {
		r, err := Convert("x", []taskunit.File{
			taskunit.Read("/srv/q/x.container", "[Container]\nImage=a\nPod=x.pod\n"),
			taskunit.Read("/srv/q/x.pod", "[Pod]\nStopTimeout="+tt.value+"\n"),
		}, someUser)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(r.Unit, tt.unit) || tt.unit == "" && strings.Contains(r.Unit, "StopTimeout") {
			t.Errorf("%s: unit\n%s", tt.value, r.Unit)
		}
		if lost := strings.Join(r.Lost, "\n"); !strings.HasPrefix(lost, tt.lost) || tt.lost == "" && lost != "" {
			t.Errorf("%s: lost %q", tt.value, lost)
		}
	}
}

func TestQuotesOfAValue(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`"a b"`: "a b", `a "b"`: `a "b"`, `"a" b`: `"a" b`, `"a" "b"`: `"a" "b"`, `"`: `"`, `sh -c "test \"$(cat /tmp/f)\" = ok"`: `sh -c "test \"$(cat /tmp/f)\" = ok"`, `"a\"`: `"a\"`,
	} {
		if got := unquoted(value); got != want {
			t.Errorf("%s: %s", value, got)
		}
	}
	_, r := importQuadlet(t, "x.container", "[Container]\nImage=a\n[Install]\nWantedBy=multi-user.target\n")
	if len(r.Lost) != 1 || !strings.Contains(r.Unit, "WantedBy=default.target") {
		t.Errorf("%q\n%s", r.Lost, r.Unit)
	}
	_, r = importQuadlet(t, "x.container", "[Container]\nImage=a\n[Install]\nWantedBy=multi-user.target default.target\n")
	if len(r.Lost) != 0 || !strings.Contains(r.Unit, "multi-user.target default.target") {
		t.Errorf("%q\n%s", r.Lost, r.Unit)
	}
}

// Mount= says in words what Volume= and Tmpfs= do.
func TestMountOfQuadlet(t *testing.T) {
	t.Parallel()
	for mount, want := range map[string]string{
		"type=bind,source=/srv/a,destination=/a,ro=true,relabel=private":  "Volume=/srv/a:/a:ro,Z",
		"type=bind,src=data,target=/a":                                    "Volume=./data:/a",
		"type=volume,source=cache,dst=/a,readonly":                        "Volume=cache:/a:ro",
		"source=cache,dst=/a,rw=false":                                    "Volume=cache:/a:ro",
		"type=volume,destination=/a":                                      "Volume=/a",
		"type=tmpfs,destination=/a,tmpfs-size=16m,tmpfs-mode=1777,noexec": "Tmpfs=/a:size=16m,mode=1777,noexec",
	} {
		_, r := importQuadlet(t, "x.container", "[Container]\nImage=a\nMount="+mount+"\n")
		_, same := importQuadlet(t, "x.container", "[Container]\nImage=a\n"+want+"\n")
		if string(r.Definition) != string(same.Definition) || len(r.Lost) != len(same.Lost) {
			t.Errorf("%s: %s\n%q", mount, r.Definition, r.Lost)
		}
	}
	for mount, told := range map[string]string{
		"type=image,source=a,destination=/a": "a task mounts no image", "type=bind,src=/a,dst=/b,bind-propagation=rshared": "the option bind-propagation=rshared",
		"type=bind,src=/a": "it has no destination", "type=glob,src=/a*,dst=/b": "a task mounts no glob", "type=bind,dst=/b": "it has no source",
	} {
		if _, r := importQuadlet(t, "x.container", "[Container]\nImage=a\nMount="+mount+"\n"); len(r.Lost) != 1 || !strings.Contains(r.Lost[0], "x.container:3: Mount=") || !strings.Contains(r.Lost[0], told) {
			t.Errorf("%s: %q", mount, r.Lost)
		}
	}
}

// An unhealthy container is started again by whoever starts it where Quadlet has it.
func TestHealthOnFailureOfQuadlet(t *testing.T) {
	t.Parallel()
	const stops, restarts = `"stopWhenUnhealthy": true`, `"action": "restart"`
	for _, tt := range []struct{ lines, want, lost string }{
		{"HealthOnFailure=none", "", ""},
		{"HealthOnFailure=kill", stops, ""},
		{"HealthOnFailure=stop\n[Service]\nRestart=always", stops, ""},
		{"HealthOnFailure=restart\n[Service]\nRestart=on-failure", stops, ""},
		{"HealthOnFailure=restart", restarts, "also when its program ends"},
		{"HealthOnFailure=often", "", "it is none, kill, stop or restart"},
	} {
		_, r := importQuadlet(t, "x.container", "[Container]\nImage=a\nHealthCmd=true\n"+tt.lines+"\n")
		for _, member := range []string{stops, restarts} {
			if strings.Contains(string(r.Definition), member) != (member == tt.want) {
				t.Errorf("%s: want %s:\n%s", tt.lines, tt.want, r.Definition)
			}
		}
		if lost := strings.Join(r.Lost, "\n"); (lost == "") != (tt.lost == "") || !strings.Contains(lost, tt.lost) {
			t.Errorf("%s: %q", tt.lines, lost)
		}
	}
	if _, r := importQuadlet(t, "x.container", "[Container]\nImage=a\nHealthOnFailure=kill\n"); len(r.Lost) != 1 || !strings.Contains(r.Lost[0], "needs HealthCmd=") {
		t.Errorf("%q", r.Lost)
	}
}

// What is done before and after the program, and when it is started again, is the unit's here too.
func TestServiceOfQuadlet(t *testing.T) {
	t.Parallel()
	_, r := importQuadlet(t, "x.container", "[Container]\nImage=a\nHealthCmd=true\n[Service]\nType=oneshot\nExecStartPre=/bin/a %N\nExecStartPre=/bin/b\nRestartSteps=3\n")
	if len(r.Lost) != 0 || !strings.Contains(r.Unit, "[Service]\nType=oneshot\nExecStartPre=/bin/a x\nExecStartPre=/bin/b\nRestartSteps=3\n") || strings.Contains(r.Unit, "Notify=") {
		t.Errorf("%q\n%s", r.Lost, r.Unit)
	}
	_, r = importQuadlet(t, "x.container", "[Container]\nImage=a\n[Service]\nEnvironmentFile=/e\nType=forking\nTimeoutStopSec=5\nSlice=a.slice\n")
	if len(r.Lost) != 4 {
		t.Errorf("%q", r.Lost)
	}
	if _, r = importQuadlet(t, "x.container", "[Container]\nImage=a\nimage=b\n"); len(r.Lost) != 1 || !strings.HasSuffix(r.Lost[0], "image=: Quadlet has no such key here") {
		t.Errorf("%q", r.Lost)
	}
}

// quadletExamples are legal values of keys for which "x" is none.
var quadletExamples = map[string]string{
	"Container.AddDevice": "/dev/fuse", "Container.AddHost": "db:10.0.0.1", "Container.AutoUpdate": "registry", "Container.Environment": "A=b", "Container.Exec": "other $W", "Container.Group": "7",
	"Container.HealthInterval": "9s", "Container.HealthRetries": "7", "Container.HealthStartPeriod": "9s", "Container.HealthTimeout": "9s", "Container.Image": "localhost/other:1",
	"Container.Label": "a=b", "Container.LogDriver": "journald", "Container.LogOpt": "max-size=1m", "Container.Memory": "64m", "Container.NoNewPrivileges": "true",
	"Container.Notify": "healthy", "Container.PidsLimit": "7", "Container.Pod": "x.pod", "Container.PublishPort": "8080:80", "Container.Pull": "never", "Container.ReadOnly": "true",
	"Container.ReadOnlyTmpfs": "false", "Container.RunInit": "true", "Container.Secret": "s,type=env,target=S", "Container.SecurityLabelDisable": "true", "Container.ShmSize": "32m",
	"Container.StopSignal": "SIGQUIT", "Container.StopTimeout": "7", "Container.Sysctl": "net.core.somaxconn=99", "Container.Tmpfs": "/t:size=8m", "Container.Ulimit": "nofile=9:9",
	"Container.User": "8:8", "Container.Volume": "/srv/v:/v", "Container.WorkingDir": "/w", "Container.EnvironmentFile": "/srv/e.env", "Container.DNS": "10.0.0.53",
	"Pod.AddHost": "db:10.0.0.1", "Pod.DNS": "10.0.0.53", "Pod.Network": "none", "Pod.PublishPort": "8080:80", "Pod.StopTimeout": "7", "Pod.Volume": "/srv/v:/v",
	"Volume.VolumeName": "other", "Image.Image": "localhost/other:1", "Service.Environment": "W=two", "Service.Restart": "always", "Service.RestartSec": "7", "Service.TimeoutStartSec": "77",
	"Service.Type": "oneshot", "Container.Mount": "type=bind,src=/srv/m,dst=/m,ro", "Container.HealthOnFailure": "kill", "Volume.GID": "7", "Volume.Group": "7", "Volume.UID": "7", "Volume.User": "7", "Volume.Label": "a=b",
	"Volume.Options": "size=1m", "Volume.Device": "tmpfs", "Volume.Type": "tmpfs", "Container.DropCapability": "CHOWN", "Container.AddCapability": "NET_RAW", "Container.ContainerName": "other", "Container.SecurityLabelLevel": "s0",
}

// quadletOutcome converts a container, its pod, its volume and its image with one more line, and returns all of the result.
func quadletOutcome(section, line string) string {
	text := map[string]string{
		"Container": "Image=i.image\nExec=run $W\nPod=p.pod\nVolume=v.volume:/data\nHealthCmd=true\n", "Pod": "PodName=p\n", "Volume": "VolumeName=v\n", "Image": "Image=localhost/bb:1\n",
		"Service": "Restart=no\nEnvironment=W=one\n", "Install": "WantedBy=default.target\n",
	}
	if strings.HasPrefix(line, "Group=") {
		text[section] += "User=7\n"
	}
	if section == "Container" && strings.HasPrefix(line, "ReadOnlyTmpfs=") {
		text[section] += "ReadOnly=true\n"
	}
	text[section] += line
	var files []taskunit.File
	for name, sections := range map[string][]string{"c.container": {"Container", "Service", "Install", "Quadlet"}, "p.pod": {"Pod"}, "v.volume": {"Volume"}, "i.image": {"Image"}} {
		all := ""
		for _, s := range sections {
			all += "[" + s + "]\n" + text[s] + "\n"
		}
		files = append(files, taskunit.Read("/srv/q/"+name, all))
	}
	slices.SortFunc(files, func(a, b taskunit.File) int { return strings.Compare(a.Path, b.Path) })
	r, err := Convert("x", files, someUser)
	if err != nil {
		return "refused: " + err.Error()
	}
	return string(r.Definition) + r.Unit + strings.Join(append(r.Lost, r.Needs...), "\n")
}

// Each key is set alone to a value that is not its default: it changes what comes out, is listed or is refused.
func TestNoKeyOfQuadletIsIgnoredInSilence(t *testing.T) {
	t.Parallel()
	rows := Members().Rows
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	tried := 0
	for _, r := range rows {
		section, key, _ := strings.Cut(r.Member, ".")
		if quadletFiles[section] || r.Member == "Container.Pod" { // whole files are refused by their names; the files of a pod are found before
			continue
		}
		tried++
		value := cmp.Or(quadletExamples[r.Member], "x")
		nothing := quadletOutcome(section, "")
		if key == "ReadOnlyTmpfs" {
			nothing = quadletOutcome(section, "ReadOnlyTmpfs=true\n")
		}
		got := quadletOutcome(section, key+"="+value+"\n")
		switch {
		case got == nothing:
			t.Errorf("%s is %s, and nothing is said or done about %s=%s", r.Member, r.Treatment, key, value)
		case r.Treatment == members.Lost && !strings.Contains(got, r.Note):
			t.Errorf("%s is lost, and no line says why:\n%s", r.Member, got)
		case r.Treatment == members.Honored && (strings.HasPrefix(got, "refused") || strings.Contains(got, ": "+key+"=") && key != "ReadOnly" && key != "ReadOnlyTmpfs"):
			t.Errorf("%s is honored, and lost or refused:\n%s", r.Member, got)
		}
	}
	if tried < 120 {
		t.Errorf("%d keys were tried", tried)
	}
	t.Logf("%d keys", tried)
}

// quadletFiles are the sections of files that become no part of a task.
var quadletFiles = map[string]bool{"Network": true, "Kube": true, "Build": true, "Artifact": true}
