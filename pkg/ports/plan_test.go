package ports_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/ports"
	"github.com/podtask/podtask/pkg/taskdef"
)

// quiet is a host where 8888 is in use and 40000, 40001, ... are free.
func quiet() ports.Host {
	next := uint16(40000)
	return ports.Host{
		UnprivilegedStart: 1024,
		Free:              func(string, string) (uint16, error) { next++; return next - 1, nil },
		Taken:             func(_, _ string, port uint16) bool { return port == 8888 },
	}
}

func tcp(host uint16) ports.Mapping {
	return ports.Mapping{Container: "web", ContainerPort: 80, HostPort: host, Protocol: "tcp"}
}

func TestPlanFillsHostPorts(t *testing.T) {
	t.Parallel()
	at := func(p ports.Mapping, ip string) ports.Mapping { p.HostIP = ip; return p }
	udp := func(p ports.Mapping) ports.Mapping { p.Protocol = "udp"; return p }
	next := func(p ports.Mapping) ports.Mapping { p.Next = true; return p }
	prefer := func(n uint16, p ports.Mapping) ports.Mapping { p.Preferred = n; return p }
	among := func(first, last uint16, p ports.Mapping) ports.Mapping {
		p.AnyOf = taskdef.PortSpan{First: first, Last: last}
		return p
	}
	tests := []struct {
		name string
		in   []ports.Mapping
		want string
	}{
		{"none", nil, "[]"},
		{"a fixed one stays", []ports.Mapping{tcp(8080)}, "[*:8080/tcp]"},
		{"a dynamic one is chosen", []ports.Mapping{tcp(0), tcp(8080)}, "[*:40000/tcp *:8080/tcp]"},
		{"a fixed one later in the list is not chosen", []ports.Mapping{tcp(0), tcp(40000)}, "[*:40001/tcp *:40000/tcp]"},
		{"two dynamic ones differ", []ports.Mapping{tcp(0), tcp(0)}, "[*:40000/tcp *:40001/tcp]"},
		{"a range is in one piece", []ports.Mapping{tcp(40001), tcp(0), next(tcp(0)), next(tcp(0))}, "[*:40001/tcp *:40002/tcp *:40003/tcp *:40004/tcp]"},
		{"a preferred one is chosen", []ports.Mapping{tcp(0), prefer(8080, tcp(0))}, "[*:40000/tcp *:8080/tcp]"},
		{"a preferred one comes before a chosen one", []ports.Mapping{tcp(0), prefer(40000, tcp(0))}, "[*:40001/tcp *:40000/tcp]"},
		{"a preferred one is not chosen if it is privileged", []ports.Mapping{prefer(80, tcp(0))}, "[*:40000/tcp]"},
		{"a preferred one is not chosen if it is in use", []ports.Mapping{prefer(8888, tcp(0))}, "[*:40000/tcp]"},
		{"a preferred one is not chosen if another has it", []ports.Mapping{prefer(8080, tcp(0)), tcp(8080)}, "[*:40000/tcp *:8080/tcp]"},
		{"the second that prefers a port gets another", []ports.Mapping{prefer(8080, tcp(0)), prefer(8080, tcp(0))}, "[*:8080/tcp *:40000/tcp]"},
		{"a range that prefers ports is in one piece", []ports.Mapping{prefer(8887, tcp(0)), next(prefer(8888, tcp(0)))}, "[*:40000/tcp *:40001/tcp]"},
		{"a fixed one has no preference", []ports.Mapping{prefer(8080, tcp(9090))}, "[*:9090/tcp]"},
		{"the first free one of some is chosen", []ports.Mapping{among(8888, 8890, tcp(0)), tcp(8889)}, "[*:8890/tcp *:8889/tcp]"},
		{"a preferred one of some is chosen", []ports.Mapping{prefer(8890, among(8888, 8890, tcp(0))), prefer(9000, among(8888, 8890, tcp(0)))}, "[*:8890/tcp *:8889/tcp]"},
		{"one number for two protocols", []ports.Mapping{tcp(53000), udp(tcp(53000))}, "[*:53000/tcp *:53000/udp]"},
		{"one number for two addresses", []ports.Mapping{at(tcp(8080), "127.0.0.1"), at(tcp(8080), "127.0.0.2")}, "[127.0.0.1:8080/tcp 127.0.0.2:8080/tcp]"},
		{"IPv4 and IPv6 are apart", []ports.Mapping{at(tcp(8080), "0.0.0.0"), at(tcp(8080), "::1")}, "[0.0.0.0:8080/tcp [::1]:8080/tcp]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			plan, err := ports.Plan(tt.in, quiet())
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(plan); got != tt.want {
				t.Errorf("plan %s, want %s", got, tt.want)
			}
		})
	}
}

func TestPlanRefuses(t *testing.T) {
	t.Parallel()
	at := func(p ports.Mapping, ip string) ports.Mapping { p.HostIP = ip; return p }
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
		in   []ports.Mapping
		host ports.Host
		want string
	}{
		{"a privileged port, with the fix", []ports.Mapping{tcp(80)}, quiet(), "sysctl net.ipv4.ip_unprivileged_port_start=80"},
		{"the same port twice", []ports.Mapping{tcp(8080), tcp(8080)}, quiet(), "requested twice: container web"},
		{"one address and all addresses", []ports.Mapping{at(tcp(8080), "127.0.0.1"), tcp(8080)}, quiet(), "requested twice"},
		{"all IPv4 and one of them", []ports.Mapping{at(tcp(8080), "0.0.0.0"), at(tcp(8080), "127.0.0.1")}, quiet(), "requested twice"},
		{"an address written in two ways", []ports.Mapping{at(tcp(8080), "127.0.0.1"), at(tcp(8080), "::ffff:127.0.0.1")}, quiet(), "requested twice"},
		{"a port in use", []ports.Mapping{tcp(8080)}, taken, "in use on this host"},
		{"none of some is free", []ports.Mapping{{ContainerPort: 80, Protocol: "tcp", AnyOf: taskdef.PortSpan{First: 8080, Last: 8080}}}, taken, "none of the host ports 8080-8080 is free"},
		{"no free port", []ports.Mapping{tcp(0)}, exhausted, "out of ports"},
		{"always the same free port", []ports.Mapping{tcp(0), tcp(0)}, stubborn, "128 attempts"},
		{"no free port behind the first of a range", []ports.Mapping{tcp(0), {Container: "web", ContainerPort: 81, Protocol: "tcp", Next: true}}, crowded, "128 attempts"},
		{"an unknown protocol", []ports.Mapping{{ContainerPort: 1, Protocol: "sctp"}}, quiet(), `"sctp"`},
		{"a host name for an address", []ports.Mapping{at(tcp(0), "localhost")}, quiet(), `"localhost" is not an IP address`},
		{"no container port", []ports.Mapping{{Protocol: "tcp"}}, quiet(), "0 is not a container port"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := ports.Plan(tt.in, tt.host)
			var plan *ports.PlanError
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
	_, err := ports.Plan([]ports.Mapping{tcp(0), tcp(80), tcp(9000), tcp(9000)}, host)
	var plan *ports.PlanError
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
	in := []ports.Mapping{tcp(0)}
	if _, err := ports.Plan(in, quiet()); err != nil || in[0].HostPort != 0 {
		t.Errorf("request became %v (%v)", in, err)
	}
}

func TestFixedPorts(t *testing.T) {
	t.Parallel()
	mapped := []taskdef.Port{{ContainerPort: 80, HostPort: 8080, Protocol: "tcp"}, {ContainerPort: 81, Protocol: "udp"}, {ContainerPort: 90, ContainerPortEnd: 92, HostPort: 90, Protocol: "tcp"}}
	for mode, want := range map[taskdef.NetworkMode]string{
		taskdef.NetworkBridge: "[8080/tcp 90/tcp 91/tcp 92/tcp]",
		taskdef.NetworkHost:   "[80/tcp 81/udp 90/tcp 91/tcp 92/tcp]",
		taskdef.NetworkNone:   "[]",
	} {
		task := taskdef.Task{Network: mode, Containers: []taskdef.Container{{Name: "web", Ports: mapped}}}
		if got := fmt.Sprint(ports.Fixed(task)); got != want {
			t.Errorf("%s: fixed ports %s, want %s", mode, got, want)
		}
	}
}

// What is published again prefers the ports it had.
func TestKeep(t *testing.T) {
	t.Parallel()
	web := taskdef.Port{ContainerPort: 80, Protocol: "tcp", AWSVPCHostPort: 80}
	second := taskdef.Port{ContainerPort: 80, Protocol: "tcp"}
	fixed := taskdef.Port{ContainerPort: 80, Protocol: "tcp", HostPort: 8080}
	dns := taskdef.Port{ContainerPort: 53, Protocol: "udp"}
	bound := []taskdef.Port{
		{ContainerPort: 80, HostPort: 8080, Protocol: "tcp", HostIP: "0.0.0.0"}, {ContainerPort: 80, HostPort: 40001, Protocol: "tcp", HostIP: "0.0.0.0"},
		{ContainerPort: 53, HostPort: 40002, Protocol: "udp"},
	}
	task := taskdef.Task{Network: taskdef.NetworkAWSVPC, Containers: []taskdef.Container{{Name: "web", Ports: []taskdef.Port{fixed, web, dns, second}}}}
	wanted := ports.OfTask(task)
	if wanted[1].Preferred != 80 {
		t.Errorf("the first start prefers %d, want the container port", wanted[1].Preferred)
	}
	kept := ports.Keep(wanted, bound)
	if kept[0].Preferred != 0 || kept[1].Preferred != 40001 || kept[2].Preferred != 40002 || kept[3].Preferred != 0 || wanted[1].Preferred != 80 {
		t.Errorf("kept %+v", kept)
	}
}
