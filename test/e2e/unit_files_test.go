//go:build e2e && (bed_systemd || bed_vm)

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

// What users write in .task files and beside them, as systemd and podtask take it.

// dropIn makes a drop-in in a directory below that of the units.
func (u *units) dropIn(dir, name, text string) {
	u.t.Helper()
	path := filepath.Join(u.dir, dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(path)) })
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
}

// environment is what the services of a test need of it, for a section [Service].
func (u *units) environment() string {
	return fmt.Sprintf("Environment=XDG_STATE_HOME=%s REGISTRY_AUTH_FILE=%s NO_COLOR=1\n", u.stateHome(), bed.auth)
}

// One instance is a link to the template and has drop-ins of its own, the other one
// systemd makes of the template.
func TestUnitTemplates(t *testing.T) {
	u := newUnits(t)
	for _, instance := range []string{"blue", "green"} {
		text, err := os.ReadFile(u.define(ctr{Name: "app", Command: words("term 0 -- print " + instance + " -- env HOUSE -- env NAME -- env FROM -- env TOP -- sleep forever")}))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(u.box.dir, instance+".json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u.file("web@.task", "[Task]\nDefinition="+u.box.dir+"/%i.json\nEnvironment=HOUSE=%h NAME=%i FROM=unit TOP=no\n[Service]\n"+u.environment()+"[Install]\nWantedBy=default.target\nDefaultInstance=green\n")
	template := u.files[0]
	link := strings.Replace(template, "web@.task", "web@blue.task", 1)
	if err := os.Symlink(template, link); err != nil {
		t.Fatal(err)
	}
	u.files = append(u.files, link)
	u.dropIn("task.d", "10-top.conf", "[Task]\nEnvironment=TOP=yes\n")
	u.dropIn(u.family+"-.task.d", "20-from.conf", "[Task]\nEnvironment=FROM=family\n")
	u.dropIn(u.name("web@blue.task.d"), "30-from.conf", "[Task]\nEnvironment=FROM=blue\n[Unit]\nDescription=The blue one\n")
	blue, green := u.name("web-task@blue.service"), u.name("web-task@green.service")
	u.made = append(u.made, blue, green)
	u.systemctl("daemon-reload")
	if got := u.show("default.target", "Wants"); !strings.Contains(got, blue) || !strings.Contains(got, green) {
		t.Errorf("default.target wants %s", got)
	}
	u.systemctl("start", blue, green)
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	u.prints(u.name("web-blue"), "app", "blue", "HOUSE="+home, "NAME=blue", "FROM=blue", "TOP=yes")
	u.prints(u.name("web-green"), "app", "green", "HOUSE="+home, "NAME=green", "FROM=family", "TOP=yes")
	if got := u.show(blue, "Description"); got != "The blue one" {
		t.Errorf("it is called %q", got)
	}
	u.systemctl("stop", blue)
	if got := u.show(green, "ActiveState"); got != "active" {
		t.Errorf("the other instance is %s", got)
	}
}

func TestUnitOverridesItsDefinition(t *testing.T) {
	u := newUnits(t)
	theirs, ours := freePort(t), freePort(t)
	definition := u.write(def{CPU: "512", Memory: "256", Containers: []ctr{{
		Name: "app", Command: words("term 0 -- env KEPT -- env LEVEL -- serve 8080"), StopTimeout: 60,
		Environment: []envVar{{"GREETING", "hello from the definition"}, {"LEVEL", "info"}, {"KEPT", "yes"}},
		Ports:       []port{{Container: 8080, Host: theirs}},
	}}})
	file := u.secretFile("level.env", "LEVEL=debug\n")
	service := u.task("web", definition, "", fmt.Sprintf(`Environment="GREETING=hello from %s"
EnvironmentFile=%s
PublishPort=127.0.0.1:%d:8080
MemoryMax=300M
CPUQuota=75%%
TasksMax=77
StopTimeout=3
Limits=best-effort
`, u.family, file, ours), "")
	u.systemctl("daemon-reload")
	u.systemctl("start", service)
	u.askWeb(ours)
	wantClosed(t, theirs)
	u.prints(u.name("web"), "app", "KEPT=yes", "LEVEL=debug")

	got := u.inspect(u.name("web"))
	if len(got.Ports) != 1 || got.Ports[0] != (published{8080, ours, "tcp", "127.0.0.1"}) {
		t.Errorf("ports: %+v", got.Ports)
	}
	if s := u.podman("inspect", "--format", "{{.Config.StopTimeout}}", got.Containers[0].RuntimeID); s != "3" {
		t.Errorf("the container has %s s to stop", s)
	}
	var limits []struct {
		CPU    float64
		Memory int64
	}
	if err := json.Unmarshal([]byte(u.want(0, "inspect", u.name("web")).out), &limits); err != nil || limits[0].CPU != 0.75 || limits[0].Memory != 300<<20 {
		t.Errorf("limits: %+v %v", limits, err)
	}
	for controller, want := range map[string][2]string{"memory": {"MemoryMax", "314572800"}, "cpu": {"CPUQuotaPerSecUSec", "750ms"}, "pids": {"TasksMax", "77"}} {
		if !strings.Contains(controllers(), controller) {
			continue
		}
		if got := u.show(got.Slice, want[0]); got != want[1] {
			t.Errorf("the slice has %s=%s, want %s", want[0], got, want[1])
		}
	}
}

func TestUnitsAreInstalledListedPrintedAndRemoved(t *testing.T) {
	u := newUnits(t)
	text, err := os.ReadFile(u.define(ctr{Name: "app", Command: words("term 0 -- env LEVEL -- sleep forever")}))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		path := filepath.Join(u.box.dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	unit, definition, variables := u.name("web.task"), u.name("web.json"), u.name("web.env")
	write(definition, string(text))
	write(variables, "LEVEL=info\n")
	path := write(unit, fmt.Sprintf("[Task]\nDefinition=./%s\nEnvironmentFile=./%s\n[Service]\n%s", definition, variables, u.environment()))
	service := u.name("web-task.service")
	u.made = append(u.made, service)
	u.files = append(u.files, filepath.Join(u.dir, definition), filepath.Join(u.dir, variables))

	if r := u.want(0, "unit", "install", path); strings.TrimSpace(r.out) != service {
		t.Errorf("install printed %s", r.out)
	}
	u.systemctl("start", service) // systemd knows it already
	u.prints(u.name("web"), "app", "LEVEL=info")
	if got := u.unit(unit); got.Service != service || got.State != "active" || got.Path != filepath.Join(u.dir, unit) || len(got.Errors) > 0 {
		t.Errorf("ls says %+v", got)
	}
	if r := u.want(0, "unit", "print", u.name("web")); !strings.Contains(r.out, "\nEnvironment="+strings.TrimPrefix(strings.TrimSpace(u.environment()), "Environment=")) || !strings.Contains(r.out, "--env-file="+filepath.Join(u.dir, variables)) {
		t.Errorf("print says %s", r.out)
	}

	write(variables, "LEVEL=debug\n")
	u.want(125, "unit", "install", path)
	u.want(0, "unit", "install", "--replace", path)
	u.systemctl("restart", service)
	u.prints(u.name("web"), "app", "LEVEL=debug")

	if r := u.want(125, "unit", "rm", u.name("web")); !strings.Contains(r.err, "--force") {
		t.Errorf("rm of a service that runs says %s", r.err)
	}
	if r := u.want(0, "unit", "rm", "--force", u.name("web")); !strings.Contains(r.err, filepath.Join(u.dir, definition)+" stays") || !strings.Contains(r.err, filepath.Join(u.dir, variables)+" stays") {
		t.Errorf("rm does not name what stays: %s", r.err)
	}
	if got := u.show(service, "LoadState"); got != "not-found" {
		t.Errorf("after rm the service is %s", got)
	}
	if left := u.objects(); left != "" {
		t.Errorf("after rm there is %s", left)
	}
	if r := u.want(0, "unit", "ls"); strings.Contains(r.out, unit) {
		t.Errorf("after rm ls says %s", r.out)
	}
	u.want(0, "unit", "install", path)
	u.want(0, "unit", "rm", "--purge", u.name("web"))
	for _, file := range u.files {
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after rm --purge there is %s (%v)", file, err)
		}
	}
	u.made, u.files = nil, nil
}

// unitLine is a unit as `podtask unit ls` tells of it.
type unitLine struct {
	Unit, Service, State, Path string
	Errors                     []string
}

func (u *units) unit(name string) unitLine {
	u.t.Helper()
	var list []unitLine
	if err := json.Unmarshal([]byte(u.want(0, "unit", "ls", "--format", "json").out), &list); err != nil {
		u.t.Fatal(err)
	}
	for _, l := range list {
		if l.Unit == name {
			return l
		}
	}
	u.t.Fatalf("%s is not among %+v", name, list)
	return unitLine{}
}

// For users whose host has no generator: the services are files of theirs.
func TestServicesAreGeneratedWithoutAGenerator(t *testing.T) {
	u := newUnits(t)
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	services := filepath.Join(home, ".config", "systemd", "user")
	u.dir = t.TempDir() // where the generator of the bed does not look
	u.env = append(u.env, "PODTASK_UNIT_DIRS="+u.dir)
	service := u.task("web", u.define(ctr{Name: "app", Command: words("term 0 -- sleep forever")}), "", "", "[Install]\nWantedBy=default.target")
	generate := func() string { return u.want(0, "generate", "--output", services).out }
	if got := generate(); strings.TrimSpace(got) != service {
		t.Errorf("it generated %s", got)
	}
	u.systemctl("daemon-reload")
	u.systemctl("start", service)
	if got := u.inspect(u.name("web")).Status; got != "RUNNING" {
		t.Errorf("the task is %s", got)
	}
	if got := u.show("default.target", "Wants"); !strings.Contains(got, service) {
		t.Errorf("default.target wants %s", got)
	}
	u.systemctl("stop", service)
	u.made = nil

	if err := os.Remove(u.files[0]); err != nil {
		t.Fatal(err)
	}
	u.files = nil
	if got := generate(); got != "" {
		t.Errorf("without the unit it generated %s", got)
	}
	u.systemctl("daemon-reload")
	if got := u.show(service, "LoadState"); got != "not-found" {
		t.Errorf("the service of a unit that is gone is %s", got)
	}
	if got := u.show("default.target", "Wants"); strings.Contains(got, service) {
		t.Errorf("default.target still wants %s", got)
	}
}

func TestUnitMayStartLongerThanItsTimeout(t *testing.T) {
	u := newUnits(t)
	service := u.task("web", u.define(
		ctr{Name: "first", Essential: optional, Command: words("wait /tmp/go")},
		ctr{Name: "app", DependsOn: []on{{"first", "SUCCESS"}}, Command: words("term 0 -- sleep forever")},
	), "", "", "TimeoutStartSec=1s")
	u.systemctl("daemon-reload")
	u.systemctl("start", "--no-block", service)
	u.await("first RUNNING")
	u.becomes(service, "StatusText", "app waits for first to exit with code 0")
	u.passes(service, 2)
	if got := u.show(service, "ActiveState"); got != "activating" {
		t.Errorf("it is %s\n%s", got, u.journal())
	}
	u.tell(u.name("web"), "first", "/tmp/go")
	u.becomes(service, "ActiveState", "active")
}

func TestUnitRunsOnAfterABadReload(t *testing.T) {
	u := newUnits(t)
	says := func(word string) string {
		return u.define(ctr{Name: "app", Command: words("term 0 -- env SAYS -- sleep forever"), Environment: []envVar{{"SAYS", word}}})
	}
	path := says("one")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	service := u.task("web", path, "", "", "")
	u.systemctl("daemon-reload")
	u.systemctl("start", service)
	pid, before := u.show(service, "MainPID"), u.inspect(u.name("web")).ID

	put(`{"family": "x", "containerDefinitions": [{"name": "app", "imagee": "x"}]}`)
	u.systemctl("reload", service)
	u.becomes(service, "StatusText", "reload failed, the task runs on unchanged: the definition is no longer valid")
	u.becomes(service, "ActiveState", "active")
	if got := u.inspect(u.name("web")); got.ID != before || got.Status != "RUNNING" {
		t.Errorf("task %s is %s, and was %s", got.ID, got.Status, before)
	}
	eventually(t, "what is wrong, in the journal", func() bool { return strings.Contains(u.journal(), "imagee") })

	text, err := os.ReadFile(says("two"))
	if err != nil {
		t.Fatal(err)
	}
	put(string(text))
	u.systemctl("reload", service)
	eventually(t, "the new definition\n"+u.journal(), func() bool {
		return strings.Contains(u.journal(), "SAYS=two") && u.show(service, "ActiveState") == "active"
	})
	if got := u.show(service, "MainPID"); got != pid {
		t.Errorf("process %s became %s", pid, got)
	}
}

// What a value has to go through: the unit's parser, the command line of the service,
// systemd's, and the flags of podtask run.
func TestValuesOfAUnitReachTheContainer(t *testing.T) {
	u := newUnits(t)
	u.dropIn(u.name("100%h"), "web.env", "M=from a file\n") // a directory below, with a file beside the unit
	u.dir = filepath.Join(u.dir, u.name("100%h"))
	want := []string{"A=two words", `B=say "hi"`, `C=back\slash`, "D=$HOME ${HOME}", "E=100%", "F=a;b,c#d", "G=tab\there", "H=ü €", "I=", "J='", `K=\x41\`, "L=a=b", "M=from a file"}
	command := "term 0"
	for _, w := range want {
		command += " -- env " + w[:1]
	}
	service := u.task("web", u.define(ctr{Name: "app", Command: words(command + " -- sleep forever")}), "", `Environment="A=two words" 'B=say "hi"' "C=back\\slash" "D=$HOME ${HOME}" E=100%%
Environment=F=a;b,c#d "G=tab\there" "H=ü €" \
# a note within
  I= "J='" 'K=\\x41\\' L=a=b
EnvironmentFile=web.env`, "")
	u.systemctl("daemon-reload")
	u.systemctl("start", service)
	u.prints(u.name("web"), "app", want...)
	if got := u.show(service, "SourcePath"); got != u.files[0] {
		t.Errorf("systemd has it from %s", got)
	}
	u.files = nil // they go with their directory
}

// A unit that is wrong keeps no other from its service, and the user's journal names
// file, line and the word that was meant.
func TestWrongUnitIsNamedInTheJournal(t *testing.T) {
	u := newUnits(t)
	good := u.task("good", u.define(ctr{Name: "app", Command: words("term 0 -- sleep forever")}), "", "", "")
	bad := u.task("bad", "./bad.json", "", "Notfy=healthy", "")
	u.made = []string{good}
	u.systemctl("daemon-reload")
	if got := u.show(bad, "LoadState"); got != "not-found" {
		t.Errorf("the wrong unit's service is %s", got)
	}
	if got := u.show(good, "LoadState"); got != "loaded" {
		t.Errorf("the good unit's service is %s", got)
	}
	if r := u.want(0, "unit", "ls"); !strings.Contains(r.err, "bad.task:5: there is no key Notfy") {
		t.Errorf("ls says %s", r.err)
	}
	if got := u.unit(u.name("bad.task")); len(got.Errors) != 1 || !strings.Contains(got.Errors[0], "bad.task:5: there is no key Notfy") {
		t.Errorf("ls says %+v", got)
	}
	eventually(t, "the word of the generator", func() bool {
		out, _ := exec.Command("journalctl", "--no-pager", "--output=cat").CombinedOutput()
		return strings.Contains(string(out), u.name("bad.task")+":5: there is no key Notfy in [Task]; did you mean \"Notify\"?")
	})
}

// A container that does not heed SIGTERM has its own time to stop, whatever the service's.
func TestUnitMayStopLongerThanItsTimeout(t *testing.T) {
	u := newUnits(t)
	service := u.task("web", u.define(
		ctr{Name: "first", Command: words("term 0 -- sleep forever")},
		ctr{Name: "stubborn", Command: words("term -1 -- print deaf -- sleep forever"), StopTimeout: 6, DependsOn: []on{{"first", "START"}}},
	), "", "", "TimeoutStopSec=3s")
	u.systemctl("daemon-reload")
	u.systemctl("start", service)
	u.prints(u.name("web"), "stubborn", "deaf")
	u.systemctl("stop", service)
	if got := u.show(service, "Result"); got != "success" {
		t.Errorf("the stop ended in %s\n%s", got, u.journal())
	}
	inOrder(t, u.events(), "stubborn STOPPED", "first STOPPED")
}

func TestUnitIsStoppedWhileItPulls(t *testing.T) {
	u := newUnits(t)
	ref, _ := u.push("slow:1", u.freshImage("slow"))
	rule := u.fault("GET", "slow", "blobs/", 1, registrytest.Hang(nil))
	service := u.task("web", u.define(ctr{Name: "app", Image: ref, Command: words("term 0 -- sleep forever")}), "", "", "Restart=on-failure")
	u.systemctl("daemon-reload")
	u.systemctl("start", "--no-block", service)
	u.arrived(rule)
	u.becomes(service, "StatusText", "pulling images: 0 of 1 done")
	u.systemctl("stop", service)
	if state, result := u.show(service, "ActiveState"), u.show(service, "Result"); state != "inactive" || result != "success" {
		t.Errorf("after stop: %s, %s\n%s", state, result, u.journal())
	}
	if r := u.want(0, "ps", "--all", "--quiet"); r.out != "" {
		t.Errorf("tasks after stop: %s", r.out)
	}
}

// What a task cannot be started for is in the journal, and what requires it is not started.
func TestUnitThatCannotStartSaysWhy(t *testing.T) {
	u := newUnits(t)
	db := u.task("db", u.define(ctr{Name: "app", Image: bed.reg.Ref(u.repository("gone:1"))}), "", "", "")
	web := u.task("web", u.define(ctr{Name: "web", Command: words("term 0 -- sleep forever")}), fmt.Sprintf("After=%[1]s-db.task\nRequires=%[1]s-db.task", u.family), "", "")
	u.systemctl("daemon-reload")
	if out, err := exec.Command("systemctl", "--user", "start", web).CombinedOutput(); err == nil {
		t.Errorf("what requires a task that cannot start does: %s", out)
	}
	for service, want := range map[string][2]string{db: {"failed", "exit-code"}, web: {"inactive", "success"}} {
		if state, result := u.show(service, "ActiveState"), u.show(service, "Result"); state != want[0] || result != want[1] {
			t.Errorf("%s is %s, %s; want %s, %s\n%s", service, state, result, want[0], want[1], u.journal())
		}
	}
	if got := u.show(db, "ExecMainStatus"); got != "125" {
		t.Errorf("the exit status is %s, and nothing ever ran", got)
	}
	eventually(t, "the reason, in the journal", func() bool {
		return strings.Contains(u.journal(), "CannotPullContainerError: pull "+bed.reg.Ref(u.repository("gone:1")))
	})
	u.made = nil
}
