package task

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/usage"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/taskdef"
)

// at is a sample of a task with one container, some seconds after the first.
func at(seconds int, change func(*observe.Usage)) []usage.Sample {
	st := lifecycle.State{ID: strings.Repeat("a", 32), Name: "web", Task: taskdef.Task{Family: "web"}}
	u := observe.Usage{At: time.Unix(int64(100+seconds), 0), Source: observe.SourceCgroup, Containers: []observe.ContainerUsage{{Name: "app"}}}
	change(&u)
	return []usage.Sample{{State: st, Usage: u}}
}

func TestStatisticsAreOfTheInterval(t *testing.T) {
	t.Parallel()
	before := at(0, func(u *observe.Usage) {
		u.Task = cgroups.Usage{CPUUsec: 9_000_000, Throttling: &cgroups.Throttling{Periods: 100, Throttled: 50}}
		u.Containers[0].CPUUsec = 8_000_000
	})
	after := at(2, func(u *observe.Usage) {
		u.Task = cgroups.Usage{
			CPUUsec: 12_000_000, Throttling: &cgroups.Throttling{Periods: 120, Throttled: 55},
			Memory: &cgroups.Memory{Current: 90 << 20, InactiveFile: 42 << 20, Used: 48 << 20, Peak: 95 << 20, Limit: 96 << 20},
			PIDs:   &cgroups.PIDs{Current: 5, Limit: 4096},
			IO:     &cgroups.IO{Read: 1 << 20, Written: 2 << 20},
		}
		u.Network = &netns.Traffic{Received: 1 << 10, Sent: 2 << 10}
		u.Containers[0].Usage = cgroups.Usage{CPUUsec: 9_000_000, Memory: &cgroups.Memory{Used: 24 << 20}}
	})
	lines := usage.Compare(before, after)
	var out strings.Builder
	if err := console.WriteTable(&out, statsTable(lines)); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(out.String(), "\n")
	for i, want := range []string{
		"",
		"web (task) 150.0 25.0 48MiB 96MiB 50.0 95MiB 5/4096 1KiB / 2KiB 1MiB / 2MiB -",
		"app 50.0 - 24MiB - 25.0 - - - - -",
	} {
		if text := strings.Join(strings.Fields(got[i]), " "); want != "" && text != want {
			t.Errorf("row %d: %q, want %q", i, text, want)
		}
	}
	if l := lines[0]; l.CPUPercent != 150 || *l.ThrottledPercent != 25 || *l.Containers[0].MemoryPercent != 25 {
		t.Errorf("%+v", l)
	}
}

// A container that was restarted, and one that is new, have no past.
func TestCountersThatBeginAnew(t *testing.T) {
	t.Parallel()
	before := at(0, func(u *observe.Usage) { u.Task.CPUUsec, u.Containers[0].CPUUsec = 5_000_000, 4_000_000 })
	after := at(1, func(u *observe.Usage) {
		u.Task.CPUUsec, u.Containers[0].CPUUsec = 5_500_000, 500_000
		u.Containers = append(u.Containers, observe.ContainerUsage{Name: "new", Usage: cgroups.Usage{CPUUsec: 77}})
	})
	lines := usage.Compare(before, after)
	got := []float64{lines[0].CPUPercent, lines[0].Containers[0].CPUPercent, lines[0].Containers[1].CPUPercent}
	if diff := cmp.Diff([]float64{50, 50, 0}, got); diff != "" {
		t.Error(diff)
	}
	if lines := usage.Compare(nil, after); len(lines) != 0 {
		t.Errorf("a task without a sample of before: %+v", lines)
	}
}
