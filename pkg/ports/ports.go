package ports

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/podtask/podtask/pkg/taskdef"
)

// HostPort is one port of the host.
type HostPort struct {
	Number   uint16 `json:"number"`
	Protocol string `json:"protocol"` // tcp or udp
	// HostIP is an address of the host; empty for all addresses.
	HostIP string `json:"hostIP,omitempty"`
}

// String returns the port as "8080/tcp" or "127.0.0.1:8080/tcp".
func (p HostPort) String() string {
	text := fmt.Sprintf("%d/%s", p.Number, p.Protocol)
	if p.HostIP != "" {
		text = p.HostIP + ":" + text
	}
	return text
}

// Conflicts reports whether the two ports cannot be open at the same time.
func (p HostPort) Conflicts(o HostPort) bool {
	return p.Number == o.Number && p.Protocol == o.Protocol && overlap(p.HostIP, o.HostIP)
}

// overlap reports whether sockets of one port on two host addresses exclude each
// other. Empty stands for all addresses; the unspecified IPv6 address includes IPv4,
// as on Linux by default. Text that is not an IP address overlaps nothing.
func overlap(a, b string) bool {
	x, errX := address(a)
	y, errY := address(b)
	if errX != nil || errY != nil {
		return false
	}
	return x == y || covers(x, y) || covers(y, x)
}

func covers(wide, narrow netip.Addr) bool {
	return wide.IsUnspecified() && (wide.Is6() || narrow.Is4())
}

// address parses an IP address; the empty one stands for all.
func address(ip string) (netip.Addr, error) {
	if ip == "" {
		return netip.IPv6Unspecified(), nil
	}
	a, err := netip.ParseAddr(ip)
	return a.Unmap(), err
}

// Mapping publishes one container port on one host port.
type Mapping struct {
	Container     string // name of the container, for messages
	ContainerPort uint16
	HostPort      uint16 // 0 in a request: any free port
	// Preferred is taken for a HostPort of 0 if it is free and may be published; 0 for none.
	Preferred uint16
	// AnyOf are the ports of which one is chosen for a HostPort of 0; the zero value is any.
	AnyOf    taskdef.PortSpan
	Protocol string // tcp or udp
	HostIP   string // empty: all addresses
	// Next: the host port follows that of the mapping before, as in a range.
	Next bool
}

// String returns the host side as "127.0.0.1:8080/tcp".
func (m Mapping) String() string {
	ip := "*"
	if a, err := netip.ParseAddr(m.HostIP); err == nil && a.Is6() {
		ip = "[" + m.HostIP + "]"
	} else if m.HostIP != "" {
		ip = m.HostIP
	}
	return fmt.Sprintf("%s:%d/%s", ip, m.HostPort, m.Protocol)
}

// host returns the host side of the mapping.
func (m Mapping) host() HostPort { return HostPort{m.HostPort, m.Protocol, m.HostIP} }

// Hosts returns the host sides of mappings.
func Hosts(mappings []Mapping) (hosts []HostPort) {
	for _, m := range mappings {
		hosts = append(hosts, m.host())
	}
	return hosts
}

// OfTask returns the mappings that a task publishes, those of a range one by one. There
// are none with network mode host, where containers listen on the host itself.
func OfTask(t taskdef.Task) []Mapping {
	if t.Network == taskdef.NetworkHost || t.Network == taskdef.NetworkNone {
		return nil
	}
	var out []Mapping
	for _, c := range t.Containers {
		out = append(out, OfContainer(c)...)
	}
	return out
}

// OfContainer returns the mappings of a container, those of a range one by one.
func OfContainer(c taskdef.Container) (out []Mapping) {
	for _, p := range c.Ports {
		for n := range p.Count() {
			one := Mapping{Container: c.Name, ContainerPort: p.ContainerPort + uint16(n), Protocol: p.Protocol, HostIP: p.HostIP, AnyOf: p.AnyOf, Next: n > 0}
			if p.HostPort != 0 {
				one.HostPort = p.HostPort + uint16(n)
			} else if p.AWSVPCHostPort != 0 {
				one.Preferred = p.AWSVPCHostPort + uint16(n)
			}
			out = append(out, one)
		}
	}
	return out
}

// Keep returns the mappings with the host ports that were bound before as the preferred
// ones, so that what is published again has the same ports where they are still free.
func Keep(mappings []Mapping, bound []taskdef.Port) []Mapping {
	mappings, left := slices.Clone(mappings), slices.Clone(bound)
	for i, m := range mappings {
		j := slices.IndexFunc(left, func(b taskdef.Port) bool {
			return b.ContainerPort == m.ContainerPort && b.Protocol == m.Protocol && overlap(b.HostIP, m.HostIP) && (m.HostPort == 0 || m.HostPort == b.HostPort)
		})
		if j < 0 {
			continue
		}
		if m.HostPort == 0 {
			mappings[i].Preferred = left[j].HostPort
		}
		left = slices.Delete(left, j, j+1) // a container port that is published twice has two
	}
	return mappings
}

// Open reports whether a host port is still to be chosen.
func Open(mappings []Mapping) bool {
	return slices.ContainsFunc(mappings, func(m Mapping) bool { return m.HostPort == 0 })
}

// Fixed returns the host ports that a task has to have: those its definition names, and
// with network mode host those its containers listen on.
func Fixed(t taskdef.Task) (fixed []HostPort) {
	if t.Network == taskdef.NetworkHost {
		for _, c := range t.Containers {
			for _, m := range OfContainer(c) {
				fixed = append(fixed, HostPort{Number: m.ContainerPort, Protocol: m.Protocol})
			}
		}
		return fixed
	}
	for _, m := range OfTask(t) {
		if m.HostPort != 0 {
			fixed = append(fixed, m.host())
		}
	}
	return fixed
}

// NeedsPlan reports whether Podman cannot choose the open host ports itself: it gives a
// container port that is published twice only one host port, and knows neither ranges of them,
// nor preferred ones, nor a choice among some.
func NeedsPlan(mappings []Mapping) bool {
	type key struct {
		ip, protocol string
		port         uint16
	}
	seen := make(map[key]bool)
	for _, m := range mappings {
		if k := (key{m.HostIP, m.Protocol, m.ContainerPort}); m.HostPort == 0 {
			if seen[k] || m.Next || m.Preferred != 0 || m.AnyOf.Given() {
				return true
			}
			seen[k] = true
		}
	}
	return false
}
