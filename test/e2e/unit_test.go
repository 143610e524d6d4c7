//go:build e2e && (bed_systemd || bed_vm)

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

// Tests of .task units, which the bed's user manager starts: systemd 257 in the
// systemd bed, 252 in the machine of Debian 12. They turn on the user's
// podman.socket, which other tests would find, so they do not run beside them.

// units is the box of a test with .task files.
type units struct {
	*box
	dir   string // where the manager's generators look
	files []string
	made  []string // services
}

func newUnits(t *testing.T) *units {
	t.Helper()
	b := newBox(t)
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	u := &units{box: b, dir: filepath.Join(home, ".config", "containers", "systemd")}
	if err := os.MkdirAll(u.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if bed.name == "vm" {
		u.installGenerator()
	}
	t.Cleanup(u.remove)
	return u
}

// installGenerator puts the generator where the user's manager looks; the systemd bed
// has it there.
func (u *units) installGenerator() {
	u.t.Helper()
	const dir = "/etc/systemd/user-generators"
	for _, command := range [][]string{{"mkdir", "-p", dir}, {"ln", "-sf", filepath.Join(filepath.Dir(bed.podtask), "podtask-user-generator"), dir}} {
		if out, err := exec.Command("sudo", command...).CombinedOutput(); err != nil {
			u.t.Fatalf("sudo %v: %v %s", command, err, out)
		}
	}
}

// remove stops the services and proves that none of their tasks is left.
func (u *units) remove() {
	for i := len(u.made) - 1; i >= 0; i-- {
		u.systemctl("stop", u.made[i])
	}
	if left := u.objects(); left != "" {
		u.t.Errorf("left after the services have stopped:\n%s", left)
	}
	for _, f := range u.files {
		if err := os.Remove(f); err != nil {
			u.t.Error(err)
		}
	}
	u.systemctl("stop", "podman.socket", "podman.service")
	u.systemctl("daemon-reload")
	_ = exec.Command("systemctl", append([]string{"--user", "reset-failed"}, u.made...)...).Run() // those that failed
}

func (u *units) systemctl(args ...string) string {
	u.t.Helper()
	out, err := exec.Command("systemctl", append([]string{"--user"}, args...)...).CombinedOutput()
	if err != nil {
		u.t.Fatalf("systemctl %v: %v %s\n%s", args, err, out, u.journal())
	}
	return string(out)
}

// journal is what the test's services said.
func (u *units) journal() string {
	args := []string{"--user", "--no-pager", "--output=cat"}
	for _, s := range u.made {
		args = append(args, "--unit="+s)
	}
	out, _ := exec.Command("journalctl", args...).CombinedOutput()
	return string(out)
}

// file makes a unit file; the name is the file's, behind the family and a dash.
func (u *units) file(name, text string) {
	u.t.Helper()
	path := filepath.Join(u.dir, u.family+"-"+name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
	u.files = append(u.files, path)
}

// task makes a .task file and returns its service. Rest is more of the file: it
// begins in section [Service].
func (u *units) task(name, definition, unit, task, rest string) (service string) {
	u.t.Helper()
	u.file(name+".task", fmt.Sprintf(`[Unit]
%s
[Task]
Definition=%s
%s
[Service]
Environment=XDG_STATE_HOME=%s REGISTRY_AUTH_FILE=%s NO_COLOR=1
%s
`, unit, definition, task, u.stateHome(), bed.auth, rest))
	service = u.family + "-" + name + "-task.service"
	u.made = append(u.made, service)
	return service
}

// name is that of the task of a unit.
func (u *units) name(unit string) string { return u.family + "-" + unit }

// prints waits until a container has printed exactly this: a service is ready before
// its containers have said all.
func (u *units) prints(task, container string, want ...string) {
	u.t.Helper()
	eventually(u.t, fmt.Sprintf("%s prints %q\n%s", container, want, u.journal()), func() bool {
		return u.lines(task, container) == strings.Join(want, "\n")
	})
}

// show is a property of a service.
func (u *units) show(service, property string) string {
	u.t.Helper()
	return strings.TrimSpace(u.systemctl("show", "--property="+property, "--value", service))
}

// becomes waits until a property has a value.
func (u *units) becomes(service, property, value string) {
	u.t.Helper()
	eventually(u.t, service+" "+property+"="+value+"\n"+u.journal(), func() bool { return u.show(service, property) == value })
}

func TestUnitIsReadyWhenTheTaskIsHealthy(t *testing.T) {
	u := newUnits(t)
	c := ctr{Name: "app", Command: words("term 0 -- sleep forever"), Health: healthyIf("exists /tmp/well")}
	c.Health.Retries = 10
	service := u.task("web", u.define(c), "Description=The web", "Environment=GREETING=hello", "[Install]\nWantedBy=default.target")
	u.systemctl("daemon-reload")
	if got := u.show(service, "UnitFileState"); got != "generated" {
		t.Errorf("the unit is %s", got)
	}
	if got := u.show("default.target", "Wants"); !strings.Contains(got, service) {
		t.Errorf("default.target wants %s", got)
	}
	if out, err := exec.Command("systemd-analyze", "--user", "verify", u.show(service, "FragmentPath")).CombinedOutput(); err != nil || strings.Contains(string(out), u.family) {
		t.Errorf("systemd-analyze: %v %s", err, out)
	}

	u.systemctl("start", "--no-block", service)
	u.await("app RUNNING")
	if got := u.show(service, "ActiveState"); got != "activating" {
		t.Errorf("before the task is healthy the service is %s", got)
	}
	u.tell(u.name("web"), "app", "/tmp/well")
	u.await("app HEALTHY")
	u.becomes(service, "ActiveState", "active")
	u.becomes(service, "StatusText", "1 of 1 containers up, healthy")
	id := u.inspect(u.name("web")).Containers[0].RuntimeID
	if got := u.podman("exec", id, "/testbox", "env", "GREETING"); got != "GREETING=hello" {
		t.Errorf("the unit's variable is %q", got)
	}
	u.systemctl("stop", service)
	if state, result := u.show(service, "ActiveState"), u.show(service, "Result"); state != "inactive" || result != "success" {
		t.Errorf("after stop: %s, %s\n%s", state, result, u.journal())
	}
	if r := u.want(0, "ps", "--all", "--quiet"); r.out != "" {
		t.Errorf("tasks after stop: %s", r.out)
	}
}

func TestUnitRestarts(t *testing.T) {
	u := newUnits(t)
	service := u.task("web", u.define(ctr{Name: "app", Command: words("term 0 -- wait /tmp/fail -- exit 3")}), "StartLimitIntervalSec=0", "", "Restart=on-failure\nRestartSec=100ms")
	u.systemctl("daemon-reload")
	u.systemctl("start", service)
	first := u.inspect(u.name("web")).ID
	u.systemctl("restart", service)
	second := u.inspect(u.name("web")).ID
	if first == second {
		t.Error("restart kept the task")
	}
	if got := u.show(service, "NRestarts"); got != "0" {
		t.Errorf("a restart by hand counts as %s failures", got)
	}

	u.tell(u.name("web"), "app", "/tmp/fail")
	u.becomes(service, "NRestarts", "1")
	u.becomes(service, "ActiveState", "active")
	third := u.inspect(u.name("web")).ID
	if third == second {
		t.Error("the task that failed is still there")
	}
	if log := u.journal(); !strings.Contains(log, "status=3") {
		t.Errorf("systemd did not see the task's exit code:\n%s", log)
	}

	pid, _ := strconv.Atoi(u.show(service, "MainPID"))
	if p, err := os.FindProcess(pid); err != nil || p.Kill() != nil {
		t.Fatal("podtask cannot be killed")
	}
	u.becomes(service, "NRestarts", "2")
	u.becomes(service, "ActiveState", "active")
	if got := strings.Fields(u.running()); len(got) != 1 {
		t.Errorf("after podtask was killed there run %q", got)
	}
}

// A podtask that hangs no longer feeds the watchdog of its service.
func TestUnitThatHangsIsRestarted(t *testing.T) {
	u := newUnits(t)
	service := u.task("web", u.define(ctr{Name: "app", Command: words("term 0 -- sleep forever")}), "StartLimitIntervalSec=0", "", "Restart=on-failure\nRestartSec=100ms\nWatchdogSec=3s\nTimeoutAbortSec=1s")
	u.systemctl("daemon-reload")
	u.systemctl("start", service)
	first := u.inspect(u.name("web")).ID
	pid, _ := strconv.Atoi(u.show(service, "MainPID"))
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	u.becomes(service, "NRestarts", "1")
	u.becomes(service, "ActiveState", "active")
	if log := u.journal(); !strings.Contains(log, "atchdog") {
		t.Errorf("not for the watchdog:\n%s", log)
	}
	if got := u.inspect(u.name("web")).ID; got == first {
		t.Error("the task of the service that was killed is still there")
	}
	if got := strings.Fields(u.running()); len(got) != 1 {
		t.Errorf("there run %q", got)
	}
}

func TestUnitMayPullLongerThanItsTimeout(t *testing.T) {
	u := newUnits(t)
	ref, _ := u.push("slow:1", u.freshImage("slow"))
	release := make(chan struct{})
	rule := u.fault("GET", "slow", "blobs/", 1, registrytest.Hang(release))
	service := u.task("web", u.define(ctr{Name: "app", Image: ref, Command: words("term 0 -- sleep forever")}), "", "", "TimeoutStartSec=1s")
	u.systemctl("daemon-reload")
	u.systemctl("start", "--no-block", service)
	u.arrived(rule)
	u.becomes(service, "StatusText", "pulling images: 0 of 1 done")
	u.passes(service, 2)
	if got := u.show(service, "ActiveState"); got != "activating" {
		t.Errorf("it is %s\n%s", got, u.journal())
	}
	close(release)
	u.becomes(service, "ActiveState", "active")
}

// passes waits until that many seconds of a service's start have passed.
func (u *units) passes(service string, seconds float64) {
	u.t.Helper()
	start := u.show(service, "ExecMainStartTimestampMonotonic")
	eventually(u.t, fmt.Sprintf("%v seconds of the start of %s", seconds, service), func() bool {
		out, err := os.ReadFile("/proc/uptime")
		began, err2 := strconv.ParseFloat(start, 64)
		var now float64
		_, err3 := fmt.Sscan(string(out), &now)
		return err == nil && err2 == nil && err3 == nil && now > began/1e6+seconds
	})
}

func TestUnitsStartInOrder(t *testing.T) {
	u := newUnits(t)
	u.startInOrder("")
}

// startInOrder starts db and web, which requires it, and looks at when they became
// active. First is the unit file that db requires, if it is not empty.
func (u *units) startInOrder(first string) {
	u.t.Helper()
	order := slices.Clone(u.made)
	before := ""
	if first != "" {
		before = fmt.Sprintf("After=%[1]s\nRequires=%[1]s", first)
	}
	db := u.task("db", u.define(ctr{Name: "db", Command: words("term 0 -- serve 8080"), Health: healthyIf("get http://127.0.0.1:8080/")}), before, "", "")
	web := u.task("web", u.define(ctr{Name: "web", Command: words("term 0 -- sleep forever")}),
		fmt.Sprintf("After=%[1]s-db.task\nRequires=%[1]s-db.task", u.family), "", "")
	u.systemctl("daemon-reload")
	u.systemctl("start", web)
	inOrder(u.t, u.events(), "db RUNNING", "db HEALTHY", "web RUNNING")
	last := 0
	for _, s := range append(order, db, web) {
		if got := u.show(s, "ActiveState"); got != "active" {
			u.t.Errorf("%s is %s", s, got)
		}
		at, _ := strconv.Atoi(u.show(s, "ActiveEnterTimestampMonotonic"))
		if at <= last {
			u.t.Errorf("%s became active at %d, and what it requires at %d", s, at, last)
		}
		last = at
	}
	u.systemctl("stop", db)
	if got := u.show(web, "ActiveState"); got != "inactive" {
		u.t.Errorf("what requires it is %s", got)
	}
	inOrder(u.t, u.events(), "web STOPPED", "db STOPPED")
}

func TestUnitReloads(t *testing.T) {
	u := newUnits(t)
	ref, _ := u.push("app:1", u.freshImage("one"))
	service := u.task("web", u.define(ctr{Name: "app", Image: ref, Command: words("term 0 -- sleep forever")}), "", "", "")
	u.systemctl("daemon-reload")
	u.systemctl("start", service)
	pid, before := u.show(service, "MainPID"), u.inspect(u.name("web"))

	asked := len(u.requests("manifests"))
	u.systemctl("reload", service)
	eventually(t, "a look at the registry", func() bool { return len(u.requests("manifests")) > asked })
	u.becomes(service, "ActiveState", "active")
	if got := u.inspect(u.name("web")); got.ID != before.ID {
		t.Error("nothing had changed, and the task was replaced")
	}

	_, digest := u.push("app:1", u.freshImage("two"))
	u.systemctl("reload", service)
	eventually(t, "the new image\n"+u.journal(), func() bool {
		r := u.podtask("inspect", u.name("web"))
		return r.code == 0 && strings.Contains(r.out, digest) && u.show(service, "ActiveState") == "active"
	})
	if got := u.show(service, "MainPID"); got != pid {
		t.Errorf("process %s became %s", pid, got)
	}
}

func TestUnitThatComesToAnEnd(t *testing.T) {
	u := newUnits(t)
	service := u.task("job", u.define(ctr{Name: "app", Command: words("print done -- exit 0")}), "", "", "Type=oneshot")
	bad := u.task("bad", u.define(ctr{Name: "app", Command: words("exit 7")}), "", "", "Type=oneshot")
	u.systemctl("daemon-reload")
	u.systemctl("start", service)
	if got := u.show(service, "Result"); got != "success" || !strings.Contains(u.journal(), "done") {
		t.Errorf("%s\n%s", got, u.journal())
	}
	if err := exec.Command("systemctl", "--user", "start", bad).Run(); err == nil {
		t.Error("a task that failed starts well")
	}
	if got := u.show(bad, "ExecMainStatus"); got != "7" {
		t.Errorf("its exit status is %s", got)
	}
}

// version is an image of testbox that holds some empty files.
func (u *units) version(name string, files ...string) (digest string) {
	u.t.Helper()
	list := []registrytest.File{{Path: "/testbox", Data: bed.testbox}, {Path: "/version", Data: []byte(name)}}
	for _, f := range files {
		list = append(list, registrytest.File{Path: f})
	}
	img, err := registrytest.Image(v1.Config{Entrypoint: []string{"/testbox"}}, list...)
	if err != nil {
		u.t.Fatal(err)
	}
	_, digest = u.push("app:1", img)
	return digest
}

// updates runs podtask auto-update and returns what it says of the first image.
func (u *units) updates(code int, args ...string) string {
	u.t.Helper()
	var rows []struct{ Updated string }
	r := u.podtask(append([]string{"auto-update", "--format", "json"}, args...)...)
	if r.code != code {
		u.t.Fatalf("auto-update ended with code %d, want %d\n%s%s%s", r.code, code, r.out, r.err, u.journal())
	}
	if err := json.Unmarshal([]byte(r.out), &rows); err != nil || len(rows) != 1 {
		u.t.Fatalf("%v in %s\n%s", err, r.out, u.journal())
	}
	return rows[0].Updated
}

func TestUnitIsUpdatedAndRolledBack(t *testing.T) {
	u := newUnits(t)
	first := u.version("1", "/starts", "/well")
	c := ctr{Name: "app", Image: bed.reg.Ref(u.repository("app:1")), Command: words("term 0 -- exists /starts -- sleep forever"), Health: healthyIf("exists /well")}
	c.Health.Retries = 1
	// Podman 4.3 does not heed --authfile here, and takes a refusal for no news.
	c.More = obj{"dockerLabels": obj{"io.containers.autoupdate.authfile": bed.auth}}
	service := u.task("web", u.define(c), "", "AutoUpdate=registry\nPodtaskArgs=--settle=1s", "")
	u.systemctl("daemon-reload")
	u.systemctl("start", service)
	runs := func(digest string) {
		t.Helper()
		if r := u.want(0, "inspect", u.name("web")); !strings.Contains(r.out, digest) {
			t.Errorf("another image than %s runs:\n%s", digest, r.out)
		}
		if got := u.show(service, "ActiveState"); got != "active" {
			t.Errorf("the service is %s\n%s", got, u.journal())
		}
	}
	runs(first)
	if got := u.updates(0); got != "false" {
		t.Errorf("without news: %s", got)
	}

	second := u.version("2", "/starts", "/well")
	if got := u.updates(0, "--dry-run"); got != "pending" {
		t.Errorf("dry run: %s", got)
	}
	runs(first)
	out := u.podman("auto-update", "--dry-run", "--format", "{{.Unit}} {{.Updated}}")
	if !strings.Contains(out, service+" pending") {
		t.Errorf("podman auto-update says %q", out)
	}
	if got := u.updates(0); got != "true" {
		t.Errorf("a good update: %s", got)
	}
	runs(second)

	for name, files := range map[string][]string{"ends": nil, "is never healthy": {"/starts"}} {
		u.version(name, files...)
		if got := u.updates(1, u.name("web")); got != "rolled back" {
			t.Errorf("an image that %s: %s", name, got)
		}
		runs(second)
		if got := u.updates(0); got != "false" {
			t.Errorf("an image that %s is tried again: %s", name, got)
		}
	}
	u.systemctl("restart", service)
	runs(second)

	third := u.version("3", "/starts", "/well")
	if got := u.updates(0); got != "true" {
		t.Errorf("the update after the bad ones: %s", got)
	}
	runs(third)

	if u.oldPodman() { // its auto-update is not claimed to do more than list them
		return
	}
	fourth := u.version("4", "/starts", "/well")
	out = u.podman("auto-update", "--format", "{{.Unit}} {{.Updated}}")
	if !strings.Contains(out, service+" true") {
		t.Errorf("podman auto-update says %q\n%s", out, u.journal())
	}
	runs(fourth)
}

// The timer of contrib/systemd starts the service beside it, which updates what has news.
func TestUnitIsUpdatedByTheTimer(t *testing.T) {
	u := newUnits(t)
	u.version("1", "/well")
	service := u.task("web", u.define(ctr{Name: "app", Image: bed.reg.Ref(u.repository("app:1")), Command: words("term 0 -- sleep forever"), Health: healthyIf("exists /well")}), "", "AutoUpdate=registry\nPodtaskArgs=--settle=1s", "")
	u.contrib("podtask-auto-update.service", fmt.Sprintf("[Service]\nExecStart=\nExecStart=%s auto-update\nEnvironment=XDG_STATE_HOME=%s REGISTRY_AUTH_FILE=%s\n", bed.podtask, u.stateHome(), bed.auth))
	u.contrib("podtask-auto-update.timer", "[Timer]\nOnCalendar=\nOnActiveSec=0\nRandomizedDelaySec=0\nAccuracySec=1ms\n")
	u.systemctl("daemon-reload")
	u.systemctl("start", service)
	second := u.version("2", "/well")
	u.systemctl("start", "podtask-auto-update.timer")
	defer u.systemctl("stop", "podtask-auto-update.timer", "podtask-auto-update.service")
	eventually(t, "the update\n"+u.journal(), func() bool {
		r := u.podtask("inspect", u.name("web"))
		return strings.Contains(r.out, second) && u.show(service, "ActiveState") == "active" && u.show("podtask-auto-update.service", "ActiveState") == "inactive"
	})
	if got := u.show("podtask-auto-update.service", "Result"); got != "success" {
		t.Errorf("the update's result is %s", got)
	}
}

// contrib installs a unit of contrib/systemd with a drop-in until the test ends.
func (u *units) contrib(name, dropIn string) {
	u.t.Helper()
	home, err := os.UserHomeDir()
	dir := filepath.Join(home, ".config", "systemd", "user")
	text, readErr := os.ReadFile(filepath.Join(filepath.Dir(os.Getenv("PODTASK_EXAMPLES")), "contrib", "systemd", name))
	err = errors.Join(err, readErr, os.MkdirAll(filepath.Join(dir, name+".d"), 0o700), os.WriteFile(filepath.Join(dir, name), text, 0o600),
		os.WriteFile(filepath.Join(dir, name+".d", "test.conf"), []byte(dropIn), 0o600))
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() {
		if err := errors.Join(os.Remove(filepath.Join(dir, name)), os.RemoveAll(filepath.Join(dir, name+".d"))); err != nil {
			u.t.Error(err)
		}
		u.systemctl("daemon-reload")
	})
}

func TestUnitThatDiesSoonAfterAnUpdateIsRolledBack(t *testing.T) {
	u := newUnits(t)
	first := u.version("1")
	c := ctr{Name: "app", Image: bed.reg.Ref(u.repository("app:1")), Command: words("term 0 -- wait /die -- exit 3"), Health: healthyIf("exists /testbox")}
	// Nothing in the test waits for its end.
	service := u.task("web", u.define(c), "", "AutoUpdate=registry\nPodtaskArgs=--settle=1h", "")
	u.systemctl("daemon-reload")
	u.systemctl("start", service) // with nothing to go back to there is no trial

	second := u.version("2")
	update := u.start("auto-update", "--format", "json")
	u.becomes(service, "StatusText", "1 of 1 containers up, healthy; the new images must stay ready for 1h0m0s")
	if got := u.show(service, "ActiveState"); got != "activating" {
		t.Errorf("on trial the service is %s", got)
	}
	if r := u.want(0, "inspect", u.name("web")); !strings.Contains(r.out, second) {
		t.Errorf("another image than %s is on trial:\n%s", second, r.out)
	}
	u.tell(u.name("web"), "app", "/die")
	if r := update.want(1); !strings.Contains(r.out, `"rolled back"`) {
		t.Errorf("auto-update says %s%s", r.out, r.err)
	}
	if r := u.want(0, "inspect", u.name("web")); !strings.Contains(r.out, first) {
		t.Errorf("another image than %s runs:\n%s", first, r.out)
	}
	if got := u.show(service, "ActiveState"); got != "active" {
		t.Errorf("the service is %s\n%s", got, u.journal())
	}
	if log := u.journal(); !strings.Contains(log, "rolling back to the previous images") {
		t.Errorf("the journal does not tell why:\n%s", log)
	}
	if got := u.updates(0); got != "false" {
		t.Errorf("what failed is tried again: %s", got)
	}
}

func TestUnitOfARegisteredDefinition(t *testing.T) {
	u := newUnits(t)
	says := func(word string) string {
		return u.define(ctr{Name: "app", Command: words("term 0 -- env SAYS -- sleep forever"), Environment: []envVar{{"SAYS", word}}})
	}
	u.want(0, "taskdef", "register", says("one"))
	latest := u.task("latest", u.family, "", "", "")
	fixed := u.task("fixed", u.family+":1", "", "", "")
	u.systemctl("daemon-reload")
	u.systemctl("start", latest, fixed)
	u.prints(u.name("latest"), "app", "SAYS=one")

	u.want(0, "taskdef", "register", says("two"))
	before := u.inspect(u.name("fixed")).ID
	u.systemctl("reload", latest, fixed)
	eventually(t, "the second revision\n"+u.journal(), func() bool {
		return strings.Contains(u.journal(), "SAYS=two") && u.show(latest, "ActiveState") == "active" && u.show(fixed, "ActiveState") == "active"
	})
	if got := u.inspect(u.name("fixed")).ID; got != before {
		t.Error("the unit that names revision 1 was replaced")
	}
	u.prints(u.name("latest"), "app", "SAYS=two")
	u.prints(u.name("fixed"), "app", "SAYS=one")
}

func TestUnitHasPodmansSecrets(t *testing.T) {
	u := newUnits(t)
	secret := "pt-unit-" + u.family
	u.podman("secret", "create", secret, u.secretFile("own", marked))
	t.Cleanup(func() { _ = exec.Command("podman", "secret", "rm", secret).Run() })
	service := u.task("web", u.define(ctr{Name: "app", Command: words("term 0 -- sleep forever")}), "",
		fmt.Sprintf("Secret=%[1]s,type=env,target=TOKEN\nSecret=%[1]s\nSecret=%[1]s,target=/etc/token,mode=0440", secret), "")
	u.systemctl("daemon-reload")
	u.systemctl("start", service)
	app := u.inspect(u.name("web")).Containers[0].RuntimeID
	for step, want := range map[string]string{"env TOKEN": "TOKEN=" + marked, "cat /run/secrets/" + secret: marked, "cat /etc/token": marked} {
		if got := u.podman(append([]string{"exec", app, "/testbox"}, words(step)...)...); got != want {
			t.Errorf("%s printed %q", step, got)
		}
	}
	u.checkNotShown(u.name("web"), marked)
	if got := u.journal() + u.systemctl("show", service); strings.Contains(got, marked) {
		t.Error("systemd shows the secret")
	}
	u.systemctl("stop", service)
	if err := exec.Command("podman", "secret", "inspect", secret).Run(); err != nil {
		t.Error("the user's secret was removed")
	}
}

func TestUnitsNetworks(t *testing.T) {
	u := newUnits(t)
	program := "pasta"
	if u.oldPodman() {
		program = "slirp4netns"
	}
	definition := u.define(ctr{Name: "app", Command: words("term 0 -- interfaces -- sleep forever")})
	modes := []string{"none", "host", program}
	for _, mode := range modes {
		u.task(mode, definition, "", "Network="+mode, "")
	}
	u.systemctl("daemon-reload")
	u.systemctl(append([]string{"start"}, u.made...)...)
	for _, mode := range modes {
		if got := u.podman("inspect", "--format", "{{.HostConfig.NetworkMode}}", u.inspect(u.name(mode)).Containers[0].RuntimeID); got != mode {
			t.Errorf("Network=%s makes network %s", mode, got)
		}
	}
	u.prints(u.name("none"), "app", "interfaces lo")
}

// podman.service ends when it is idle, as it is beside containers whose logs no stream follows. The
// stop of a unit then needs another one, which systemd does not start before a unit that is ordered
// after podman.service has stopped.
func TestUnitStopsWithoutPodmanService(t *testing.T) {
	for _, c := range []struct{ rule, name, unit string }{
		{"a unit of today", "now", ""},
		{"a unit that is ordered after the service", "old", "After=podman.service"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			u := newUnits(t)
			service := u.task(c.name, u.define(quiet("db"), quiet("app"), quiet("web")), c.unit, "", "")
			u.systemctl("daemon-reload")
			u.systemctl("start", service)
			first := u.inspect(u.name(c.name)).ID
			u.idle()
			u.systemctl("restart", service)
			if second := u.inspect(u.name(c.name)).ID; second == first {
				t.Error("restart kept the task")
			}
			u.idle()
			u.systemctl("stop", service)
			if state, result := u.show(service, "ActiveState"), u.show(service, "Result"); state != "inactive" || result != "success" {
				t.Errorf("after stop: %s, %s\n%s", state, result, u.journal())
			}
			if r := u.want(0, "ps", "--all", "--quiet"); r.out != "" {
				t.Errorf("tasks after stop: %s", r.out)
			}
		})
	}
}

// quiet is a container that runs until it is stopped, and whose log no stream of Podman follows.
func quiet(name string) ctr {
	return ctr{Name: name, Command: words("term 0 -- sleep forever"), More: obj{"logConfiguration": obj{"logDriver": "json-file"}}}
}

// idle waits until the user's Podman service has ended because it is idle.
func (u *units) idle() {
	u.t.Helper()
	u.becomes("podman.socket", "ActiveState", "active")
	u.becomes("podman.service", "ActiveState", "inactive")
}
