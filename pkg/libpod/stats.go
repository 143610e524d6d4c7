package libpod

import (
	"context"

	"github.com/containers/podman/v5/pkg/bindings/containers"
)

// Stats are what a running container has used, as Podman counts it.
type Stats struct {
	// CPUNanos is the time on CPUs since its start, in nanoseconds.
	CPUNanos uint64
	// Memory is in use, caches included, MemoryLimit what may be, in bytes; without
	// a limit that is the host's memory.
	Memory, MemoryLimit uint64
	PIDs                uint64
	// Read and Written are bytes of disks, Received and Sent of the network, which
	// 4.x does not tell.
	Read, Written, Received, Sent uint64
}

// Stats asks for the use of running containers, by their names. Those that do not
// run are left out. Rootless on cgroup v1 Podman has no statistics and says so.
func (c *Client) Stats(ctx context.Context, names ...string) (map[string]Stats, error) {
	found := map[string]Stats{}
	err := c.ask(ctx, "ask for the statistics of", "containers", func(ctx context.Context) error {
		reports, err := containers.Stats(ctx, names, new(containers.StatsOptions).WithStream(false))
		if err != nil {
			return err
		}
		for r := range reports {
			if r.Error != nil {
				err = r.Error
			}
			for _, s := range r.Stats {
				one := Stats{
					CPUNanos: s.CPUNano, Memory: s.MemUsage, MemoryLimit: s.MemLimit, PIDs: s.PIDs,
					Read: s.BlockInput, Written: s.BlockOutput,
				}
				for name, n := range s.Network {
					if name != "lo" {
						one.Received += n.RxBytes
						one.Sent += n.TxBytes
					}
				}
				found[s.Name] = one
			}
		}
		return err
	})
	return found, err
}
