package kubeaccess

import (
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// A Pod has the memory that its cgroup counts. Where nothing is counted, it has that of its
// processes, which are read only then.
func TestPodUsage(t *testing.T) {
	t.Parallel()
	began := time.Unix(1700000000, 0)
	s := lifecycle.State{
		CreatedAt:  began,
		Task:       taskdef.Task{Containers: []taskdef.Container{{Name: "web"}, {Name: "log"}}},
		Containers: []lifecycle.Container{{ID: "w1", StartedAt: began.Add(time.Second)}, {ID: "l1", StartedAt: began.Add(2 * time.Second)}},
	}
	used := func(memory func(uint64) *cgroups.Memory) *observe.Usage {
		return &observe.Usage{
			Task: cgroups.Usage{CPUUsec: 9, Memory: memory(700)},
			Containers: []observe.ContainerUsage{ // one has ended
				{Name: "log", Usage: cgroups.Usage{CPUUsec: 5, Memory: memory(300)}},
			},
		}
	}
	for name, tt := range map[string]struct {
		memory               func(uint64) *cgroups.Memory
		read                 bool
		total, log, resident uint64
	}{
		"counted":     {func(n uint64) *cgroups.Memory { return &cgroups.Memory{Used: n} }, false, 700, 300, 80},
		"not counted": {func(uint64) *cgroups.Memory { return nil }, true, 80, 80, 80},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read := false
			got := podUsage(s, used(tt.memory), func() map[string]uint64 {
				read = true
				return map[string]uint64{"w1": 60, "l1": tt.resident}
			})
			if read != tt.read {
				t.Errorf("processes were read: %v", read)
			}
			if got.Total.Memory != tt.total || got.Total.CPU != 9*time.Microsecond || !got.Total.Started.Equal(began) {
				t.Errorf("the Pod uses %+v", got.Total)
			}
			if len(got.Containers) != 1 {
				t.Fatalf("containers: %+v", got.Containers)
			}
			if c := got.Containers[0]; c.Name != "log" || c.Memory != tt.log || c.CPU != 5*time.Microsecond || !c.Started.Equal(began.Add(2*time.Second)) {
				t.Errorf("the container uses %+v", c)
			}
		})
	}
}
