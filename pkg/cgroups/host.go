package cgroups

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Version is a host's cgroup layout.
type Version string

// The layouts. Hybrid is v1 with an empty v2 tree beside it, at
// /sys/fs/cgroup/unified; rootless limits exist on V2 only.
const (
	V2      Version = "v2"
	Hybrid  Version = "hybrid"
	V1      Version = "v1"
	NoGroup Version = "none"
)

// Host is the support of a host for a user's limits.
type Host struct {
	Version Version
	// Controllers are the controllers delegated to the user manager, sorted.
	Controllers []string
	// UserManager: the systemd user manager has its socket.
	UserManager bool
	// Reason is a sentence that says why tasks cannot be limited on this host, with the
	// fix; empty if cpu, memory and pids can all be limited.
	Reason string

	uid     int
	offered []string // the controllers of the whole tree
	weighs  bool     // io.weight exists, which not every kernel with the io controller has
}

// Detect finds out what the host supports for user uid, from files alone. Root is the
// root directory (os.DirFS("/")).
func Detect(root fs.FS, uid int, getenv func(string) string) Host {
	h := Host{Version: version(root), uid: uid}
	if h.Version == V2 {
		h.offered = controllers(root, "")
		h.Controllers = controllers(root, managerPath(uid))
		h.weighs = exists(root, path.Join("sys/fs/cgroup", managerPath(uid), "io.weight"))
	}
	if dir := getenv("XDG_RUNTIME_DIR"); path.IsAbs(dir) {
		h.UserManager = exists(root, path.Join(dir, "systemd/private")[1:])
	}
	h.Reason = h.ReasonFor(Limits{CPU: 1, Memory: 1, TasksMax: 1})
	return h
}

// Missing returns the controllers that l needs and that are not delegated, and io if the
// kernel has no io.weight.
func (h Host) Missing(l Limits) []string {
	missing := without(l.Controllers(), h.Controllers)
	if l.IOWeight > 0 && !h.weighs && slices.Contains(h.Controllers, "io") {
		missing = append(missing, "io")
		slices.Sort(missing)
	}
	return missing
}

// ReasonFor returns a sentence that says why l cannot be applied on this host, with the
// fix; empty if it can.
func (h Host) ReasonFor(l Limits) string {
	missing := h.Missing(l)
	switch {
	case len(missing) == 0 && h.UserManager:
		return ""
	case h.Version == NoGroup:
		return "no cgroups are mounted at /sys/fs/cgroup: mount cgroup2 there"
	case h.Version != V2:
		return "limits require cgroup v2; " + fixFor(h.Version, nil, nil)
	case !h.UserManager:
		return fmt.Sprintf("limits require a systemd user manager, and there is none at XDG_RUNTIME_DIR; "+
			"log in with ssh or 'machinectl shell', or as root run 'loginctl enable-linger %d' and set XDG_RUNTIME_DIR=/run/user/%d", h.uid, h.uid)
	case len(missing) == 1 && missing[0] == "io" && slices.Contains(h.Controllers, "io"):
		return "the io controller is delegated, but this kernel has no io.weight: it needs CONFIG_BLK_CGROUP_IOCOST"
	case len(missing) > 0:
		return fmt.Sprintf("cgroup controllers %s are not delegated to the systemd user manager; %s",
			strings.Join(missing, ", "), fixFor(h.Version, missing, h.offered))
	}
	return ""
}

// controllers returns the controllers of a cgroup in the v2 tree, sorted; none if they
// cannot be read.
func controllers(root fs.FS, group string) []string {
	text, err := fs.ReadFile(root, path.Join("sys/fs/cgroup", group, "cgroup.controllers"))
	if err != nil {
		return nil
	}
	names := strings.Fields(string(text))
	slices.Sort(names)
	return names
}

func version(root fs.FS) Version {
	switch {
	case exists(root, "sys/fs/cgroup/cgroup.controllers"):
		return V2
	case exists(root, "sys/fs/cgroup/unified/cgroup.controllers"):
		return Hybrid
	case exists(root, "sys/fs/cgroup/memory"), exists(root, "sys/fs/cgroup/cpu"), exists(root, "sys/fs/cgroup/pids"):
		return V1
	}
	return NoGroup
}

func exists(root fs.FS, name string) bool {
	_, err := fs.Stat(root, name)
	return err == nil
}

// Room is the CPU and memory that a host has for the tasks of one user.
type Room struct {
	// CPU is in units of 1/1024 vCPU and Memory in bytes; -1 if unknown.
	CPU, Memory int64
	// CPUFrom and MemoryFrom say where the numbers come from.
	CPUFrom, MemoryFrom string
}

// RoomFor finds out how much CPU and memory the tasks of user uid may use: the limits of
// the user's slices (cpu.max, memory.max of cgroup v2), or what the host has. Cpus is the
// number of processors, root the root directory (os.DirFS("/")).
func RoomFor(root fs.FS, uid, cpus int) Room {
	r := Room{CPU: int64(cpus) * 1024, CPUFrom: "this host's processors", Memory: -1, MemoryFrom: "no limit is known"}
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
