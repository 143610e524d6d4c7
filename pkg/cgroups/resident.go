package cgroups

import (
	"bufio"
	"bytes"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Resident returns the memory in bytes that the processes of each of Podman's containers have for
// themselves (RssAnon of /proc/PID/status), by the containers' ids. It is an estimate for hosts
// that do not count memory in cgroups: pages that processes share since a fork count once for
// each, and shared memory and files in tmpfs do not count. It costs one small file for each
// process of the host, and one more for each in a container.
func Resident(root fs.FS) map[string]uint64 {
	found := make(map[string]uint64)
	all, err := fs.ReadDir(root, "proc")
	if err != nil {
		return found
	}
	for _, entry := range all {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		dir := path.Join("proc", entry.Name())
		text, err := fs.ReadFile(root, path.Join(dir, "cgroup"))
		if err != nil {
			continue // it ended just now
		}
		if id, ok := containerAround(text); ok {
			found[id] += anonymous(root, dir)
		}
	}
	return found
}

// Place is the cgroup in which a container runs.
type Place struct {
	// PID is one of its processes, Group its cgroup below the root of the cgroup v2 tree.
	PID   int
	Group string
}

// Places returns where containers run, by their ids. It costs one small file for each process of
// the host.
func Places(root fs.FS) map[string]Place {
	found := make(map[string]Place)
	all, err := fs.ReadDir(root, "proc")
	if err != nil {
		return found
	}
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		text, err := fs.ReadFile(root, path.Join("proc", entry.Name(), "cgroup"))
		if err != nil {
			continue // it ended just now
		}
		id, ok := containerAround(text)
		if !ok {
			continue
		}
		if group, ok := groupOf(text, id); ok && found[id].PID == 0 {
			found[id] = Place{pid, group}
		}
	}
	return found
}

// groupOf is the cgroup of a container, from the /proc/PID/cgroup of a process in it.
func groupOf(text []byte, id string) (group string, ok bool) {
	for line := range strings.Lines(string(text)) {
		all, unified := strings.CutPrefix(strings.TrimSpace(line), "0::/")
		if !unified {
			continue
		}
		names := strings.Split(all, "/")
		for i, name := range names {
			if strings.Contains(name, id) {
				return path.Join(names[:i+1]...), true
			}
		}
	}
	return "", false
}

// containerAround is the container of a process, from its /proc/PID/cgroup.
func containerAround(text []byte) (id string, ok bool) {
	for line := range strings.Lines(string(text)) {
		group, unified := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !unified {
			continue
		}
		for name := range strings.SplitSeq(group, "/") {
			// Without systemd's cgroup manager it is no scope.
			if id, ok := containerOf(strings.TrimSuffix(name, ".scope") + ".scope"); ok {
				return id, true
			}
		}
	}
	return "", false
}

// anonymous is RssAnon of a process; 0 of one that has ended.
func anonymous(root fs.FS, dir string) uint64 {
	text, err := fs.ReadFile(root, path.Join(dir, "status"))
	if err != nil {
		return 0
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "RssAnon:"); ok {
			kib, _ := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			return kib * 1024
		}
	}
	return 0
}
