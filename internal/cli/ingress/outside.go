package ingress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/ingress"
)

// outside is what this host can find out about how clients on other hosts reach it. It cannot see firewalls and routers
// before it.
type outside struct {
	// Unreachable are addresses of the proxy that do not answer at an address of this host other than loopback.
	Unreachable []string `json:"unreachable"`
	// Names are the host names of routes that do not lead to an address of this host, with the reason.
	Names []nameProblem `json:"names"`
}

// nameProblem explains why requests for a name do not come here.
type nameProblem struct {
	Name    string `json:"name"`
	Problem string `json:"problem"`
}

// outsideTime limits all questions together.
const outsideTime = 5 * time.Second

// network is what a look at the outside asks.
type network struct {
	own     func() ([]netip.Addr, error) // addresses of this host
	resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	dial    func(ctx context.Context, address string) error
}

func thisNetwork() network {
	return network{
		own: func() (all []netip.Addr, err error) {
			list, err := net.InterfaceAddrs()
			for _, a := range list {
				if p, err := netip.ParsePrefix(a.String()); err == nil {
					all = append(all, p.Addr().Unmap())
				}
			}
			return all, err
		},
		resolve: func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		},
		dial: func(ctx context.Context, address string) error {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			if err != nil {
				return err
			}
			return c.Close()
		},
	}
}

// look finds out what it can about a proxy.
func (n network) look(ctx context.Context, s ingress.Status) (outside, error) {
	ctx, cancel := context.WithTimeout(ctx, outsideTime)
	defer cancel()
	o := outside{Unreachable: []string{}, Names: []nameProblem{}}
	own, err := n.own()
	if err != nil {
		return o, err
	}
	public := slices.DeleteFunc(slices.Clone(own), func(a netip.Addr) bool { return a.IsLoopback() || a.IsLinkLocalUnicast() })
	for _, address := range slices.Concat(s.Plain, s.Secure) {
		if problem := n.reach(ctx, address, public); problem != "" {
			o.Unreachable = append(o.Unreachable, address+": "+problem)
		}
	}
	seen := make(map[string]bool)
	for _, r := range s.Routes {
		u, err := url.Parse(r.URL)
		if err != nil || seen[u.Hostname()] || strings.HasPrefix(u.Hostname(), "*.") {
			continue // a wildcard is no name that can be resolved
		}
		seen[u.Hostname()] = true
		if problem := n.leadsHere(ctx, u.Hostname(), own); problem != "" {
			o.Names = append(o.Names, nameProblem{u.Hostname(), problem})
		}
	}
	return o, nil
}

// reach explains why a listener is not reached at one of the public addresses; "" if it is.
func (n network) reach(ctx context.Context, listener string, public []netip.Addr) string {
	at, err := netip.ParseAddrPort(listener)
	if err != nil {
		return err.Error()
	}
	if at.Addr().IsLoopback() {
		return "only this host reaches the loopback"
	}
	last := "this host has no address but those of the loopback"
	for _, a := range public {
		if !at.Addr().IsUnspecified() && at.Addr().Unmap() != a {
			continue
		}
		if err = n.dial(ctx, netip.AddrPortFrom(a, at.Port()).String()); err == nil {
			return ""
		}
		last = err.Error()
	}
	return last
}

// leadsHere explains why a name does not lead to this host; "" if it does.
func (n network) leadsHere(ctx context.Context, name string, own []netip.Addr) string {
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return "a name of localhost leads each client to itself: only this host reaches it"
	}
	addresses, err := n.resolve(ctx, name)
	if err != nil {
		return "it does not resolve: " + err.Error()
	}
	for i, a := range addresses {
		addresses[i] = a.Unmap()
	}
	if slices.ContainsFunc(addresses, func(a netip.Addr) bool { return slices.Contains(own, a) }) {
		return ""
	}
	return fmt.Sprintf("it leads to %v, which this host does not have: behind a router or a load balancer that is right", addresses)
}
