package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A bed is a rootless Podman with a store of its own in a temporary directory.
type bed struct {
	dir      string
	runtime  string // in place of XDG_RUNTIME_DIR; it has the same last element
	podman   string
	image    string // the name of an image, or a tar file with a root file system
	token    string
	deadline time.Duration // of each command
	ownDisk  bool          // the store is a file system of its own, of 64 MiB
}

const localImage = "localhost/podman-crash:1"

// open makes the directories, and imports or pulls the image.
func (b *bed) open() error {
	for _, dir := range []string{filepath.Join(b.dir, "home"), filepath.Join(b.dir, "tmp"), filepath.Join(b.runtime, "systemd")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	// The user's manager makes cgroups and scopes. Podman shows a tree of /run to netavark that has only this directory
	// of it: links with names would lead nowhere.
	for _, name := range []string{"bus", "systemd/private"} {
		_ = os.Link(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), name), filepath.Join(b.runtime, name))
	}
	kube := strings.NewReplacer("IMAGE", localImage, "TOKEN", b.token).Replace(kubeFile)
	if err := os.WriteFile(filepath.Join(b.dir, "kube.yaml"), []byte(kube), 0o600); err != nil {
		return err
	}
	get := []string{"import " + b.image + " " + localImage}
	if _, err := os.Stat(b.image); err != nil {
		get = []string{"pull -q " + b.image, "tag " + b.image + " " + localImage}
	}
	if b.ownDisk {
		if err := b.mountStore(); err != nil {
			return err
		}
	}
	// The first pod builds the image of its infra container.
	for _, command := range append(get, "pod create --name p --network none", "pod rm -f p") {
		if out, code, err := b.do(command); err != nil || code != 0 {
			return fmt.Errorf("podman %s: %d %v: %s", command, code, err, out)
		}
	}
	return nil
}

// mountStore mounts a file system at the store, in the mount namespace that all commands of the bed share.
func (b *bed) mountStore() error {
	store := filepath.Join(b.dir, "store")
	if err := os.MkdirAll(store, 0o700); err != nil {
		return err
	}
	if out, code, err := b.do("unshare true"); err != nil || code != 0 { // starts the process that keeps the namespaces
		return fmt.Errorf("podman unshare: %d %v: %s", code, err, out)
	}
	out, code, err := b.run(b.deadline, b.inNamespace("mount -t tmpfs -o size=64m,mode=700 podman-crash STORE")...)
	if err != nil || code != 0 {
		return fmt.Errorf("no file system at %s: %d %v: %s", store, code, err, out)
	}
	return nil
}

// faults lists failures of the file system of the store, by name, with their beginning and their end: shell commands in
// the bed's namespaces, where STORE is the store. A file system with files open for writing cannot be made read-only; hence the
// tracer lets calls fail (refuse.go).
var faults = map[string]struct{ do, undo string }{
	"":          {},
	"full":      {"! dd if=/dev/zero of=STORE/full bs=64k 2>/dev/null", "rm -f STORE/full"},
	"read-only": {},
}

// inNamespace returns the words of a shell command in the namespaces that the bed's commands share.
func (b *bed) inNamespace(command string) []string {
	return []string{"nsenter", "--target", strconv.Itoa(b.pausePID()), "--user", "--mount", "--preserve-credentials",
		"sh", "-c", strings.ReplaceAll(command, "STORE", filepath.Join(b.dir, "store"))}
}

// wipe ends what runs from the store and removes it.
func (b *bed) wipe() {
	for _, pid := range processes(filepath.Base(b.dir), b.token) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_, _, _ = b.run(b.deadline, b.podman, "unshare", "rm", "-rf", filepath.Join(b.dir, "store"), filepath.Join(b.dir, "home"))
	if pid := b.pausePID(); pid > 1 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	os.RemoveAll(b.dir)
	os.RemoveAll(b.runtime)
}

// pausePID returns the process that keeps the user namespace, or 0.
func (b *bed) pausePID() int {
	data, _ := os.ReadFile(filepath.Join(b.runtime, "libpod/tmp/pause.pid"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	return pid
}

// args returns the words of a command of Podman in this bed.
func (b *bed) args(command string) []string {
	// Podman 4 takes no more than 50 characters as runroot.
	words := []string{b.podman, "--root", filepath.Join(b.dir, "store"), "--runroot", filepath.Join(b.runtime, "c")}
	for _, word := range split(command) {
		words = append(words, b.fill(word))
	}
	return words
}

// fill puts in what the words in capitals of a command stand for.
func (b *bed) fill(command string) string {
	return strings.NewReplacer("IMAGE", localImage, "TOKEN", b.token, "KUBE", filepath.Join(b.dir, "kube.yaml"),
		"SOCKET", filepath.Join(b.runtime, "s")).Replace(command)
}

// do runs a command of Podman; the error is errDeadline if it does not end in time.
func (b *bed) do(command string) (out string, code int, err error) {
	return b.run(b.deadline, b.args(command)...)
}

// run runs a command in the bed's environment. What the command leaves keeps its output open, so that goes to a file.
func (b *bed) run(deadline time.Duration, command ...string) (string, int, error) {
	file, err := os.CreateTemp(filepath.Join(b.dir, "tmp"), "out")
	if err != nil {
		return "", 0, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.dir, file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = append(os.Environ(), "HOME="+filepath.Join(b.dir, "home"), "XDG_RUNTIME_DIR="+b.runtime,
		"XDG_DATA_HOME=", "XDG_CONFIG_HOME=", "TMPDIR="+filepath.Join(b.dir, "tmp"))
	if err := cmd.Start(); err != nil {
		return "", 0, err
	}
	timer := time.AfterFunc(deadline, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	_ = cmd.Wait() // its state has the exit code
	if !timer.Stop() {
		err = errDeadline
	}
	data, _ := os.ReadFile(file.Name())
	return string(bytes.TrimSpace(data)), cmd.ProcessState.ExitCode(), err
}

// processes returns the processes whose command line has one of the words in it, without this one and its tracers.
func processes(words ...string) []int {
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		data, _ := os.ReadFile(file)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if pid == os.Getpid() {
			continue
		}
		for _, word := range words {
			if bytes.Contains(data, []byte(word)) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// payloads counts the processes that containers run.
func (b *bed) payloads() int { return len(processes("sleep\x00" + b.token)) }

// left returns mounts, network namespaces and processes of containers.
func (b *bed) left() []string {
	var out []string
	for _, pid := range processes(filepath.Base(b.dir), b.token) {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		words := strings.SplitN(string(data), "\x00", 2)
		out = append(out, "process of "+filepath.Base(words[0]))
	}
	mounts, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", b.pausePID()))
	out = append(out, leftMounts(string(mounts), b.dir)...)
	spaces, _ := filepath.Glob(filepath.Join(b.runtime, "netns/netns-*"))
	for range spaces {
		out = append(out, "network namespace")
	}
	return out
}

// leftMounts returns the mounts of containers below a directory, from a file mountinfo.
func leftMounts(mountinfo, dir string) []string {
	var out []string
	for _, line := range strings.Split(mountinfo, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 5 || !strings.HasPrefix(fields[4], dir+"/") {
			continue
		}
		for _, end := range []string{"/merged", "/shm"} {
			if strings.HasSuffix(fields[4], end) {
				out = append(out, "mount at "+end[1:])
			}
		}
	}
	return out
}
