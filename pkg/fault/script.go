package fault

import (
	"fmt"
	"net/netip"
	"strings"
)

// table is the name of podtask's table in each family of nft.
const table = "podtask_fault"

// Families are those of nft that have faults, each in a table of its own: not every kernel has the
// family inet.
func Families() []string { return []string{"ip", "ip6"} }

// EndpointAddress is the address of the endpoint at which a container stops its faults. A black hole
// for HTTP spares it, as in ECS.
var EndpointAddress = netip.AddrFrom4([4]byte{169, 254, 170, 2})

// Rules returns the input of `nft -f -` after which exactly these black holes are there in a family, one
// of Families. Other faults are left out. It may be repeated; nft carries it out whole or not at all.
func Rules(family string, faults []Fault) string {
	var b strings.Builder
	// Deleting a table that does not exist is an error, adding one that exists is not.
	fmt.Fprintf(&b, "add table %s %s\ndelete table %s %s\n", family, table, family, table)
	var holes []Fault
	for _, f := range faults {
		if f.Kind == BlackholePort {
			holes = append(holes, f)
		}
	}
	if len(holes) == 0 {
		return b.String()
	}
	fmt.Fprintf(&b, "table %s %s {\n", family, table)
	for _, way := range []struct{ traffic, hook, peer string }{{Ingress, "input", "saddr"}, {Egress, "output", "daddr"}} {
		fmt.Fprintf(&b, "\tchain %s {\n\t\ttype filter hook %s priority 0; policy accept;\n", way.traffic, way.hook)
		for _, f := range holes {
			if f.TrafficType != way.traffic {
				continue
			}
			for _, s := range spared(family, f) {
				fmt.Fprintf(&b, "\t\t%s %s %s %s dport %d accept\n", family, way.peer, s, f.Protocol, f.Port)
			}
			fmt.Fprintf(&b, "\t\t%s dport %d drop\n", f.Protocol, f.Port)
		}
		b.WriteString("\t}\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// spared are the networks of a family whose packets a black hole lets pass.
func spared(family string, f Fault) []netip.Prefix {
	var all []netip.Prefix
	for _, s := range f.SourcesToFilter {
		if p, err := ParseSource(s); err == nil && p.Addr().Is4() == (family == "ip") {
			all = append(all, p)
		}
	}
	if family == "ip" && f.TrafficType == Egress && f.Port == 80 {
		all = append(all, netip.PrefixFrom(EndpointAddress, EndpointAddress.BitLen()))
	}
	return all
}

// Root is the handle of podtask's queueing discipline at the root of an interface. What a container with
// CAP_NET_ADMIN has made there has another one, and is left alone.
const Root = "fa17:"

// Disciplines returns the input of `tc -batch -` that adds a fault, one that is Shaped, to an interface
// without one.
//
// Packets to Sources take the first band of the discipline at the root; the others, and those to
// SourcesToFilter, the third. Below the first band is netem, or another discipline whose first band has netem and
// gets as many connections in a hundred as FlowsPercent says.
func Disciplines(device string, f Fault) string {
	var b strings.Builder
	parent := Root + "1"
	fmt.Fprintf(&b, "qdisc add dev %s root handle %s prio bands 3 priomap%s\n", device, Root, strings.Repeat(" 2", 16))
	if f.FlowsPercent != 0 && f.FlowsPercent != 100 {
		fmt.Fprintf(&b, "qdisc add dev %s parent %s handle fa18: prio bands 2 priomap%s\n", device, parent, strings.Repeat(" 1", 16))
		fmt.Fprintf(&b, "filter add dev %s parent fa18: protocol all prio 1 bpf bytecode \"%s\" flowid fa18:1\n", device, bytecode(selection(uint32(f.FlowsPercent))))
		parent = "fa18:1"
	}
	what := fmt.Sprintf("loss %d%%", f.LossPercent)
	if f.Kind == Latency {
		what = fmt.Sprintf("delay %dms %dms", f.DelayMilliseconds, f.JitterMilliseconds)
	}
	fmt.Fprintf(&b, "qdisc add dev %s parent %s handle fa19: netem %s\n", device, parent, what)
	filters(&b, device, f.SourcesToFilter, 1, 3)
	filters(&b, device, f.Sources, 3, 1)
	return b.String()
}

// filters sends the packets to networks into a band. An earlier priority wins; each family has one.
func filters(b *strings.Builder, device string, sources []string, priority, band int) {
	for _, s := range sources {
		p, err := ParseSource(s)
		if err != nil {
			continue // Problems has reported it
		}
		protocol, match, n := "ip", "ip", priority
		if !p.Addr().Is4() {
			protocol, match, n = "ipv6", "ip6", priority+1
		}
		fmt.Fprintf(b, "filter add dev %s parent %s protocol %s prio %d u32 match %s dst %s flowid %s%d\n", device, Root, protocol, n, match, p, Root, band)
	}
}
