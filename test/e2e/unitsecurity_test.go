//go:build e2e && bed_systemd

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// exposures maps the services that podtask ships or writes to the numbers of `systemd-analyze security`, systemd 257, in tenths:
// SECURITY.md explains them. They may only fall.
var exposures = map[string]int{
	"podtask.service":             96,
	"podtask-auto-update.service": 96,
	"podtask-ecs.service":         96,
	"podtask-ingress.service":     22,
	"podtask-kubelet.service":     96,
	"podtask-notify.service":      96,

	"podtask-ingress@.service": 16,

	"once-task.service":      96, // a .task unit
	"web-task.service":       96,
	"web-task-proxy.service": 61,
}

// Exposures of services with names of their own: of a schedule, and of a stack that starts at boot.
const (
	scheduleExposure = 96
	stackExposure    = 96
)

// analyzer asks systemd-analyze about units of one manager.
type analyzer struct {
	t       *testing.T
	manager string
}

// verify wants systemd to have nothing to say about unit files. What other units say of themselves does not count.
func (a analyzer) verify(paths ...string) {
	a.t.Helper()
	if len(paths) == 0 {
		a.t.Fatal("no units")
	}
	out, err := exec.Command("systemd-analyze", append([]string{a.manager, "--recursive-errors=no", "verify"}, paths...)...).CombinedOutput()
	if err != nil || len(out) > 0 {
		a.t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

var overall = regexp.MustCompile(`Overall exposure level for (\S+): (\d+)\.(\d) `)

// exposure wants the exposure of a service to be this, in tenths. Other versions of systemd count other settings.
func (a analyzer) exposure(path string, want int) {
	a.t.Helper()
	out, err := exec.Command("systemd-analyze", a.manager, "--offline=true", "--no-pager", "security", path).CombinedOutput()
	found := overall.FindSubmatch(out)
	if err != nil || found == nil {
		a.t.Errorf("systemd-analyze security %s: %v\n%s", path, err, out)
		return
	}
	got, _ := strconv.Atoi(string(found[2]) + string(found[3]))
	version, _ := exec.Command("systemd-analyze", "--version").Output()
	switch {
	case !strings.HasPrefix(string(version), "systemd 257 "):
		a.t.Logf("%s: %d tenths", path, got)
	case got > want:
		a.t.Errorf("%s has an exposure of %d tenths, and had %d: SECURITY.md\n%s", filepath.Base(path), got, want, out)
	case got < want:
		a.t.Errorf("%s has an exposure of %d tenths, better than %d: write that into the test and into SECURITY.md", filepath.Base(path), got, want)
	}
}

// ofMounts are settings for which systemd makes a mount namespace. For a user it needs one of users, which newer versions make unasked.
var ofMounts = regexp.MustCompile(`(?m)^(TemporaryFileSystem|\w+Paths|ProtectSystem|ProtectHome|ProtectKernel\w+|ProtectControlGroups|Private(Tmp|Devices))=`)

// all verifies the units of a directory, and wants the exposures of its services to be those of the table.
func (a analyzer) all(dir string) {
	a.t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.*"))
	if err != nil {
		a.t.Fatal(err)
	}
	var units []string
	for _, path := range paths {
		name := filepath.Base(path)
		if info, err := os.Stat(path); err != nil || info.IsDir() { // of drop-ins or links
			continue
		}
		units = append(units, path)
		if !strings.HasSuffix(name, ".service") || strings.HasPrefix(name, "stand-in") {
			continue
		}
		want, ok := exposures[name]
		if !ok {
			a.t.Errorf("exposures has no %s", name)
			continue
		}
		a.exposure(path, want)
		text, err := os.ReadFile(path)
		if err != nil {
			a.t.Error(err)
		}
		if a.manager == "--user" && ofMounts.Match(text) && !strings.Contains(string(text), "\nPrivateUsers=yes\n") {
			a.t.Errorf("%s has settings of mounts without PrivateUsers=yes: systemd 252 fails to start it, with 226/NAMESPACE", name)
		}
	}
	a.verify(units...)
}

// ownUnits does the same for a service that podtask has written for the user, and units of other types with its name.
func (b *box) ownUnits(name string, exposure int, others ...string) {
	b.t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		b.t.Fatal(err)
	}
	path := filepath.Join(home, ".config", "systemd", "user", name)
	a := analyzer{b.t, "--user"}
	a.exposure(path+".service", exposure)
	for _, kind := range append(others, ".service") {
		a.verify(path + kind)
	}
}

var ownProgram = regexp.MustCompile(`(?m)^(Exec\w+=)podtask[\w-]*`)

// contribCopy copies a directory of contrib, as units that start this podtask. A drop-in for scopes, which are no files, becomes that of a
// stand-in.
func contribCopy(t *testing.T, name string) string {
	t.Helper()
	from, to := filepath.Join(filepath.Dir(os.Getenv("PODTASK_EXAMPLES")), "contrib", name), t.TempDir()
	files, err := filepath.Glob(filepath.Join(from, "*.*"))
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	write := func(path string, text []byte) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		base := filepath.Base(file)
		path := filepath.Join(to, base)
		if scope, ok := strings.CutSuffix(base, "-.scope.d"); ok {
			standIn := "stand-in-" + scope + ".service"
			write(filepath.Join(to, standIn), []byte("[Service]\nExecStart=/bin/true\n"))
			file, path = filepath.Join(file, "podtask.conf"), filepath.Join(to, standIn+".d", "podtask.conf")
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		write(path, ownProgram.ReplaceAll(text, []byte("${1}"+bed.podtask)))
	}
	return to
}

// Systemd has nothing to say against the units that podtask ships, and they are as confined as they were.
func TestUnitSecurity(t *testing.T) {
	t.Parallel()
	analyzer{t, "--user"}.all(contribCopy(t, "systemd"))
	analyzer{t, "--system"}.all(contribCopy(t, "systemd-system"))
}

// The same holds for those that the generator makes of .task files.
func TestGeneratedUnitSecurity(t *testing.T) {
	t.Parallel()
	units, out := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"web.task":  "[Task]\nDefinition=/web.json\nAutoUpdate=registry\nPublishPort=127.0.0.1:18080:80\nListenStream=8080\nSleepAfter=15min\n\n[Service]\nRestart=on-failure\n",
		"once.task": "[Task]\nDefinition=/once.json\nOnCalendar=daily\n\n[Service]\nType=oneshot\n",
	} {
		if err := os.WriteFile(filepath.Join(units, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	generator := exec.Command(filepath.Join(filepath.Dir(bed.podtask), "podtask-user-generator"), "-no-kmsg-log", out)
	generator.Env = append(os.Environ(), "PODTASK_UNIT_DIRS="+units, "PODTASK_PROGRAM="+bed.podtask)
	if said, err := generator.CombinedOutput(); err != nil {
		t.Fatalf("the generator: %v %s", err, said)
	}
	if made, _ := filepath.Glob(filepath.Join(out, "*.*")); len(made) < 5 {
		t.Fatalf("it made %v", made)
	}
	analyzer{t, "--user"}.all(out)
}
