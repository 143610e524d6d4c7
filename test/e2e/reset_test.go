//go:build e2e && bed_plain && nightly

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// ownStore gives a box a Podman store of its own, with nothing of the bed's but its
// configuration. The path is short: Podman makes sockets far below it.
func (b *box) ownStore() (podman func(args ...string) string, runtime string) {
	b.t.Helper()
	dir, err := os.MkdirTemp("/tmp", "ps")
	if err != nil {
		b.t.Fatal(err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "home", ".config", "containers"), os.DirFS(filepath.Join(home, ".config", "containers"))); err != nil {
		b.t.Fatal(err)
	}
	run := filepath.Join(dir, "run")
	if err := os.Mkdir(run, 0o700); err != nil {
		b.t.Fatal(err)
	}
	conf, err := os.ReadFile(os.Getenv("CONTAINERS_STORAGE_CONF"))
	if err != nil {
		b.t.Fatal(err)
	}
	conf = regexp.MustCompile(`(?m)^graphroot = .*$`).ReplaceAll(conf, fmt.Appendf(nil, "graphroot = %q", filepath.Join(dir, "store")))
	conf = regexp.MustCompile(`(?m)^runroot = .*$`).ReplaceAll(conf, fmt.Appendf(nil, "runroot = %q", filepath.Join(run, "containers")))
	storage := filepath.Join(dir, "storage.conf")
	if err := os.WriteFile(storage, conf, 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.env = append(b.env, "HOME="+filepath.Join(dir, "home"), "XDG_RUNTIME_DIR="+run, "CONTAINERS_STORAGE_CONF="+storage)
	podman = func(args ...string) string {
		b.t.Helper()
		cmd := exec.Command("podman", args...)
		cmd.Env = b.env
		out, err := cmd.CombinedOutput()
		if err != nil {
			b.t.Errorf("podman %v: %v %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	b.t.Cleanup(func() {
		b.endServices(run)
		podman("system", "reset", "--force")
		podman("system", "migrate") // ends the process that holds its mounts
		if err := os.RemoveAll(dir); err != nil {
			b.t.Error(err)
		}
	})
	return podman, run
}

// endServices ends the Podman services of the box's own store.
func (b *box) endServices(runtime string) {
	b.t.Helper()
	socket := filepath.Join(runtime, "podtask", "podman.sock")
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, path := range commands {
		line, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(line), "unix://"+socket) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			b.t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			b.t.Error(err)
		}
	}
}

// A user resets Podman under a running task: its containers are gone, and the task says
// so. A service of before the reset may hang in what it is asked (4.3.1); when it has been
// ended, the task can be removed, and the next one pulls its image again. The reset itself
// may fail on 4.3.1, where the task's service is at work: so this is not for every day.
func TestResetOfPodman(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	podman, runtime := b.ownStore()
	id := b.detach(b.define(ctr{Name: "app", Command: words("sleep forever"), StopTimeout: 5}))
	b.want(0, "wait", "--condition", "running", id)
	podman("system", "reset", "--force")
	b.want(0, "wait", id)
	got := b.inspect(id)
	if app := got.Containers[0]; got.codes() == "app" && (len(app.Errors) != 1 || app.Errors[0].Name != "ContainerVanishedError") {
		t.Errorf("%s, %s: %s; %v", got.codes(), got.StopCode, got.StoppedReason, app.Errors)
	}
	b.endServices(runtime)
	b.want(0, "rm", id)
	r := b.want(3, "run", "--rm", b.define(ctr{Name: "app", Command: words("print hello -- exit 3")}))
	if !strings.Contains(r.out, "hello") {
		t.Errorf("it printed %s%s", r.out, r.err)
	}
}
