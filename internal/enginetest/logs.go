package enginetest

import (
	"context"
	"time"

	"github.com/podtask/podtask/pkg/libpod"
)

// Logs implements agent.Engine.
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
