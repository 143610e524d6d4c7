package enginetest

import (
	"context"
	"slices"
	"time"

	"github.com/podtask/podtask/pkg/libpod"
)

// StartContainer implements agent.Engine.
func (f *Fake) StartContainer(ctx context.Context, name string) error {
	_, err := request(ctx, f, "start container", name, func() (struct{}, error) { return struct{}{}, f.startNamed(name) })
	return err
}

func (f *Fake) startNamed(name string) error {
	c := f.containers[name]
	if c == nil {
		return refusal(libpod.NotFound, "no such container")
	}
	return f.start(c)
}

// InitContainer implements agent.Engine.
func (f *Fake) InitContainer(ctx context.Context, name string) (int, error) {
	_, err := request(ctx, f, "set up container", name, func() (struct{}, error) {
		c := f.containers[name]
		switch {
		case c == nil:
			return struct{}{}, refusal(libpod.NotFound, "no such container")
		case c.connected():
			return struct{}{}, nil
		}
		if err := f.prepare(c); err != nil {
			return struct{}{}, err
		}
		c.setUp = true
		if c.status == libpod.Exited { // what the last run left is gone
			c.status = libpod.Created
		}
		return struct{}{}, nil
	})
	if err != nil {
		return 0, err
	}
	seen, err := f.InspectContainer(ctx, name)
	return seen.PID, err
}

// prepare does what comes before the program runs, first for the infra container of
// the container's pod.
func (f *Fake) prepare(c *container) error {
	if p := f.pods[c.pod]; p != nil && !c.infra && f.start(f.containers[p.infra]) != nil {
		return refusal(libpod.Other, "starting some containers: internal libpod error")
	}
	if err := f.bind(c); err != nil {
		return err
	}
	switch c.argv()[0] {
	case Program:
		return nil
	case NotExecutable:
		return refusal(libpod.CommandNotExecutable, "OCI permission denied")
	default:
		return refusal(libpod.CommandNotFound, "OCI runtime attempted to invoke a command that was not found")
	}
}

// start starts a container and, before it, the infra container of its pod.
func (f *Fake) start(c *container) error {
	if c.status == libpod.Running {
		return nil
	}
	if !c.setUp {
		if err := f.prepare(c); err != nil {
			return err
		}
	}
	argv := c.argv()
	secrets, err := f.secretEnv(c)
	if err != nil {
		return err
	}
	now := f.clock.Now()
	started := now
	if started.Equal(c.started) {
		started = now.Add(1) // no two runs of a container begin at the same time
	}
	c.setUp = false
	c.status, c.started, c.finished, c.code, c.killAt = libpod.Running, started, time.Time{}, 0, time.Time{}
	c.process = newProcess(argv[1:], append(c.env(), secrets...), c.files, now, func(l line) { c.lines = append(c.lines, l) })
	f.note(Started, c, now)
	f.advance(c, now)
	return nil
}

// secretEnv looks the container's secret variables up, as Podman does at each start.
func (f *Fake) secretEnv(c *container) (env []string, err error) {
	for name, from := range c.spec.SecretEnv {
		s := f.secrets[from]
		if s == nil {
			return nil, refusal(libpod.NotFound, "no secret with name or id %q: no such secret", from)
		}
		env = append(env, name+"="+s.value)
	}
	return env, nil
}

// argv is what the container runs, as Podman puts it together.
func (c *container) argv() []string {
	if c.infra {
		return append([]string{Program}, forever...)
	}
	entry, command := []string{Program}, c.image.Command
	if c.spec.EntryPoint != nil {
		entry, command = c.spec.EntryPoint, nil
	}
	if c.spec.Command != nil {
		command = c.spec.Command
	}
	return slices.Concat(entry, command)
}

func (c *container) env() []string {
	if c.image == nil {
		return nil
	}
	env := slices.Clone(c.image.Env)
	for name, value := range c.spec.Env {
		env = append(env, name+"="+value)
	}
	return env
}
