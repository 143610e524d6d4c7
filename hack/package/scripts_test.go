package main

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// fakeProcess is a process in a directory like /proc.
type fakeProcess struct{ exe, cgroup, cmdline string }

// runScript runs a script of a package with such a directory, and returns what it prints.
func runScript(t *testing.T, part, name string, processes []fakeProcess, args ...string) string {
	t.Helper()
	proc := t.TempDir()
	for i, p := range processes {
		dir := filepath.Join(proc, strconv.Itoa(100+i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(p.exe, filepath.Join(dir, "exe")); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"cgroup": p.cgroup, "cmdline": strings.ReplaceAll(p.cmdline, " ", "\x00")} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Without the line that reloads the managers of users of this machine.
	text := strings.ReplaceAll(scripts(part)[name], "proc=/proc\n", "proc="+proc+"\n")
	text = strings.ReplaceAll(text, "/run/systemd/system", proc+"/none")
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	if shellcheck, err := exec.LookPath("shellcheck"); err == nil {
		if out, err := exec.Command(shellcheck, file).CombinedOutput(); err != nil {
			t.Errorf("%s of %s: %v\n%s", name, part, err, out)
		}
	}
	out, err := exec.Command("sh", append([]string{file}, args...)...).CombinedOutput()
	if err != nil {
		t.Errorf("%s of %s: %v\n%s", name, part, err, out)
	}
	return string(out)
}

const ofUser = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/"

var someProcesses = []fakeProcess{
	{exe: "/usr/bin/podtask (deleted)", cgroup: "1:name=systemd:/\n" + ofUser + "podtask.service\n"},
	{exe: "/usr/bin/podtask.dpkg-tmp (deleted)", cgroup: ofUser + "shop-task.service\n"},
	{exe: "/usr/bin/podtask (deleted)", cgroup: ofUser + "podtask-owner-0123456789abcdef0123456789abcdef.service\n"},
	{exe: "/usr/bin/podtask (deleted)", cgroup: "0::/user.slice/user-1000.slice/session-1.scope\n"},
	{exe: "/usr/bin/podtask (deleted)", cgroup: ofUser + "\x1b[2J$(id) *.service\n"},
	{exe: "/usr/bin/podtask-ingress (deleted)", cgroup: ofUser + "podtask-ingress.service\n"},
	{exe: "/usr/bin/podtask-ingress (deleted)", cgroup: "0::/system.slice/podtask-ingress@me.service\n"},
	{exe: "/usr/bin/podtask-kubelet (deleted)", cgroup: ofUser + "podtask-kubelet.service\n"},
	{exe: "/opt/me/x\nl r \x1b[2Jmallory g 0 d /proc/1/exe -> /usr/bin/podtask (deleted)", cgroup: ofUser + "mallory.service\n"},
	{exe: "/usr/bin/podtask", cgroup: ofUser + "new.service\n"},
	{exe: "/opt/me/bin/podtask (deleted)", cgroup: ofUser + "mine.service\n"},
	{exe: "/usr/bin/conmon", cmdline: "/usr/bin/conmon -c 1 -n podtask-shop-0ea735f4b0d3-web --exit-dir x"},
	{exe: "/usr/bin/conmon", cmdline: "/usr/bin/conmon -c 1 -n 0ea735f4b0d3-infra --exit-dir x"},
	{exe: "/usr/bin/conmon", cmdline: "/usr/bin/conmon -c 1 -n other --exit-dir x"},
}

func me(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return u.Username
}

// After an upgrade the package says what still runs the old program, with the commands that restart it.
func TestPackageSaysWhatToRestart(t *testing.T) {
	t.Parallel()
	me := me(t)
	want := `podtask: an upgrade restarts nothing. These still run the program of before:
  ` + me + `: systemctl --user reload podtask-ingress.service
  ` + me + `: systemctl --user restart podtask.service
  ` + me + `: systemctl --user restart shop-task.service   (it restarts the task too; there is no hurry)
  root: systemctl restart podtask-ingress@me.service   (it runs as ` + me + `)
  ` + me + `: 3 processes that run a task or a command each, and end with it
Containers continue meanwhile. 'podtask version' shows the version of your agent.
`
	if got := runScript(t, "podtask", "postinst", someProcesses, "configure", "0.0.1"); got != want {
		t.Errorf("it says\n%s\nwant\n%s", got, want)
	}
	if got := runScript(t, "podtask-kubelet", "postinst", someProcesses, "configure", "0.0.1"); !strings.Contains(got, me+": systemctl --user restart podtask-kubelet.service\n") || strings.Contains(got, "podtask.service") {
		t.Errorf("podtask-kubelet says\n%s", got)
	}
	if got := runScript(t, "podtask", "postinst", someProcesses[8:], "configure", "0.0.1"); got != "" {
		t.Errorf("without an old program it says\n%s", got)
	}
	if got := runScript(t, "podtask", "postrm", someProcesses, "remove"); got != "" {
		t.Errorf("after the removal it says\n%s", got)
	}
}

// Before a removal the package says what continues, and how to end it; an upgrade is no removal.
func TestPackageSaysWhatRemains(t *testing.T) {
	t.Parallel()
	me := me(t)
	for _, arg := range []string{"remove", "0"} {
		got := runScript(t, "podtask", "prerm", someProcesses, arg)
		for _, want := range []string{
			"podtask: a removal stops nothing. These continue:\n",
			"  " + me + ": podtask-ingress@me.service, new.service, podtask-ingress.service, podtask.service, shop-task.service, 3 other processes, 1 container\n",
			"  podtask stop --all && systemctl --user disable --now podtask.socket podtask.service\n",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
	}
	if got := runScript(t, "podtask", "prerm", someProcesses, "upgrade", "0.0.2"); got != "" {
		t.Errorf("before an upgrade it says\n%s", got)
	}
	if got := runScript(t, "podtask", "prerm", nil, "remove"); got != "" {
		t.Errorf("where nothing runs it says\n%s", got)
	}
	if got := runScript(t, "podtask-kubelet", "prerm", someProcesses, "remove"); !strings.Contains(got, "systemctl --user disable --now podtask-kubelet.service\n") {
		t.Errorf("podtask-kubelet says\n%s", got)
	}
}
