package enginetest

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
)

// infraGrace is what libpod gives an infra container to stop.
const infraGrace = 5 * time.Second

type pod struct {
	id    string
	spec  libpod.PodSpec
	infra string        // name of the infra container; empty for none
	ports []libpod.Port // none of them 0
	made  time.Time
}

// infraLimit is how long libpod waits for the infra container of a pod.
const infraLimit = 5 * time.Second

// firstPort is where Podman's own choice of host ports begins.
const firstPort = 40000

// StartPod implements Podman.
func (f *Fake) StartPod(ctx context.Context, name, taskID string) (libpod.Pod, error) {
	_, err := request(ctx, f, "start pod", name, func() (struct{}, error) { return struct{}{}, f.startPod(name) })
	if err != nil {
		return libpod.Pod{}, err
	}
	return request(ctx, f, "inspect pod", name, func() (libpod.Pod, error) {
		p := f.pods[name]
		if p == nil {
			return libpod.Pod{}, refusal(libpod.NotFound, "no such pod")
		}
		if err := owned(p.spec.TaskID, taskID); err != nil {
			return libpod.Pod{}, err
		}
		infra := f.containers[p.infra]
		return libpod.Pod{ID: p.id, InfraID: infra.id, InfraPID: infra.observe().PID, StartedAt: infra.observe().StartedAt, Ports: slices.Clone(p.ports)}, nil
	})
}

// startPod starts the infra container. If the creation was interrupted, there is none.
func (f *Fake) startPod(name string) error {
	p := f.pods[name]
	switch {
	case p == nil && f.containers[name+"-infra"] == nil:
		return refusal(libpod.Temporary, "it was removed")
	case p == nil || f.containers[p.infra] != nil:
		return f.startNamed(name + "-infra")
	default:
		return p.lacksInfra(f.clock.Now())
	}
}

func (p *pod) lacksInfra(now time.Time) error {
	if now.Sub(p.made) < infraLimit {
		return refusal(libpod.Temporary, "its infra container does not exist yet")
	}
	return refusal(libpod.Interrupted, "it has no infra container, because its creation was interrupted")
}

// CreatePod implements Podman.
func (f *Fake) CreatePod(ctx context.Context, s libpod.PodSpec) (id string, err error) {
	id, err = request(ctx, f, "create pod", s.Name, func() (string, error) { return f.createPod(s) })
	if errors.Is(err, libpod.Conflict) {
		id, err = request(ctx, f, "adopt pod", s.Name, func() (string, error) { return f.adoptPod(s, err) })
	}
	return id, err
}

func (f *Fake) createPod(s libpod.PodSpec) (id string, err error) {
	switch {
	case s.TaskID == "":
		return "", refusal(libpod.InvalidSpec, "a task ID is required")
	case named(s.Network):
		return "", refusal(libpod.Other, "unable to find network with name or ID %s: network not found", s.Network)
	case f.pods[s.Name] != nil || f.containers[s.Name+"-infra"] != nil:
		return "", refusal(libpod.Conflict, "pod already exists")
	}
	p := &pod{id: f.newID(), spec: s, infra: s.Name + "-infra", made: f.clock.Now()}
	if s.NoInfra {
		p.infra, f.pods[s.Name] = "", p
		return p.id, nil
	}
	if p.ports, err = f.publish(s.Ports, s.Choose); err != nil {
		return "", err
	}
	infra := &container{id: f.newID(), pod: s.Name, infra: true, status: libpod.Created, files: newDisk()}
	infra.spec = libpod.ContainerSpec{Name: p.infra, Pod: s.Name, TaskID: s.TaskID, Command: forever}
	f.pods[s.Name], f.containers[p.infra] = p, infra
	return p.id, nil
}

// named reports whether a network is called by its name.
func named(network string) bool {
	mode, _, _ := strings.Cut(network, ":")
	return !slices.Contains([]string{"", "none", "host", "pasta", "slirp4netns", "bridge", "private"}, mode)
}

// publish chooses host ports and sorts them as Podman reports them.
func (f *Fake) publish(wanted []libpod.Port, choose func([]libpod.Port) ([]libpod.Port, error)) (ports []libpod.Port, err error) {
	if choose != nil {
		if wanted, err = choose(wanted); err != nil {
			return nil, refusal(libpod.PortInUse, "%v", err)
		}
	}
	for _, port := range wanted {
		if port.ContainerPort == 0 || port.HostIP != "" && net.ParseIP(port.HostIP) == nil {
			return nil, refusal(libpod.InvalidSpec, "port %s: the container port must be 1 to 65535 and the host address an IP address", port)
		}
		if port.Protocol == "" {
			port.Protocol = "tcp"
		}
		for port.HostPort == 0 {
			port.HostPort = uint16(firstPort + f.lastID%20000)
			f.lastID++
		}
		ports = append(ports, port)
	}
	slices.SortFunc(ports, func(a, b libpod.Port) int {
		return cmp.Or(int(a.ContainerPort)-int(b.ContainerPort), strings.Compare(a.Protocol, b.Protocol), int(a.HostPort)-int(b.HostPort))
	})
	return ports, nil
}

func (f *Fake) adoptPod(s libpod.PodSpec, conflict error) (id string, err error) {
	p := f.pods[s.Name]
	if p == nil {
		return "", conflict
	}
	if err := owned(p.spec.TaskID, s.TaskID); err != nil {
		return "", err
	}
	if digestOf(p.spec) != digestOf(s) {
		return "", refusal(libpod.Conflict, "it already exists with another specification, from an earlier attempt; remove it first")
	}
	if !s.NoInfra && f.containers[p.infra] == nil {
		return "", p.lacksInfra(f.clock.Now())
	}
	return p.id, nil
}

// bind takes the host ports of c, which is about to run.
func (f *Fake) bind(c *container) error {
	for _, port := range f.portsOf(c) {
		if f.portTaken(c, port) {
			return refusal(libpod.PortInUse, "cannot listen on port %d: address already in use", port.HostPort)
		}
	}
	return nil
}

// portsOf are those that a container publishes: an infra container the pod's.
func (f *Fake) portsOf(c *container) []libpod.Port {
	if c.infra {
		return f.pods[c.pod].ports
	}
	return c.ports
}

func (f *Fake) portTaken(c *container, port libpod.Port) bool {
	if f.taken[libpod.Port{HostPort: port.HostPort, Protocol: port.Protocol}] {
		return true
	}
	for _, other := range f.containers {
		if other != c && other.connected() &&
			slices.ContainsFunc(f.portsOf(other), func(o libpod.Port) bool { return o.HostPort == port.HostPort && o.Protocol == port.Protocol }) {
			return true
		}
	}
	return false
}

// TakePort lets another program listen on a port of the host, or cease to.
func (f *Fake) TakePort(port uint16, protocol string, taken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken[libpod.Port{HostPort: port, Protocol: protocol}] = taken
}

// List implements Podman.
func (f *Fake) List(ctx context.Context) ([]libpod.Found, error) {
	found, err := request(ctx, f, "list", "pods", func() (found []libpod.Found, _ error) {
		for _, p := range f.pods {
			labels := maps.Clone(p.spec.Labels)
			if labels == nil {
				labels = map[string]string{}
			}
			labels[libpod.TaskLabel] = p.spec.TaskID
			found = append(found, libpod.Found{Kind: libpod.KindPod, ID: p.id, Name: p.spec.Name, TaskID: p.spec.TaskID, Labels: labels})
		}
		return found, nil
	})
	if err != nil {
		return nil, err
	}
	members, err := request(ctx, f, "list", "containers", func() (members []libpod.Found, _ error) {
		for _, c := range f.containers {
			if c.spec.TaskID == "" || f.pods[c.pod] == nil { // the label alone may be that of an image
				continue
			}
			m := libpod.Found{Kind: libpod.KindContainer, ID: c.id, Name: c.spec.Name, TaskID: c.spec.TaskID, Status: c.status}
			if o := c.observe(); o.Status >= libpod.Running {
				m.StartedAt, m.FinishedAt, m.ExitCode = o.StartedAt, o.FinishedAt, o.ExitCode
			}
			if c.infra {
				m.Kind = libpod.KindInfra
			}
			m.PodID = f.pods[c.pod].id
			members = append(members, m)
		}
		return members, nil
	})
	networks, listErr := request(ctx, f, "list", "networks", func() ([]libpod.Found, error) { return f.listNetworks(), nil })
	byName := func(a, b libpod.Found) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(found, byName)
	slices.SortFunc(members, byName)
	return slices.Concat(found, members, networks), errors.Join(err, listErr)
}

// Inventory lists everything, also what others made. A Fake has no network namespaces and nothing
// that only its storage knows.
func (f *Fake) Inventory(ctx context.Context) (libpod.Inventory, error) {
	return request(ctx, f, "list", "containers", func() (libpod.Inventory, error) {
		known := libpod.Inventory{Pods: map[string]bool{}, Containers: map[string]bool{}}
		for _, p := range f.pods {
			known.Pods[p.id] = true
		}
		for _, c := range f.containers {
			known.Containers[c.id] = true
		}
		return known, nil
	})
}

// FreeStorage removes a container that only the storage knows: there is none.
func (f *Fake) FreeStorage(context.Context, string) error { return nil }

// Containers lists the containers of tasks.
func (f *Fake) Containers(ctx context.Context) ([]libpod.Found, error) {
	all, err := f.List(ctx)
	return slices.DeleteFunc(all, func(o libpod.Found) bool { return o.Kind != libpod.KindContainer && o.Kind != libpod.KindInfra }), err
}

// StopPod implements Podman.
func (f *Fake) StopPod(ctx context.Context, name, taskID string, _ time.Duration) error {
	running, err := request(ctx, f, "list pod", name, func() (names []string, err error) {
		for _, member := range slices.Sorted(maps.Keys(f.containers)) {
			c := f.containers[member]
			switch {
			case c.pod != name || c.observe().PID == 0:
			case c.infra:
				err = owned(c.spec.TaskID, taskID)
				names = append(names, member)
			case c.spec.TaskID == taskID:
				names = slices.Insert(names, 0, member)
			}
		}
		return names, err
	})
	if err != nil {
		return err
	}
	for _, member := range running {
		if err := f.StopContainer(ctx, member, infraGrace); err != nil {
			return err
		}
	}
	return nil
}

// RemovePod implements Podman.
func (f *Fake) RemovePod(ctx context.Context, name, taskID string) error {
	_, err := request(ctx, f, "list pod", name, func() (struct{}, error) {
		if p := f.pods[name]; p != nil {
			return struct{}{}, owned(p.spec.TaskID, taskID)
		}
		return struct{}{}, nil
	})
	if err != nil {
		return err
	}
	_, err = request(ctx, f, "remove pod", name, func() (struct{}, error) { return struct{}{}, f.removePod(name, taskID) })
	return err
}

func (f *Fake) removePod(name, taskID string) error {
	p := f.pods[name]
	if p == nil {
		return nil
	}
	var foreign []string
	for _, member := range slices.Sorted(maps.Keys(f.containers)) {
		c := f.containers[member]
		switch {
		case c.pod != name || c.infra:
		case c.spec.TaskID != taskID:
			foreign = append(foreign, member)
		default:
			f.delete(c)
		}
	}
	if len(foreign) > 0 {
		return refusal(libpod.Conflict, "it contains containers that podtask did not create: %s", strings.Join(foreign, ", "))
	}
	if infra := f.containers[p.infra]; infra != nil {
		f.delete(infra)
	}
	delete(f.pods, name)
	return nil
}
