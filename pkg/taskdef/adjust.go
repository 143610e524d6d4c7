package taskdef

import (
	"slices"
	"time"
)

// Adjustments change a definition for one run of a task. Zero and nil change nothing.
type Adjustments struct {
	// Network replaces the network mode, bridge, host or none, or says how the one
	// namespace of all containers is connected, pasta, slirp4netns or shared, or which
	// network of Podman's the task joins.
	Network string
	// Memory (bytes) and CPU (vCPU) replace the hard limits of the task; 0 in them
	// takes the limit away.
	Memory *int64
	CPU    *float64
	// StopTimeout replaces the grace of every container.
	StopTimeout time.Duration
	// Deadline replaces the time limit of the task.
	Deadline time.Duration
	// MinimumAge replaces that of the task.
	MinimumAge string
	// Namespace replaces the namespace of the task.
	Namespace string
	// Ports replace the mappings of the same container port, in the first container
	// that has one. Those that no container maps go to the first essential one. With a
	// port in it, a host port may differ from the container port in network mode awsvpc.
	Ports []Port
	// Images are used in place of those of the document, by the image as the document has it.
	Images map[string]string
	// LeaveOut are names of containers that the task does without, and with it the dependencies,
	// links and shared volumes of others that name them.
	LeaveOut []string
	// Replace has containers by the names of those whose place they take. What is not about the
	// place stays that of the task: the name, ports, links, dependencies, the stop timeout, and whether
	// the container is essential.
	Replace map[string]Container
	// Secrets become variables of every container, in place of a variable or secret
	// of the same name.
	Secrets []Secret
	// SecretFiles become files in every container, in place of one of the same path.
	SecretFiles []SecretFile
}

// Adjust returns a copy of the task with adjustments, and an *InvalidError if that
// breaks a rule. The task itself is left as it is.
func (t Task) Adjust(a Adjustments) (Task, error) {
	t.Containers = slices.Clone(t.Containers)
	if err := leaveOutContainers(&t, a.LeaveOut); err != nil {
		return t, err
	}
	replaceContainers(t, a.Replace)
	replaceImages(t, a.Images)
	connectTo(&t, a.Network)
	if t.Network == NetworkHost {
		fixPorts(t)
	}
	if a.Memory != nil {
		t.Memory = *a.Memory
	}
	if a.CPU != nil {
		t.CPU = *a.CPU
	}
	if a.Namespace != "" {
		t.Extensions.Namespace = a.Namespace
	}
	if a.MinimumAge != "" {
		t.Extensions.MinimumAge = a.MinimumAge
	} else if len(a.Images) > 0 {
		t.Extensions.MinimumAge = "" // of a lockfile
	}
	if a.Deadline != 0 {
		t.Extensions.Deadline = a.Deadline
	}
	t.Published = t.Published || len(a.Ports) > 0
	for i := range t.Containers {
		c := &t.Containers[i]
		if a.StopTimeout != 0 {
			c.StopTimeout = a.StopTimeout
		}
		c.replaceSecrets(a.Secrets)
		c.replaceSecretFiles(a.SecretFiles)
	}
	publishPorts(t, a.Ports)
	return t, t.Check()
}

// connectTo changes the network mode, or how the task is connected; mode host and none,
// which have nothing to connect, become bridge.
func connectTo(t *Task, network string) {
	switch network {
	case "":
	case string(NetworkBridge), string(NetworkHost), string(NetworkNone):
		t.Extensions.Network, t.Network = "", NetworkMode(network)
	default:
		t.Extensions.Network = network
		if t.Network != NetworkAWSVPC {
			t.Network = NetworkBridge
		}
	}
}

// fixPorts makes the preferred host ports of network mode awsvpc those of mode host, where
// containers listen on the host itself. It writes to t.Containers, which must be t's own.
func fixPorts(t Task) {
	for i := range t.Containers {
		ports := slices.Clone(t.Containers[i].Ports)
		for j, p := range ports {
			if p.HostPort == 0 {
				ports[j].HostPort, ports[j].AWSVPCHostPort = p.AWSVPCHostPort, 0
			}
		}
		t.Containers[i].Ports = ports
	}
}

func (c *Container) replaceSecrets(secrets []Secret) {
	named := func(name string) bool {
		return slices.ContainsFunc(secrets, func(s Secret) bool { return s.Name == name })
	}
	c.Environment = slices.DeleteFunc(slices.Clone(c.Environment), func(v EnvVar) bool { return named(v.Name) })
	c.Secrets = slices.DeleteFunc(slices.Clone(c.Secrets), func(s Secret) bool { return named(s.Name) })
	c.Secrets = append(c.Secrets, secrets...)
}

func (c *Container) replaceSecretFiles(files []SecretFile) {
	c.Extensions.SecretFiles = slices.DeleteFunc(slices.Clone(c.Extensions.SecretFiles), func(have SecretFile) bool {
		return slices.ContainsFunc(files, func(f SecretFile) bool { return f.Path == have.Path })
	})
	c.Extensions.SecretFiles = append(c.Extensions.SecretFiles, files...)
}

// publishPorts maps ports. It writes to t.Containers, which must be t's own.
func publishPorts(t Task, ports []Port) {
	first := max(0, slices.IndexFunc(t.Containers, func(c Container) bool { return c.Essential }))
	added := make([][]Port, len(t.Containers))
	for _, p := range ports {
		owner := slices.IndexFunc(t.Containers, func(c Container) bool { return slices.ContainsFunc(c.Ports, p.sameInside) })
		if owner < 0 {
			owner = first
		}
		added[owner] = append(added[owner], p)
	}
	for i, mine := range added {
		kept := slices.DeleteFunc(slices.Clone(t.Containers[i].Ports), func(have Port) bool { return slices.ContainsFunc(mine, have.sameInside) })
		t.Containers[i].Ports = append(kept, mine...)
	}
}

// sameInside reports whether two mappings share a container port.
func (p Port) sameInside(o Port) bool {
	return p.Protocol == o.Protocol && int(p.ContainerPort) < int(o.ContainerPort)+o.Count() && int(o.ContainerPort) < int(p.ContainerPort)+p.Count()
}
