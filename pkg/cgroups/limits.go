package cgroups

import (
	"errors"
	"fmt"
	"math"
	"path"
	"strings"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// Limits are the limits of a whole task. The zero value of a field means that
// it is not limited.
type Limits struct {
	// CPU is the hard limit in vCPU, 0.01 and more. Systemd keeps whole
	// percents, so it is rounded up to one.
	CPU float64
	// CPUWeight is the share under contention, 1 to 10000, 100 being what
	// others have (cpu.weight). See Curve.
	CPUWeight uint64
	// Memory is the hard limit in bytes (memory.max); the kernel rounds down to
	// whole pages.
	Memory int64
	// MemoryHigh is the use at which throttling begins, MemoryLow what is protected from
	// reclaim, both in bytes.
	MemoryHigh int64
	MemoryLow  int64
	// SwapMax is the limit of swap in bytes (memory.swap.max); NoSwap forbids it.
	SwapMax int64
	// TasksMax is the limit of processes and threads (pids.max).
	TasksMax uint64
	// IOWeight is the share of disks under contention, 1 to 10000, 100 being what
	// others have (io.weight). Few hosts delegate io, and a disk's scheduler must
	// know weights.
	IOWeight uint64
	// CPUPeriod is the time in which CPU is counted, 1 ms to 1 s; 0 means 100 ms.
	// CPU times CPUPeriod must be 1 ms at least.
	CPUPeriod time.Duration
}

// NoSwap as Limits.SwapMax forbids swapping.
const NoSwap = -1

// Numbers of the CPU limit. The kernel wants a quota of 1 ms at least.
const (
	// DefaultCPUPeriod is the kernel's and systemd's own.
	DefaultCPUPeriod = 100 * time.Millisecond

	minCPUPeriod   = time.Millisecond
	maxCPUPeriod   = time.Second
	minCPUQuota    = time.Millisecond
	usecPerSec     = 1_000_000
	usecPerPercent = usecPerSec / 100
	minCPU         = 0.01
	maxCPU         = 1 << 20 // far above any machine, and the numbers stay in range
	minWeight      = 1
	maxWeight      = 10_000
)

// Check reports every number that is out of range.
func (l Limits) Check() error {
	var errs []error
	if l.CPU != 0 && !(l.CPU >= minCPU && l.CPU <= maxCPU) {
		errs = append(errs, fmt.Errorf("a CPU limit of %v vCPU is out of range: give %v or more, or 0 for none", l.CPU, minCPU))
	}
	if p := l.cpuPeriod(); p < minCPUPeriod || p > maxCPUPeriod || p%time.Microsecond != 0 {
		errs = append(errs, fmt.Errorf("a CPU period of %s is out of range: give whole microseconds from %s to %s", p, minCPUPeriod, maxCPUPeriod))
	} else if l.CPU >= minCPU && l.CPU*float64(p) < float64(minCPUQuota) {
		errs = append(errs, fmt.Errorf("a CPU limit of %v vCPU in a period of %s is less than the %s that the kernel knows: give more vCPU or a longer period", l.CPU, p, minCPUQuota))
	}
	for _, w := range []struct {
		name   string
		weight uint64
	}{{"CPU", l.CPUWeight}, {"IO", l.IOWeight}} {
		if w.weight > maxWeight {
			errs = append(errs, fmt.Errorf("a %s weight of %d is out of range: give %d to %d, or 0 for none", w.name, w.weight, minWeight, maxWeight))
		}
	}
	for _, m := range []struct {
		name  string
		bytes int64
	}{{"memory limit", l.Memory}, {"memory high mark", l.MemoryHigh}, {"memory protection", l.MemoryLow}} {
		if m.bytes < 0 {
			errs = append(errs, fmt.Errorf("a %s of %d bytes is negative: give a positive number, or 0 for none", m.name, m.bytes))
		}
	}
	if l.SwapMax < NoSwap {
		errs = append(errs, fmt.Errorf("a swap limit of %d bytes is negative: give a positive number, 0 for none, or %d to forbid swap", l.SwapMax, NoSwap))
	}
	return errors.Join(errs...)
}

// cpuPeriod is the period with its default.
func (l Limits) cpuPeriod() time.Duration {
	if l.CPUPeriod == 0 {
		return DefaultCPUPeriod
	}
	return l.CPUPeriod
}

// cpuPerSecUSec is the CPU limit in microseconds of CPU per second, rounded up
// to a whole percent: systemd writes the property to the unit's file in whole
// percents, cut off, and would lower the limit at the next reload of units.
func (l Limits) cpuPerSecUSec() uint64 {
	percent := math.Ceil(l.CPU*100 - 1e-6) // 0.29*100 is not quite 29
	return uint64(percent) * usecPerPercent
}

// Properties returns the D-Bus properties of org.freedesktop.systemd1.Slice for
// l, in a fixed order and with the types systemd wants (t, 64 bits unsigned).
// CPUQuotaPeriodUSec needs systemd 242. It fails if Check does.
func Properties(l Limits) ([]systemd.Property, error) {
	return l.properties(func(v value) bool { return v.isSet })
}

// Replacement is Properties for a slice that may have other limits: what l does
// not limit is set to no limit. It fails if Check does.
func Replacement(l Limits) ([]systemd.Property, error) {
	return l.properties(func(value) bool { return true })
}

// containerProperties is Replacement for a container's scope: only what LimitContainer changes.
func containerProperties(l Limits) ([]systemd.Property, error) {
	return l.properties(func(v value) bool {
		switch v.name {
		case "CPUQuotaPerSecUSec", "CPUQuotaPeriodUSec", "CPUWeight", "MemoryMax", "MemoryLow", "MemorySwapMax":
			return true
		}
		return false
	})
}

// properties returns the chosen values as properties; a value that is not set is no limit.
func (l Limits) properties(chosen func(value) bool) ([]systemd.Property, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	var props []systemd.Property
	for _, v := range l.values() {
		if !chosen(v) {
			continue
		}
		if !v.isSet {
			v.value = v.none
		}
		props = append(props, property(v.name, v.value))
	}
	return props, nil
}

func property(name string, value uint64) systemd.Property {
	return systemd.Property{Name: name, Value: dbus.MakeVariant(value)}
}

// infinity is systemd's word for no limit, and for a weight that is not set.
const infinity = math.MaxUint64

// value is one property of a slice.
type value struct {
	name  string
	isSet bool
	value uint64
	none  uint64 // what stands for no limit
}

// values are all properties, in a fixed order.
func (l Limits) values() []value {
	return []value{
		{"CPUQuotaPerSecUSec", l.CPU > 0, l.cpuPerSecUSec(), infinity},
		{"CPUQuotaPeriodUSec", l.CPU > 0, uint64(l.cpuPeriod().Microseconds()), infinity},
		{"CPUWeight", l.CPUWeight > 0, l.CPUWeight, infinity},
		{"MemoryMax", l.Memory > 0, uint64(l.Memory), infinity},
		{"MemoryHigh", l.MemoryHigh > 0, uint64(l.MemoryHigh), infinity},
		{"MemoryLow", l.MemoryLow > 0, uint64(l.MemoryLow), 0},
		{"MemorySwapMax", l.SwapMax != 0, uint64(max(0, l.SwapMax)), infinity},
		{"TasksMax", l.TasksMax > 0, l.TasksMax, infinity},
		{"IOWeight", l.IOWeight > 0, l.IOWeight, infinity},
	}
}

// Controllers returns the cgroup controllers l needs, sorted.
func (l Limits) Controllers() []string {
	var needed []string
	if l.CPU > 0 || l.CPUWeight > 0 {
		needed = append(needed, "cpu")
	}
	if l.IOWeight > 0 {
		needed = append(needed, "io")
	}
	if l.Memory > 0 || l.MemoryHigh > 0 || l.MemoryLow > 0 || l.SwapMax != 0 {
		needed = append(needed, "memory")
	}
	if l.TasksMax > 0 {
		needed = append(needed, "pids")
	}
	return needed
}

const (
	slicePrefix = "podtask"
	sliceSuffix = ".slice"
)

// SliceName returns the name of a task's slice: "podtask", the task's 32
// lower-case hexadecimal digits, ".slice".
func SliceName(taskID string) (string, error) {
	name := slicePrefix + taskID + sliceSuffix
	if _, ok := TaskID(name); !ok {
		return "", fmt.Errorf("no slice for task %q: its id is not 32 lower-case hexadecimal digits", taskID)
	}
	return name, nil
}

// Path returns where a slice of the manager of user uid lies below the root of
// the cgroup v2 tree, without a slash at its ends. It is where Podman looks too.
func Path(uid int, slice string) string { return path.Join(managerPath(uid), slice) }

// managerPath is the cgroup of a user's manager.
func managerPath(uid int) string {
	return fmt.Sprintf("user.slice/user-%d.slice/user@%d.service", uid, uid)
}

// TaskID is the inverse of SliceName. It tells our slices from those that
// Podman makes inside them.
func TaskID(slice string) (taskID string, ok bool) {
	taskID, isSlice := strings.CutSuffix(slice, sliceSuffix)
	taskID, isOurs := strings.CutPrefix(taskID, slicePrefix)
	if !isSlice || !isOurs || len(taskID) != 32 || strings.Trim(taskID, "0123456789abcdef") != "" {
		return "", false
	}
	return taskID, true
}
