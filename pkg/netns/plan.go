// Package netns plans the host ports of a task and asks the host about ports.
//
// [MakePlan] is pure given its two functions. [FreePort], [InUse],
// [UnprivilegedStart] and [FindHolder] ask the host; what they say may be out of
// date at once, so Podman's own word at the start of the pod is final.
package netns

import (
	"fmt"
	"net/netip"
	"strings"
)

// Port is one port to publish.
type Port struct {
	Container     string // name of the container, for messages
	ContainerPort uint16
	HostPort      uint16 // 0 in a request: any free one
	Protocol      string // tcp or udp
	HostIP        string // empty: all addresses
	// Next: the host port follows that of the port before, as in a range.
	Next bool
}

// String gives the port as "127.0.0.1:8080/tcp".
func (p Port) String() string {
	ip := p.HostIP
	if strings.Contains(ip, ":") {
		ip = "[" + ip + "]"
	}
	if ip == "" {
		ip = "*"
	}
	return fmt.Sprintf("%s:%d/%s", ip, p.HostPort, p.Protocol)
}

// Plan is what to publish: the ports of the request in their order, each with
// its host port.
type Plan struct {
	Ports []Port
}

// Problem is one thing that is wrong with a request.
type Problem struct {
	Index   int // of the port in the request
	Message string
}

// PlanError holds all problems of a request, in the order of the ports.
type PlanError struct {
	Problems []Problem
}

// Error puts each problem on a line of its own.
func (e *PlanError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.Message
	}
	return strings.Join(lines, "\n")
}

// Host answers the planner's questions.
type Host struct {
	// UnprivilegedStart is the lowest port the user may publish.
	UnprivilegedStart uint16
	// Free returns a port that nobody uses.
	Free func(protocol, ip string) (uint16, error)
	// Taken tells whether somebody uses the port. It may be asked about more
	// than one address that means the same.
	Taken func(protocol, ip string, port uint16) bool
}

// freeAttempts bounds how often Free is asked for one port: it may return one
// that the plan already has.
const freeAttempts = 16

// MakePlan chooses the missing host ports and checks the others: against each
// other, against what is taken, and against what a user may publish. It fails
// with a *PlanError that holds every problem.
func MakePlan(ports []Port, host Host) (Plan, error) {
	p := planner{host: host, ports: append([]Port(nil), ports...)}
	for i := range p.ports {
		p.checkFixed(i)
	}
	// Fixed ports first, so that no chosen one gets in their way.
	for i := range p.ports {
		p.choose(i)
	}
	if len(p.problems) > 0 {
		return Plan{}, &PlanError{Problems: inOrder(p.problems, len(ports))}
	}
	return Plan{Ports: p.ports}, nil
}

type planner struct {
	host     Host
	ports    []Port
	bad      map[int]bool
	problems []Problem
}

func (p *planner) fail(i int, format string, args ...any) {
	if p.bad == nil {
		p.bad = make(map[int]bool)
	}
	p.bad[i] = true
	who := fmt.Sprintf("port %d", p.ports[i].ContainerPort)
	if name := p.ports[i].Container; name != "" {
		who += " of container " + name
	}
	p.problems = append(p.problems, Problem{Index: i, Message: who + ": " + fmt.Sprintf(format, args...)})
}

// checkFixed checks what the request says about port i.
func (p *planner) checkFixed(i int) {
	port := p.ports[i]
	if port.ContainerPort == 0 {
		p.fail(i, "0 is not a port of a container: give 1 to 65535")
	}
	if port.Protocol != "tcp" && port.Protocol != "udp" {
		p.fail(i, "protocol %q is not known: give tcp or udp", port.Protocol)
		return
	}
	if _, err := address(port.HostIP); err != nil {
		p.fail(i, "host address %q is not an IP address: give one of this host's, or none for all", port.HostIP)
		return
	}
	if port.HostPort == 0 {
		return
	}
	if start := p.host.UnprivilegedStart; port.HostPort < start {
		p.fail(i, "host port %d is below %d, the lowest one a user may open: use a higher one, or as root run 'sysctl net.ipv4.ip_unprivileged_port_start=%d'",
			port.HostPort, start, port.HostPort)
		return
	}
	if j, clash := p.clash(port, i); clash {
		p.fail(i, "host port %s is asked for twice: %s has it for its port %d; give each its own, or 0 to have one chosen",
			port, p.name(j), p.ports[j].ContainerPort)
		return
	}
	if p.host.Taken(port.Protocol, port.HostIP, port.HostPort) {
		p.fail(i, "host port %s is in use on this host: stop what uses it, or give another, or 0 to have one chosen", port)
	}
}

func (p *planner) name(i int) string {
	if n := p.ports[i].Container; n != "" {
		return "container " + n
	}
	return "another"
}

// choose finds a host port for port i if it needs one.
func (p *planner) choose(i int) {
	port := p.ports[i]
	if port.HostPort != 0 || port.Next || p.bad[i] {
		return
	}
	for range freeAttempts {
		n, err := p.host.Free(port.Protocol, port.HostIP)
		if err != nil {
			p.fail(i, "no free host port: %v", err)
			return
		}
		if p.place(i, n) {
			return
		}
	}
	p.fail(i, "no free host port was found in %d attempts: give one", freeAttempts)
}

// place gives port i and those of its range the host ports from first on, and
// reports whether these are free.
func (p *planner) place(i int, first uint16) bool {
	end := i + 1
	for end < len(p.ports) && p.ports[end].Next {
		end++
	}
	if first < p.host.UnprivilegedStart || int(first)+end-i-1 > 65535 {
		return false
	}
	for j := i; j < end; j++ {
		port := p.ports[j]
		port.HostPort = first + uint16(j-i)
		if _, clash := p.clash(port, len(p.ports)); clash || j > i && p.host.Taken(port.Protocol, port.HostIP, port.HostPort) {
			return false
		}
	}
	for j := i; j < end; j++ {
		p.ports[j].HostPort = first + uint16(j-i)
	}
	return true
}

// clash finds a port before index end that has the same host port as port.
func (p *planner) clash(port Port, end int) (int, bool) {
	for j, other := range p.ports[:end] {
		if other.HostPort == port.HostPort && other.Protocol == port.Protocol && Overlap(other.HostIP, port.HostIP) {
			return j, true
		}
	}
	return 0, false
}

// Overlap tells whether sockets of one port on two host addresses exclude each
// other. Empty stands for all addresses; the unspecified IPv6 address takes IPv4
// along, as Linux does by default. What is no IP address overlaps nothing.
func Overlap(a, b string) bool {
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

// inOrder sorts the problems of n ports by port, those of one port as found.
func inOrder(problems []Problem, n int) []Problem {
	var sorted []Problem
	for i := range n {
		for _, p := range problems {
			if p.Index == i {
				sorted = append(sorted, p)
			}
		}
	}
	return sorted
}
