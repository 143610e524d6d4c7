package libpod

import (
	"context"
	"errors"
	"time"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/containers"
)

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
func (c *Client) Probe(ctx context.Context, name string) (ProbeResult, error) {
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
