package cgroups

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Room is what a host has for the tasks of one user.
type Room struct {
	// CPU is in units of which a vCPU has 1024, Memory in bytes; -1 where it cannot
	// be told.
	CPU, Memory int64
	// CPUFrom and MemoryFrom say whose numbers they are.
	CPUFrom, MemoryFrom string
}

// RoomFor finds out how much cpu and memory the tasks of user uid may take: the
// limits of the user's slices (cpu.max, memory.max of cgroup v2), else what the
// host has. Cpus is the number of processors, root the root directory
// (os.DirFS("/")).
func RoomFor(root fs.FS, uid, cpus int) Room {
	r := Room{CPU: int64(cpus) * 1024, CPUFrom: "this host's processors", Memory: -1, MemoryFrom: "no bound is known"}
	if bytes, ok := memTotal(root); ok {
		r.Memory, r.MemoryFrom = bytes, "this host's memory"
	}
	slice := fmt.Sprintf("user-%d.slice", uid)
	for _, group := range []string{"user.slice", "user.slice/" + slice, "user.slice/" + slice + fmt.Sprintf("/user@%d.service", uid)} {
		if units, ok := cpuMax(root, group); ok && units < r.CPU {
			r.CPU, r.CPUFrom = units, "the limit of "+path.Base(group)
		}
		if bytes, ok := readNumber(root, group, "memory.max"); ok && (r.Memory < 0 || bytes < r.Memory) {
			r.Memory, r.MemoryFrom = bytes, "the limit of "+path.Base(group)
		}
	}
	return r
}

// memTotal reads /proc/meminfo.
func memTotal(root fs.FS) (bytes int64, ok bool) {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
			kb, err := strconv.ParseInt(f[1], 10, 64)
			return kb << 10, err == nil && kb > 0
		}
	}
	return 0, false
}

// cpuMax reads "QUOTA PERIOD" of a group; "max" is no limit.
func cpuMax(root fs.FS, group string) (units int64, ok bool) {
	text, err := fs.ReadFile(root, path.Join("sys/fs/cgroup", group, "cpu.max"))
	if err != nil {
		return 0, false
	}
	f := strings.Fields(string(text))
	if len(f) != 2 {
		return 0, false
	}
	quota, err1 := strconv.ParseInt(f[0], 10, 64)
	period, err2 := strconv.ParseInt(f[1], 10, 64)
	if err1 != nil || err2 != nil || quota <= 0 || period <= 0 {
		return 0, false
	}
	return quota * 1024 / period, true
}

// readNumber reads a file that holds a number or "max".
func readNumber(root fs.FS, group, file string) (n int64, ok bool) {
	text, err := fs.ReadFile(root, path.Join("sys/fs/cgroup", group, file))
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}
