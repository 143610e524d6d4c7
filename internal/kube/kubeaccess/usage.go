package kubeaccess

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/kube/kubeserve"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Usage implements kubeserve.Pods. The node's use is that of the whole host. Where the host does
// not count the memory of Pods, it is that of their processes: metrics-server leaves out Pods
// without a figure.
func (a *Access) Usage(ctx context.Context) (kubeserve.Usage, error) {
	u := kubeserve.Usage{At: time.Now()}
	var err error
	if u.Node, err = hostCounts(a.root); err != nil {
		return u, err
	}
	states, _ := a.agent.Tasks.States()
	states = slices.DeleteFunc(states, func(s lifecycle.State) bool {
		return taskdef.PodRefOf(s.Task).Name == "" || len(s.Running()) == 0
	})
	all, err := a.agent.Stats.ReadAll(ctx, states)
	if all == nil {
		return u, err
	}
	resident := sync.OnceValue(func() map[string]uint64 { return cgroups.Resident(a.root) })
	for k, used := range all {
		if used != nil { // else it ended just now
			u.Pods = append(u.Pods, podUsage(states[k], used, resident))
		}
	}
	return u, nil
}

// podUsage returns the resource usage of a Pod. Resident returns the memory of containers by ID, for hosts that do not
// count it.
func podUsage(s lifecycle.State, used *observe.Usage, resident func() map[string]uint64) kubeserve.PodUsage {
	ref := taskdef.PodRefOf(s.Task)
	p := kubeserve.PodUsage{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID, Total: counts(used.Task, s.CreatedAt)}
	sum := uint64(0)
	for _, c := range used.Containers {
		i, _ := s.Task.Index(c.Name)
		one := counts(c.Usage, s.Containers[i].StartedAt)
		if c.Memory == nil {
			one.Memory = resident()[s.Containers[i].ID]
		}
		sum += one.Memory
		p.Containers = append(p.Containers, kubeserve.ContainerUsage{Name: c.Name, Counts: one})
	}
	if used.Task.Memory == nil {
		p.Total.Memory = sum
	}
	return p
}

func counts(u cgroups.Usage, started time.Time) kubeserve.Counts {
	c := kubeserve.Counts{Started: started, CPU: time.Duration(u.CPUUsec) * time.Microsecond}
	if u.Memory != nil {
		c.Memory = u.Memory.Used
	}
	return c
}

// tick is the unit of /proc/stat (USER_HZ).
const tick = 10 * time.Millisecond

// hostCounts reads the usage of the whole host: processor time from /proc/stat without idle time, and memory that is not
// available.
func hostCounts(root fs.FS) (c kubeserve.Counts, err error) {
	stat, err := fields(root, "proc/stat")
	if err != nil {
		return c, err
	}
	cpu := stat["cpu"]
	if len(cpu) < 8 {
		return c, fmt.Errorf("/proc/stat has %d numbers about the CPUs, not 8", len(cpu))
	}
	for i, n := range cpu[:8] { // user, nice, system, idle, iowait, irq, softirq, steal; guests are part of user
		if i != 3 && i != 4 {
			c.CPU += time.Duration(n) * tick
		}
	}
	if boot := stat["btime"]; len(boot) > 0 {
		c.Started = time.Unix(int64(boot[0]), 0)
	}
	memory, err := fields(root, "proc/meminfo")
	if err != nil {
		return c, err
	}
	total, free := memory["MemTotal:"], memory["MemAvailable:"]
	if len(total) == 0 || len(free) == 0 {
		return c, fmt.Errorf("/proc/meminfo lacks MemTotal or MemAvailable")
	}
	c.Memory = (total[0] - min(free[0], total[0])) * 1024
	return c, nil
}

// fields reads a file with a word and numbers on each line.
func fields(root fs.FS, name string) (map[string][]uint64, error) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, err
	}
	out := make(map[string][]uint64)
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		words := strings.Fields(lines.Text())
		for i := 1; i < len(words); i++ {
			n, err := strconv.ParseUint(words[i], 10, 64)
			if err != nil {
				break
			}
			out[words[0]] = append(out[words[0]], n)
		}
	}
	return out, nil
}
