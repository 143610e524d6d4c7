package kubenode

import (
	"bufio"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Figures are what a node tells of its host.
type Figures struct {
	CPUs         int64
	Memory, Disk int64 // in bytes
	// MemoryShort, DiskShort and PIDsShort: there is less than the kubelet wants to have
	// left by default (eviction-hard): 100 MiB of memory, a tenth of the disk and a twentieth
	// of its inodes; and of process IDs a twentieth.
	MemoryShort, DiskShort, PIDsShort bool
	Kernel, OS, Machine, Boot         string
}

const (
	leastMemory = 100 << 20
	leastSpace  = 10 // percent
	leastInodes = 5  // percent
	leastPIDs   = 5  // percent
)

// FiguresOf reads the figures of this host. StateDir is a directory of the disk that
// containers use; empty for none.
func FiguresOf(stateDir string) Figures {
	f := Figures{CPUs: int64(runtime.NumCPU()), Machine: line("/etc/machine-id"), Boot: line("/proc/sys/kernel/random/boot_id"), OS: osImage()}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		f.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	memory := numbers("/proc/meminfo")
	f.Memory = memory["MemTotal"] << 10
	f.MemoryShort = memory["MemTotal"] > 0 && memory["MemAvailable"]<<10 < leastMemory
	var fs unix.Statfs_t
	if stateDir != "" && unix.Statfs(stateDir, &fs) == nil {
		f.Disk = int64(fs.Blocks) * fs.Bsize
		f.DiskShort = below(int64(fs.Bavail), int64(fs.Blocks), leastSpace) || below(int64(fs.Ffree), int64(fs.Files), leastInodes)
	}
	f.PIDsShort = pidsShort()
	return f
}

// below reports whether less than so many percent of all are free; not where there is no
// limit.
func below(free, all, percent int64) bool { return all > 0 && free*100 < all*percent }

// pidsShort compares the threads of the host with the limits of the kernel.
func pidsShort() bool {
	most := int64(0)
	for _, file := range []string{"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"} {
		n, err := strconv.ParseInt(line(file), 10, 64)
		if err == nil && (most == 0 || n < most) {
			most = n
		}
	}
	words := strings.Fields(line("/proc/loadavg")) // the fourth is RUNNING/ALL
	if len(words) < 4 {
		return false
	}
	_, all, _ := strings.Cut(words[3], "/")
	n, err := strconv.ParseInt(all, 10, 64)
	return err == nil && below(most-n, most, leastPIDs)
}

// line is the first line of a file; empty where there is none.
func line(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(first)
}

// numbers are those of a file with lines as "Name: 1 kB".
func numbers(file string) map[string]int64 {
	out := make(map[string]int64)
	f, err := os.Open(file)
	if err != nil {
		return out
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		if words := strings.Fields(rest); len(words) > 0 {
			if n, err := strconv.ParseInt(words[0], 10, 64); err == nil {
				out[name] = n
			}
		}
	}
	return out
}

// osImage is the name of the distribution (os-release(5)).
func osImage() string {
	b, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "Linux"
	}
	for l := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(l), "PRETTY_NAME="); ok {
			return strings.Trim(value, `"'`)
		}
	}
	return "Linux"
}
