package admission

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/pkg/ports"
)

// Unlimited is a cpu or memory budget without an end.
const Unlimited = -1

// Budget is the share of the host that all tasks together may take.
type Budget struct {
	// CPU is in units of which a vCPU has UnitsPerCPU, Memory in bytes; Unlimited for
	// no bound.
	CPU, Memory int64
	// CPUFrom and MemoryFrom say in a few words where the numbers come from.
	CPUFrom, MemoryFrom string
	// Reserved are ports no task may have.
	Reserved []PortRange
	// Quotas are limits on the containers that can run at once.
	Quotas []Quota
	// Starting reports whether containers of an admitted task may not run yet, so that it will use
	// more of the quotas than it does; nil where that is not known.
	Starting func(task string) bool
	// GPUs are the names of the devices that tasks share, of which each has at most one task.
	// GPUsFrom is their source.
	GPUs     []string
	GPUsFrom string
	// Overtake is the number of later tasks that may pass one that waits; 0 keeps the order.
	Overtake int
}

// Reserves reports whether no task may have the port.
func (b Budget) Reserves(p ports.HostPort) bool {
	return slices.ContainsFunc(b.Reserved, func(r PortRange) bool { return r.has(p) })
}

// PortRange is First to Last, both included. An empty Protocol stands for all.
type PortRange struct {
	First, Last uint16
	Protocol    string
}

func (r PortRange) has(p ports.HostPort) bool {
	return r.First <= p.Number && p.Number <= r.Last && (r.Protocol == "" || r.Protocol == p.Protocol)
}

// RefusedError refuses a task that asks for more than the whole budget, so that no
// waiting would help.
type RefusedError struct{ Problems []string }

// Error puts each problem on a line of its own.
func (e *RefusedError) Error() string { return strings.Join(e.Problems, "\n") }

// Refuse returns a *RefusedError with all that n asks for beyond the whole budget,
// or nil.
func (b Budget) Refuse(n Need) error {
	var problems []string
	if b.CPU != Unlimited && n.CPU > b.CPU {
		problems = append(problems, fmt.Sprintf("the task asks for %s and the budget is %s (%s): lower its cpu, raise PODTASK_BUDGET_CPU, or run it with --limits off, which counts neither cpu nor memory",
			cpuText(n.CPU), cpuText(b.CPU), b.CPUFrom))
	}
	if b.Memory != Unlimited && n.Memory > b.Memory {
		problems = append(problems, fmt.Sprintf("the task asks for %s of memory and the budget is %s (%s): lower its memory, raise PODTASK_BUDGET_MEMORY, or run it with --limits off, which counts neither cpu nor memory",
			memoryText(n.Memory), memoryText(b.Memory), b.MemoryFrom))
	}
	for _, q := range b.Quotas {
		if need := q.of(n); need > q.Most {
			problems = append(problems, fmt.Sprintf("the task's %d containers need %d of %s, which is %d: %s", n.Containers, need, q.Name, q.Most, q.Fix))
		}
	}
	if n.GPUs > len(b.GPUs) {
		problems = append(problems, fmt.Sprintf("the task asks for %s and this host has %d (%s)", gpuText(n.GPUs), len(b.GPUs), b.GPUsFrom))
	}
	for _, p := range n.Ports {
		if b.Reserves(p) {
			problems = append(problems, fmt.Sprintf("the task asks for host port %s, which PODTASK_RESERVED_PORTS keeps free: give another, or 0 to have one chosen", p))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return &RefusedError{Problems: problems}
}

// ParseCPU reads a cpu budget: a number of vCPU such as 4 or 1.5, or none for
// Unlimited.
func ParseCPU(text string) (units int64, err error) {
	if text == "none" {
		return Unlimited, nil
	}
	cpus, err := strconv.ParseFloat(text, 64)
	if err != nil || !(cpus*UnitsPerCPU >= 1 && cpus <= 1<<20) {
		return 0, fmt.Errorf("%q is no number of vCPU: give one like 4 or 1.5, or none for no bound", text)
	}
	return int64(cpus * UnitsPerCPU), nil
}

var memoryUnits = []struct {
	suffix string
	bytes  int64
}{{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40}, {"b", 1}, {"", 1}}

// ParseMemory reads an amount of memory as Podman does: bytes, or a number with b,
// k, m, g or t, which are powers of 1024; or none for Unlimited.
func ParseMemory(text string) (bytes int64, err error) {
	if text == "none" {
		return Unlimited, nil
	}
	for _, u := range memoryUnits {
		digits, ok := strings.CutSuffix(strings.ToLower(text), u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err == nil && n >= 0 && n <= (1<<62)/u.bytes {
			return n * u.bytes, nil
		}
		break
	}
	return 0, fmt.Errorf("%q is no amount of memory: give one like 512m or 4g, or none for no bound", text)
}

// ParsePorts reads a list of ports such as "22, 8000-8010, 53/udp". Without a
// protocol tcp and udp are meant.
func ParsePorts(text string) ([]PortRange, error) {
	var ranges []PortRange
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		r, ok := parseRange(item)
		if !ok {
			return nil, fmt.Errorf("%q is no port: give a list like 22,8000-8010,53/udp", item)
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

func parseRange(item string) (r PortRange, ok bool) {
	numbers, protocol, given := strings.Cut(item, "/")
	if given && protocol != "tcp" && protocol != "udp" {
		return r, false
	}
	from, to, isRange := strings.Cut(numbers, "-")
	if !isRange {
		to = from
	}
	first, err1 := strconv.ParseUint(strings.TrimSpace(from), 10, 16)
	last, err2 := strconv.ParseUint(strings.TrimSpace(to), 10, 16)
	if err1 != nil || err2 != nil || first == 0 || last < first {
		return r, false
	}
	return PortRange{First: uint16(first), Last: uint16(last), Protocol: protocol}, true
}

func cpuText(units int64) string {
	return strconv.FormatFloat(float64(units)/UnitsPerCPU, 'f', -1, 64) + " vCPU"
}

// memoryText is exact: the number in the largest unit that divides it, or with two
// decimals where none does without many digits.
func memoryText(bytes int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes >= u.size {
			return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(float64(bytes)/float64(u.size), 'f', 2, 64), "0"), ".") + " " + u.name
		}
	}
	return strconv.FormatInt(bytes, 10) + " bytes"
}
