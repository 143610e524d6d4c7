// Package usage measures what tasks and their containers use of CPU, memory and disks, between two samples.
package usage

import (
	"context"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
)

// Task has the usage of a task in an interval; templates see its fields.
type Task struct {
	ID     string    `json:"id"`
	Name   string    `json:"name,omitempty"`
	Family string    `json:"family"`
	At     time.Time `json:"at"`
	// Source is cgroup (the kernel's files) or podman.
	Source string `json:"source"`
	Use
	// Network is the traffic of all containers together; absent if the host has no figures.
	Network    *netns.Traffic `json:"network,omitempty"`
	Containers []Container    `json:"containers"`
}

// Container has the usage of a container in an interval.
type Container struct {
	Name string `json:"name"`
	Use
}

// Use has the usage of a task or container.
type Use struct {
	// CPUPercent is the average of the interval; 100 is one CPU.
	CPUPercent float64 `json:"cpuPercent"`
	// ThrottledPercent is the share of the interval in which the CPU limit throttled; absent without a limit.
	ThrottledPercent *float64 `json:"throttledPercent,omitempty"`
	// MemoryPercent is relative to the limit of the container, else of the task; absent without a limit.
	MemoryPercent *float64 `json:"memoryPercent,omitempty"`
	cgroups.Usage
}

// Sample is a task with its usage counters.
type Sample struct {
	lifecycle.State
	observe.Usage
}

// Sampler measures the usage of tasks.
type Sampler struct {
	tasks *record.Tasks
	stats *observe.Stats
}

// NewSampler returns a sampler of the tasks of a machine.
func NewSampler(m *command.Machine) Sampler {
	return Sampler{tasks: m.Engine.Tasks, stats: m.Engine.Stats}
}

// Sample measures the given tasks, or all. Tasks without a running container are left out.
func (s Sampler) Sample(ctx context.Context, wanted []lifecycle.State, all bool) ([]Sample, error) {
	var states []lifecycle.State
	if all {
		states, _ = s.tasks.States()
	}
	for _, st := range wanted {
		st, err := s.tasks.Find(st.ID) // it may have changed since
		if connect.IsGone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		states = append(states, st)
	}
	found, err := s.stats.ReadAll(ctx, states)
	if err != nil {
		return nil, err
	}
	var out []Sample
	for i, u := range found {
		if u != nil {
			out = append(out, Sample{states[i], *u})
		}
	}
	return out, nil
}

// Compare returns the statistics of the tasks that are in both samples.
func Compare(before, after []Sample) []Task {
	old := map[string]observe.Usage{}
	for _, b := range before {
		old[b.ID] = b.Usage
	}
	lines := []Task{}
	for _, a := range after {
		b, known := old[a.ID]
		if !known {
			continue
		}
		span := a.At.Sub(b.At)
		limit := uint64(0)
		if a.Usage.Task.Memory != nil {
			limit = a.Usage.Task.Memory.Limit
		}
		t := Task{
			ID: a.ID, Name: a.Name, Family: a.State.Task.Family, At: a.At.UTC(), Source: a.Source,
			Use: newUse(b.Task, a.Usage.Task, span, limit), Network: a.Network, Containers: []Container{},
		}
		for _, c := range a.Usage.Containers {
			earlier := c.Usage // of a new container nothing is known for this interval
			for _, o := range b.Containers {
				if o.Name == c.Name {
					earlier = o.Usage
				}
			}
			t.Containers = append(t.Containers, Container{c.Name, newUse(earlier, c.Usage, span, limit)})
		}
		lines = append(lines, t)
	}
	return lines
}

// newUse returns the usage between two samples. A counter that went back belongs to a restarted container.
func newUse(before, after cgroups.Usage, span time.Duration, limit uint64) Use {
	u := Use{Usage: after, CPUPercent: percent(counterDelta(before.CPUUsec, after.CPUUsec), uint64(span.Microseconds()))}
	if t, b := after.Throttling, before.Throttling; t != nil && b != nil && t.Periods > 0 {
		share := percent(counterDelta(b.Throttled, t.Throttled), max(counterDelta(b.Periods, t.Periods), 1))
		u.ThrottledPercent = &share
	}
	if m := after.Memory; m != nil {
		if m.Limit > 0 && (limit == 0 || m.Limit < limit) {
			limit = m.Limit
		}
		if limit > 0 {
			share := percent(m.Used, limit)
			u.MemoryPercent = &share
		}
	}
	return u
}

// counterDelta returns by how much a counter has grown.
func counterDelta(before, after uint64) uint64 {
	if after < before {
		return after
	}
	return after - before
}

// percent returns part of whole in percent, rounded to a tenth.
func percent(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(uint64(float64(part)/float64(whole)*1000+0.5)) / 10
}
