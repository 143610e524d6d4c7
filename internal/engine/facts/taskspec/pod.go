package taskspec

import (
	"slices"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/ports"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Pod is the task's pod, but for its slice. It follows from the state alone.
func Pod(s lifecycle.State) libpod.PodSpec {
	spec := libpod.PodSpec{
		Name: PodName(s), TaskID: s.ID, Labels: Labels(s, -1), Hostname: s.ID[:12], Network: podNetwork(s.Task),
		ShareIPC: s.Task.IPCMode == taskdef.IPCTask, SharePID: s.Task.PIDMode == taskdef.PIDTask,
	}
	for _, c := range s.Task.Containers {
		spec.ShmSize = max(spec.ShmSize, c.Linux.ShmSize)
	}
	switch {
	case s.Sandbox.NoInfra:
		spec.NoInfra, spec.Hostname, spec.Network = true, "", ""
		return spec
	case s.Task.Bridged():
		spec.OwnNetworks = true
		return spec
	}
	if _, joins := s.Task.Joined(); joins {
		spec.Aliases = slices.Concat(memberNames(s.Task)...)
	}
	spec.Ports = Publish(ports.OfTask(s.Task))
	if s.Task.Network != taskdef.NetworkHost {
		spec.Hosts = append(hosts(s.Task.ExtraHosts()), linked(s.Task)...)
		spec.DNSServers, spec.DNSSearch = s.Task.DNS()
		spec.DNSOptions = dnsOptions(s.Task)
	}
	return spec
}

// Network is the network of a bridged task.
func Network(s lifecycle.State) libpod.NetworkSpec {
	return libpod.NetworkSpec{Name: NetworkName(s), TaskID: s.ID, Labels: Labels(s, -1)}
}

// podNetwork is Podman's name for the task's network. awsvpc, and bridge if all containers
// share it, are the pod's own namespace on Podman's default rootless network, unless the
// task names the program.
func podNetwork(t taskdef.Task) string {
	switch t.Network {
	case taskdef.NetworkHost, taskdef.NetworkNone:
		return string(t.Network)
	}
	switch t.Extensions.Network {
	case taskdef.NetworkShared:
		return ""
	default:
		return t.Extensions.Network
	}
}

// dnsOptions are the options of the resolver, which all containers of a Pod have.
func dnsOptions(t taskdef.Task) []string {
	for _, c := range t.Containers {
		if c.Net.DNSOptions != nil {
			return c.Net.DNSOptions
		}
	}
	return nil
}

// hosts are entries of /etc/hosts in Podman's words.
func hosts(lines []taskdef.Host) []string {
	var out []string
	for _, h := range lines {
		out = append(out, h.Name+":"+h.Address)
	}
	return out
}

// linked are entries of /etc/hosts for links between containers that share a network
// namespace: each is reached under its name and its aliases (Docker), on the loopback
// interface.
func linked(t taskdef.Task) (out []string) {
	for i := range t.Containers {
		if !t.Linked(i) {
			continue
		}
		for _, name := range t.Names(i) {
			out = append(out, name+":127.0.0.1")
		}
	}
	return out
}

// memberNames are the names of the containers on the network of a bridged task.
func memberNames(t taskdef.Task) [][]string {
	names := make([][]string, len(t.Containers))
	for i, c := range t.Containers {
		if !c.Net.Disabled {
			names[i] = t.Names(i)
		}
	}
	return names
}
