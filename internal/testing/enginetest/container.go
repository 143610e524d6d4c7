package enginetest

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
)

type container struct {
	id     string
	spec   libpod.ContainerSpec // TaskID empty: foreign
	pod    string               // its pod's name
	infra  bool
	image  *image
	volume string
	files  *disk
	lines  []line

	status libpod.Status
	lastRun

	attachment
	interruption
}

// interruption is what an interrupted start leaves in the way of further ones.
type interruption struct {
	stuck error // the next start fails with this
	// late: Podman has ended the process of the interrupted start, because it was in the way of the
	// next one. That is reported late, and Podman takes it for the end of the process after.
	late bool
	// crashes: Podman crashes at each start.
	crashes bool
}

// attempt returns why a further start fails.
func (i *interruption) attempt() error {
	err := i.stuck
	if errors.Is(err, libpod.Interrupted) {
		i.stuck, i.late = nil, true
	}
	return err
}

// attachment is how a container is connected.
type attachment struct {
	ports []libpod.Port // its own, none of them 0
	setUp bool          // created, and with namespaces
	pid   int           // of the process of these, or of its run
	ipv6  bool          // it is on a network with that
	// disconnected: it was made for a network and is connected to none.
	disconnected bool
}

// lastRun is the present run of a container, or the one before.
type lastRun struct {
	process           *process // nil unless it ran
	started, finished time.Time
	code              int
	oom               bool
	killAt            time.Time // a stop is under way; zero: none
	unmonitored       bool      // its conmon was killed
	lost              bool      // and then its process ended, unnoticed by Podman
}

// bridged reports whether the container was made for a network with a name.
func (c *container) bridged() bool { return c.spec.Own != nil && named(c.spec.Own.Network) }

// connected reports whether the container's network is there.
func (c *container) connected() bool { return c.status == libpod.Running || c.setUp }

// due is the time at which something next happens to the container by itself; zero for never.
func (c *container) due() time.Time {
	if c.status != libpod.Running || c.lost {
		return time.Time{}
	}
	due := c.process.due()
	if !c.killAt.IsZero() && (due.IsZero() || c.killAt.Before(due)) {
		due = c.killAt
	}
	return due
}

func (c *container) observe() libpod.Observed {
	o := libpod.Observed{Status: c.status, Foreign: c.spec.TaskID == "", TaskID: c.spec.TaskID, ID: c.id}
	o.Ports, o.Disconnected = slices.Clone(c.ports), c.disconnected
	if b := c.spec.Own; c.bridged() && c.place() != b.Place {
		for _, a := range c.addresses(b.Place) {
			o.Missing = append(o.Missing, netip.PrefixFrom(a, map[bool]int{true: 24, false: 64}[a.Is4()]))
		}
	}
	if c.connected() {
		o.PID = c.pid
		if c.bridged() && !c.disconnected {
			o.Addresses = c.addresses(c.place())
		}
	}
	if c.image != nil {
		o.ImageID, o.ImageDigest = c.image.id, c.image.digest
	}
	switch c.status {
	case libpod.Running:
		o.StartedAt = c.started
		o.Unmonitored, o.ProcessGone = c.unmonitored, c.lost
	case libpod.Exited:
		o.StartedAt, o.FinishedAt, o.ExitCode, o.OOMKilled = c.started, c.finished, c.code, c.oom
	}
	return o
}

// advance carries a container to the present.
func (f *Fake) advance(c *container, now time.Time) {
	if c.status != libpod.Running || c.lost {
		return
	}
	until := now
	killed := !c.killAt.IsZero() && !c.killAt.After(now)
	if killed {
		until = c.killAt
	}
	c.process.advance(until)
	switch {
	case c.process.ended:
		f.end(c, c.process.code, c.process.at)
	case killed:
		f.end(c, exitKill, c.killAt)
	}
}

// end ends a running container.
func (f *Fake) end(c *container, code int, at time.Time) {
	stopped := !c.killAt.IsZero()
	c.status, c.code, c.finished, c.killAt = libpod.Exited, code, at, time.Time{}
	if c.unmonitored { // no exit file
		c.code = -1
		if !stopped {
			c.status, c.lost = libpod.Running, true
		}
	}
	if at.Before(c.started) {
		c.finished = c.started
	}
	f.unmount(c)
	f.note(Ended, c, at)
}

func (f *Fake) delete(c *container) {
	if c.status == libpod.Running && !c.lost {
		f.end(c, exitKill, f.clock.Now())
	}
	delete(f.containers, c.spec.Name)
	f.note(Removed, c, f.clock.Now())
}

// CreateContainer implements Podman.
func (f *Fake) CreateContainer(ctx context.Context, s libpod.ContainerSpec) (libpod.Observed, error) {
	id, err := request(ctx, f, "create container", s.Name, func() (string, error) { return f.create(s) })
	switch {
	case err == nil:
		return libpod.Observed{Status: libpod.Created, TaskID: s.TaskID, ID: id}, nil
	case !errors.Is(err, libpod.Conflict):
		return libpod.Observed{}, err
	}
	return request(ctx, f, "adopt container", s.Name, func() (libpod.Observed, error) {
		c := f.containers[s.Name]
		if c == nil {
			return libpod.Observed{}, err // it has just been removed
		}
		if err := owned(c.spec.TaskID, s.TaskID); err != nil {
			return libpod.Observed{}, err
		}
		if digestOf(c.spec) != digestOf(s) {
			return libpod.Observed{}, refusal(libpod.Conflict, "it already exists with another specification, from an earlier attempt; remove it first")
		}
		return c.observe(), nil
	})
}

func (f *Fake) create(s libpod.ContainerSpec) (id string, err error) {
	m := f.find(s.Image)
	switch {
	case s.Name == "" || s.Image == "":
		return "", refusal(libpod.InvalidSpec, "a name and an image are required")
	case s.TaskID == "":
		return "", refusal(libpod.InvalidSpec, "a task ID is required")
	case m == nil:
		return "", refusal(libpod.NoImage, "%s: image not known", s.Image)
	case s.Pod != "" && f.pods[s.Pod] == nil:
		return "", refusal(libpod.NotFound, "no such pod")
	case s.Pod != "" && f.containers[s.Pod+"-infra"] == nil && !f.pods[s.Pod].spec.NoInfra:
		panic("enginetest: a container created in a pod without an infra container does not share its namespaces")
	case f.containers[s.Name] != nil:
		return "", refusal(libpod.Conflict, "the container name %q is already in use", s.Name)
	}
	for _, sf := range s.SecretFiles {
		if f.secrets[sf.Secret] == nil {
			return "", refusal(libpod.NotFound, "no such secret")
		}
	}
	for _, v := range s.VolumesFrom {
		if f.containers[v.Container] == nil {
			return "", refusal(libpod.NotFound, "looking up container %q for volumes-from: no such container", v.Container)
		}
	}
	c := f.add(s, m)
	if b := s.Own; b != nil {
		n := f.networks[b.Network]
		ports, err := f.publish(b.Ports, b.Choose)
		if err != nil || n == nil && c.bridged() {
			delete(f.containers, s.Name)
			return "", cmp.Or(err, refusal(libpod.NotFound, "unable to find network with name or ID %s: network not found", b.Network))
		}
		c.ports, c.ipv6 = ports, n != nil && n.IPv6
	}
	return c.id, nil
}

func (f *Fake) add(s libpod.ContainerSpec, m *image) *container {
	c := &container{id: f.newID(), spec: s, pod: s.Pod, image: m, status: libpod.Created, files: newDisk()}
	for _, v := range s.Volumes {
		c.files.mounts = append(c.files.mounts, mounted{path: v.Path, readOnly: v.ReadOnly, files: f.volumeOf(v.Name).files})
	}
	for _, sf := range s.SecretFiles {
		c.files.own[sf.Path] = f.secrets[sf.Secret].value
	}
	if m.Volume {
		c.volume = "volume-" + c.id
		c.files.mounts = append(c.files.mounts, mounted{path: VolumePath, files: map[string]string{}})
	}
	for _, v := range s.VolumesFrom {
		for _, its := range f.containers[v.Container].files.mounts {
			if !slices.ContainsFunc(c.files.mounts, func(own mounted) bool { return own.path == its.path && its.path != VolumePath }) {
				its.readOnly = its.readOnly || v.ReadOnly
				c.files.mounts = slices.Insert(c.files.mounts, 0, its) // in front of the anonymous volume of its own
			}
		}
	}
	f.containers[s.Name] = c
	f.note(Created, c, f.clock.Now())
	return c
}

// CDI returns the CDI devices of a container; none if there is no such container.
func (f *Fake) CDI(name string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.containers[name]; c != nil {
		return slices.Clone(c.spec.CDI)
	}
	return nil
}

// StopContainer implements Podman.
func (f *Fake) StopContainer(ctx context.Context, name string, grace time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := locked(ctx, f, "stop container", name, func() (struct{}, error) { f.signal(name, grace); return struct{}{}, nil })
	if err != nil {
		return err
	}
	c := f.containers[name]
	for c != nil && c == f.containers[name] && c.status == libpod.Running {
		f.pause(ctx, c.due())
		if err := given(ctx, "stop container", name); err != nil {
			if grace > 0 && c.status == libpod.Running { // the grace passes in the caller, which kills no more
				c.killAt = time.Time{}
			}
			return err
		}
		f.settle()
	}
	f.notify()
	return nil
}

// signal begins the stop of a container.
func (f *Fake) signal(name string, grace time.Duration) {
	c := f.containers[name]
	if c != nil {
		c.setUp = false
	}
	if c == nil || c.status != libpod.Running {
		return
	}
	now := f.clock.Now()
	if c.lost { // Podman finds that neither conmon nor the process exists
		c.status, c.lost = libpod.Exited, false
		return
	}
	if grace > 0 {
		f.note(TermSent, c, now)
		if c.process.onTerm >= 0 {
			c.killAt = now
			f.end(c, c.process.onTerm, now)
			return
		}
	}
	// A stop that is under way keeps its own end, if that is sooner.
	if at := now.Add((grace + time.Second - 1).Truncate(time.Second)); c.killAt.IsZero() || at.Before(c.killAt) {
		c.killAt = at
	}
	f.advance(c, now)
}

// RemoveContainer implements Podman.
func (f *Fake) RemoveContainer(ctx context.Context, name, taskID string) error {
	_, err := request(ctx, f, "remove container", name, func() (struct{}, error) {
		c := f.containers[name]
		if c == nil {
			return struct{}{}, nil
		}
		if err := owned(c.spec.TaskID, taskID); err != nil {
			return struct{}{}, err
		}
		f.delete(c)
		return struct{}{}, nil
	})
	return err
}

// InspectContainer implements Podman.
func (f *Fake) InspectContainer(ctx context.Context, name string) (libpod.Observed, error) {
	return request(ctx, f, "inspect container", name, func() (libpod.Observed, error) {
		if c := f.containers[name]; c != nil {
			return c.observe(), nil
		}
		return libpod.Observed{}, nil
	})
}

// WaitContainer implements Podman.
func (f *Fake) WaitContainer(ctx context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := locked(ctx, f, "wait for container", name, func() (struct{}, error) { return struct{}{}, nil })
	if err != nil {
		return err
	}
	c := f.containers[name]
	for c != nil && c == f.containers[name] && c.status == libpod.Running && !c.unmonitored {
		f.pause(ctx, c.due())
		if err := given(ctx, "wait for container", name); err != nil {
			return err
		}
		f.settle()
	}
	return nil
}

// SeenExit implements Podman. The fake does not watch conmon.
func (f *Fake) SeenExit(string, time.Time) (o libpod.Observed, ok bool) { return o, false }

// earlier of two times, of which zero never comes.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// StartContainer implements Podman.
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

// InitContainer implements Podman.
func (f *Fake) InitContainer(ctx context.Context, name string, on libpod.OwnNetwork) (libpod.Observed, error) {
	_, err := request(ctx, f, "initialize container", name, func() (struct{}, error) {
		c := f.containers[name]
		switch {
		case c == nil:
			return struct{}{}, refusal(libpod.NotFound, "no such container")
		case c.connected():
			return struct{}{}, nil
		}
		if err := c.attempt(); err != nil {
			return struct{}{}, err
		}
		if c.status == libpod.Exited && f.addressFree(c) != nil || c.disconnected && len(on.Members) > 0 {
			c.move()
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
		return libpod.Observed{}, err
	}
	return f.InspectContainer(ctx, name)
}

// prepare does what comes before the program runs, first for the infra container of
// the container's pod.
func (f *Fake) prepare(c *container) error {
	if p := f.pods[c.pod]; p != nil && p.infra != "" && !c.infra && f.startNamed(p.infra) != nil {
		return refusal(libpod.Other, "starting some containers: internal libpod error")
	}
	if err := f.bind(c); err != nil {
		return err
	}
	if err := f.addressFree(c); err != nil {
		return err
	}
	for _, b := range c.spec.Binds {
		if _, err := os.Stat(b.HostPath); err != nil {
			return refusal(libpod.Temporary, "crun: cannot stat `%s`: No such file or directory: OCI runtime attempted to invoke a command that was not found", b.HostPath)
		}
	}
	switch c.argv()[0] {
	case Program:
		f.lastID++
		c.pid = 1000 + f.lastID
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
	if c.crashes {
		return refusal(libpod.Interrupted, "runtime error: invalid memory address or nil pointer dereference")
	}
	if err := c.attempt(); err != nil {
		return err
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
	c.unmonitored, c.lost = false, false
	c.process = newProcess(argv[1:], append(c.env(), secrets...), c.files, now, func(l line) { c.lines = append(c.lines, l) })
	if c.late {
		c.process.end(exitKill, now)
		c.late = false
	}
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
	if c.spec.EmptyCommand {
		command = nil
	}
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
