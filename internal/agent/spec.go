package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/ports"
	"github.com/podtask/podtask/pkg/taskdef"
)

// podSpec is the task's pod, but for its slice. It follows from the state alone.
func podSpec(s lifecycle.State) libpod.PodSpec {
	spec := libpod.PodSpec{
		Name: podName(s), TaskID: s.ID, Labels: labels(s, -1), Hostname: s.ID[:12], Network: podNetwork(s.Task),
		ShareIPC: s.Task.IPCMode == taskdef.IPCTask, SharePID: s.Task.PIDMode == taskdef.PIDTask,
	}
	for _, c := range s.Task.Containers {
		spec.ShmSize = max(spec.ShmSize, c.Linux.ShmSize)
	}
	if s.Task.Bridged() {
		spec.OwnNetworks = true
		return spec
	}
	if _, joins := s.Task.Joined(); joins {
		spec.Aliases = slices.Concat(memberNames(s.Task)...)
	}
	spec.Ports, spec.Choose = publish(ports.OfTask(s.Task))
	if s.Task.Network != taskdef.NetworkHost {
		spec.Hosts = append(hosts(s.Task.ExtraHosts()), linked(s.Task)...)
		spec.DNSServers, spec.DNSSearch = s.Task.DNS()
	}
	return spec
}

// networkSpec is the network of a bridged task.
func networkSpec(s lifecycle.State) libpod.NetworkSpec {
	return libpod.NetworkSpec{Name: networkName(s), TaskID: s.ID, Labels: labels(s, -1)}
}

// podNetwork is Podman's word for the task's network. awsvpc, and bridge where it keeps
// nobody apart, are the pod's own namespace on Podman's default rootless network, unless
// the task names the program.
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

// publish returns what a pod or container publishes in Podman's terms, and a function that
// chooses the host ports that cannot be left to Podman.
func publish(wanted []ports.Mapping) (published []libpod.Port, choose func([]libpod.Port) ([]libpod.Port, error)) {
	if ports.NeedsPlan(wanted) {
		choose = func([]libpod.Port) ([]libpod.Port, error) { return choosePorts(wanted) }
	}
	return podmanPorts(wanted), choose
}

func podmanPorts(mappings []ports.Mapping) (out []libpod.Port) {
	for _, m := range mappings {
		out = append(out, libpod.Port{HostIP: m.HostIP, HostPort: m.HostPort, ContainerPort: m.ContainerPort, Protocol: m.Protocol})
	}
	return out
}

// choosePorts chooses the host ports that are 0. It does not check the fixed ones:
// they may belong to this task's pod, which exists already.
func choosePorts(wanted []ports.Mapping) ([]libpod.Port, error) {
	fixed := func(protocol string, port uint16) bool {
		return slices.ContainsFunc(wanted, func(m ports.Mapping) bool { return m.HostPort == port && m.Protocol == protocol })
	}
	planned, err := ports.Plan(wanted, ports.Host{
		Free: netns.FreePort,
		Taken: func(protocol, ip string, port uint16) bool {
			return !fixed(protocol, port) && netns.InUse(protocol, ip, port)
		},
	})
	return podmanPorts(planned), err
}

// containerSpec is container i, to be made from an image in local storage. It
// follows from the state alone.
func containerSpec(s lifecycle.State, i int, image string) libpod.ContainerSpec {
	c := s.Task.Containers[i]
	spec := libpod.ContainerSpec{
		Name: containerName(s, i), Pod: podName(s), TaskID: s.ID, Image: image, Labels: labels(s, i),
		EntryPoint: c.EntryPoint, Command: c.Command, WorkDir: c.WorkingDirectory, User: c.User,
		Stdin: c.Interactive, TTY: c.PseudoTerminal, ReadOnly: c.ReadonlyRootFS,
		// A shared PID namespace has an init already: the infra container's, or the host's.
		Init:        c.Init && s.Task.PIDMode == taskdef.PIDPrivate,
		StopTimeout: c.StopTimeout, Env: make(map[string]string, len(c.Environment)),
		CapAdd: c.Linux.CapAdd, CapDrop: c.Linux.CapDrop, Privileged: c.Privileged,
		NoNewPrivileges: c.Security.NoNewPrivileges, SELinux: c.Security.Labels, Sysctls: c.Linux.Sysctls,
	}
	if s.Options.AutoUpdate != "" {
		spec.Reference = c.Image
	}
	maps.Copy(spec.Env, metadataEnv(s, i))
	for _, v := range c.Environment { // what the definition says wins
		spec.Env[v.Name] = v.Value
	}
	if hc := c.HealthCheck; hc != nil {
		spec.Health = &libpod.Health{Command: hc.Command, Timeout: hc.Timeout, Retries: hc.Retries, StartPeriod: hc.StartPeriod}
	}
	limit(&spec, s, c)
	join(&spec, s, i)
	mountVolumes(&spec, s, i)
	mountOthers(&spec, c)
	addSecrets(&spec, s, i)
	spec.Log = logOf(c.Log)
	return spec
}

// limit adds what bounds the container.
func limit(spec *libpod.ContainerSpec, s lifecycle.State, c taskdef.Container) {
	wanted := cgroups.Limits{CPU: c.Extensions.CPULimit, CPUWeight: cpuShares(c.CPU), Memory: c.Memory, MemoryLow: c.MemoryReservation}
	l := applicable(wanted, s.Options)
	spec.MemoryLimit, spec.MemoryReservation, spec.CPUShares, spec.CPULimit = l.Memory, l.MemoryLow, l.CPUWeight, l.CPU
	if swap := c.Linux.MaxSwap; swap != nil && l.Memory > 0 {
		spec.MemorySwap = l.Memory + *swap // Podman's figure is both together
	}
	for _, u := range c.Linux.Ulimits {
		spec.Rlimits = append(spec.Rlimits, libpod.Rlimit{Name: u.Name, Soft: rlimit(u.Soft), Hard: rlimit(u.Hard)})
	}
}

// rlimit is a limit as the kernel has it; -1 means none.
func rlimit(n int64) uint64 {
	if n < 0 {
		return libpod.Unlimited
	}
	return uint64(n)
}

// join says which namespaces the container shares with whom.
func join(spec *libpod.ContainerSpec, s lifecycle.State, i int) {
	t, c := s.Task, s.Task.Containers[i]
	spec.PIDHost = t.PIDMode == taskdef.PIDHost
	spec.IPCHost = t.IPCMode == taskdef.IPCHost
	if t.IPCMode == taskdef.IPCDefault || t.IPCMode == taskdef.IPCNone {
		spec.ShmSize = c.Linux.ShmSize // else it is the pod's, or the host's
	}
	spec.Hostname = c.Net.Hostname
	switch {
	case c.Net.Disabled:
		spec.Network = "none"
	case t.Bridged():
		spec.Bridge = &libpod.Bridge{Network: networkName(s), Aliases: t.Names(i)}
		if ownsNetwork(s) {
			spec.Bridge.Members, spec.Bridge.Place = memberNames(t), i
		}
		spec.Bridge.Ports, spec.Bridge.Choose = publish(ports.OfContainer(c))
		spec.Hosts, spec.DNSServers, spec.DNSSearch = hosts(c.Net.ExtraHosts), c.Net.DNSServers, c.Net.DNSSearch
	case t.Network == taskdef.NetworkHost:
		// In the host's network those of the pod have no effect.
		servers, search := t.DNS()
		if spec.Hosts = hosts(t.ExtraHosts()); len(spec.Hosts) > 0 || servers != nil || search != nil {
			spec.Network, spec.DNSServers, spec.DNSSearch = "host", servers, search
		}
	}
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

// mountOthers adds what is mounted besides volumes.
func mountOthers(spec *libpod.ContainerSpec, c taskdef.Container) {
	for _, t := range c.Linux.Tmpfs {
		spec.Tmpfs = append(spec.Tmpfs, libpod.Tmpfs{Path: t.Path, Size: t.Size, Options: t.Options})
	}
	for _, d := range c.Linux.Devices {
		var letters strings.Builder
		for _, p := range d.Permissions {
			letters.WriteByte(p[0]) // read, write, mknod
		}
		spec.Devices = append(spec.Devices, libpod.Device{HostPath: d.HostPath, Path: d.ContainerPath, Permissions: letters.String()})
	}
}

// addSecrets names the Podman secrets that the container gets; see wantedSecrets.
func addSecrets(spec *libpod.ContainerSpec, s lifecycle.State, i int) {
	for _, w := range wantedSecrets(s, i) {
		if w.env == "" {
			f := s.Task.Containers[i].Extensions.SecretFiles[w.file]
			spec.SecretFiles = append(spec.SecretFiles, libpod.SecretFile{Secret: w.name, Path: f.Path, Mode: f.Mode, UID: uint32(f.UID), GID: uint32(f.GID)})
			continue
		}
		if spec.SecretEnv == nil {
			spec.SecretEnv = make(map[string]string)
		}
		spec.SecretEnv[w.env] = w.name
	}
}

// logOf is what becomes of a container's output. Without a configuration it is
// Podman's default. What another driver would have sent away is kept here.
func logOf(l *taskdef.LogConfiguration) libpod.Log {
	switch {
	case l == nil:
		return libpod.Log{}
	case l.Driver == taskdef.LogJSONFile:
		return libpod.Log{Driver: "k8s-file", MaxSize: l.MaxSize()}
	case l.Driver.Local():
		return libpod.Log{Driver: string(l.Driver)}
	default:
		return libpod.Log{Driver: "k8s-file"}
	}
}

// describe names a container in a message.
func describe(c taskdef.Container, format string, a ...any) error {
	return fmt.Errorf("container %s: "+format, append([]any{c.Name}, a...)...)
}
