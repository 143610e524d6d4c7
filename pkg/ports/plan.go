package ports

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef"
)

// Problem is one thing that is wrong with a request.
type Problem struct {
	Index   int // of the mapping in the request
	Message string
}

// PlanError holds all problems of a request, in the order of the mappings.
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
	// Free returns an unused port.
	Free func(protocol, ip string) (uint16, error)
	// Taken reports whether the port is in use. It may be asked about several
	// addresses that mean the same.
	Taken func(protocol, ip string, port uint16) bool
}

// freeAttempts bounds how often Free is asked for one port: it may return one
// that the plan already has.
const freeAttempts = 128

// Plan returns the mappings in their order, each with a host port: it chooses the open
// ones, the preferred ports where they are free, and checks the others against each other, against the ports in use, and against
// what a user may publish. It fails with a *PlanError that holds every problem.
func Plan(mappings []Mapping, host Host) ([]Mapping, error) {
	p := planner{host: host, ports: slices.Clone(mappings)}
	for i := range p.ports {
		p.checkFixed(i)
	}
	// Fixed and then preferred ports come first, so that no chosen one takes their place.
	for i := range p.ports {
		p.prefer(i)
	}
	for i := range p.ports {
		p.choose(i)
	}
	if len(p.problems) > 0 {
		slices.SortStableFunc(p.problems, func(a, b Problem) int { return a.Index - b.Index })
		return nil, &PlanError{Problems: p.problems}
	}
	return p.ports, nil
}

type planner struct {
	host     Host
	ports    []Mapping
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
		p.fail(i, "0 is not a container port: use 1 to 65535")
	}
	if port.Protocol != "tcp" && port.Protocol != "udp" {
		p.fail(i, "protocol %q is unknown: use tcp or udp", port.Protocol)
		return
	}
	if _, err := address(port.HostIP); err != nil {
		p.fail(i, "host address %q is not an IP address: use one of this host, or none for all addresses", port.HostIP)
		return
	}
	if port.HostPort == 0 {
		return
	}
	if start := p.host.UnprivilegedStart; port.HostPort < start {
		p.fail(i, "host port %d is below %d, the lowest port that users without privileges may open: use a higher port, or run as root 'sysctl net.ipv4.ip_unprivileged_port_start=%d'",
			port.HostPort, start, port.HostPort)
		return
	}
	if j, conflict := p.conflict(port, i); conflict {
		p.fail(i, "host port %s is requested twice: %s maps it to its port %d; use different host ports, or 0 to have one chosen",
			port, p.name(j), p.ports[j].ContainerPort)
		return
	}
	if p.host.Taken(port.Protocol, port.HostIP, port.HostPort) {
		p.fail(i, "host port %s is in use on this host: stop the program that uses it, or use another port, or 0 to have one chosen", port)
	}
}

func (p *planner) name(i int) string {
	if n := p.ports[i].Container; n != "" {
		return "container " + n
	}
	return "another"
}

// prefer gives port i the host port that it prefers, if it is open and that is free.
func (p *planner) prefer(i int) {
	port := p.ports[i]
	if port.HostPort != 0 || port.Preferred == 0 || port.AnyOf.Given() && (port.Preferred < port.AnyOf.First || port.Preferred > port.AnyOf.Last) || port.Next || p.bad[i] || port.Preferred < p.host.UnprivilegedStart {
		return
	}
	if !p.host.Taken(port.Protocol, port.HostIP, port.Preferred) {
		p.place(i, port.Preferred)
	}
}

// choose finds a host port for port i if it needs one.
func (p *planner) choose(i int) {
	port := p.ports[i]
	if port.HostPort != 0 || port.Next || p.bad[i] {
		return
	}
	if port.AnyOf.Given() {
		p.chooseAmong(i, port.AnyOf)
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
	p.fail(i, "no free host port found in %d attempts: set hostPort", freeAttempts)
}

// chooseAmong gives port i the first free host port of a range.
func (p *planner) chooseAmong(i int, among taskdef.PortSpan) {
	port := p.ports[i]
	for n := int(among.First); n <= int(among.Last); n++ {
		if !p.host.Taken(port.Protocol, port.HostIP, uint16(n)) && p.place(i, uint16(n)) {
			return
		}
	}
	p.fail(i, "none of the host ports %s is free and open to users: stop a program that uses one, or use another range", among)
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
		if _, conflict := p.conflict(port, len(p.ports)); conflict || j > i && p.host.Taken(port.Protocol, port.HostIP, port.HostPort) {
			return false
		}
	}
	for j := i; j < end; j++ {
		p.ports[j].HostPort = first + uint16(j-i)
	}
	return true
}

// conflict finds a port before index end that has the same host port as port.
func (p *planner) conflict(port Mapping, end int) (int, bool) {
	for j, other := range p.ports[:end] {
		if other.host().Conflicts(port.host()) {
			return j, true
		}
	}
	return 0, false
}
