package enginetest

import (
	"maps"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
)

// The methods here are what others do to Podman behind podtask's back. Those that
// return a bool say whether there was anything to do it to.

// Kill ends a running container with that exit code; oom says that the kernel
// killed it for memory.
func (f *Fake) Kill(name string, code int, oom bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle()
	c := f.containers[name]
	if c == nil || c.status != libpod.Running || c.lost {
		return false
	}
	c.oom = oom
	f.end(c, code, f.clock.Now())
	f.notify()
	return true
}

// KillMonitor kills the conmon of a running container: Podman notices the container's end
// no more, and each wait for it returns at once. It reports "running" until a stop.
func (f *Fake) KillMonitor(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle()
	c := f.containers[name]
	if c == nil || c.status != libpod.Running || c.unmonitored {
		return false
	}
	c.unmonitored = true
	f.notify()
	return true
}

// Disconnect disconnects a container that does not run from its network.
func (f *Fake) Disconnect(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle()
	c := f.containers[name]
	if c == nil || !c.bridged() || c.connected() || c.disconnected {
		return false
	}
	c.disconnected = true
	return true
}

// Remove removes a container, killing it if it runs, as "podman rm --force" does.
func (f *Fake) Remove(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle()
	c := f.containers[name]
	if c == nil || c.infra {
		return false
	}
	f.delete(c)
	f.notify()
	return true
}

// Make creates a container as another tool would, without the task's label; pod
// may be empty.
func (f *Fake) Make(name, pod, imageName string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.find(imageName)
	if m == nil || f.containers[name] != nil || pod != "" && f.pods[pod] == nil {
		return false
	}
	f.add(libpod.ContainerSpec{Name: name, Pod: pod, Image: imageName}, m)
	return true
}

// Write puts a file into a container.
func (f *Fake) Write(name, path, text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.containers[name]
	if c == nil {
		return false
	}
	c.files.write(path, text)
	f.settle()
	f.notify()
	return true
}

// Running reports whether a container runs.
func (f *Fake) Running(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle()
	c := f.containers[name]
	return c != nil && c.status == libpod.Running
}

// Volume returns the name of a container's anonymous volume; empty when it has
// none, or does not exist.
func (f *Fake) Volume(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.containers[name]; c != nil {
		return c.volume
	}
	return ""
}

// Reboot is one of the machine: what ran is as if it had never been started, and
// its exit code is lost. With all, what had exited before is too (Podman 4.3.1;
// later ones keep it).
func (f *Fake) Reboot(all bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle()
	for _, name := range slices.Sorted(maps.Keys(f.containers)) {
		c := f.containers[name]
		c.setUp, c.interruption = false, interruption{}
		c.unmonitored, c.lost = false, false
		if c.status == libpod.Running || c.status == libpod.Exited && all {
			c.status, c.code, c.oom = libpod.Created, 0, false
			f.note(Reset, c, f.clock.Now())
		}
	}
	f.notify()
}

// Due is the time at which a container next does something by itself; ok is false when none
// will.
func (f *Fake) Due() (at time.Time, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle()
	for _, c := range f.containers {
		at = earlier(at, c.due())
	}
	return at, !at.IsZero()
}

// See is what is so of a container. It is no call to Podman, and never fails.
func (f *Fake) See(name string) libpod.Observed {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle()
	if c := f.containers[name]; c != nil {
		return c.observe()
	}
	return libpod.Observed{}
}
