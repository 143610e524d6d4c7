package leftover

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// process is a process of this user.
type process struct {
	pid, parent int
	args        []string
}

// flag returns the value of a flag on the command line.
func (p process) flag(name string) string {
	if i := slices.Index(p.args, name); i >= 0 && i+1 < len(p.args) {
		return p.args[i+1]
	}
	return ""
}

// processes lists those of this user, as root of a user namespace among them.
func processes() (all []process, err error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || len(line) == 0 {
			continue // it has ended, or has no command line
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		all = append(all, process{pid: pid, parent: parentOf(dir), args: strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")})
	}
	return all, nil
}

// parentOf reads a process's parent; 0 if it has ended.
func parentOf(dir string) int {
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may contain anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	return parent
}

// monitors returns the monitors of a task's containers that Podman does not know.
func monitors(all []process, task string, known map[string]bool) (found []process) {
	for _, p := range all {
		id := p.flag("-c")
		if filepath.Base(p.args[0]) == "conmon" && ofTask(p.flag("-n"), task) && id != "" && id == filepath.Base(id) && !known[id] {
			found = append(found, p)
		}
	}
	return found
}

// removeMonitors ends monitors of containers, with all that they have started, and removes what the
// OCI runtime keeps of these.
func (r *Remover) removeMonitors(monitors, all []process, collect func(string, error)) {
	for _, p := range monitors {
		name, id := p.flag("-n"), p.flag("-c")
		var errs []error
		for _, child := range all {
			if child.parent == p.pid {
				errs = append(errs, kill(child.pid, syscall.SIGKILL))
			}
		}
		errs = append(errs, kill(p.pid, syscall.SIGKILL))
		if r.RunDir != "" {
			for _, runtime := range []string{"crun", "runc"} {
				errs = append(errs, os.RemoveAll(filepath.Join(r.RunDir, runtime, id)))
			}
		}
		collect("monitor of container "+name, errors.Join(errs...))
	}
}

// removeNamespaces removes network namespaces, and ends the programs that serve them.
func removeNamespaces(paths []string, all []process, collect func(string, error)) {
	for _, path := range paths {
		// Podman has mounted the namespace in a mount namespace of its own. Removing the
		// file unmounts it there.
		errs := []error{ignoreMissing(os.Remove(path))}
		for _, p := range all {
			if slices.Contains(p.args, path) && slices.Contains(servers, filepath.Base(p.args[0])) {
				errs = append(errs, kill(p.pid, syscall.SIGTERM))
			}
		}
		collect("network namespace "+filepath.Base(path), errors.Join(errs...))
	}
}

// servers are the programs that connect a network namespace.
var servers = []string{"pasta", "pasta.avx2", "slirp4netns"}

// kill sends a signal; a process that has ended is no error.
func kill(pid int, signal syscall.Signal) error {
	if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
