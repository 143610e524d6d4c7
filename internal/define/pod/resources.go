package pod

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// QOSClass is the quality-of-service class of a Pod.
type QOSClass string

// The classes of Kubernetes (k8s.io/kubernetes/pkg/apis/core/v1/helper/qos).
const (
	Guaranteed QOSClass = "Guaranteed"
	Burstable  QOSClass = "Burstable"
	BestEffort QOSClass = "BestEffort"
)

const (
	mib         = 1 << 20
	leastMemory = 6 * mib // of a container, and of a task
	leastCPU    = 10      // 1/1000 of a CPU that a container may be limited to
	leastSlice  = 125     // likewise a task
	maxCPU      = 192_000
	shares      = 1024 // of one CPU, as in the ECS model
)

// amounts are a set of resources.
type amounts struct{ cpu, memory quantity }

func (a amounts) add(o amounts) amounts {
	return amounts{a.cpu.add(o.cpu), a.memory.add(o.memory)}
}

func (a amounts) largest(o amounts) amounts {
	return amounts{larger(a.cpu, o.cpu), larger(a.memory, o.memory)}
}

func amountsOf(v value) amounts {
	return amounts{quantityOf(v.at("cpu")), quantityOf(v.at("memory"))}
}

// declared returns the limits and requests of a container, or of the Pod. A request that
// is not written is the limit.
func declared(v value) (limits, requests amounts) {
	limits, requests = amountsOf(v.at("limits")), amountsOf(v.at("requests"))
	if !v.at("requests").at("cpu").present() {
		requests.cpu = limits.cpu
	}
	if !v.at("requests").at("memory").present() {
		requests.memory = limits.memory
	}
	return limits, requests
}

// checkResources reports resources that this host does not give out.
func checkResources(v value) {
	for _, list := range []string{"limits", "requests"} {
		for _, f := range v.at(list).entries() {
			at := v.at(list).field(f).atKey(f)
			q, _ := parseQuantity(f.Value.Text)
			switch {
			case q.less(quantity{}):
				at.wrong(f.Key+" is negative", "")
			case f.Key == "cpu" || f.Key == "memory":
			case f.Key == "ephemeral-storage":
				at.warn("ephemeral-storage has no effect: containers use what the host has", "")
			case strings.HasPrefix(f.Key, "hugepages-"):
				at.wrong(f.Key+" is not supported: a rootless container cannot be given huge pages", "remove it if the Pod can do without")
			case strings.Contains(f.Key, "/"):
				at.wrong("the resource "+doctree.Quote(f.Key)+" is a device that only a cluster allocates", "remove it if the Pod can do without")
			default:
				at.wrong("unknown resource "+doctree.Quote(f.Key), suggest.Question(f.Key, []string{"cpu", "memory", "ephemeral-storage"}))
			}
		}
	}
	limits, requests := declared(v)
	if !limits.cpu.zero() && limits.cpu.less(requests.cpu) {
		v.at("requests").at("cpu").wrong("the request is more than the limit", "")
	}
	if !limits.memory.zero() && limits.memory.less(requests.memory) {
		v.at("requests").at("memory").wrong("the request is more than the limit", "")
	}
}

// requests reads the resources of container i.
func (b *reader) requests(i int) {
	v, c := b.containers[i].at("resources"), &b.result.Task.Containers[i]
	checkResources(v)
	limits, requests := declared(v)
	if c.Memory = limits.memory.times(1); c.Memory > 0 && c.Memory < leastMemory {
		v.at("limits").at("memory").wrong(fmt.Sprintf("a container needs at least %d MiB", leastMemory/mib), "")
	}
	if cpu := limits.cpu.times(1000); cpu > 0 {
		if cpu < leastCPU {
			v.at("limits").at("cpu").warn("the limit is raised to 10m, the least that is enforced", "")
			cpu = leastCPU
		}
		c.Extensions.CPULimit = float64(min(cpu, maxCPU)) / 1000
	}
	c.CPU = min(requests.cpu.times(shares), maxCPU/1000*shares)
	// A reservation as large as the limit says nothing besides, and one that is smaller
	// than a container can be is none.
	if r := requests.memory.times(1); r >= leastMemory && (c.Memory == 0 || r < c.Memory) {
		c.MemoryReservation = r
	}
}

// total is what the Pod needs in all: its containers and sidecars together, or an init
// container with the sidecars before it if that is more
// (k8s.io/component-helpers/resource, PodRequests).
func (b *reader) total(of func(limits, requests amounts) amounts) amounts {
	var sum, sidecars, most amounts
	for i, v := range b.containers {
		own := of(declared(v.at("resources")))
		switch name := b.result.Task.Containers[i].Name; {
		case b.result.Pod.isSidecar(name):
			sidecars = sidecars.add(own)
			most = most.largest(sidecars)
			sum = sum.add(own)
		case b.result.Pod.isInit(name):
			most = most.largest(sidecars.add(own))
		default:
			sum = sum.add(own)
		}
	}
	return most.largest(sum)
}

// resources gives the task its limits: those of the Pod where it has any, else the sum of
// the containers' where all have one.
func (b *reader) resources() {
	t, whole := &b.result.Task, b.spec.at("resources")
	checkResources(whole)
	b.result.Pod.QOSClass = b.qosClass()
	b.oomScores()
	if len(b.report.problems) > 0 {
		return
	}
	limits, _ := declared(whole)
	sum := b.total(func(limits, _ amounts) amounts { return limits })
	all := func(has func(amounts) bool) bool {
		return !slices.ContainsFunc(b.containers, func(v value) bool {
			own, _ := declared(v.at("resources"))
			return !has(own)
		})
	}
	if limits.cpu.zero() && all(func(a amounts) bool { return !a.cpu.zero() }) {
		limits.cpu = sum.cpu
	}
	if limits.memory.zero() && all(func(a amounts) bool { return !a.memory.zero() }) {
		limits.memory = sum.memory
	}
	if b.options.Fargate {
		b.warnFargate()
		b.fargate(limits)
		return
	}
	if cpu := limits.cpu.times(1000); cpu >= leastSlice {
		t.CPU = float64(min(cpu, maxCPU)) / 1000
	} else if cpu > 0 && whole.at("limits").at("cpu").present() {
		whole.at("limits").at("cpu").warn("the limit of the whole Pod is not enforced: the least is 125m", "")
	}
	t.Memory = limits.memory.times(1)
	t.Extensions.Requests = b.reserved(*t)
}

// reserved is what the Pod requests, which is what a scheduler counts; nil if that is the
// same as the limits of the task.
func (b *reader) reserved(t taskdef.Task) *taskdef.Requests {
	need := b.total(func(_, requests amounts) amounts { return requests })
	_, whole := declared(b.spec.at("resources"))
	if !whole.cpu.zero() {
		need.cpu = whole.cpu
	}
	if !whole.memory.zero() {
		need.memory = whole.memory
	}
	r := &taskdef.Requests{CPU: min(need.cpu.times(shares), maxCPU/1000*shares), Memory: need.memory.times(1)}
	if t.CPU > 0 && int64(t.CPU*shares) != r.CPU || t.Memory > 0 && t.Memory != r.Memory {
		return r
	}
	return nil
}

// fargate gives the task the smallest size of Fargate that has room for it.
func (b *reader) fargate(limits amounts) {
	sum := b.total(func(limits, requests amounts) amounts { return limits.largest(requests) })
	need := limits.largest(sum)
	cpu, memory, ok := FargateSize(need.cpu.times(shares), need.memory.times(1))
	if !ok {
		b.spec.wrong(fmt.Sprintf("no size of Fargate has room for %d cpu units and %d MiB", need.cpu.times(shares), need.memory.times(1)/mib), "lower the limits of the containers")
		return
	}
	b.result.Task.CPU, b.result.Task.Memory = float64(cpu)/shares, memory
}

// fargateSizes are the amounts of memory in MiB for each amount of cpu units: from least
// to most in steps (Amazon ECS developer guide, task size). The smallest is 512 MiB with
// 256 units, which have 1 and 2 GiB besides.
var fargateSizes = []struct{ units, least, most, step int64 }{
	{256, 512, 512, 512}, {256, 1024, 2048, 1024}, {512, 1024, 4096, 1024}, {1024, 2048, 8192, 1024}, {2048, 4096, 16384, 1024},
	{4096, 8192, 30720, 1024}, {8192, 16384, 61440, 4096}, {16384, 32768, 122880, 8192},
}

// FargateSize returns the smallest size of Fargate, in cpu units and bytes, that has room
// for an amount of both; false where none has.
func FargateSize(units, bytes int64) (cpu, memory int64, ok bool) {
	for _, row := range fargateSizes {
		if units > row.units {
			continue
		}
		for size := row.least; size <= row.most; size += row.step {
			if bytes <= size*mib {
				return row.units, size * mib, true
			}
		}
	}
	return 0, 0, false
}

// qosClass is the Pod's, from the limits and requests of all its containers, or from its
// own where it has any.
func (b *reader) qosClass() QOSClass {
	sets := []value{b.spec.at("resources")}
	if !sets[0].filled() {
		sets = nil
		for _, v := range b.containers {
			sets = append(sets, v.at("resources"))
		}
	}
	guaranteed, any := true, false
	for _, v := range sets {
		limits, requests := declared(v)
		for _, q := range []struct{ limit, request quantity }{{limits.cpu, requests.cpu}, {limits.memory, requests.memory}} {
			any = any || !q.limit.zero() || !q.request.zero()
			guaranteed = guaranteed && !q.limit.zero() && !q.limit.less(q.request) && !q.request.less(q.limit)
		}
	}
	switch {
	case !any:
		return BestEffort
	case guaranteed:
		return Guaranteed
	}
	return Burstable
}
