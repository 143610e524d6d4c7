package cgroups

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Usage is the use of resources of the processes of a cgroup (v2) and of those below it
// since it was made. A nil pointer means that the host does not say: the
// controller is not delegated, or the kernel has no such file.
type Usage struct {
	// CPUUsec is the time on CPUs in microseconds, which every cgroup counts.
	CPUUsec uint64 `json:"cpuUsec"`
	// Throttling is the effect of the CPU limit.
	Throttling *Throttling `json:"throttling,omitempty"`
	Memory     *Memory     `json:"memory,omitempty"`
	PIDs       *PIDs       `json:"pids,omitempty"`
	IO         *IO         `json:"io,omitempty"`
	// Pressure is the time lost by waiting for something that was scarce (PSI).
	Pressure *Pressure `json:"pressure,omitempty"`
}

// Throttling is from cpu.stat.
type Throttling struct {
	// Periods is the number of those that were counted, Throttled in how many the limit was
	// reached, Usec for how long processes were held back.
	Periods   uint64 `json:"periods"`
	Throttled uint64 `json:"throttled"`
	Usec      uint64 `json:"usec"`
	// Limit is cpu.max in ECS CPU units, 1024 for one CPU; 0 means none.
	Limit uint64 `json:"limit,omitempty"`
}

// Memory is from the memory.* files, in bytes.
type Memory struct {
	// Current is all that is charged; InactiveFile is the part of it that is a
	// cache and would go first; Used is the rest.
	Current      uint64 `json:"current"`
	InactiveFile uint64 `json:"inactiveFile"`
	Used         uint64 `json:"used"`
	// Peak is the most that Current ever was; 0 before Linux 5.19.
	Peak uint64 `json:"peak,omitempty"`
	// Limit is memory.max; 0 means none.
	Limit uint64 `json:"limit,omitempty"`
	Swap  uint64 `json:"swap"`
	// Kills counts processes killed for memory, whatever limit was reached. Full
	// counts how often it was the limit of this very cgroup.
	Kills uint64 `json:"kills"`
	Full  uint64 `json:"full"`
}

// PIDs counts processes and threads.
type PIDs struct {
	Current uint64 `json:"current"`
	// Peak is 0 before Linux 6.6. Limit is pids.max; 0 means none.
	Peak  uint64 `json:"peak,omitempty"`
	Limit uint64 `json:"limit,omitempty"`
	// Refused counts the forks that the limit has stopped.
	Refused uint64 `json:"refused"`
}

// IO counts the bytes that were read from and written to disks.
type IO struct {
	Read    uint64 `json:"read"`
	Written uint64 `json:"written"`
}

// Pressure is the content of the *.pressure files.
type Pressure struct {
	CPU    Stall `json:"cpu"`
	Memory Stall `json:"memory"`
	IO     Stall `json:"io"`
}

// Stall is the share of the last ten seconds, in percent, in which some or all
// (full) processes waited, and the time in which some did, in microseconds.
type Stall struct {
	Some     float64 `json:"some"`
	Full     float64 `json:"full"`
	SomeUsec uint64  `json:"someUsec"`
}

// ReadUsage reads the usage of a cgroup, whose path below the root of the cgroup
// v2 tree is group, from the files of root (os.DirFS("/")). A cgroup that does
// not exist is fs.ErrNotExist.
func ReadUsage(root fs.FS, group string) (Usage, error) {
	r := reader{root: root, dir: path.Join("sys/fs/cgroup", group)}
	cpu := r.table("cpu.stat")
	if cpu == nil {
		return Usage{}, fmt.Errorf("read the usage of %s: %w", group, r.missing("cpu.stat"))
	}
	u := Usage{CPUUsec: cpu["usage_usec"]}
	if _, there := cpu["nr_periods"]; there {
		u.Throttling = &Throttling{Periods: cpu["nr_periods"], Throttled: cpu["nr_throttled"], Usec: cpu["throttled_usec"]}
		if units, limited := cpuMax(root, group); limited {
			u.Throttling.Limit = uint64(units)
		}
	}
	u.Memory, u.PIDs, u.IO, u.Pressure = r.memory(), r.pids(), r.io(), r.pressure()
	return u, r.err
}

// innerGroup is the cgroup within a container's scope on which Debian 12's crun puts the limits of
// the container.
const innerGroup = "container"

// ReadContainer is ReadUsage for a container's scope. If there is a cgroup of the container's own
// within, the tighter limits count.
func ReadContainer(root fs.FS, scope string) (Usage, error) {
	u, err := ReadUsage(root, scope)
	inner := reader{root: root, dir: path.Join("sys/fs/cgroup", scope, innerGroup)}
	if u.Memory != nil {
		u.Memory.Limit = inner.tighten(u.Memory.Limit, "memory.max")
	}
	if u.PIDs != nil {
		u.PIDs.Limit = inner.tighten(u.PIDs.Limit, "pids.max")
	}
	return u, err
}

// tighten is the smaller of a limit and that in a file; 0 means none.
func (r *reader) tighten(limit uint64, file string) uint64 {
	if own, _ := r.number(file); own > 0 && (limit == 0 || own < limit) {
		return own
	}
	return limit
}

// reader reads the files of one cgroup. It keeps the first error but that of a
// file which is not there.
type reader struct {
	root fs.FS
	dir  string
	err  error
}

// text is the file's content; ok is false where there is none.
func (r *reader) text(file string) (text []byte, ok bool) {
	text, err := fs.ReadFile(r.root, path.Join(r.dir, file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !gone(err) && r.err == nil {
		r.err = fmt.Errorf("read %s: %w", file, err)
	}
	return text, err == nil
}

func (r *reader) missing(file string) error {
	if r.err != nil {
		return r.err
	}
	return &fs.PathError{Op: "open", Path: path.Join("/", r.dir, file), Err: fs.ErrNotExist}
}

// number is the file's one number; 0 for "max" and where there is none.
func (r *reader) number(file string) (n uint64, ok bool) {
	text, ok := r.text(file)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// table is a file with a name and a number on each line; nil where there is none.
func (r *reader) table(file string) map[string]uint64 {
	text, ok := r.text(file)
	if !ok {
		return nil
	}
	return parseTable(text)
}

func (r *reader) memory() *Memory {
	current, ok := r.number("memory.current")
	if !ok {
		return nil
	}
	m := &Memory{Current: current, InactiveFile: r.table("memory.stat")["inactive_file"]}
	m.Used = current - min(current, m.InactiveFile)
	m.Peak, _ = r.number("memory.peak")
	m.Limit, _ = r.number("memory.max")
	m.Swap, _ = r.number("memory.swap.current")
	m.Kills = r.table("memory.events")["oom_kill"]
	m.Full = r.table("memory.events.local")["oom"]
	return m
}

func (r *reader) pids() *PIDs {
	current, ok := r.number("pids.current")
	if !ok {
		return nil
	}
	p := &PIDs{Current: current, Refused: r.table("pids.events")["max"]}
	p.Peak, _ = r.number("pids.peak")
	p.Limit, _ = r.number("pids.max")
	return p
}

func (r *reader) io() *IO {
	text, ok := r.text("io.stat")
	if !ok {
		return nil
	}
	read, written := parseIO(text)
	return &IO{Read: read, Written: written}
}

func (r *reader) pressure() *Pressure {
	cpu, ok := r.text("cpu.pressure")
	if !ok {
		return nil
	}
	memory, _ := r.text("memory.pressure")
	io, _ := r.text("io.pressure")
	return &Pressure{CPU: parseStall(cpu), Memory: parseStall(memory), IO: parseStall(io)}
}

// parseTable reads lines of a name and a number. Others are left out.
func parseTable(text []byte) map[string]uint64 {
	table := make(map[string]uint64)
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		name, number, _ := strings.Cut(lines.Text(), " ")
		if n, err := strconv.ParseUint(number, 10, 64); err == nil {
			table[name] = n
		}
	}
	return table
}

// parseIO adds up the lines of io.stat, which are of one disk each:
// "8:0 rbytes=1 wbytes=2 rios=3 ...".
func parseIO(text []byte) (read, written uint64) {
	for _, field := range strings.Fields(string(text)) {
		name, number, _ := strings.Cut(field, "=")
		n, err := strconv.ParseUint(number, 10, 64)
		switch {
		case err != nil:
		case name == "rbytes":
			read += n
		case name == "wbytes":
			written += n
		}
	}
	return read, written
}

// parseStall reads lines like "some avg10=0.00 avg60=0.00 avg300=0.00 total=0".
func parseStall(text []byte) (s Stall) {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 {
			continue
		}
		for _, field := range fields[1:] {
			name, number, _ := strings.Cut(field, "=")
			share, errShare := strconv.ParseFloat(number, 64)
			total, errTotal := strconv.ParseUint(number, 10, 64)
			switch {
			case name == "avg10" && errShare == nil && share >= 0 && share <= 100 && fields[0] == "some":
				s.Some = share
			case name == "avg10" && errShare == nil && share >= 0 && share <= 100 && fields[0] == "full":
				s.Full = share
			case name == "total" && errTotal == nil && fields[0] == "some":
				s.SomeUsec = total
			}
		}
	}
	return s
}

// Scopes returns where the cgroups of Podman's containers lie below a group, by
// the containers' ids. A group that is not there has none.
func Scopes(root fs.FS, group string) map[string]string {
	found := make(map[string]string)
	tree := path.Join("sys/fs/cgroup", group)
	_ = fs.WalkDir(root, tree, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil: // it went away meanwhile
			return fs.SkipDir
		case !d.IsDir():
			return nil
		}
		if id, ok := containerOf(path.Base(name)); ok {
			found[id] = strings.TrimPrefix(name, "sys/fs/cgroup/")
			return fs.SkipDir
		}
		return nil
	})
	return found
}

// containerOf is the container whose scope has that name.
func containerOf(scope string) (id string, ok bool) {
	id, isScope := strings.CutSuffix(scope, ".scope")
	id, isPodman := strings.CutPrefix(id, "libpod-")
	return id, isScope && isPodman && len(id) == 64 && strings.Trim(id, "0123456789abcdef") == ""
}

// ScopeName is the unit of a container that Podman runs.
func ScopeName(containerID string) string { return "libpod-" + containerID + ".scope" }

// Process returns a process of a cgroup or of those below it; 0 if there is none.
func Process(root fs.FS, group string) int {
	if all := Processes(root, group); len(all) > 0 {
		return all[0]
	}
	return 0
}

// Processes returns the processes of a cgroup and of those below it.
func Processes(root fs.FS, group string) (all []int) {
	_ = fs.WalkDir(root, path.Join("sys/fs/cgroup", group), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir
		}
		if path.Base(name) != "cgroup.procs" {
			return nil
		}
		text, _ := fs.ReadFile(root, name)
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 { // 0: of another PID namespace
				all = append(all, pid)
			}
		}
		return nil
	})
	return all
}
