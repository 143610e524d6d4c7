package taskspec

import (
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/ports"
	"github.com/podtask/podtask/pkg/taskdef"
)

// BoundPorts returns the ports that Podman has published.
func BoundPorts(ports []libpod.Port) (out []taskdef.Port) {
	for _, p := range ports {
		out = append(out, taskdef.Port{HostIP: p.HostIP, HostPort: p.HostPort, ContainerPort: p.ContainerPort, Protocol: p.Protocol})
	}
	return out
}

// OwnPorts are the ports that container i publishes itself, not its pod.
func OwnPorts(s lifecycle.State, i int) []ports.Mapping {
	c := s.Task.Containers[i]
	switch {
	case c.Net.Disabled:
		return nil
	case s.Task.Bridged():
		return ports.OfContainer(c)
	case s.Sandbox.NoInfra:
		return ports.OfTask(s.Task)
	}
	return nil
}

// Publish returns what a pod or container publishes in Podman's terms.
func Publish(mappings []ports.Mapping) (out []libpod.Port) {
	for _, m := range mappings {
		out = append(out, libpod.Port{HostIP: m.HostIP, HostPort: m.HostPort, ContainerPort: m.ContainerPort, Protocol: m.Protocol})
	}
	return out
}
