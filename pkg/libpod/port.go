package libpod

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/containers/common/libnetwork/types"
	"github.com/containers/podman/v5/libpod/define"
)

// Port is one published port.
type Port struct {
	// HostIP is an address of the host; "" means all.
	HostIP string
	// HostPort is 1 to 65535; 0 lets Podman choose when the pod is created.
	HostPort uint16
	// ContainerPort is 1 to 65535.
	ContainerPort uint16
	// Protocol is tcp or udp; "" means tcp.
	Protocol string
}

func (p Port) protocol() string {
	if p.Protocol == "" {
		return "tcp"
	}
	return p.Protocol
}

// String returns the port as the podman command line writes it.
func (p Port) String() string {
	return fmt.Sprintf("%s:%d:%d/%s", p.HostIP, p.HostPort, p.ContainerPort, p.protocol())
}

// portsOf returns the ports that a container publishes, sorted by container port.
func portsOf(c *define.InspectContainerData) (ports []Port, err error) {
	if c.HostConfig == nil {
		return nil, nil
	}
	for key, bindings := range c.HostConfig.PortBindings {
		port, protocol, _ := strings.Cut(key, "/")
		inside, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("unknown form of port %q", key)
		}
		for _, b := range bindings {
			outside, err := strconv.ParseUint(b.HostPort, 10, 16)
			if err != nil {
				return nil, fmt.Errorf("unknown form of host port %q", b.HostPort)
			}
			ports = append(ports, Port{HostIP: b.HostIP, HostPort: uint16(outside), ContainerPort: uint16(inside), Protocol: protocol})
		}
	}
	slices.SortFunc(ports, comparePorts)
	return ports, nil
}

func comparePorts(a, b Port) int {
	if a.ContainerPort != b.ContainerPort {
		return int(a.ContainerPort) - int(b.ContainerPort)
	}
	if a.Protocol != b.Protocol {
		return strings.Compare(a.Protocol, b.Protocol)
	}
	return int(a.HostPort) - int(b.HostPort)
}

// portMappings are ports in Podman's words, those that choose gives if it is not nil.
func portMappings(ports []Port, choose func([]Port) ([]Port, error)) (mappings []types.PortMapping, err error) {
	if choose != nil {
		if ports, err = choose(ports); err != nil {
			return nil, &Error{Class: PortInUse, Cause: err.Error()}
		}
	}
	for _, port := range ports {
		if port.ContainerPort == 0 || (port.HostIP != "" && net.ParseIP(port.HostIP) == nil) {
			return nil, &Error{Class: InvalidSpec, Cause: fmt.Sprintf("port %s: a container port of 1 to 65535 and an IP address are needed", port)}
		}
		mappings = append(mappings, types.PortMapping{
			HostIP: port.HostIP, HostPort: port.HostPort, ContainerPort: port.ContainerPort, Protocol: port.protocol(), Range: 1,
		})
	}
	return mappings, nil
}
