package cgroups

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Wanted returns the required content of the files of the slice's cgroup (v2) for l, by
// file name. It is empty for no limits.
func Wanted(l Limits) map[string]string {
	want := make(map[string]string)
	if l.CPU > 0 {
		period := uint64(l.cpuPeriod().Microseconds())
		want["cpu.max"] = fmt.Sprintf("%d %d", l.cpuPerSecUSec()*period/usecPerSec, period)
	}
	if l.CPUWeight > 0 {
		want["cpu.weight"] = strconv.FormatUint(l.CPUWeight, 10)
	}
	for file, bytes := range map[string]int64{"memory.max": l.Memory, "memory.high": l.MemoryHigh, "memory.low": l.MemoryLow} {
		if bytes > 0 {
			want[file] = strconv.FormatInt(bytes, 10)
		}
	}
	if l.SwapMax != 0 {
		want["memory.swap.max"] = strconv.FormatInt(max(0, l.SwapMax), 10)
	}
	if l.TasksMax > 0 {
		want["pids.max"] = strconv.FormatUint(l.TasksMax, 10)
	}
	if l.IOWeight > 0 {
		want["io.weight"] = "default " + strconv.FormatUint(l.IOWeight, 10)
	}
	return want
}

// Mismatch is one file without the required content.
type Mismatch struct {
	File string
	Want string
	Got  string // empty: the file does not exist
}

// Controller returns the cgroup controller the file belongs to.
func (m Mismatch) Controller() string {
	name, _, _ := strings.Cut(m.File, ".")
	return name
}

// maxPage is the largest page size of Linux in bytes. Memory limits are rounded down by
// less than that.
const maxPage = 64 << 10

// Compare returns the files of Wanted(l) whose content in got differs, sorted by name. A
// file missing in got is a mismatch, except memory.swap.max: a kernel without swap
// accounting has none.
func Compare(l Limits, got map[string]string) []Mismatch {
	want := Wanted(l)
	var bad []Mismatch
	for _, file := range slices.Sorted(maps.Keys(want)) {
		have, exists := got[file]
		have = strings.TrimSpace(have)
		if !exists && file == "memory.swap.max" {
			continue
		}
		if !exists || !fulfills(file, want[file], have) {
			bad = append(bad, Mismatch{File: file, Want: want[file], Got: have})
		}
	}
	return bad
}

func fulfills(file, want, have string) bool {
	if want == have {
		return true
	}
	if file == "io.weight" { // single disks may have their own weights, in further lines
		first, _, _ := strings.Cut(have, "\n")
		return first == want
	}
	if !strings.HasPrefix(file, "memory.") {
		return false
	}
	w, errWant := strconv.ParseInt(want, 10, 64)
	h, errHave := strconv.ParseInt(have, 10, 64)
	return errWant == nil && errHave == nil && h <= w && w-h < maxPage
}

// CheckContainer returns the hard CPU and memory limits of l that the container with that
// scope does not have, sorted by file. Weights depend on the OCI runtime and are not
// checked.
func CheckContainer(root fs.FS, scope string, l Limits) []Mismatch {
	l = Limits{CPU: l.CPU, Memory: l.Memory}
	got := make(map[string]string)
	for file := range Wanted(l) {
		for _, dir := range []string{scope, path.Join(scope, innerGroup)} {
			text, err := fs.ReadFile(root, path.Join("sys/fs/cgroup", dir, file))
			if have := string(text); err == nil && !strings.HasPrefix(have, "max") || got[file] == "" {
				got[file] = have
			}
		}
	}
	return Compare(l, got)
}

// SwapLimit is the limit of swap of a cgroup in bytes. Ok is false where the kernel has none
// for it.
func SwapLimit(root fs.FS, group string) (limit string, ok bool) {
	text, err := fs.ReadFile(root, path.Join("sys/fs/cgroup", group, "memory.swap.max"))
	return strings.TrimSpace(string(text)), err == nil
}

// UndelegatedError is the error if the user manager cannot apply a limit, because the controller is not
// delegated to it.
type UndelegatedError struct {
	// Controllers are the missing controllers, sorted.
	Controllers []string
	// Unit is the slice that the limits were for.
	Unit string
	// Version is the host's cgroup layout.
	Version Version
	// Offered are the controllers of the whole cgroup v2 tree; a controller missing there
	// cannot be delegated.
	Offered []string
}

// Error names the controllers and the fix.
func (e *UndelegatedError) Error() string {
	what := fmt.Sprintf("limits of %s have no effect: cgroup controllers %s are not delegated to your systemd user manager; ",
		e.Unit, strings.Join(e.Controllers, ", "))
	return what + fixFor(e.Version, e.Controllers, e.Offered)
}

// DelegateDropIn is the file by which an administrator delegates controllers to
// user managers.
const DelegateDropIn = "/etc/systemd/system/user@.service.d/delegate.conf"

// fixFor is the advice for getting the controllers. systemd 252 delegates cpu, memory and
// pids on its own, systemd 239 to 251 only memory and pids.
func fixFor(v Version, controllers, offered []string) string {
	if v == Hybrid || v == V1 {
		return "the controllers of this host are on cgroup v1: boot it with systemd.unified_cgroup_hierarchy=1"
	}
	if absent := without(controllers, offered); len(absent) > 0 {
		return fmt.Sprintf("the cgroup v2 tree of this host has no %s to delegate: check in /proc/cgroups whether they are on cgroup v1, "+
			"or disabled with cgroup_disable= on the kernel command line", strings.Join(absent, ", "))
	}
	delegate := []string{"cpu", "memory", "pids"}
	for _, c := range controllers {
		if !slices.Contains(delegate, c) {
			delegate = append(delegate, c)
		}
	}
	slices.Sort(delegate)
	return fmt.Sprintf("as root write the lines [Service] and Delegate=%s to %s, run 'systemctl daemon-reload', and reboot (or restart the user's user@UID.service, which stops everything it runs)",
		strings.Join(delegate, " "), DelegateDropIn)
}

// without returns the elements of all that are not in some, in the same order.
func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}

// NotAppliedError is the error if the controllers are delegated, but the files have other values.
type NotAppliedError struct {
	Unit       string
	Mismatches []Mismatch
}

// Error lists the files.
func (e *NotAppliedError) Error() string {
	var parts []string
	for _, m := range e.Mismatches {
		parts = append(parts, fmt.Sprintf("%s is %q instead of %q", m.File, m.Got, m.Want))
	}
	return fmt.Sprintf("limits of %s were not applied: %s; another program may have changed the unit: stop the task and run it again",
		e.Unit, strings.Join(parts, ", "))
}

// judge converts mismatches to the matching error; nil for none.
func judge(unit string, v Version, offered []string, bad []Mismatch) error {
	var missing []string
	for _, m := range bad {
		if m.Got == "" && !slices.Contains(missing, m.Controller()) {
			missing = append(missing, m.Controller())
		}
	}
	slices.Sort(missing)
	switch {
	case len(missing) > 0:
		return &UndelegatedError{Controllers: missing, Unit: unit, Version: v, Offered: offered}
	case len(bad) > 0:
		return &NotAppliedError{Unit: unit, Mismatches: bad}
	}
	return nil
}
