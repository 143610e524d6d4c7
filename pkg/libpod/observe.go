package libpod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/containers"
)

// Status is what Podman says about a container.
type Status int

// The statuses. Absent is the zero value.
const (
	// Absent: there is no such container.
	Absent Status = iota
	// Created: never started, or its start failed (Podman then keeps this state).
	Created
	// Running includes paused and stopping containers.
	Running
	// Exited: ran and ended.
	Exited
	// Removing: Podman is about to delete it, or gave up doing so.
	Removing

	numStatus
)

var statusNames = [numStatus]string{Absent: "absent", Created: "created", Running: "running", Exited: "exited", Removing: "removing"}

// String returns the status in lower case.
func (s Status) String() string {
	if s < 0 || s >= numStatus {
		return fmt.Sprintf("status(%d)", int(s))
	}
	return statusNames[s]
}

// Observed is a container as Podman sees it at one moment.
type Observed struct {
	Status Status
	// Paused: Running, but frozen.
	Paused bool
	// Foreign: the container exists and lacks TaskLabel. Leave it alone.
	Foreign bool
	// TaskID is the value of TaskLabel.
	TaskID string
	ID     string
	// ImageID is the id of the image's configuration, without "sha256:".
	ImageID string
	// ImageDigest is the digest of the image's manifest.
	ImageDigest string
	// PID is the main process on the host; 0 unless Running, or Created and set up by
	// InitContainer.
	PID int
	// StartedAt and FinishedAt are of the last run. FinishedAt is zero unless Exited,
	// and then not before StartedAt.
	StartedAt, FinishedAt time.Time
	// ExitCode is of the last run, 128+n after signal n; 0 unless Exited.
	ExitCode int
	// OOMKilled: the kernel killed a process of the container for memory. That need
	// not have been the main one.
	OOMKilled bool
	// Ports are those that the container publishes itself, none of them 0, sorted by
	// container port.
	Ports []Port
	// Addresses are the container's own on networks; none unless it is set up.
	Addresses []netip.Addr
	// Error is Podman's own word on a failed start; always empty on 4.3.1.
	Error string
}

// InspectContainer returns what Podman knows; a container that does not exist is
// not an error but Absent.
func (c *inspectAPI) InspectContainer(ctx context.Context, name string) (Observed, error) {
	data, err := c.inspect(ctx, name)
	switch {
	case errors.Is(err, NotFound):
		return Observed{}, nil
	case err != nil:
		return Observed{}, err
	}
	return observe(data), nil
}

func (c *inspectAPI) inspect(ctx context.Context, name string) (data *define.InspectContainerData, err error) {
	err = c.ask(ctx, "inspect container", name, func(ctx context.Context) (err error) {
		data, err = containers.Inspect(ctx, name, nil)
		return err
	})
	// Podman also finds a container by a prefix of its id.
	if err == nil && data.Name != name && data.ID != name {
		return nil, &Error{Op: "inspect container", Object: name, Class: NotFound, Cause: "no such container"}
	}
	return data, err
}

// observe translates Podman's report. What belongs to an exit is left out until
// there was one: Podman reports code 0 for a container that never ran, and the
// times and code of the run before for one that runs again.
func observe(data *define.InspectContainerData) Observed {
	task, ours := labelsOf(data)[TaskLabel]
	o := Observed{Foreign: !ours, TaskID: task, ID: data.ID, ImageID: data.Image, ImageDigest: data.ImageDigest, Addresses: addressesOf(data)}
	o.Ports, _ = portsOf(data) // those of an unknown form are none of ours
	st := data.State
	if st == nil {
		o.Status = Created
		return o
	}
	o.Status = statusFrom(st.Status)
	o.Paused = st.Status == define.ContainerStatePaused.String()
	o.PID = st.Pid
	o.StartedAt = zeroEpoch(st.StartedAt)
	o.OOMKilled, o.Error = st.OOMKilled, oneLine(st.Error)
	// After the power failed Podman says exited with code 0, and no time of it:
	// nobody has seen the end.
	if o.Status == Exited && !o.StartedAt.IsZero() && zeroEpoch(st.FinishedAt).IsZero() {
		o.Status = Created
	}
	if o.Status == Exited {
		o.ExitCode, o.FinishedAt = int(st.ExitCode), zeroEpoch(st.FinishedAt)
		// Two clocks: Podman notes the start after conmon may have noted the end.
		if o.FinishedAt.Before(o.StartedAt) {
			o.FinishedAt = o.StartedAt
		}
	}
	if o.Status != Running && st.Status != setUp {
		o.PID = 0
	}
	return o
}

// addressesOf returns the addresses of a container on its networks, sorted.
func addressesOf(data *define.InspectContainerData) (found []netip.Addr) {
	if data.NetworkSettings == nil {
		return nil
	}
	for _, n := range data.NetworkSettings.Networks {
		for _, text := range []string{n.IPAddress, n.GlobalIPv6Address} {
			if a, err := netip.ParseAddr(text); err == nil {
				found = append(found, a)
			}
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return found
}

// setUp is Podman's word for a container that has namespaces and a process, which does
// not run the program yet.
const setUp = "initialized"

// statusFrom maps Podman's state. Configured and initialized are before the first
// process; stopped is an exit that is not cleaned up yet.
func statusFrom(state string) Status {
	switch state {
	case "running", "paused", "stopping":
		return Running
	case "exited", "stopped":
		return Exited
	case "removing":
		return Removing
	}
	return Created
}

// zeroEpoch makes Go's zero time of the other zero that Podman uses.
func zeroEpoch(t time.Time) time.Time {
	if t.Unix() <= 0 {
		return time.Time{}
	}
	return t
}

// maxProbeOutput bounds ProbeResult.Output in bytes.
const maxProbeOutput = 1024

// ProbeResult is the outcome of one probe.
type ProbeResult struct {
	Healthy bool
	// ExitCode is 0 for a healthy probe and otherwise what Podman noted: 1 for any
	// other exit code of the command and for a command that cannot be run, so not
	// the command's own.
	ExitCode int
	// Output is the end of what an unhealthy probe wrote, at most maxProbeOutput
	// bytes. It is best effort: Podman keeps 500 bytes and 4.3.1 may lose them, and
	// for a healthy probe nobody asks.
	Output string
}

// Probe runs the container's health check once, now. Healthy says how this probe
// went; the streak, retries and start period are the caller's.
//
// Podman does not end a probe that takes too long: when ctx ends first, the error
// is Timeout or Canceled and the command goes on in the container. A probe that
// ends after Health.Timeout is a Timeout too, not an unhealthy result. A container
// that does not run is NotRunning, one that is gone NotFound.
func (c *inspectAPI) Probe(ctx context.Context, name string) (ProbeResult, error) {
	begun := time.Now()
	var report *define.HealthCheckResults
	err := c.ask(ctx, "probe container", name, func(ctx context.Context) (err error) {
		report, err = containers.RunHealthCheck(ctx, name, nil)
		return err
	})
	if err != nil {
		return ProbeResult{}, err
	}
	// The reply's Status is about this probe only; its FailingStreak and Log are
	// always empty.
	if report.Status == define.HealthCheckHealthy {
		return ProbeResult{Healthy: true}, nil
	}
	data, err := c.inspect(ctx, name)
	if err != nil && !errors.Is(err, NotFound) {
		return ProbeResult{}, err
	}
	if err != nil || data.State == nil || !observeRunning(data) {
		// An exec into a container that ends meanwhile fails like a probe.
		return ProbeResult{}, &Error{Op: "probe container", Object: name, Class: NotRunning, Cause: "the container stopped during the probe"}
	}
	return probeResult(data.State.Health, begun), nil
}

func observeRunning(data *define.InspectContainerData) bool {
	return statusFrom(data.State.Status) == Running
}

// probeResult reads an unhealthy probe that began at begun from the health log.
func probeResult(health *define.HealthCheckResults, begun time.Time) ProbeResult {
	r := ProbeResult{ExitCode: 1}
	if health == nil || len(health.Log) == 0 {
		return r
	}
	last := health.Log[len(health.Log)-1]
	// An entry from before is of another probe: this one was not logged.
	if start, err := time.Parse(time.RFC3339Nano, last.Start); err != nil || start.Before(begun) {
		return r
	}
	r.Output = tail(last.Output, maxProbeOutput)
	if last.ExitCode != 0 {
		r.ExitCode = last.ExitCode
	}
	return r
}

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
func (c *inspectAPI) Stats(ctx context.Context, names ...string) (map[string]Stats, error) {
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

// DockerStats returns one sample of a running container's statistics in the form
// of Docker's API, which Podman has beside its own. The rates in it compare with
// the sample Podman took before.
func (c *inspectAPI) DockerStats(ctx context.Context, name string) (json.RawMessage, error) {
	const op = "read statistics"
	target := "http://d/v1.41/containers/" + url.PathEscape(name) + "/stats?stream=false&one-shot=true"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, fail(ctx, op, name, err)
	}
	res, err := c.pool.RoundTrip(req)
	if err != nil {
		return nil, fail(ctx, op, name, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxStats))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", res.Status)
	}
	return body, fail(ctx, op, name, err)
}

// maxStats bounds a sample in bytes.
const maxStats = 1 << 20
