package admission_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/pkg/admission"
	"github.com/podtask/podtask/pkg/ports"
	"github.com/podtask/podtask/pkg/taskdef"
)

func TestNeedIsCountedAsTheAgentCounts(t *testing.T) {
	t.Parallel()
	two := func(a, b taskdef.Container) []taskdef.Container { return []taskdef.Container{a, b} }
	tests := []struct {
		name    string
		task    taskdef.Task
		limited bool
		want    admission.Need
	}{
		{"nothing is declared", taskdef.Task{Containers: two(taskdef.Container{}, taskdef.Container{})}, true, admission.Need{}},
		{"the task's own numbers go before its containers'",
			taskdef.Task{CPU: 1.5, Memory: 1 << 30, Containers: two(taskdef.Container{CPU: 10, Memory: 5}, taskdef.Container{})}, true,
			admission.Need{CPU: 1536, Memory: 1 << 30}},
		{"requests go before all",
			taskdef.Task{CPU: 1.5, Memory: 1 << 30, Extensions: taskdef.TaskExtensions{Requests: &taskdef.Requests{CPU: 7}}}, true, admission.Need{CPU: 7}},
		{"containers add up, a reservation goes before a limit",
			taskdef.Task{Containers: two(taskdef.Container{CPU: 10, Memory: 50, MemoryReservation: 20}, taskdef.Container{CPU: 5, Memory: 7})}, true,
			admission.Need{CPU: 15, Memory: 27}},
		{"without limits only ports count",
			taskdef.Task{CPU: 1, Memory: 1, Containers: two(taskdef.Container{Ports: []taskdef.Port{{ContainerPort: 80, HostPort: 8080, Protocol: "tcp"}}}, taskdef.Container{})}, false,
			admission.Need{Ports: []ports.HostPort{{Number: 8080, Protocol: "tcp"}}}},
		{"a chosen port is nobody's before it is chosen",
			taskdef.Task{Containers: two(taskdef.Container{Ports: []taskdef.Port{{ContainerPort: 80, Protocol: "tcp"}}}, taskdef.Container{})}, true, admission.Need{}},
		{"in the host's network the container's port is the host's",
			taskdef.Task{Network: taskdef.NetworkHost, Containers: two(taskdef.Container{Ports: []taskdef.Port{{ContainerPort: 80, Protocol: "udp"}}}, taskdef.Container{})}, true,
			admission.Need{Ports: []ports.HostPort{{Number: 80, Protocol: "udp"}}}},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := admission.NeedOf(c.task, c.limited)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if got.IsZero() != cmp.Equal(c.want, admission.Need{}) {
				t.Errorf("IsZero is %t", got.IsZero())
			}
		})
	}
}

// The ECS agent's TestHostResourceManagerLaunchTypeBehavior: where a task is not
// accounted for, it asks for nothing.
func TestAccountingIsOffWithLimitsOff(t *testing.T) {
	t.Parallel()
	task := taskdef.Task{CPU: 64, Memory: 1 << 50, Containers: []taskdef.Container{{}}}
	if n := admission.NeedOf(task, false); !n.IsZero() {
		t.Errorf("it needs %+v", n)
	}
}

func TestImpossibleRequestIsRefusedWithBothNumbers(t *testing.T) {
	t.Parallel()
	b := admission.Budget{
		CPU: 2048, Memory: 4 << 30, CPUFrom: "this host's", MemoryFrom: "PODTASK_BUDGET_MEMORY",
		Reserved: []admission.PortRange{{First: 8000, Last: 8010, Protocol: "tcp"}},
	}
	if err := b.Refuse(admission.Need{CPU: 2048, Memory: 4 << 30, Ports: []ports.HostPort{{Number: 8000, Protocol: "udp"}}}); err != nil {
		t.Errorf("what just fits is refused: %v", err)
	}
	err := b.Refuse(admission.Need{CPU: 4096, Memory: 5<<30 + 1<<29, Ports: []ports.HostPort{{Number: 8010, Protocol: "tcp"}}})
	if err == nil {
		t.Fatal("it is not refused")
	}
	for _, want := range []string{"4 vCPU", "2 vCPU (this host's)", "5.5 GiB", "4 GiB (PODTASK_BUDGET_MEMORY)", "8010/tcp", "PODTASK_RESERVED_PORTS"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %q", want, err)
		}
	}
	none := admission.Budget{CPU: admission.Unlimited, Memory: admission.Unlimited}
	if err := none.Refuse(admission.Need{CPU: 1 << 40, Memory: 1 << 60}); err != nil {
		t.Errorf("without a bound: %v", err)
	}
}

func TestBudgetsAreRead(t *testing.T) {
	t.Parallel()
	cpu := map[string]int64{"4": 4096, "1.5": 1536, "none": admission.Unlimited, "0": 0, "-1": 0, "x": 0, "": 0, "NaN": 0, "Inf": 0}
	for text, want := range cpu {
		if got, err := admission.ParseCPU(text); got != want || (err == nil) != (want != 0) {
			t.Errorf("cpu %q: %d, %v", text, got, err)
		}
	}
	memory := map[string]int64{"512m": 512 << 20, "2G": 2 << 30, "1024": 1024, "10b": 10, "1k": 1024, "none": -1, "": 0, "x": 0, "-1": 0, "5 g": 0, "9999999t": 0, "1.5g": 0}
	for text, want := range memory {
		if got, err := admission.ParseMemory(text); got != want || (err == nil) != (want != 0) {
			t.Errorf("memory %q: %d, %v", text, got, err)
		}
	}
	ports, err := admission.ParsePorts(" 22, 8000-8010/tcp,53/udp,")
	want := []admission.PortRange{{First: 22, Last: 22}, {First: 8000, Last: 8010, Protocol: "tcp"}, {First: 53, Last: 53, Protocol: "udp"}}
	if diff := cmp.Diff(want, ports); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, bad := range []string{"0", "70000", "x", "9-8", "80/sctp", "80/", "1-2-3"} {
		if _, err := admission.ParsePorts(bad); err == nil {
			t.Errorf("%q is taken for a list of ports", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"4", "1.5", "none", "512m", "22,8000-8010/tcp", "9-8", "1e300", "-0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if units, err := admission.ParseCPU(text); err == nil && units < admission.Unlimited {
			t.Errorf("cpu %d", units)
		}
		if bytes, err := admission.ParseMemory(text); err == nil && bytes < admission.Unlimited {
			t.Errorf("memory %d", bytes)
		}
		ranges, err := admission.ParsePorts(text)
		for _, r := range ranges {
			if err != nil || r.First == 0 || r.Last < r.First {
				t.Errorf("range %+v, error %v", r, err)
			}
		}
	})
}
