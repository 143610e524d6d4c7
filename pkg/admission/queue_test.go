package admission_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/admission"
	"github.com/podtask/podtask/pkg/ports"
	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func everybody(string) bool { return true }

func cpu(units int64) admission.Need { return admission.Need{CPU: units} }

func port(n uint16) admission.Need {
	return admission.Need{Ports: []ports.HostPort{{Number: n, Protocol: "tcp"}}}
}

// host is a queue under test with its budget.
type host struct {
	t *testing.T
	admission.Budget
	q    admission.Queue
	gone map[string]bool // tasks without an owner
}

func newHost(t *testing.T, cpu int64) *host {
	return &host{t: t, Budget: admission.Budget{CPU: cpu, Memory: admission.Unlimited, CPUFrom: "the test's"}, gone: map[string]bool{}}
}

func (h *host) present(task string) bool { return !h.gone[task] }

func (h *host) ask(task string, n admission.Need) admission.Verdict {
	var v admission.Verdict
	h.q, v = h.q.Ask(h.Budget, admission.Entry{Task: task, Need: n}, epoch, h.present)
	return v
}

func (h *host) in(task string, n admission.Need) {
	h.t.Helper()
	if v := h.ask(task, n); !v.Admitted {
		h.t.Fatalf("%s waits for %s", task, v)
	}
}

func (h *host) waits(task string, n admission.Need, want string) {
	h.t.Helper()
	if v := h.ask(task, n); v.Admitted || v.String() != want {
		h.t.Fatalf("%s: admitted %t, %q; want %q", task, v.Admitted, v, want)
	}
}

// The ECS agent's TestHostResourceManagerTrickleQueue.
func TestTrickleQueue(t *testing.T) {
	t.Parallel()
	h := newHost(t, 1024)
	h.in("a", cpu(512))
	h.in("b", cpu(512))
	h.waits("c", cpu(512), "0.5 vCPU (0 of 1 vCPU free), used by a and b")
	h.q = h.q.Release("a")
	h.in("c", cpu(512))
}

// The ECS agent's TestHostResourceManagerResourceUtilization: a task that is slow
// to stop holds its share, and no more than that.
func TestSlowStopDelaysNobodyWhoHasRoom(t *testing.T) {
	t.Parallel()
	h := newHost(t, 1024)
	h.in("slow", cpu(512))
	h.in("next", cpu(512))
	h.waits("third", cpu(256), "0.25 vCPU (0 of 1 vCPU free), used by slow and next")
}

// The ECS agent's TestHostResourceManagerStopTaskNotBlockWaitingTasks.
func TestTaskLeavesTheQueueAtOnce(t *testing.T) {
	t.Parallel()
	h := newHost(t, 1024)
	h.in("holder", cpu(1024))
	h.waits("leaver", cpu(1024), "1 vCPU (0 of 1 vCPU free), used by holder")
	h.waits("patient", cpu(1024), "1 vCPU (0 of 1 vCPU free), used by holder")
	ahead := func() int { return h.q.Judge(h.Budget, "patient", epoch, h.present).Ahead }
	if n := ahead(); n != 1 {
		t.Errorf("%d tasks wait before it, want 1", n)
	}
	h.q = h.q.Release("leaver")
	if n := ahead(); n != 0 {
		t.Errorf("%d tasks wait before the first", n)
	}
	h.q = h.q.Release("holder")
	h.in("patient", cpu(1024))
}

func TestEarlierTaskGoesFirst(t *testing.T) {
	t.Parallel()
	h := newHost(t, 1024)
	h.in("a", cpu(512))
	h.waits("large", cpu(1024), "1 vCPU (0.5 of 1 vCPU free), used by a")
	h.waits("small", cpu(256), "its turn: large is ahead and waits for 1 vCPU (0.5 of 1 vCPU free), used by a")
	h.q = h.q.Release("a")
	h.waits("small", cpu(256), "its turn: large is ahead")
	h.in("large", cpu(1024))
}

// A task that takes nothing of what an earlier one lacks, or would lack then, does not wait for it.
func TestTaskThatTakesNothingScarceIsNotHeldUp(t *testing.T) {
	t.Parallel()
	h := newHost(t, 1024)
	h.Memory = 1 << 30
	h.in("a", cpu(1024))
	h.waits("large", admission.Need{CPU: 512, Memory: 512 << 20}, "0.5 vCPU (0 of 1 vCPU free), used by a")
	h.in("lean", admission.Need{Memory: 512 << 20})
	h.in("bare", port(80))
	h.waits("greedy", admission.Need{Memory: 64 << 20}, "its turn: large is ahead, waits for 0.5 vCPU (0 of 1 vCPU free), used by a and needs memory too")
	h.waits("small", cpu(1), "0.0009765625 vCPU (0 of 1 vCPU free), used by a")
	if e, _ := h.q.Find("large"); e.Passed != 0 {
		t.Errorf("%d tasks count as having passed it", e.Passed)
	}
	h.q = h.q.Release("a")
	h.waits("middle", cpu(768), "its turn: large is ahead")
	h.in("small", cpu(1)) // there is room for both
	h.in("large", admission.Need{CPU: 512, Memory: 512 << 20})
}

// What one waiting task needs of the host is kept for it as soon as only that is left, although
// other things that it needs are short.
func TestQuotaAndGPUOfAnEarlierTaskAreKeptForIt(t *testing.T) {
	t.Parallel()
	h := newHost(t, 1024)
	h.Quotas = []admission.Quota{keys(6, admission.Unlimited)}
	h.GPUs = []string{"v/gpu=0", "v/gpu=1"}
	h.in("a", cpu(1024))
	h.waits("large", admission.Need{CPU: 1, GPUs: 1, Containers: 1}, "0.0009765625 vCPU (0 of 1 vCPU free), used by a")
	h.in("b", admission.Need{GPUs: 1, Containers: 1})
	h.in("c", admission.Need{Containers: 1})
	for task, n := range map[string]admission.Need{"d": {Containers: 1}, "e": {GPUs: 1}} {
		if v := h.ask(task, n); v.Admitted || v.Word() != "turn" {
			t.Errorf("%s takes the last that large needs: %+v", task, v)
		}
	}
	h.q = h.q.Release("a")
	h.in("large", admission.Need{CPU: 1, GPUs: 1, Containers: 1})
}

// Whatever passes a task: once those that were there before it have ended, there is room for it.
func TestATaskWaitsOnlyForThoseBeforeIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := admission.Budget{CPU: 8, Memory: 8, GPUs: []string{"g0", "g1"}, Quotas: []admission.Quota{keys(12, admission.Unlimited)}}
		need := func() admission.Need {
			n := admission.Need{
				CPU: rapid.SampledFrom([]int64{0, 1, 4, 8}).Draw(t, "cpu"), Memory: rapid.SampledFrom([]int64{0, 1, 4, 8}).Draw(t, "memory"),
				GPUs: rapid.IntRange(0, 2).Draw(t, "GPUs"), Containers: rapid.Int64Range(0, 3).Draw(t, "containers"),
			}
			if p := rapid.IntRange(0, 4).Draw(t, "port"); p > 0 {
				n.Ports = port(uint16(p)).Ports
			}
			return n
		}
		var q admission.Queue
		for i := range rapid.IntRange(2, 40).Draw(t, "tasks") {
			q, _ = q.Ask(b, admission.Entry{Task: fmt.Sprint(i), Need: need()}, epoch, everybody)
			for _, e := range q.Entries { // some end, and those that wait ask again in some order
				switch rapid.IntRange(0, 5).Draw(t, e.Task) {
				case 0:
					if e.Held {
						q = q.Release(e.Task)
					}
				case 1:
					q, _ = q.Ask(b, e, epoch, everybody)
				}
			}
		}
		for _, e := range q.Entries {
			if e.Held {
				continue
			}
			rest := q
			for _, before := range q.Entries {
				if before.Number < e.Number {
					rest = rest.Release(before.Task)
				}
			}
			if v := rest.Judge(b, e.Task, epoch, everybody); !v.Admitted {
				t.Fatalf("%s waits for %s, which came later", e.Task, v)
			}
		}
	})
}

func TestOvertakingIsBounded(t *testing.T) {
	t.Parallel()
	h := newHost(t, 1024)
	h.Overtake = 2
	h.in("a", cpu(512))
	h.waits("large", cpu(1024), "1 vCPU (0.5 of 1 vCPU free), used by a")
	for n := range 2 {
		small := fmt.Sprint("small", n)
		h.in(small, cpu(128))
		h.q = h.q.Release(small)
	}
	if v := h.ask("small2", cpu(128)); v.Admitted || v.Word() != "turn" {
		t.Errorf("a third task passes: %+v", v)
	}
}

func TestOvertakingNeverTakesThePortAwaited(t *testing.T) {
	t.Parallel()
	h := newHost(t, 1024)
	h.Overtake = 100
	h.in("a", cpu(1024))
	h.waits("first", admission.Need{CPU: 512, Ports: port(80).Ports}, "0.5 vCPU (0 of 1 vCPU free), used by a")
	if v := h.ask("second", port(80)); v.Admitted {
		t.Error("the second task takes the port that the first waits for")
	}
	h.in("other", port(81))
}

func TestPortsExcludeEachOtherByAddressAndProtocol(t *testing.T) {
	t.Parallel()
	one := func(protocol, ip string) admission.Need {
		return admission.Need{Ports: []ports.HostPort{{Number: 80, Protocol: protocol, HostIP: ip}}}
	}
	for _, c := range []struct {
		a, b admission.Need
		both bool
	}{
		{one("tcp", ""), one("tcp", ""), false},
		{one("tcp", ""), one("udp", ""), true},
		{one("tcp", ""), one("tcp", "127.0.0.1"), false},
		{one("tcp", "127.0.0.1"), one("tcp", "127.0.0.2"), true},
		{one("tcp", "0.0.0.0"), one("tcp", "127.0.0.2"), false},
		{one("tcp", "::"), one("tcp", "127.0.0.2"), false},
	} {
		h := newHost(t, 1024)
		h.in("a", c.a)
		if v := h.ask("b", c.b); v.Admitted != c.both {
			t.Errorf("%v beside %v: %t, want %t", c.b, c.a, v.Admitted, c.both)
		}
	}
}

func TestAskingAgainChangesNothing(t *testing.T) {
	t.Parallel()
	h := newHost(t, 1024)
	h.in("a", cpu(1024))
	h.waits("b", cpu(512), "0.5 vCPU (0 of 1 vCPU free), used by a")
	before := fmt.Sprintf("%+v", h.q)
	h.in("a", cpu(1024))
	h.waits("b", cpu(512), "0.5 vCPU (0 of 1 vCPU free), used by a")
	h.q = h.q.Release("stranger")
	h.q, _ = h.q.Take(admission.Entry{Task: "a", Need: cpu(1024)}, epoch.Add(time.Hour))
	if now := fmt.Sprintf("%+v", h.q); now != before {
		t.Errorf("was %s\nis  %s", before, now)
	}
}

func TestWaitingTaskWithoutAnOwnerHoldsUpNobody(t *testing.T) {
	t.Parallel()
	h := newHost(t, 1024)
	h.in("a", cpu(1024))
	h.waits("orphan", cpu(1024), "1 vCPU (0 of 1 vCPU free), used by a")
	h.gone["orphan"] = true
	h.q = h.q.Release("a")
	h.in("later", cpu(512))
	h.gone["orphan"] = false
	h.waits("orphan", cpu(1024), "1 vCPU (0.5 of 1 vCPU free), used by later")
	h.waits("last", cpu(512), "its turn: orphan is ahead and waits for 1 vCPU (0.5 of 1 vCPU free), used by later")
}

func TestRunningTaskTakesItsShareWithoutWaiting(t *testing.T) {
	t.Parallel()
	h := newHost(t, 1024)
	h.in("a", cpu(1024))
	h.q, _ = h.q.Take(admission.Entry{Task: "adopted", Need: cpu(512)}, epoch)
	h.waits("c", cpu(512), "0.5 vCPU (0 of 1 vCPU free), used by a and adopted")
	h.q = h.q.Release("a")
	h.in("c", cpu(512))
}

func TestNeedMayChange(t *testing.T) {
	t.Parallel()
	h := newHost(t, 1024)
	h.in("a", cpu(1024))
	h.waits("b", cpu(512), "0.5 vCPU (0 of 1 vCPU free), used by a")
	h.q, _ = h.q.Take(admission.Entry{Task: "a", Need: cpu(512)}, epoch) // a has less now
	h.in("b", cpu(512))
	h.q, _ = h.q.Take(admission.Entry{Task: "a", Need: cpu(2048)}, epoch) // and runs with more than there is
	h.waits("c", cpu(256), "0.25 vCPU (0 of 1 vCPU free), used by a and b")
}

func TestManyHoldersAreCounted(t *testing.T) {
	t.Parallel()
	h := newHost(t, 5)
	for i := range 5 {
		h.in(fmt.Sprint("t", i), cpu(1))
	}
	h.Budget.CPU = 5
	want := "0.0009765625 vCPU (0 of 0.0048828125 vCPU free), used by t0, t1, t2 and 2 more"
	h.waits("x", cpu(1), want)
}

// TestQueueKeepsItsPromises plays random lives: the budget is kept, no port is
// given twice, the order is kept but for the overtaking allowed, and whoever is
// first gets in as soon as there is room.
func TestQueueKeepsItsPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := admission.Budget{CPU: 8, Memory: 8, Overtake: rapid.IntRange(0, 2).Draw(t, "overtake")}
		var q admission.Queue
		needs := map[string]admission.Need{}
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
		gone := map[string]bool{}
		present := func(task string) bool { return !gone[task] }
		for range rapid.IntRange(1, 60).Draw(t, "moves") {
			task := name.Draw(t, "task")
			switch rapid.IntRange(0, 5).Draw(t, "move") {
			case 0:
				q = q.Release(task)
				delete(needs, task)
				delete(gone, task)
			case 1:
				gone[task] = !gone[task]
			default:
				if gone[task] {
					continue
				}
				if _, ok := needs[task]; !ok {
					needs[task] = admission.Need{
						CPU: rapid.Int64Range(0, 8).Draw(t, "cpu"), Memory: rapid.Int64Range(0, 8).Draw(t, "memory"),
						Ports: port(uint16(rapid.IntRange(1, 3).Draw(t, "port"))).Ports,
					}
				}
				before := q
				var v admission.Verdict
				q, v = q.Ask(b, admission.Entry{Task: task, Need: needs[task]}, epoch, present)
				if (v.String() == "") != v.Admitted || (v.Word() == "") != v.Admitted {
					t.Fatalf("admitted %t but it waits for %q (%s)", v.Admitted, v, v.Word())
				}
				checkOrder(t, b, before, q, task, present)
			}
			checkBudget(t, b, q)
		}
		// Everybody comes back and the holders go: the queue must empty itself.
		for len(q.Entries) > 0 {
			first := ""
			for _, e := range q.Entries {
				if e.Held {
					q = q.Release(e.Task)
				} else if first == "" {
					first = e.Task
				}
			}
			if first == "" {
				continue
			}
			var v admission.Verdict
			if q, v = q.Ask(b, admission.Entry{Task: first}, epoch, everybody); !v.Admitted {
				t.Fatalf("%s is first, the host is empty, and it waits for %s", first, v)
			}
		}
	})
}

func checkBudget(t *rapid.T, b admission.Budget, q admission.Queue) {
	var cpu, memory int64
	ports := map[uint16]string{}
	for i, e := range q.Entries {
		if i > 0 && e.Number <= q.Entries[i-1].Number || e.Number > q.Last {
			t.Fatalf("entries are out of order: %+v", q)
		}
		if e.Passed > b.Overtake {
			t.Fatalf("%s was passed %d times", e.Task, e.Passed)
		}
		if !e.Held {
			continue
		}
		cpu, memory = cpu+e.Need.CPU, memory+e.Need.Memory
		for _, p := range e.Need.Ports {
			if other, taken := ports[p.Number]; taken {
				t.Fatalf("%s and %s both have port %d", other, e.Task, p.Number)
			}
			ports[p.Number] = e.Task
		}
	}
	if cpu > b.CPU || memory > b.Memory {
		t.Fatalf("cpu %d and memory %d are out: %+v", cpu, memory, q)
	}
}

// checkOrder: a task that is admitted passes only present tasks that have been passed one
// time more now, or that lack nothing it takes.
func checkOrder(t *rapid.T, b admission.Budget, before, after admission.Queue, task string, present func(string) bool) {
	was, had := before.Find(task)
	is, _ := after.Find(task)
	if !is.Held || had && was.Held {
		return
	}
	for _, e := range before.Entries {
		if e.Task == task {
			break
		}
		if e.Held || !present(e.Task) {
			continue
		}
		if now, _ := after.Find(e.Task); now.Passed != e.Passed+1 && takesFrom(b, after, is.Need, e.Need) {
			t.Fatalf("%s passes %s unnoticed", task, e.Task)
		}
	}
}

// takesFrom reports whether a waiting task lacks some of what an admitted one takes.
func takesFrom(b admission.Budget, q admission.Queue, admitted, waiting admission.Need) bool {
	cpu, memory := b.CPU, b.Memory
	for _, e := range q.Entries {
		if e.Held {
			cpu, memory = cpu-e.Need.CPU, memory-e.Need.Memory
		}
	}
	return admitted.CPU > 0 && waiting.CPU > cpu || admitted.Memory > 0 && waiting.Memory > memory || admitted.Collides(waiting)
}

// A task that replaces another one has its place, also before those that have waited longer than it exists.
func TestAnHeirHasThePlaceOfTheTaskThatItReplaces(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		need  admission.Need // of the heir
		waits bool
	}{
		{"the same", cpu(512), false},
		{"less", cpu(256), false},
		{"as much as the one that waits would take", cpu(1024), false},
		{"more than there is", admission.Need{CPU: 1024, Ports: port(80).Ports}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, 1024)
			h.in("other", port(80))
			h.in("old", cpu(512))
			if v := h.ask("waiting", cpu(1024)); v.Admitted {
				t.Fatal("there is no room")
			}
			h.q = h.q.Bequeath("waiting", "nobody").Bequeath("old", "new").PassOn("old", epoch)
			if _, found := h.q.Find("old"); found {
				t.Error("the old one is still there")
			}
			if v := h.ask("waiting", cpu(1024)); v.Admitted {
				t.Error("the one that waits has taken what is kept")
			}
			if v := h.ask("new", tt.need); v.Admitted == tt.waits {
				t.Errorf("the new one waits for %q", v)
			}
			if v := h.ask("waiting", cpu(1024)); v.Admitted {
				t.Error("the one that waits comes before the new one")
			}
			h.q = h.q.PassOn("new", epoch).PassOn("other", epoch)
			h.in("waiting", cpu(1024))
		})
	}
}

// A replacement that does not come is forgotten.
func TestAnHeirCanBeForgotten(t *testing.T) {
	t.Parallel()
	h := newHost(t, 512)
	h.in("old", cpu(512))
	h.q = h.q.Bequeath("old", "new").Bequeath("old", "")
	h.q = h.q.PassOn("old", epoch)
	h.in("next", cpu(512))
	h.q = h.q.Bequeath("next", "new").PassOn("next", epoch).Release("new")
	h.in("last", cpu(512))
}
