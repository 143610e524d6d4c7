package pressure

import (
	"bufio"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Figures are the measurements of a host that its node reports.
type Figures struct {
	CPUs                      int64
	Memory, Disk              int64 // in bytes
	Levels                    map[Signal]Level
	Kernel, OS, Machine, Boot string
}

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
	f.Levels = map[Signal]Level{MemoryAvailable: memoryLeft(Level{memory["MemAvailable"] << 10, f.Memory}, "/sys/fs/cgroup"), PIDsAvailable: pidsLeft()}
	var fs unix.Statfs_t
	if stateDir != "" && unix.Statfs(stateDir, &fs) == nil {
		f.Disk = int64(fs.Blocks) * fs.Bsize
		f.Levels[DiskAvailable] = Level{int64(fs.Bavail) * fs.Bsize, f.Disk}
		f.Levels[InodesFree] = Level{int64(fs.Ffree), int64(fs.Files)}
	}
	return f
}

// memoryLeft returns the free memory of the host, or of the cgroups of this process and of the user's tasks if they have
// less.
func memoryLeft(host Level, root string) Level {
	_, group, ok := strings.Cut(line("/proc/self/cgroup"), "0::")
	if !ok {
		return host
	}
	for ; group != "/" && group != "."; group = path.Dir(group) {
		in := path.Join(root, group)
		most, err := strconv.ParseInt(line(path.Join(in, "memory.max")), 10, 64)
		if err != nil { // it has no limit
			continue
		}
		used, err := strconv.ParseInt(line(path.Join(in, "memory.current")), 10, 64)
		if err != nil {
			continue
		}
		if left := most - used + numbers(path.Join(in, "memory.stat"))["inactive_file"]; left < host.Left {
			host = Level{max(left, 0), most}
		}
	}
	return host
}

// pidsLeft compares the threads of the host with the limits of the kernel.
func pidsLeft() Level {
	most := int64(0)
	for _, file := range []string{"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"} {
		n, err := strconv.ParseInt(line(file), 10, 64)
		if err == nil && (most == 0 || n < most) {
			most = n
		}
	}
	words := strings.Fields(line("/proc/loadavg")) // the fourth is RUNNING/ALL
	if len(words) < 4 {
		return Level{}
	}
	_, all, _ := strings.Cut(words[3], "/")
	n, err := strconv.ParseInt(all, 10, 64)
	if err != nil {
		return Level{}
	}
	return Level{max(most-n, 0), most}
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

// numbers reads a file with lines such as "Name: 1 kB" or "name 1".
func numbers(file string) map[string]int64 {
	out := make(map[string]int64)
	f, err := os.Open(file)
	if err != nil {
		return out
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 1 {
			if n, err := strconv.ParseInt(words[1], 10, 64); err == nil {
				out[strings.TrimSuffix(words[0], ":")] = n
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
