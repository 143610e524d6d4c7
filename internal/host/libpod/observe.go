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
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/containers"
)

// Status is the state of a container in Podman.
type Status int

// The statuses. Absent is the zero value.
const (
	// Absent: there is no such container.
	Absent Status = iota
	// Created: never started, or its start failed (Podman keeps this state after a failed
	// start).
	Created
	// Running includes paused and stopping containers.
	Running
	// Exited: ran and exited.
	Exited
	// Removing: Podman is deleting it, or failed to.
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

// Observed is the state of a container in Podman at one moment.
type Observed struct {
	Status Status
	// Paused: Running, but frozen.
	Paused bool
	// Foreign: the container exists but does not have TaskLabel. Do not touch it.
	Foreign bool
	// TaskID is the value of TaskLabel.
	TaskID string
	ID     string
	// ImageID is the digest of the image's configuration, without "sha256:".
	ImageID string
	// ImageDigest is the digest of the image's manifest.
	ImageDigest string
	// PID is the main process on the host; 0 unless the container is Running, or Created
	// and initialized by InitContainer.
	PID int
	// Unmonitored: Running, but conmon or the main process does not exist. Podman does not
	// notice such a container's end. ProcessGone: the main process does not exist.
	Unmonitored, ProcessGone bool
	// StartedAt and FinishedAt refer to the last run. FinishedAt is zero unless Exited,
	// and never before StartedAt.
	StartedAt, FinishedAt time.Time
	// ExitCode refers to the last run and is 128+n after signal n; 0 unless Exited.
	ExitCode int
	// OOMKilled: the kernel killed a process of the container because of memory, not
	// necessarily the main process.
	OOMKilled bool
	// Ports are the ports that the container itself publishes, sorted by container port.
	// No host port is 0.
	Ports []Port
	// Addresses are the container's addresses on networks; none unless it is initialized.
	Addresses []netip.Addr
	// Missing are the addresses under which other containers know this one but which Podman
	// did not assign to it, because it was created with OwnNetwork.Spare or InitContainer gave
	// it another address. The caller adds them in the container's network namespace before
	// each start. In the second case they are known only while the container is initialized.
	Missing []netip.Prefix
	// Disconnected: the container was created for a network but is connected to none. Podman's
	// service may have been killed while InitContainer gave it another address.
	Disconnected bool
	// HostsFile is the path of the container's /etc/hosts on the host; empty before the container is initialized.
	HostsFile string
	// Control is the directory with the FIFO to the conmon of the last run; empty before it.
	Control string
	// LogFile is the file to which conmon writes the container's output, in the format of Kubernetes (driver k8s-file); empty
	// for another driver. Journal: the driver is journald.
	LogFile string
	Journal bool
	// Error is Podman's message about a failed start; always empty on 4.3.1.
	Error string
}

// InspectContainer returns the state of a container. If the container does not exist, its
// status is Absent and there is no error.
func (c *Client) InspectContainer(ctx context.Context, name string) (Observed, error) {
	data, err := c.inspect(ctx, name)
	switch {
	case errors.Is(err, NotFound):
		c.monitored.Delete(name)
		return Observed{}, nil
	case err != nil:
		return Observed{}, err
	}
	if m, ok := monitoredBy(data); ok && data.Name == name {
		c.monitored.Store(name, m)
	} else {
		c.monitored.Delete(name)
	}
	return seen(data), nil
}

// Description is the configuration of a container, from its definition and its image.
type Description struct {
	ID      string
	Created time.Time
	// Command begins with the entry point.
	Command []string
	// Env are NAME=VALUE. While the container runs, secrets are among them.
	Env    []string
	Labels map[string]string
	// Stdin and TTY are those of ContainerSpec.
	Stdin, TTY bool
}

// DescribeContainer returns the configuration of a container; zero if it does not exist.
func (c *Client) DescribeContainer(ctx context.Context, name string) (Description, error) {
	data, err := c.inspect(ctx, name)
	if errors.Is(err, NotFound) {
		return Description{}, nil
	}
	if err != nil {
		return Description{}, err
	}
	d := Description{ID: data.ID, Created: data.Created, Command: append([]string{data.Path}, data.Args...), Labels: labelsOf(data)}
	if data.Config != nil {
		d.Env, d.Stdin, d.TTY = data.Config.Env, data.Config.OpenStdin, data.Config.Tty
	}
	return d, nil
}

// seen is observe, and also checks whether the container's processes exist on this host.
func seen(data *define.InspectContainerData) Observed {
	o := observe(data)
	if o.Status == Running && o.PID > 0 && data.State.ConmonPid > 0 {
		o.ProcessGone = !exists(o.PID)
		o.Unmonitored = o.ProcessGone || !exists(data.State.ConmonPid)
	}
	return o
}

// exists reports whether there is a process on this host.
func exists(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func (c *Client) inspect(ctx context.Context, name string) (data *define.InspectContainerData, err error) {
	inspect := func() error {
		return c.ask(ctx, "inspect container", name, func(ctx context.Context) (err error) {
			data, err = containers.Inspect(ctx, name, nil)
			return err
		})
	}
	if err = inspect(); endedMeanwhile(err) {
		err = inspect()
	}
	// Podman also finds a container by a prefix of its id.
	if err == nil && data.Name != name && data.ID != name {
		return nil, &Error{Op: "inspect container", Object: name, Class: NotFound, Cause: "no such container"}
	}
	return data, err
}

// observe translates Podman's report. It leaves out exit code and end time unless the
// container has exited: Podman reports code 0 for a container that never ran, and the
// values of the previous run for a container that was restarted.
func observe(data *define.InspectContainerData) Observed {
	labels := labelsOf(data)
	task, ours := labels[TaskLabel]
	o := Observed{Foreign: !ours, TaskID: task, ID: data.ID, ImageID: data.Image, ImageDigest: data.ImageDigest, Addresses: addressesOf(data), Missing: missingOf(data), HostsFile: data.HostsPath}
	o.Disconnected = disconnected(data)
	o.Ports, _ = portsOf(data) // podtask does not publish ports in an unknown format
	if data.OCIConfigPath != "" {
		o.Control = filepath.Dir(data.OCIConfigPath)
	}
	if data.HostConfig != nil && data.HostConfig.LogConfig != nil {
		switch log := data.HostConfig.LogConfig; log.Type {
		case define.KubernetesLogging, define.JSONLogging:
			o.LogFile = log.Path
		case define.JournaldLogging:
			o.Journal = true
		}
	}
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
	// After a power failure Podman reports an exit with code 0 and no time, because
	// nothing recorded the exit.
	if o.Status == Exited && !o.StartedAt.IsZero() && zeroEpoch(st.FinishedAt).IsZero() {
		o.Status = Created
	}
	if o.Status == Exited {
		o.ExitCode, o.FinishedAt = int(st.ExitCode), zeroEpoch(st.FinishedAt)
		// Podman may record the start after conmon has recorded the end.
		if o.FinishedAt.Before(o.StartedAt) {
			o.FinishedAt = o.StartedAt
		}
	}
	if o.Status != Running && st.Status != initialized {
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

// initialized is Podman's state of a container that has namespaces and a process that does not
// run the program yet.
const initialized = "initialized"

// statusFrom maps Podman's state. Configured and initialized precede the first run;
// stopped is an exit that is not cleaned up yet.
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

// zeroEpoch converts Podman's zero time, the Unix epoch, to Go's.
func zeroEpoch(t time.Time) time.Time {
	if t.Unix() <= 0 {
		return time.Time{}
	}
	return t
}

// maxProbeOutput bounds ProbeResult.Output in bytes.
const maxProbeOutput = 1024

// ProbeResult is the outcome of one health check.
type ProbeResult struct {
	Healthy bool
	// ExitCode is 0 if the container is healthy. Otherwise it is what Podman recorded,
	// which is not the command's own exit code: 1 for every failure, and for a command
	// that cannot be run.
	ExitCode int
	// Output is the end of the output of a failed health check, at most maxProbeOutput
	// bytes. It is best effort: Podman keeps 500 bytes, and 4.3.1 may lose them. It is
	// empty after a success.
	Output string
}

// Probe runs the container's health check once, now. Healthy is the result of this run;
// counting retries and the start period is up to the caller.
//
// Podman does not kill a health check that takes too long: if ctx ends first, the error
// is Timeout or Canceled and the command keeps running in the container. A health check
// that finishes after Health.Timeout is a Timeout too, not an unhealthy result. The class
// is NotRunning if the container is not running and NotFound if it does not exist.
func (c *Client) Probe(ctx context.Context, name string) (ProbeResult, error) {
	begun := time.Now()
	var report *define.HealthCheckResults
	err := c.watch(ctx, "probe container", name, func(ctx context.Context) (err error) {
		report, err = containers.RunHealthCheck(ctx, name, nil)
		return err
	})
	if err != nil {
		return ProbeResult{}, err
	}
	// The reply's Status refers to this run only; its FailingStreak and Log are always
	// empty.
	if report.Status == define.HealthCheckHealthy {
		return ProbeResult{Healthy: true}, nil
	}
	data, err := c.inspect(ctx, name)
	if err != nil && !errors.Is(err, NotFound) {
		return ProbeResult{}, err
	}
	if err != nil || data.State == nil || !observeRunning(data) {
		// If the container exits during the check, the failed exec looks like an
		// unhealthy result.
		return ProbeResult{}, &Error{Op: "probe container", Object: name, Class: NotRunning, Cause: "the container stopped during the health check"}
	}
	return probeResult(data.State.Health, begun), nil
}

func observeRunning(data *define.InspectContainerData) bool {
	return statusFrom(data.State.Status) == Running
}

// probeResult reads the result of a failed health check that began at begun from the
// health log.
func probeResult(health *define.HealthCheckResults, begun time.Time) ProbeResult {
	r := ProbeResult{ExitCode: 1}
	if health == nil || len(health.Log) == 0 {
		return r
	}
	last := health.Log[len(health.Log)-1]
	// An older entry belongs to an earlier run: this one was not logged.
	if start, err := time.Parse(time.RFC3339Nano, last.Start); err != nil || start.Before(begun) {
		return r
	}
	r.Output = tail(last.Output, maxProbeOutput)
	if last.ExitCode != 0 {
		r.ExitCode = last.ExitCode
	}
	return r
}

// Stats is the resource usage of a running container as counted by Podman.
type Stats struct {
	// CPUNanos is the CPU time since the start, in nanoseconds.
	CPUNanos uint64
	// Memory is the memory in use, including caches, and MemoryLimit the limit, both in
	// bytes. Without a limit MemoryLimit is the host's memory.
	Memory, MemoryLimit uint64
	PIDs                uint64
	// Read and Written are bytes of disk I/O. Received and Sent are bytes of network I/O,
	// which 4.x does not report.
	Read, Written, Received, Sent uint64
}

// Stats returns the usage of containers by name. Containers that are not running are left
// out. Rootless Podman on cgroup v1 has no statistics and returns an error.
func (c *Client) Stats(ctx context.Context, names ...string) (map[string]Stats, error) {
	found := map[string]Stats{}
	err := c.ask(ctx, "read the statistics of", "containers", func(ctx context.Context) error {
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

// DockerStats returns one sample of a running container's statistics in the format of
// Docker's API, which Podman also serves. Its rates are relative to Podman's previous
// sample.
func (c *Client) DockerStats(ctx context.Context, name string) (json.RawMessage, error) {
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

// maxStats is the maximum size of a sample in bytes.
const maxStats = 1 << 20
