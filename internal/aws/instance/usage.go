package instance

import (
	"context"
	"io/fs"
	"runtime"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/netns"
)

// Use is what a container has used since it started.
type Use struct {
	CPU time.Duration
	// Memory is in bytes, now; Read and Written are of disks, Received and Sent of the network of its
	// namespace, in bytes.
	Memory, Read, Written, Received, Sent uint64
}

// UsageReader reads what containers use.
type UsageReader interface {
	// Read returns what containers use, by their ids at Podman. Those that do not run are left out.
	Read(ctx context.Context) map[string]Use
}

// HostUsage reads the files of the kernel below Root.
type HostUsage struct{ Root fs.FS }

// Read implements UsageReader.
func (h HostUsage) Read(context.Context) map[string]Use {
	out := make(map[string]Use)
	var resident map[string]uint64
	for id, place := range cgroups.Places(h.Root) {
		u, err := cgroups.ReadUsage(h.Root, place.Group)
		if err != nil {
			continue // it ended just now
		}
		one := Use{CPU: time.Duration(u.CPUUsec) * time.Microsecond}
		if u.Memory != nil {
			one.Memory = u.Memory.Used
		} else {
			if resident == nil {
				resident = cgroups.Resident(h.Root)
			}
			one.Memory = resident[id]
		}
		if u.IO != nil {
			one.Read, one.Written = u.IO.Read, u.IO.Written
		}
		if t, err := netns.ReadTraffic(h.Root, place.PID); err == nil {
			one.Received, one.Sent = t.Received, t.Sent
		}
		out[id] = one
	}
	return out
}

// sampler collects samples between two messages. It is used by one goroutine.
type sampler struct {
	last   map[string]sample // by the id of the container
	sets   map[string]*containerSums
	status string
	// statusAt is the time at which the status of the instance changed.
	statusAt time.Time
}

type sample struct {
	at  time.Time
	use Use
}

// containerSums are the samples of a container since the last message.
type containerSums struct {
	cpu, memory, rxPerSecond, txPerSecond wire.Stats
	rx, tx, read, written                 wire.WholeStats
}

func newSampler() *sampler {
	return &sampler{last: make(map[string]sample), sets: make(map[string]*containerSums)}
}

// take takes a sample of all containers of the instance.
func (s *sampler) take(ctx context.Context, n *node) {
	if n.Usage == nil {
		return
	}
	now, all := time.Now(), n.Usage.Read(ctx)
	next := make(map[string]sample)
	for _, w := range n.all() {
		t, _ := w.seen()
		for _, c := range t.Containers {
			use, runs := all[c.RuntimeID]
			if !runs || c.RuntimeID == "" {
				continue
			}
			set := s.sets[c.RuntimeID]
			if set == nil {
				set = new(containerSums)
				s.sets[c.RuntimeID] = set
			}
			before, known := s.last[c.RuntimeID]
			if elapsed := now.Sub(before.at).Seconds(); known && elapsed > 0 {
				add(&set.cpu, 100*(use.CPU-before.use.CPU).Seconds()/elapsed/float64(runtime.NumCPU()))
				add(&set.rxPerSecond, float64(int64(use.Received)-int64(before.use.Received))/elapsed)
				add(&set.txPerSecond, float64(int64(use.Sent)-int64(before.use.Sent))/elapsed)
			}
			add(&set.memory, float64(use.Memory/(1<<20)))
			addWhole(&set.rx, use.Received)
			addWhole(&set.tx, use.Sent)
			addWhole(&set.read, use.Read)
			addWhole(&set.written, use.Written)
			next[c.RuntimeID] = sample{now, use}
		}
	}
	s.last = next
}

func add(s *wire.Stats, v float64) {
	if v < 0 {
		v = 0 // the counters began anew
	}
	if s.Count == 0 {
		s.Min, s.Max = v, v
	}
	s.Min, s.Max = min(s.Min, v), max(s.Max, v)
	s.Sum += v
	s.Count++
}

func addWhole(s *wire.WholeStats, n uint64) {
	v := int64(min(n, 1<<62))
	if s.Count == 0 {
		s.Min, s.Max = v, v
	}
	s.Min, s.Max = min(s.Min, v), max(s.Max, v)
	s.Sum = min(s.Sum, 1<<62) + min(v, 1<<62-1)
	s.Count++
}

// sums returns the samples of all tasks that run, and begins anew.
func (s *sampler) sums(n *node) (out []wire.TaskMetrics) {
	for _, w := range n.all() {
		t, rec := w.seen()
		if t.ID == "" || t.Status == wire.StatusStopped {
			continue
		}
		m := wire.TaskMetrics{ARN: rec.Task.ARN, Family: rec.Task.Family, Version: rec.Task.Version, Containers: []wire.ContainerMetrics{}}
		for _, c := range t.Containers {
			set := s.sets[c.RuntimeID]
			if set == nil || c.RuntimeID == "" {
				continue
			}
			one := wire.ContainerMetrics{Name: c.Name, Memory: &set.memory, Storage: &wire.StorageSet{Read: &set.read, Write: &set.written}}
			if set.cpu.Count > 0 {
				one.CPU = &set.cpu
			}
			if t.NetworkMode != "host" {
				one.Network = &wire.NetworkSet{RxBytes: &set.rx, TxBytes: &set.tx}
				if set.rxPerSecond.Count > 0 {
					one.Network.RxBytesPerSecond, one.Network.TxBytesPerSecond = &set.rxPerSecond, &set.txPerSecond
				}
			}
			for _, p := range rec.Task.Containers {
				if p.Name == c.Name && p.RestartPolicy != nil && p.RestartPolicy.Enabled {
					one.Restarts = &wire.RestartSet{Count: int64(c.RestartCount)}
				}
			}
			m.Containers = append(m.Containers, one)
		}
		if len(m.Containers) > 0 {
			out = append(out, m)
		}
	}
	s.sets = make(map[string]*containerSums)
	return out
}
