package enginetest

import (
	"context"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
)

// Logs implements Podman.
func (f *Fake) Logs(ctx context.Context, name string, o libpod.LogOptions, fn func(libpod.LogLine)) error {
	const op = "read logs of"
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := locked(ctx, f, op, name, func() (*container, error) {
		if c := f.containers[name]; c != nil {
			if c.spec.Log.Driver == "none" {
				return nil, refusal(libpod.NotFound, "this container is not logging output")
			}
			return c, nil
		}
		return nil, refusal(libpod.NotFound, "no such container")
	})
	if err != nil {
		return err
	}
	until := func() int {
		for i, l := range c.lines {
			if !o.Until.IsZero() && l.at.After(o.Until) {
				return i
			}
		}
		return len(c.lines)
	}
	next := 0
	if o.Tail > 0 {
		next = max(0, until()-o.Tail)
	}
	for {
		for ; next < until(); next++ {
			if l := c.lines[next]; !l.at.Before(o.Since) {
				f.mu.Unlock()
				fn(l.public(o.Timestamps))
				f.mu.Lock()
			}
			if err := given(ctx, op, name); err != nil {
				return err
			}
		}
		if !o.Follow || c != f.containers[name] || c.status != libpod.Running {
			return nil
		}
		f.pause(ctx, c.due())
		if err := given(ctx, op, name); err != nil {
			return err
		}
		f.settle()
	}
}

// public is the line as Podman's API gives it.
func (l line) public(stamped bool) libpod.LogLine {
	out := libpod.LogLine{Stream: libpod.Stdout, Text: l.text}
	if l.stderr {
		out.Stream = libpod.Stderr
	}
	if stamped {
		out.Time = l.at.Truncate(time.Second)
	}
	return out
}

// Probe implements Podman.
func (f *Fake) Probe(ctx context.Context, name string) (libpod.ProbeResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var probe *process
	var output string
	c, err := locked(ctx, f, "probe container", name, func() (*container, error) {
		c := f.containers[name]
		switch {
		case c == nil:
			return nil, refusal(libpod.NotFound, "no such container")
		case c.spec.Health == nil || len(c.spec.Health.Command) == 0:
			return nil, refusal(libpod.InvalidSpec, "the container has no defined healthcheck")
		case c.status != libpod.Running || c.lost:
			return nil, refusal(libpod.NotRunning, "the container is not running")
		}
		probe = newProcess(nil, c.env(), c.files, f.clock.Now(), func(l line) { output += l.text + "\n" })
		// There is no shell in the images.
		if command := c.spec.Health.Command; command[0] == "CMD" && len(command) > 1 && command[1] == Program {
			probe = newProcess(command[2:], c.env(), c.files, f.clock.Now(), probe.emit)
		} else {
			probe.fail("it cannot be run")
		}
		return c, nil
	})
	if err != nil {
		return libpod.ProbeResult{}, err
	}
	begun, run := f.clock.Now(), c.started
	for {
		probe.advance(f.clock.Now())
		switch {
		case c != f.containers[name] || c.status != libpod.Running || c.lost || !c.started.Equal(run):
			return libpod.ProbeResult{}, &libpod.Error{Op: "probe container", Object: name, Class: libpod.NotRunning, Cause: "the container stopped during the health check"}
		case probe.ended && probe.at.Sub(begun) > c.probeTimeout():
			return libpod.ProbeResult{}, &libpod.Error{Op: "probe container", Object: name, Class: libpod.Timeout, Cause: "healthcheck command exceeded timeout"}
		case probe.ended && probe.code == 0:
			f.note(Healthy, c, f.clock.Now())
			return libpod.ProbeResult{Healthy: true}, nil
		case probe.ended:
			return libpod.ProbeResult{ExitCode: 1, Output: output}, nil
		}
		f.pause(ctx, earlier(probe.due(), c.due()))
		if err := given(ctx, "probe container", name); err != nil {
			return libpod.ProbeResult{}, err
		}
		f.settle()
	}
}

// probeTimeout is when a probe is called late.
func (c *container) probeTimeout() time.Duration {
	if t := c.spec.Health.Timeout; t > 0 {
		return t
	}
	return 30 * time.Second
}

// RunExec implements Podman.
func (f *Fake) RunExec(ctx context.Context, name string, command []string, limit time.Duration) (libpod.ExecResult, error) {
	const op = "run a program in container"
	f.mu.Lock()
	defer f.mu.Unlock()
	var program *process
	var output string
	c, err := locked(ctx, f, op, name, func() (*container, error) {
		c := f.containers[name]
		switch {
		case c == nil:
			return nil, refusal(libpod.NotFound, "no such container")
		case c.status != libpod.Running || c.lost:
			return nil, refusal(libpod.NotRunning, "the container is not running")
		}
		program = newProcess(nil, c.env(), c.files, f.clock.Now(), func(l line) { output += l.text + "\n" })
		if len(command) > 0 && command[0] == Program {
			program = newProcess(command[1:], c.env(), c.files, f.clock.Now(), program.emit)
		} else {
			program.end(127, f.clock.Now())
		}
		return c, nil
	})
	if err != nil {
		return libpod.ExecResult{}, err
	}
	begun, run := f.clock.Now(), c.started
	late := &libpod.Error{Op: op, Object: name, Class: libpod.Timeout, Cause: "no answer from Podman within the time limit"}
	for {
		program.advance(f.clock.Now())
		switch {
		case c != f.containers[name] || c.status != libpod.Running || c.lost || !c.started.Equal(run):
			return libpod.ExecResult{ExitCode: 137}, nil // it ended with its container
		case program.ended && program.at.Sub(begun) > limit, !program.ended && f.clock.Now().Sub(begun) >= limit:
			return libpod.ExecResult{}, late
		case program.ended:
			if program.code == 0 {
				f.note(Healthy, c, f.clock.Now())
			}
			return libpod.ExecResult{ExitCode: program.code, Output: output}, nil
		}
		f.pause(ctx, earlier(begun.Add(limit), earlier(program.due(), c.due())))
		if err := given(ctx, op, name); err != nil {
			return libpod.ExecResult{}, err
		}
		f.settle()
	}
}
