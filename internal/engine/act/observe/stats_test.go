package observe_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/taskdef"
)

// statistics is a Podman of which only statistics are asked.
type statistics map[string]libpod.Stats

func (s statistics) Stats(context.Context, ...string) (map[string]libpod.Stats, error) { return s, nil }

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// running is a task of two containers without a slice, both running.
func running() lifecycle.State {
	t := taskdef.Task{Family: "web", Network: taskdef.NetworkBridge, Memory: 96 << 20, Containers: []taskdef.Container{
		{Name: "a", Image: "x:1", Essential: true, StopTimeout: time.Second, Memory: 32 << 20},
		{Name: "b", Image: "x:1", StopTimeout: time.Second},
	}}
	s := lifecycle.New(strings.Repeat("a", 32), "", t, lifecycle.Options{}, noon)
	for i := range s.Containers {
		s.Containers[i].Presence, s.Containers[i].StartedAt = lifecycle.Running, noon
	}
	return s
}

// statsOf reads from a Podman with those statistics, or that error.
func statsOf(stats map[string]libpod.Stats, err error) *observe.Stats {
	return &observe.Stats{Root: os.DirFS("/"), Podman: func(context.Context) (observe.StatsReader, error) { return statistics(stats), err }}
}

// Without a slice Podman's numbers are shown, and added up for the task.
func TestUsageWithoutASlice(t *testing.T) {
	t.Parallel()
	s := running()
	stats := statsOf(map[string]libpod.Stats{
		taskspec.ContainerName(s, 0): {CPUNanos: 5_000_000, Memory: 10, MemoryLimit: 1 << 40, PIDs: 2, Read: 1, Written: 2, Received: 7, Sent: 8},
		taskspec.ContainerName(s, 1): {CPUNanos: 1_000_000, Memory: 30, MemoryLimit: 1 << 40, PIDs: 3, Received: 7, Sent: 8},
	}, nil)
	got, err := stats.Read(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	got.At = time.Time{}
	want := observe.Usage{
		Source: observe.SourcePodman,
		Task: cgroups.Usage{
			CPUUsec: 6000, Memory: &cgroups.Memory{Current: 40, Used: 40, Limit: 96 << 20},
			PIDs: &cgroups.PIDs{Current: 5}, IO: &cgroups.IO{Read: 1, Written: 2},
		},
		Network: &netns.Traffic{Received: 7, Sent: 8},
		Containers: []observe.ContainerUsage{
			{Name: "a", Usage: cgroups.Usage{CPUUsec: 5000, Memory: &cgroups.Memory{Current: 10, Used: 10, Limit: 32 << 20}, PIDs: &cgroups.PIDs{Current: 2}, IO: &cgroups.IO{Read: 1, Written: 2}}},
			{Name: "b", Usage: cgroups.Usage{CPUUsec: 1000, Memory: &cgroups.Memory{Current: 30, Used: 30}, PIDs: &cgroups.PIDs{Current: 3}, IO: &cgroups.IO{}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestUsageThatIsNotKnown(t *testing.T) {
	t.Parallel()
	refused := errors.New("no statistics rootless on cgroup v1")
	if _, err := statsOf(nil, refused).Read(t.Context(), running()); !errors.Is(err, refused) {
		t.Errorf("Podman refuses: %v", err)
	}
	s := running()
	for i := range s.Containers {
		s.Containers[i].Presence = lifecycle.Exited
	}
	if _, err := statsOf(nil, nil).Read(t.Context(), s); !errors.Is(err, observe.ErrNotRunning) {
		t.Errorf("a task that has stopped: %v", err)
	}
}

// asked counts the requests for statistics.
type asked struct {
	statistics
	times atomic.Int32
}

func (a *asked) Stats(ctx context.Context, names ...string) (map[string]libpod.Stats, error) {
	a.times.Add(1)
	return a.statistics.Stats(ctx, names...)
}

// However many tasks have no slice, Podman is asked once.
func TestUsageOfManyTasksIsOneRequest(t *testing.T) {
	t.Parallel()
	podman := &asked{statistics: statistics{}}
	tasks := make([]lifecycle.State, 5)
	for i := range tasks {
		tasks[i] = running()
		tasks[i].ID = strings.Repeat(string(rune('a'+i)), 32)
		podman.statistics[taskspec.ContainerName(tasks[i], 0)] = libpod.Stats{CPUNanos: uint64(i+1) * 1000}
	}
	for i := range tasks[4].Containers {
		tasks[4].Containers[i].Presence = lifecycle.Exited
	}
	stats := &observe.Stats{Root: os.DirFS("/"), Podman: func(context.Context) (observe.StatsReader, error) { return podman, nil }}
	got, err := stats.ReadAll(t.Context(), tasks)
	if err != nil || len(got) != 5 || got[4] != nil {
		t.Fatalf("%v, %v", got, err)
	}
	for i, u := range got[:4] {
		if u == nil || u.Task.CPUUsec != uint64(i+1) {
			t.Errorf("task %d: %+v", i, u)
		}
	}
	if n := podman.times.Load(); n != 1 {
		t.Errorf("Podman was asked %d times", n)
	}
	if _, err := statsOf(nil, errors.New("refused")).ReadAll(t.Context(), tasks); err == nil {
		t.Error("no error when Podman refuses")
	}
}
