package observe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Stats measures what tasks use.
type Stats struct {
	Root   fs.FS // the host's files
	Podman func(context.Context) (StatsReader, error)
}

// The values of Usage.Source.
const (
	SourceCgroup = "cgroup" // the kernel's files about the task's slice
	SourcePodman = "podman" // what Podman says of each container
)

// Usage is what a task and its running containers have used at a moment.
type Usage struct {
	At     time.Time
	Source string
	// Task is of the slice, the infra container and conmon included; without a
	// slice the sum of the containers.
	Task cgroups.Usage
	// Network is of the namespace that the containers share; nil where they have
	// none of their own, or the host does not say.
	Network    *netns.Traffic
	Containers []ContainerUsage
}

// ContainerUsage is of one running container.
type ContainerUsage struct {
	Name string
	cgroups.Usage
}

// ErrNotRunning means that no container of the task runs, so it uses nothing.
var ErrNotRunning = errors.New("nothing of it runs")

// Read returns what the task uses now. Where it has a slice that needs nothing
// but the kernel's files. The error is ErrNotRunning for a task that has stopped.
func (c *Stats) Read(ctx context.Context, s lifecycle.State) (Usage, error) {
	if len(s.Running()) == 0 {
		return Usage{}, fmt.Errorf("task %s: %w", s.ID[:12], ErrNotRunning)
	}
	if group := limits.SliceGroup(s); group != "" {
		u, err := c.sliceUsage(s, group)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("task %s: its slice is gone: %w", s.ID[:12], ErrNotRunning)
		}
		return u, err
	}
	podman, err := c.Podman(ctx)
	if err != nil {
		return Usage{}, err
	}
	var names []string
	for _, i := range s.Running() {
		names = append(names, taskspec.ContainerName(s, i))
	}
	stats, err := podman.Stats(ctx, names...)
	if err != nil {
		return Usage{}, err
	}
	return podmanUsage(s, stats), nil
}

// ReadSlice returns what the task's slice has used, from the kernel's files alone. Ok is
// false for a task that has no slice now.
func (c *Stats) ReadSlice(s lifecycle.State) (u cgroups.Usage, ok bool) {
	group := limits.SliceGroup(s)
	if group == "" {
		return cgroups.Usage{}, false
	}
	u, err := cgroups.ReadUsage(c.Root, group)
	return u, err == nil
}

// ReadAll returns what each of the tasks uses now, nil for those of which nothing runs. Podman
// is asked once about all that have no slice, not about each.
func (c *Stats) ReadAll(ctx context.Context, tasks []lifecycle.State) ([]*Usage, error) {
	var asked []int
	for i, s := range tasks {
		if limits.SliceGroup(s) == "" && len(s.Running()) > 0 {
			asked = append(asked, i)
		}
	}
	all := make(map[string]libpod.Stats)
	if len(asked) > 1 {
		// Named containers would be left out by Podman together if one of them ends just
		// now, so it is asked about all that run.
		podman, err := c.Podman(ctx)
		if err == nil {
			all, err = podman.Stats(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	found, errs := make([]*Usage, len(tasks)), make([]error, len(tasks))
	var wg sync.WaitGroup
	for i, s := range tasks {
		if len(asked) > 1 && slices.Contains(asked, i) {
			u := podmanUsage(s, all)
			found[i] = &u
			continue
		}
		wg.Go(func() {
			u, err := c.Read(ctx, s)
			if err == nil {
				found[i] = &u
			} else if !errors.Is(err, ErrNotRunning) {
				errs[i] = err
			}
		})
	}
	wg.Wait()
	return found, errors.Join(errs...)
}

func (c *Stats) sliceUsage(s lifecycle.State, group string) (Usage, error) {
	u := Usage{At: time.Now(), Source: SourceCgroup}
	var err error
	if u.Task, err = cgroups.ReadUsage(c.Root, group); err != nil {
		return u, err
	}
	scopes := cgroups.Scopes(c.Root, group)
	pid := 0
	for _, i := range s.Running() {
		scope, found := scopes[s.Containers[i].ID]
		if !found {
			continue
		}
		one, err := cgroups.ReadContainer(c.Root, scope)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it ended just now
		}
		if err != nil {
			return u, err
		}
		u.Containers = append(u.Containers, ContainerUsage{s.Task.Containers[i].Name, one})
		if pid == 0 {
			pid = cgroups.Process(c.Root, scope)
		}
	}
	if s.Task.Network != taskdef.NetworkHost && pid != 0 {
		if t, err := netns.ReadTraffic(c.Root, pid); err == nil {
			u.Network = &t
		}
	}
	return u, nil
}

// podmanUsage is for hosts without a slice.
func podmanUsage(s lifecycle.State, stats map[string]libpod.Stats) Usage {
	u := Usage{At: time.Now(), Source: SourcePodman}
	total := libpod.Stats{}
	for _, i := range s.Running() {
		one, found := stats[taskspec.ContainerName(s, i)]
		if !found {
			continue
		}
		limit := uint64(s.Task.Containers[i].Memory)
		u.Containers = append(u.Containers, ContainerUsage{s.Task.Containers[i].Name, podmanCounts(one, limit)})
		total.CPUNanos += one.CPUNanos
		total.Memory += one.Memory
		total.PIDs += one.PIDs
		total.Read += one.Read
		total.Written += one.Written
		u.Network = &netns.Traffic{Received: one.Received, Sent: one.Sent} // the same for all
	}
	u.Task = podmanCounts(total, uint64(s.Quota().Memory))
	if u.Network != nil && *u.Network == (netns.Traffic{}) {
		u.Network = nil // 4.x does not tell
	}
	return u
}

func podmanCounts(s libpod.Stats, limit uint64) cgroups.Usage {
	u := cgroups.Usage{CPUUsec: s.CPUNanos / 1000, IO: &cgroups.IO{Read: s.Read, Written: s.Written}}
	if s.Memory > 0 { // 0: the host does not count
		u.Memory = &cgroups.Memory{Current: s.Memory, Used: s.Memory, Limit: limit}
	}
	if s.PIDs > 0 {
		u.PIDs = &cgroups.PIDs{Current: s.PIDs}
	}
	return u
}

// StatsReader reads statistics of containers: of those named, or of all that run.
type StatsReader interface {
	Stats(ctx context.Context, names ...string) (map[string]libpod.Stats, error)
}
