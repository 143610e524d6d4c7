package netns_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/netns"
)

// quiet is a host where nothing is taken and 40000, 40001, ... are free.
func quiet() netns.Host {
	next := uint16(40000)
	return netns.Host{
		UnprivilegedStart: 1024,
		Free:              func(string, string) (uint16, error) { next++; return next - 1, nil },
		Taken:             func(string, string, uint16) bool { return false },
	}
}

func tcp(host uint16) netns.Port {
	return netns.Port{Container: "web", ContainerPort: 80, HostPort: host, Protocol: "tcp"}
}

func TestPlanFillsHostPorts(t *testing.T) {
	t.Parallel()
	at := func(p netns.Port, ip string) netns.Port { p.HostIP = ip; return p }
	udp := func(p netns.Port) netns.Port { p.Protocol = "udp"; return p }
	next := func(p netns.Port) netns.Port { p.Next = true; return p }
	tests := []struct {
		name string
		in   []netns.Port
		want string
	}{
		{"none", nil, "[]"},
		{"a fixed one stays", []netns.Port{tcp(8080)}, "[*:8080/tcp]"},
		{"a dynamic one is chosen", []netns.Port{tcp(0), tcp(8080)}, "[*:40000/tcp *:8080/tcp]"},
		{"a fixed one later in the list is not chosen", []netns.Port{tcp(0), tcp(40000)}, "[*:40001/tcp *:40000/tcp]"},
		{"two dynamic ones differ", []netns.Port{tcp(0), tcp(0)}, "[*:40000/tcp *:40001/tcp]"},
		{"a range is in one piece", []netns.Port{tcp(40001), tcp(0), next(tcp(0)), next(tcp(0))}, "[*:40001/tcp *:40002/tcp *:40003/tcp *:40004/tcp]"},
		{"one number for two protocols", []netns.Port{tcp(53000), udp(tcp(53000))}, "[*:53000/tcp *:53000/udp]"},
		{"one number for two addresses", []netns.Port{at(tcp(8080), "127.0.0.1"), at(tcp(8080), "127.0.0.2")}, "[127.0.0.1:8080/tcp 127.0.0.2:8080/tcp]"},
		{"IPv4 and IPv6 are apart", []netns.Port{at(tcp(8080), "0.0.0.0"), at(tcp(8080), "::1")}, "[0.0.0.0:8080/tcp [::1]:8080/tcp]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			plan, err := netns.MakePlan(tt.in, quiet())
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(plan.Ports); got != tt.want {
				t.Errorf("plan %s, want %s", got, tt.want)
			}
		})
	}
}

func TestPlanRefuses(t *testing.T) {
	t.Parallel()
	at := func(p netns.Port, ip string) netns.Port { p.HostIP = ip; return p }
	taken := quiet()
	taken.Taken = func(protocol, ip string, port uint16) bool { return protocol == "tcp" && port == 8080 }
	exhausted := quiet()
	exhausted.Free = func(string, string) (uint16, error) { return 0, errors.New("out of ports") }
	stubborn := quiet()
	stubborn.Free = func(string, string) (uint16, error) { return 8080, nil }
	crowded := stubborn
	crowded.Taken = func(_, _ string, port uint16) bool { return port == 8081 }
	tests := []struct {
		name string
		in   []netns.Port
		host netns.Host
		want string
	}{
		{"a privileged port, with the mend", []netns.Port{tcp(80)}, quiet(), "sysctl net.ipv4.ip_unprivileged_port_start=80"},
		{"the same port twice", []netns.Port{tcp(8080), tcp(8080)}, quiet(), "asked for twice: container web"},
		{"one address and all addresses", []netns.Port{at(tcp(8080), "127.0.0.1"), tcp(8080)}, quiet(), "asked for twice"},
		{"all IPv4 and one of them", []netns.Port{at(tcp(8080), "0.0.0.0"), at(tcp(8080), "127.0.0.1")}, quiet(), "asked for twice"},
		{"an address written in two ways", []netns.Port{at(tcp(8080), "127.0.0.1"), at(tcp(8080), "::ffff:127.0.0.1")}, quiet(), "asked for twice"},
		{"a port in use", []netns.Port{tcp(8080)}, taken, "in use on this host"},
		{"no free port", []netns.Port{tcp(0)}, exhausted, "out of ports"},
		{"always the same free port", []netns.Port{tcp(0), tcp(0)}, stubborn, "16 attempts"},
		{"no free port behind the first of a range", []netns.Port{tcp(0), {Container: "web", ContainerPort: 81, Protocol: "tcp", Next: true}}, crowded, "16 attempts"},
		{"an unknown protocol", []netns.Port{{ContainerPort: 1, Protocol: "sctp"}}, quiet(), `"sctp"`},
		{"a host name for an address", []netns.Port{at(tcp(0), "localhost")}, quiet(), `"localhost" is not an IP address`},
		{"no container port", []netns.Port{{Protocol: "tcp"}}, quiet(), "0 is not a port"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := netns.MakePlan(tt.in, tt.host)
			var plan *netns.PlanError
			if !errors.As(err, &plan) || len(plan.Problems) != 1 || !strings.Contains(plan.Problems[0].Message, tt.want) {
				t.Errorf("got %v, want one problem with %q", err, tt.want)
			}
		})
	}
}

func TestAllProblemsAreReportedInOrder(t *testing.T) {
	t.Parallel()
	host := quiet()
	host.Free = func(string, string) (uint16, error) { return 0, errors.New("out of ports") }
	_, err := netns.MakePlan([]netns.Port{tcp(0), tcp(80), tcp(9000), tcp(9000)}, host)
	var plan *netns.PlanError
	if !errors.As(err, &plan) {
		t.Fatal(err)
	}
	var at []int
	for _, p := range plan.Problems {
		at = append(at, p.Index)
	}
	if fmt.Sprint(at) != "[0 1 3]" {
		t.Errorf("problems at %v, want [0 1 3]:\n%v", at, err)
	}
}

func TestPlanLeavesTheRequestAlone(t *testing.T) {
	t.Parallel()
	in := []netns.Port{tcp(0)}
	if _, err := netns.MakePlan(in, quiet()); err != nil || in[0].HostPort != 0 {
		t.Errorf("request became %v (%v)", in, err)
	}
}
