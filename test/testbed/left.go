package testbed

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// taskLabel is on everything podtask makes in Podman that can have a label.
const taskLabel = "podtask.task-id"

// CheckLeftovers waits until nothing is left, because Podman cleans up behind containers after
// they are gone. The error lists what stays, one thing a line.
func CheckLeftovers() error {
	var found []string
	var err error
	if Until(func() bool { found, err = Leftovers(); return err == nil && len(found) == 0 }) {
		return nil
	}
	if len(found) > 0 {
		err = errors.Join(err, fmt.Errorf("left behind:\n%s", strings.Join(found, "\n")))
	}
	return err
}

// Leftovers lists what is there now: in Podman, in systemd where this user has a manager, in
// the runtime directory, as processes and as mounts.
func Leftovers() (found []string, err error) {
	var errs []error
	for _, look := range []func() ([]string, error){Objects, storage, secrets, Units, sockets, processes, mounts, namespaces, runtimeState} {
		more, err := look()
		found, errs = append(found, more...), append(errs, err)
	}
	return found, errors.Join(errs...)
}

// Objects lists containers, pods, networks and volumes of tasks.
func Objects() ([]string, error) { return Labeled(taskLabel) }

// Labeled lists containers, pods, networks and volumes with a label.
func Labeled(label string) (found []string, err error) {
	filters := "filters=" + url.QueryEscape(fmt.Sprintf(`{"label":[%q]}`, label))
	for _, list := range []struct{ kind, path string }{
		{"container", "containers/json?all=true&" + filters},
		{"pod", "pods/json?" + filters},
		{"network", "networks/json?" + filters},
		{"volume", "volumes/json?" + filters},
	} {
		more, err := listed(list.kind, list.path)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

// Secrets lists the names of all secrets in Podman.
func Secrets() ([]string, error) { return listed("", "secrets/json") }

// secrets have no labels in old Podman; those of tasks have podtask's names.
func secrets() ([]string, error) {
	all, err := Secrets()
	return slices.DeleteFunc(all, func(s string) bool { return !strings.HasPrefix(s, "podtask-") }), err
}

// Units lists slices, scopes and services of podtask. The plain bed has no user manager.
func Units() ([]string, error) {
	if Name() == "plain" {
		return nil, nil
	}
	return output("systemctl", "--user", "list-units", "--all", "--plain", "--no-legend", "podtask*")
}

// PodSlices lists Podman's own slices of pods; those in use have processes. Podman itself
// leaves some when its service is killed.
func PodSlices() ([]string, error) {
	if Name() == "plain" {
		return nil, nil
	}
	return output("systemctl", "--user", "list-units", "--all", "--plain", "--no-legend", "user-libpod_pod_*.slice")
}

// storage lists containers that only Podman's storage knows: what a creation that was cut
// off has left.
func storage() ([]string, error) {
	all, err := output("podman", "ps", "--all", "--external", "--format", "storage {{.ID}} {{.Names}} {{.Status}}")
	return slices.DeleteFunc(all, func(s string) bool { return !strings.HasSuffix(strings.ToLower(s), " storage") }), err
}

// namespaces lists network namespaces that Podman has made for containers.
func namespaces() ([]string, error) {
	found, err := filepath.Glob(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "netns", "netns-*"))
	return found, err
}

// runtimeState lists the containers that the OCI runtime keeps state of.
func runtimeState() (found []string, err error) {
	for _, runtime := range []string{"crun", "runc"} {
		more, err := filepath.Glob(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), runtime, "*"))
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return slices.DeleteFunc(found, func(path string) bool {
		return filepath.Base(path) == "exec.fifo" || strings.HasPrefix(filepath.Base(path), ".")
	}), nil
}

// sockets lists those of owners.
func sockets() ([]string, error) {
	return filepath.Glob(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "podtask", "tasks", "*"))
}

// helpers are the programs that run for a task or a container outside of it. Not counted
// are those that Podman has once for all its networks, and 4.3 sometimes leaves running:
// aardvark-dns, and the link of its namespace, rootlessNetns.
var helpers = []string{"conmon", "pasta", "pasta.avx2", "slirp4netns", "rootlessport", "podtask"}

const rootlessNetns = "rootless-netns"

// processes lists this user's that serve tasks or containers. Those that Podman keeps
// for five minutes after a command of exec are not counted.
func processes() (found []string, err error) {
	all, err := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		info, err := os.Stat(dir)
		if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		args := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
		shared := slices.Contains(args, "--exec-process-spec") || strings.Contains(string(line), rootlessNetns)
		if slices.Contains(helpers, filepath.Base(args[0])) && !shared {
			found = append(found, fmt.Sprintf("process %s: %.200s", filepath.Base(dir), strings.Join(args, " ")))
		}
	}
	return found, err
}

// mounts lists the file systems of containers that are mounted, as Podman's processes
// see them.
func mounts() ([]string, error) {
	all, err := output("podman", "unshare", "cat", "/proc/self/mounts")
	var found []string
	for _, line := range all {
		if _, at, _ := strings.Cut(line, " "); strings.Contains(at, "/overlay-containers/") || strings.Contains(at, "/merged ") {
			found = append(found, "mount "+line)
		}
	}
	return found, err
}

// output runs a program and returns its lines.
func output(name string, args ...string) ([]string, error) {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		var exit *exec.ExitError
		errors.As(err, &exit)
		if exit != nil {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	if len(out) == 0 {
		return nil, nil
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n"), nil
}
