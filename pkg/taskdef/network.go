package taskdef

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// ContainerNetwork holds the network settings of a container besides ports.
type ContainerNetwork struct {
	// Disabled: the container has no network but its own loopback.
	Disabled bool `json:"disabled,omitempty"`
	// Hostname is empty for the engine's choice.
	Hostname string `json:"hostname,omitempty"`
	// Links are names under which the container reaches others; bridge mode only.
	// Each also is a START dependency, which DependsOn holds.
	Links []Link `json:"links,omitempty"`
	// ExtraHosts are lines for /etc/hosts. Containers that share a network namespace
	// share them: see Task.ExtraHosts.
	ExtraHosts []Host `json:"extraHosts,omitempty"`
	// DNSServers are addresses, DNSSearch domains. Containers that share a network
	// namespace share them: see Task.DNS.
	DNSServers []string `json:"dnsServers,omitempty"`
	DNSSearch  []string `json:"dnsSearch,omitempty"`
	// DNSOptions are options of the resolver, of a Kubernetes Pod.
	DNSOptions []string `json:"dnsOptions,omitempty"`
}

// Link is a name for another container of the task.
type Link struct {
	// Container is the index of the other container in Task.Containers.
	Container int    `json:"container"`
	Alias     string `json:"alias"`
}

// Host is a line of /etc/hosts.
type Host struct {
	Name    string `json:"hostname"`
	Address string `json:"ipAddress"`
}

// Joined returns the name of the network of Podman's that the task joins, if it names
// one. That is the user's: it is neither made nor removed with the task.
func (t Task) Joined() (network string, joins bool) {
	switch n := t.Extensions.Network; n {
	case "", NetworkPasta, NetworkSlirp4netns, NetworkShared:
		return "", false
	default:
		return n, true
	}
}

// Bridged reports whether the task's containers have network namespaces of their
// own, on a network of the task or one that it joins: in bridge mode, where there are
// two or more to keep apart and the task names no program to connect it. A container
// that is alone needs no network of the task.
func (t Task) Bridged() bool {
	connected := 0
	for _, c := range t.Containers {
		if !c.Net.Disabled {
			connected++
		}
	}
	_, joins := t.Joined()
	return t.Network == NetworkBridge && (t.Extensions.Network == "" || joins) && connected > 1
}

// Names returns the names under which the other containers of the task reach container i: its own and its aliases in
// links, each once, in the order of the document.
func (t Task) Names(i int) []string {
	names := []string{t.Containers[i].Name}
	for _, c := range t.Containers {
		for _, l := range c.Net.Links {
			if l.Container == i && !slices.Contains(names, l.Alias) {
				names = append(names, l.Alias)
			}
		}
	}
	return names
}

// Linked reports whether another container of the task has a link to container i.
func (t Task) Linked(i int) bool {
	return slices.ContainsFunc(t.Containers, func(c Container) bool {
		return slices.ContainsFunc(c.Net.Links, func(l Link) bool { return l.Container == i })
	})
}

// ExtraHosts returns the lines for the /etc/hosts that the containers of the task
// share if it is not Bridged, each once, in the order of the document.
func (t Task) ExtraHosts() []Host {
	var hosts []Host
	for _, c := range t.Containers {
		for _, h := range c.Net.ExtraHosts {
			if !slices.Contains(hosts, h) {
				hosts = append(hosts, h)
			}
		}
	}
	return hosts
}

// DNS returns the name servers and search domains of the whole task if it is not
// Bridged: those of the first container that has any. No two that have some differ.
func (t Task) DNS() (servers, search []string) {
	for _, c := range t.Containers {
		if servers == nil {
			servers = c.Net.DNSServers
		}
		if search == nil {
			search = c.Net.DNSSearch
		}
	}
	return servers, search
}

func decodeNetwork(c cursor) ContainerNetwork {
	return ContainerNetwork{
		Disabled:   c.at("disableNetworking").flag(false),
		Hostname:   c.at("hostname").str(),
		ExtraHosts: decodeHosts(c.at("extraHosts")),
		DNSServers: c.at("dnsServers").strs(),
		DNSSearch:  c.at("dnsSearchDomains").strs(),
	}
}

func decodeHosts(c cursor) []Host {
	var hosts []Host
	for _, item := range c.list(`write a list of {"hostname": ..., "ipAddress": ...}`) {
		item.want(doctree.Object, `write {"hostname": ..., "ipAddress": ...}`)
		hosts = append(hosts, Host{item.at("hostname").str(), item.at("ipAddress").str()})
	}
	return hosts
}

// decodeLinks decodes "name" and "name:alias".
func decodeLinks(c cursor, t Task) []Link {
	var links []Link
	for _, item := range c.list(`write a list of "name" or "name:alias"`) {
		s := item.str()
		if item.failed() {
			continue
		}
		name, alias, given := strings.Cut(s, ":")
		if !given {
			alias = name
		}
		l := Link{Container: -1, Alias: alias}
		i, known := t.Index(name)
		switch {
		case name == "" || alias == "" || strings.Contains(alias, ":"):
			item.wrong(quote(s)+" is not a link", "write name or name:alias")
		case !known:
			item.wrong("no container named "+quote(name), whichContainer(t, name))
		default:
			l.Container = i
		}
		links = append(links, l)
	}
	return links
}

// withLinks adds to the dependencies of container i the START conditions that
// its links stand for. A condition of the document's own goes before them.
func withLinks(deps []Dependency, links []Link, i int) []Dependency {
	for _, l := range links {
		known := slices.ContainsFunc(deps, func(d Dependency) bool { return d.Container == l.Container })
		if !known && l.Container >= 0 && l.Container != i {
			deps = append(deps, Dependency{l.Container, Start})
		}
	}
	return deps
}

var hostPattern = bounded{lazy.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$`), 253}

func checkNetwork(r rules, t Task, i int) {
	c := t.Containers[i]
	n := c.Net
	r.in("hostname").require(n.Hostname == "" || hostPattern.MatchString(n.Hostname) && len(n.Hostname) <= 64,
		"use at most 64 letters, digits, hyphens and dots", "hostname %s is not a valid name", quote(n.Hostname))
	for _, m := range []struct {
		member string
		used   bool
		modes  []NetworkMode
	}{
		{"hostname", n.Hostname != "", []NetworkMode{NetworkBridge, NetworkHost, NetworkNone}},
		{"links", len(n.Links) > 0, []NetworkMode{NetworkBridge}},
		{"extraHosts", len(n.ExtraHosts) > 0, []NetworkMode{NetworkBridge, NetworkHost, NetworkNone}},
	} {
		r.in(m.member).require(!m.used || slices.Contains(m.modes, t.Network), "remove it, or use another networkMode",
			"ECS has no %s with networkMode %s", m.member, quote(string(t.Network)))
	}
	checkLinks(r, t, i)
	for j, h := range n.ExtraHosts {
		in := r.in("extraHosts").item(j)
		in.in("hostname").require(hostPattern.MatchString(h.Name), "", "%s is not a host name", quote(h.Name))
		in.in("ipAddress").require(isAddress(h.Address), "", "%s is not an IP address", quote(h.Address))
	}
	for j, s := range n.DNSServers {
		r.in("dnsServers").item(j).require(isAddress(s), "", "%s is not an IP address", quote(s))
	}
	for j, s := range n.DNSSearch {
		r.in("dnsSearchDomains").item(j).require(hostPattern.MatchString(s) || s == ".", "", "%s is not a domain", quote(s))
	}
	if n.Disabled {
		r.in("portMappings").require(len(c.Ports) == 0, "remove them, or disableNetworking", "a container without a network has no ports to map")
		r.in("links").require(len(n.Links) == 0, "remove them, or disableNetworking", "a container without a network reaches no other")
		r.in("disableNetworking").require(t.Network != NetworkHost, "use another networkMode", `disableNetworking does not go with networkMode "host"`)
	}
}

func checkLinks(r rules, t Task, i int) {
	aliases := make(map[string]bool)
	for j, l := range t.Containers[i].Net.Links {
		in := r.in("links").item(j)
		if l.Container < 0 || l.Container >= len(t.Containers) {
			in.require(false, "name a container of the task", "the link leads to no container")
			continue
		}
		in.require(l.Container != i, "remove it", "container %s is linked to itself", quote(t.Containers[i].Name))
		in.require(hostPattern.MatchString(l.Alias), "", "the alias %s is not a host name", quote(l.Alias))
		in.require(!aliases[l.Alias], "keep one of them", "two links have the alias %s", quote(l.Alias))
		in.require(!t.Containers[l.Container].Net.Disabled, "remove one of the two", "container %s has no network", quote(t.Containers[l.Container].Name))
		aliases[l.Alias] = true
	}
}

func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// checkSharedNames reports what containers ask of the names that they share, where they
// differ.
func checkSharedNames(r rules, t Task) {
	checkSharedAliases(r, t)
	if t.Bridged() {
		return
	}
	addresses := make(map[string]map[int]string)
	servers, search := t.DNS()
	for i, c := range t.Containers {
		in := r.in("containerDefinitions").item(i)
		for j, h := range c.Net.ExtraHosts {
			if addresses[h.Name] == nil {
				addresses[h.Name] = make(map[int]string)
			}
			for _, other := range slices.Sorted(maps.Keys(addresses[h.Name])) {
				in.in("extraHosts").item(j).require(other == i || addresses[h.Name][other] == h.Address, "give both the same address",
					"%s is %s in container %s, and the containers of a task share their hosts file", quote(h.Name), addresses[h.Name][other], quote(t.Containers[other].Name))
			}
			addresses[h.Name][i] = h.Address
		}
		checkSharedList(in, "dnsServers", c.Net.DNSServers, servers)
		checkSharedList(in, "dnsSearchDomains", c.Net.DNSSearch, search)
	}
}

// checkSharedAliases reports aliases that lead to two containers. (In ECS an alias is the linking container's own.)
func checkSharedAliases(r rules, t Task) {
	type link struct{ of, to int }
	aliases := make(map[string]link)
	for i, c := range t.Containers {
		for j, l := range c.Net.Links {
			in := r.in("containerDefinitions").item(i).in("links").item(j)
			if other, taken := t.Index(l.Alias); taken {
				in.require(other == l.Container, "choose another alias", "the alias %s is the name of another container", quote(l.Alias))
			}
			first, known := aliases[l.Alias]
			if !known {
				aliases[l.Alias] = link{i, l.Container}
				continue
			}
			in.require(first.of == i || first.to == l.Container, "choose another alias",
				"the alias %s is another container's in %s, and the containers of a task share one network", quote(l.Alias), quote(t.Containers[first.of].Name))
		}
	}
}

func checkSharedList(r rules, key string, own, task []string) {
	r.in(key).require(len(own) == 0 || slices.Equal(own, task), "give all containers the same, or one of them alone",
		"%s differs from that of another container, and the containers of a task share them unless they are apart in networkMode bridge", key)
}
