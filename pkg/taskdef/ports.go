package taskdef

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

const maxPortRanges = 100

func decodePorts(c cursor, mode NetworkMode) []Port {
	var ports []Port
	for _, item := range c.list("") {
		item.want(doctree.Object, `write {"containerPort": ...}`)
		p := Port{
			ContainerPort: decodePort(item.at("containerPort")),
			HostPort:      decodePort(item.at("hostPort")),
			Protocol:      item.at("protocol").str(),
			HostIP:        item.at(extensionMember).at("hostIP").str(),
			Name:          item.at("name").str(),
		}
		item.at(extensionMember).want(doctree.Object, "")
		decodePortRange(item, &p)
		decodeHostPortRange(item, &p)
		if p.Protocol == "" {
			p.Protocol = "tcp"
		}
		switch inner := !p.AnyOf.Given() && (p.HostPort == 0 || p.HostPort == p.ContainerPort); {
		case mode == NetworkHost && inner:
			p.HostPort = p.ContainerPort
		case mode == NetworkAWSVPC && inner:
			p.HostPort, p.AWSVPCHostPort = 0, p.ContainerPort
		}
		ports = append(ports, p)
	}
	return ports
}

// decodePort decodes a port; 0 for an absent one.
func decodePort(c cursor) uint16 {
	i := c.integer(0, 0)
	if i > 65535 {
		c.wrong(fmt.Sprintf("%d is not a port: ports go to 65535", i), "")
		return 0
	}
	return uint16(i)
}

// decodePortRange decodes the containerPortRange of a port mapping, "FIRST-LAST", into
// the two ends of p.
func decodePortRange(c cursor, p *Port) {
	member := c.at("containerPortRange")
	if !member.filled() {
		return
	}
	if c.at("containerPort").present() || c.at("hostPort").present() {
		c.wrong("a mapping of a range has neither containerPort nor hostPort", "remove them, or write a mapping of its own for the port")
	}
	span, ok := decodePortSpan(member)
	if !ok {
		c.p.broken[c.ptr+"/containerPort"] = true // that it is missing is no news
		return
	}
	p.ContainerPort, p.ContainerPortEnd = span.First, span.Last
}

// decodePortSpan decodes "FIRST-LAST".
func decodePortSpan(member cursor) (s PortSpan, ok bool) {
	text := member.str()
	first, last, ok := strings.Cut(text, "-")
	a, err1 := strconv.ParseUint(strings.TrimSpace(first), 10, 16)
	b, err2 := strconv.ParseUint(strings.TrimSpace(last), 10, 16)
	if !ok || err1 != nil || err2 != nil || a == 0 || b <= a {
		if !member.failed() {
			member.wrong(quote(text)+" is not a range of ports", "write FIRST-LAST, as in 8000-8010; ports go from 1 to 65535")
		}
		return s, false
	}
	return PortSpan{uint16(a), uint16(b)}, true
}

// decodeHostPortRange decodes the hostPortRange of x-podtask.
func decodeHostPortRange(c cursor, p *Port) {
	member := c.at(extensionMember).at("hostPortRange")
	if !member.filled() {
		return
	}
	if c.at("hostPort").present() || c.at("containerPortRange").present() {
		member.wrong("hostPortRange is for one container port whose host port is chosen", "remove it, or hostPort and containerPortRange")
	}
	p.AnyOf, _ = decodePortSpan(member)
}

func checkPorts(r rules, t Task, c Container) {
	mode := t.Network
	if mode == NetworkNone {
		r.in("portMappings").require(len(c.Ports) == 0, "remove them, or use another networkMode", `a task with networkMode "none" has no ports to map`)
	}
	ranges := 0
	for i, p := range c.Ports {
		in := r.in("portMappings").item(i)
		in.in("containerPort").require(p.ContainerPort > 0, "use 1 to 65535", "containerPort is missing or 0")
		in.word("protocol", p.Protocol, "tcp", "udp")
		in.in("name").require(p.Name == "" || portNamePattern.MatchString(p.Name),
			"use 1 to 64 lower-case letters, digits, hyphens and underscores, no hyphen first", "port name %s is not valid", quote(p.Name))
		in.in(extensionMember).in("hostIP").require(p.HostIP == "" || isAddress(p.HostIP), "", "%s is not an IP address", quote(p.HostIP))
		in.in(extensionMember).in("hostPortRange").require(!p.AnyOf.Given() || mode != NetworkHost, "use another networkMode, or remove it",
			"with networkMode %q, containers listen on the host itself", mode)
		if mode == NetworkHost || mode == NetworkAWSVPC && !t.Published {
			chosen := mode == NetworkAWSVPC && p.HostPort == 0
			in.in("hostPort").require(chosen || p.HostPort == p.ContainerPort, "leave hostPort out",
				"with networkMode %q, hostPort (%d) must be the containerPort (%d)", mode, p.HostPort, p.ContainerPort)
		}
		if p.ContainerPortEnd != 0 {
			ranges++
			checkPortRange(in.in("containerPortRange"), mode, p)
		}
	}
	r.in("portMappings").require(ranges <= maxPortRanges, "", "there are %d port ranges, more than %d", ranges, maxPortRanges)
}

func checkPortRange(r rules, mode NetworkMode, p Port) {
	r.require(p.ContainerPortEnd > p.ContainerPort, "", "the last port of the range is not above the first")
	r.require(mode == NetworkBridge || mode == NetworkAWSVPC, "use networkMode bridge or awsvpc", "ECS has no containerPortRange with networkMode %s", quote(string(mode)))
	r.require(int(p.HostPort)+p.Count()-1 <= 65535, "", "the host ports of the range end above 65535")
}

// span is the range of ports of one kind that a mapping uses.
type span struct {
	protocol           string
	first, last        int
	container, mapping int
}

// checkSharedPorts reports ports that two mappings claim.
func checkSharedPorts(r rules, t Task) {
	var outer []span
	inner := make([][]span, len(t.Containers)) // by network namespace
	for i, c := range t.Containers {
		namespace := 0
		if t.Bridged() {
			namespace = i
		}
		for j, p := range c.Ports {
			if p.ContainerPort > 0 {
				inner[namespace] = append(inner[namespace], span{p.Protocol, int(p.ContainerPort), int(p.ContainerPort) + p.Count() - 1, i, j})
			}
			if host := max(p.HostPort, p.AWSVPCHostPort); host > 0 {
				outer = append(outer, span{p.Protocol, int(host), int(host) + p.Count() - 1, i, j})
			}
		}
	}
	told := make(map[[2]int]bool)
	for _, spans := range inner {
		clashes(spans, func(first, second span) {
			if checkInnerClash(r, t, first, second) {
				told[[2]int{second.container, second.mapping}] = true
			}
		})
	}
	clashes(outer, func(first, second span) {
		if !told[[2]int{second.container, second.mapping}] {
			r.in("containerDefinitions").item(second.container).in("portMappings").item(second.mapping).in("hostPort").
				require(false, "choose another hostPort, or leave it out in bridge mode", "host port %d/%s is mapped already, by container %s",
					max(first.first, second.first), first.protocol, quote(t.Containers[first.container].Name))
		}
	})
}

// checkInnerClash reports two mappings of one port in one network namespace, if that is
// wrong.
func checkInnerClash(r rules, t Task, first, second span) bool {
	in := r.in("containerDefinitions").item(second.container).in("portMappings").item(second.mapping).in("containerPort")
	port := max(first.first, second.first)
	switch {
	case first.container != second.container:
		in.require(false, "let one of them listen on another port, or use networkMode bridge",
			"container %s maps %d/%s too, and with networkMode %s the containers of a task share one network namespace",
			quote(t.Containers[first.container].Name), port, first.protocol, quote(string(t.Network)))
	case first.first != first.last || second.first != second.last:
		in.require(false, "leave it out of one of the two", "port %d/%s is in two mappings", port, first.protocol)
	default:
		return false // the same port twice has two ports of the host
	}
	return true
}

// clashes calls f for spans that overlap, the first of each pair being before
// the second in the document. It tells at least one pair of each heap.
func clashes(spans []span, f func(first, second span)) {
	slices.SortStableFunc(spans, func(a, b span) int {
		return cmp.Or(strings.Compare(a.protocol, b.protocol), a.first-b.first)
	})
	for i := 1; i < len(spans); i++ {
		a, b := spans[i-1], spans[i]
		if a.protocol == b.protocol && b.first <= a.last {
			if a.container > b.container || a.container == b.container && a.mapping > b.mapping {
				f(b, a)
			} else {
				f(a, b)
			}
		}
		if a.protocol == b.protocol && a.last > b.last {
			spans[i] = a // the one that reaches further may meet the next as well
		}
	}
}
