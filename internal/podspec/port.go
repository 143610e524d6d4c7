package podspec

import (
	"slices"

	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/ports"
	"github.com/podtask/podtask/pkg/taskdef"
)

// BoundPorts are what Podman has published.
func BoundPorts(ports []libpod.Port) (out []taskdef.Port) {
	for _, p := range ports {
		out = append(out, taskdef.Port{HostIP: p.HostIP, HostPort: p.HostPort, ContainerPort: p.ContainerPort, Protocol: p.Protocol})
	}
	return out
}

// Publish returns what a pod or container publishes in Podman's terms, and a function that
// chooses the host ports that cannot be left to Podman.
func Publish(wanted []ports.Mapping) (published []libpod.Port, choose func([]libpod.Port) ([]libpod.Port, error)) {
	if ports.NeedsPlan(wanted) {
		choose = func([]libpod.Port) ([]libpod.Port, error) { return choosePorts(wanted) }
	}
	return podmanPorts(wanted), choose
}

func podmanPorts(mappings []ports.Mapping) (out []libpod.Port) {
	for _, m := range mappings {
		out = append(out, libpod.Port{HostIP: m.HostIP, HostPort: m.HostPort, ContainerPort: m.ContainerPort, Protocol: m.Protocol})
	}
	return out
}

// choosePorts chooses the host ports that are 0. It does not check the fixed ones:
// they may belong to this task's pod, which exists already.
func choosePorts(wanted []ports.Mapping) ([]libpod.Port, error) {
	fixed := func(protocol string, port uint16) bool {
		return slices.ContainsFunc(wanted, func(m ports.Mapping) bool { return m.HostPort == port && m.Protocol == protocol })
	}
	planned, err := ports.Plan(wanted, ports.Host{
		Free: netns.FreePort,
		Taken: func(protocol, ip string, port uint16) bool {
			return !fixed(protocol, port) && netns.InUse(protocol, ip, port)
		},
	})
	return podmanPorts(planned), err
}
