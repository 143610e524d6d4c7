package admit_test

import (
	"testing"

	"github.com/podtask/podtask/internal/engine/act/admit"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/ports"
	"github.com/podtask/podtask/pkg/taskdef"
)

func TestPortsArePublishedOneByOne(t *testing.T) {
	t.Parallel()
	var holders admit.PortHolders
	port := func(first, last, host uint16) taskdef.Port {
		return taskdef.Port{ContainerPort: first, ContainerPortEnd: last, HostPort: host, Protocol: "tcp"}
	}
	for _, c := range []struct {
		rule   string
		ports  []taskdef.Port
		want   int
		choose bool
	}{
		{"a port is left to Podman", []taskdef.Port{port(80, 0, 0), port(81, 0, 0), port(82, 0, 8082)}, 3, false},
		{"the same port twice is not", []taskdef.Port{port(80, 0, 0), port(80, 0, 0)}, 2, true},
		{"with one fixed it is", []taskdef.Port{port(80, 0, 0), port(80, 0, 8080)}, 2, false},
		{"a range is not", []taskdef.Port{port(8000, 8003, 0)}, 4, true},
		{"a fixed range is what it is", []taskdef.Port{port(8000, 8003, 9000)}, 4, false},
	} {
		wanted := ports.OfTask(taskdef.Task{Containers: []taskdef.Container{{Ports: c.ports}}})
		choose := holders.Choose("one", wanted)
		if len(taskspec.Publish(wanted)) != c.want || (choose != nil) != c.choose {
			t.Errorf("%s: %d ports, chosen by podtask: %t", c.rule, len(wanted), choose != nil)
		}
	}
	choose := holders.Choose("one", []ports.Mapping{{ContainerPort: 80, Protocol: "tcp", HostIP: "127.0.0.1"}, {ContainerPort: 80, Protocol: "tcp", HostIP: "127.0.0.1"}})
	chosen, err := choose(nil)
	if err != nil || len(chosen) != 2 || chosen[0].HostPort == 0 || chosen[0].HostPort == chosen[1].HostPort {
		t.Errorf("chosen %v, %v", chosen, err)
	}
}

// The second of two tasks that start at the same time gets another port than the one that
// both prefer, before the first one has opened it.
func TestPreferredPortIsChosenOnce(t *testing.T) {
	t.Parallel()
	var holders admit.PortHolders
	free, err := netns.FreePort("tcp", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	wanted := []ports.Mapping{{ContainerPort: 80, Preferred: free, Protocol: "tcp", HostIP: "127.0.0.1"}}
	chosen := func(id string) uint16 {
		got, err := holders.Choose(id, wanted)(nil)
		if err != nil || len(got) != 1 {
			t.Fatalf("%v, %v", got, err)
		}
		return got[0].HostPort
	}
	first, second, again := chosen("first"), chosen("second"), chosen("first")
	if first != free || second == free || again != free {
		t.Errorf("the tasks got %d, %d and %d, want %d for the first one only", first, second, again, free)
	}
	holders.Release("first")
	if third := chosen("third"); third != free {
		t.Errorf("a released port was not chosen: %d, want %d", third, free)
	}
}
