package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/conn"
	"github.com/podtask/podtask/internal/observe"
	"github.com/podtask/podtask/internal/podspec"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/taskdef"
)

// counting is an engine of which only statistics are asked.
type counting struct {
	conn.Podman
	stats map[string]libpod.Stats
	err   error
}

func (c counting) Stats(context.Context, ...string) (map[string]libpod.Stats, error) {
	return c.stats, c.err
}

func (counting) Close() error { return nil }

// silent is one that has none.
type silent struct{ conn.Podman }

func (silent) Close() error { return nil }

// running is a task of two containers without a slice, both running.
func running() lifecycle.State {
	t := taskdef.Task{Family: "web", Network: taskdef.NetworkBridge, Memory: 96 << 20, Containers: []taskdef.Container{
		{Name: "a", Image: "x:1", Essential: true, StopTimeout: time.Second, Memory: 32 << 20},
		{Name: "b", Image: "x:1", StopTimeout: time.Second},
	}}
	s := lifecycle.New(strings.Repeat("a", 32), "", t, lifecycle.Options{}, fixed)
	for i := range s.Containers {
		s.Containers[i].Presence, s.Containers[i].StartedAt = lifecycle.Running, fixed
	}
	return s
}

func hostWith(t *testing.T, e conn.Podman) *Agent {
	t.Helper()
	h, err := Open(Config{StateDir: t.TempDir(), RuntimeDir: t.TempDir(), Getenv: func(string) string { return "" }, Dial: func(context.Context) (conn.Podman, error) { return e, nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// Without a slice Podman's numbers are shown, and added up for the task.
func TestUsageWithoutASlice(t *testing.T) {
	t.Parallel()
	s := running()
	h := hostWith(t, counting{stats: map[string]libpod.Stats{
		podspec.ContainerName(s, 0): {CPUNanos: 5_000_000, Memory: 10, MemoryLimit: 1 << 40, PIDs: 2, Read: 1, Written: 2, Received: 7, Sent: 8},
		podspec.ContainerName(s, 1): {CPUNanos: 1_000_000, Memory: 30, MemoryLimit: 1 << 40, PIDs: 3, Received: 7, Sent: 8},
	}})
	got, err := h.Stats.Read(t.Context(), s)
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

func TestUsageThatNobodyKnows(t *testing.T) {
	t.Parallel()
	refused := errors.New("no statistics rootless on cgroup v1")
	if _, err := hostWith(t, counting{err: refused}).Stats.Read(t.Context(), running()); !errors.Is(err, refused) {
		t.Errorf("Podman refuses: %v", err)
	}
	if _, err := hostWith(t, silent{}).Stats.Read(t.Context(), running()); err == nil {
		t.Error("an engine without statistics has some")
	}
	s := running()
	for i := range s.Containers {
		s.Containers[i].Presence = lifecycle.Exited
	}
	if _, err := hostWith(t, silent{}).Stats.Read(t.Context(), s); !errors.Is(err, observe.ErrNotRunning) {
		t.Errorf("a task that has stopped: %v", err)
	}
}

func TestSliceLimitsFollowTheDefinition(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	c := func(cpu, reserved int64) taskdef.Container {
		return taskdef.Container{CPU: cpu, MemoryReservation: reserved}
	}
	for name, tt := range map[string]struct {
		task  taskdef.Task
		quota lifecycle.Quota
		want  cgroups.Limits
	}{
		"nothing asked": {taskdef.Task{Containers: []taskdef.Container{c(0, 0)}}, lifecycle.Quota{}, cgroups.Limits{}},
		"limits of the task, and as much swap as memory": {taskdef.Task{CPU: 0.5, Memory: 96 * mib, Containers: []taskdef.Container{c(512, 0)}}, lifecycle.Quota{},
			cgroups.Limits{CPU: 0.5, Memory: 96 * mib, SwapMax: 96 * mib}},
		"shares add up, one counts as two": {taskdef.Task{Containers: []taskdef.Container{c(1, 0), c(1022, 0), c(0, 0)}}, lifecycle.Quota{},
			cgroups.Limits{CPUWeight: 100}},
		"shares beyond the kernel's": {taskdef.Task{Containers: []taskdef.Container{c(1<<40, 0)}}, lifecycle.Quota{}, cgroups.Limits{CPUWeight: 10000}},
		"without cpu each counts as two": {taskdef.Task{Containers: []taskdef.Container{c(0, 0), c(0, 0)}}, lifecycle.Quota{ImplicitShares: true},
			cgroups.Limits{CPUWeight: cgroups.Curve{}.Weight(4)}},
		"a sidecar without cpu beside an app": {taskdef.Task{Containers: []taskdef.Container{c(256, 0), c(0, 0)}}, lifecycle.Quota{ImplicitShares: true},
			cgroups.Limits{CPUWeight: cgroups.Curve{}.Weight(258)}},
		"cpu of the task": {taskdef.Task{CPU: 0.5, Containers: []taskdef.Container{c(0, 0)}}, lifecycle.Quota{ImplicitShares: true},
			cgroups.Limits{CPU: 0.5}},
		"reservations without a limit": {taskdef.Task{Containers: []taskdef.Container{c(0, 10*mib), c(0, 20*mib)}}, lifecycle.Quota{}, cgroups.Limits{MemoryLow: 30 * mib}},
		"reservations below a limit": {taskdef.Task{Memory: 100 * mib, Containers: []taskdef.Container{c(0, 50*mib)}}, lifecycle.Quota{},
			cgroups.Limits{Memory: 100 * mib, SwapMax: 100 * mib, MemoryLow: 50 * mib, MemoryHigh: 95 * mib}},
		"reservations that are more than the limit together": {taskdef.Task{Memory: 60 * mib, Containers: []taskdef.Container{c(0, 50*mib), c(0, 50*mib)}}, lifecycle.Quota{},
			cgroups.Limits{Memory: 60 * mib, SwapMax: 60 * mib, MemoryLow: 60 * mib, MemoryHigh: 60 * mib}},
		"the quota wins": {taskdef.Task{CPU: 0.5, Memory: 96 * mib, Containers: []taskdef.Container{c(0, 0)}},
			lifecycle.Quota{CPU: 1, Memory: 128 * mib, TasksMax: 7, IOWeight: 5, CPUPeriod: 20 * time.Millisecond},
			cgroups.Limits{CPU: 1, CPUPeriod: 20 * time.Millisecond, Memory: 128 * mib, SwapMax: 128 * mib, TasksMax: 7, IOWeight: 5}},
	} {
		if diff := cmp.Diff(tt.want, podspec.TaskLimits(tt.task, tt.quota, cgroups.Curve{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
