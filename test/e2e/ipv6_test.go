//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/podtask/podtask/internal/engine/facts/metadata"
	"github.com/podtask/podtask/pkg/netns"
)

// wantKinds fails the test unless there are IPv4 addresses, and IPv6 ones if six.
func wantKinds(t *testing.T, what string, four, six []string, wantSix bool) {
	t.Helper()
	if len(four) == 0 || len(six) > 0 != wantSix {
		t.Errorf("%s has the addresses %v and %v; IPv6 is wanted: %v", what, four, six, wantSix)
	}
}

// A task has IPv6 addresses where the host has one, and runs without where not.
func TestTasksHaveIPv6WhereTheHostHas(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"awsvpc", "bridge"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.want(0, "run", "--name", b.family, b.write(def{Network: mode, Containers: []ctr{
				{Name: "app", Command: words("await " + metadataURI + " -- print")}, {Name: "other", Essential: optional, Command: words("sleep forever"), StopTimeout: 1},
			}}))
			app := decodeAnswer[metadata.Container](t, b.answers(b.family, "app")[0])
			wantKinds(t, "app", app.Networks[0].IPv4Addresses, app.Networks[0].IPv6Addresses, netns.HasIPv6())
		})
	}
}

// addresses are those of a container, by their kind.
func (b *box) addresses(ref, container string) (four, six []string) {
	b.t.Helper()
	for _, c := range b.inspect(ref).Containers {
		for _, text := range c.Addresses {
			if a, err := netip.ParseAddr(text); c.Name == container && err == nil && a.Is4() {
				four = append(four, text)
			} else if c.Name == container && err == nil {
				six = append(six, text)
			}
		}
	}
	return four, six
}

// The containers of a bridged task reach each other by both kinds of addresses, and the
// host reaches a port of theirs on its own IPv6 address.
func TestMembersOfANetworkReachEachOtherByIPv6(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	web := ctr{Name: "web", Command: words("serve 8080"), StopTimeout: 1, Restart: restarts(0)}
	if netns.HasIPv6() {
		web.More = obj{"portMappings": []obj{{"containerPort": 8080, "x-podtask": obj{"hostIP": "::1"}}}}
	}
	file := b.define(web, ctr{Name: "client", Command: words("await http://web:8080/ -- write /tmp/ready -- sleep forever"), StopTimeout: 1,
		Health: healthyIf("exists /tmp/ready"), DependsOn: []on{{"web", "START"}}})
	id := b.detach("--wait=healthy", file)
	four, six := b.addresses(id, "web")
	wantKinds(t, "web", four, six, netns.HasIPv6())
	askAll := func() {
		t.Helper()
		for _, a := range slices.Concat(four, six) {
			b.want(0, "exec", id, "client", "--", "/testbox", "await", "http://"+netip.AddrPortFrom(netip.MustParseAddr(a), 8080).String()+"/")
		}
		for _, p := range b.inspect(id).Ports {
			eventually(t, "the port on [::1] answers", func() bool { return ask(fmt.Sprintf("http://[::1]:%d/", p.HostPort)) == "yes" })
		}
	}
	askAll()
	hardware := func() string {
		return b.podman("inspect", "--format", "{{range .NetworkSettings.Networks}}{{.MacAddress}}{{end}}", b.inspect(id).Containers[0].RuntimeID)
	}
	before := hardware()
	b.podman("kill", b.inspect(id).Containers[0].RuntimeID)
	eventually(t, "web is restarted", func() bool {
		c := b.inspect(id).Containers[0]
		return c.RestartCount == 1 && c.Status == "RUNNING" && len(c.Addresses) > 0
	})
	if again4, again6 := b.addresses(id, "web"); !slices.Equal(again4, four) || !slices.Equal(again6, six) {
		t.Errorf("addresses %v and %v became %v and %v", four, six, again4, again6)
	}
	// The others would look for it under the old one for a while.
	if after := hardware(); after != before || before == "" {
		t.Errorf("hardware address %q became %q", before, after)
	}
	askAll()

	// Who wants none gets none.
	b.env = append(b.env, "PODTASK_BRIDGE_IPV6=off")
	web.More = nil
	without := b.detach("--wait=running", b.define(web, ctr{Name: "client", Command: words("sleep forever"), StopTimeout: 1}))
	four, six = b.addresses(without, "web")
	wantKinds(t, "web of the other task", four, six, false)
}
