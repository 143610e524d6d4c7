package taskspec

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/metadata"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// metadataEnv returns the variables that lead a container to the endpoint, and those by
// which the SDK of AWS knows where it is. A Kubernetes Pod has no variables of ECS.
func metadataEnv(s lifecycle.State, i int) map[string]string {
	env := make(map[string]string)
	if s.Sandbox.Metadata != "" {
		env = metadata.Env(s.Options.MetadataKey, s.Sandbox.Metadata, s.Task.Containers[i].Name, s.Options.Credentials)
	}
	if len(s.Task.Extensions.Pod) > 0 {
		maps.DeleteFunc(env, func(name, _ string) bool { return strings.HasPrefix(name, "ECS_") })
	}
	if region := s.Options.Region; region != "" {
		env["AWS_REGION"], env["AWS_DEFAULT_REGION"] = region, region
	}
	if name := s.Options.ExecutionEnv; name != "" {
		env["AWS_EXECUTION_ENV"] = name
	}
	return env
}

// VolumeName is Podman's name of volume i. A shared one is called as in the
// definition, so that tasks share it (ECS); a task's own is at most 196 bytes.
func VolumeName(s lifecycle.State, i int) string {
	v := s.Task.Volumes[i]
	if v.Kind == taskdef.VolumeShared {
		return cmp.Or(v.External, v.Name)
	}
	return PodName(s) + "-" + strconv.Itoa(i) + "-" + v.Name[:min(len(v.Name), 128)]
}

// mountVolumes adds to the specification what container i mounts.
func mountVolumes(spec *libpod.ContainerSpec, s lifecycle.State, i int) {
	index := make(map[string]int)
	for n, v := range s.Task.Volumes {
		index[v.Name] = n
	}
	for _, m := range s.Task.Mounts(i) {
		n, known := index[m.Volume]
		if !known {
			continue // no Task has that
		}
		v := s.Task.Volumes[n]
		if v.Kind == taskdef.VolumeBind {
			spec.Binds = append(spec.Binds, libpod.Bind{HostPath: v.HostPath, Path: m.Path, ReadOnly: m.ReadOnly, Relabel: relabel[v.Relabel]})
			continue
		}
		spec.Volumes = append(spec.Volumes, libpod.NamedVolume{Name: VolumeName(s, n), Path: m.Path, ReadOnly: m.ReadOnly, Empty: v.Empty})
	}
}

// relabel are Podman's words for what taskdef calls Volume.Relabel.
var relabel = map[string]string{"shared": "z", "private": "Z"}

// Container is container i, to be made from an image in local storage. It
// follows from the state alone.
func Container(s lifecycle.State, i int, image string) libpod.ContainerSpec {
	c := s.Task.Containers[i]
	spec := libpod.ContainerSpec{
		Name: ContainerName(s, i), Pod: PodName(s), TaskID: s.ID, Image: image, Labels: Labels(s, i),
		EntryPoint: c.EntryPoint, Command: c.Command, EmptyCommand: c.Extensions.EmptyCommand, WorkDir: c.WorkingDirectory, User: c.User,
		Stdin: c.Interactive, TTY: c.PseudoTerminal, ReadOnly: c.ReadonlyRootFS,
		// A shared PID namespace has an init already: the infra container's, or the host's.
		Init:        c.Init && s.Task.PIDMode == taskdef.PIDPrivate,
		StopTimeout: c.StopTimeout, Env: make(map[string]string, len(c.Environment)),
		CapAdd: c.Linux.CapAdd, CapDrop: c.Linux.CapDrop, Privileged: c.Privileged,
		NoNewPrivileges: c.Security.NoNewPrivileges, SELinux: c.Security.Labels, Sysctls: c.Linux.Sysctls,
	}
	spec.CgroupParent, spec.InPodCgroup = s.Sandbox.Slice, !s.Sandbox.NoInfra
	if s.Options.AutoUpdate != "" {
		spec.Reference = c.Image
	}
	maps.Copy(spec.Env, metadataEnv(s, i))
	maps.Copy(spec.Env, routerEnv(s, i))
	for _, v := range c.Environment { // what the definition says wins
		spec.Env[v.Name] = v.Value
	}
	if command := CheckCommand(c); command != nil {
		spec.Health = &libpod.Health{Command: append([]string{"CMD"}, command...), Retries: 1, Timeout: checkTimeout(c, command)}
	}
	if hc := c.HealthCheck; hc != nil {
		spec.Health = &libpod.Health{Command: hc.Command, Timeout: hc.Timeout, Retries: hc.Retries, StartPeriod: hc.StartPeriod}
	}
	askedByPod(&spec, s, c.Extensions.Kube)
	limit(&spec, s, c)
	join(&spec, s, i)
	mountVolumes(&spec, s, i)
	for _, from := range s.Task.Containers[i].VolumesFrom {
		spec.VolumesFrom = append(spec.VolumesFrom, libpod.VolumesFrom{Container: ContainerName(s, from.Container), ReadOnly: from.ReadOnly})
	}
	mountOthers(&spec, c)
	addGPUs(&spec, s, i)
	addSecrets(&spec, s, i)
	spec.Log = logOf(c.Log, s.Options.LogSize)
	return spec
}

// CheckCommand is the command among a container's probes that Podman is to know as its
// health check, because it runs that with the least effort; nil for none. Podman does not
// kill it if it hangs. So it is one whose failure ends the container, or the only check.
func CheckCommand(c taskdef.Container) []string {
	p := c.Extensions.Probes
	for _, one := range []*taskdef.Probe{p.Liveness, p.Startup, p.Readiness} {
		if one != nil && len(one.Action.Exec) > 0 && (one != p.Readiness || p.Liveness == nil) {
			return one.Action.Exec
		}
	}
	return nil
}

// checkTimeout is the longest timeout of the probes with a command.
func checkTimeout(c taskdef.Container, command []string) (longest time.Duration) {
	p := c.Extensions.Probes
	for _, one := range []*taskdef.Probe{p.Liveness, p.Startup, p.Readiness} {
		if one != nil && slices.Equal(one.Action.Exec, command) {
			longest = max(longest, one.Timeout)
		}
	}
	return longest
}

// askedByPod adds what only a Kubernetes Pod asks for, and puts the addresses of the network in
// their places.
func askedByPod(spec *libpod.ContainerSpec, s lifecycle.State, k taskdef.Kube) {
	for _, g := range k.Groups {
		spec.Groups = append(spec.Groups, strconv.FormatInt(g, 10))
	}
	if k.Group != nil {
		spec.Group = strconv.FormatInt(*k.Group, 10)
	}
	spec.StopSignal, spec.OOMScoreAdj = k.StopSignal, k.OOMScoreAdj
	spec.NonRoot, spec.SeccompUnconfined, spec.Unmasked = k.NonRoot, k.SeccompUnconfined, k.Unmasked
	for _, m := range k.Images {
		spec.Images = append(spec.Images, libpod.ImageMount{Image: m.Image, Path: m.Path, SubPath: m.SubPath})
	}
	var first string
	all := make([]string, len(s.Sandbox.Addresses))
	for i, a := range s.Sandbox.Addresses {
		all[i] = a.String()
		first = all[0]
	}
	known := strings.NewReplacer(taskdef.PodIPs, strings.Join(all, ","), taskdef.PodIP, first)
	spec.EntryPoint, spec.Command = replaced(known, spec.EntryPoint), replaced(known, spec.Command)
	for name, v := range spec.Env {
		spec.Env[name] = known.Replace(v)
	}
}

func replaced(r *strings.Replacer, words []string) []string {
	if words == nil {
		return nil
	}
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = r.Replace(w)
	}
	return out
}

// limit adds what bounds the container.
func limit(spec *libpod.ContainerSpec, s lifecycle.State, c taskdef.Container) {
	wanted := cgroups.Limits{CPU: c.Extensions.CPULimit, CPUWeight: shares(c, s.Options.Quota), Memory: c.Memory, MemoryLow: c.MemoryReservation}
	l := Applicable(wanted, s.Options) // its weight counts as shares here
	spec.MemoryLimit, spec.MemoryReservation, spec.CPUShares, spec.CPULimit = l.Memory, l.MemoryLow, l.CPUWeight, l.CPU
	if swap := c.Linux.MaxSwap; swap != nil && l.Memory > 0 {
		spec.MemorySwap = l.Memory + *swap // Podman's figure is both together
	}
	for _, u := range c.Linux.Ulimits {
		spec.Rlimits = append(spec.Rlimits, libpod.Rlimit{Name: u.Name, Soft: Rlimit(u.Soft), Hard: Rlimit(u.Hard)})
	}
}

// Rlimit is a limit as the kernel has it; -1 means none.
func Rlimit(n int64) uint64 {
	if n < 0 {
		return libpod.Unlimited
	}
	return uint64(n)
}

// join sets the namespaces that the container shares.
func join(spec *libpod.ContainerSpec, s lifecycle.State, i int) {
	t, c := s.Task, s.Task.Containers[i]
	spec.PIDHost = t.PIDMode == taskdef.PIDHost
	spec.IPCHost = t.IPCMode == taskdef.IPCHost
	if t.IPCMode == taskdef.IPCDefault || t.IPCMode == taskdef.IPCNone {
		spec.ShmSize = c.Linux.ShmSize // else it is the pod's, or the host's
	}
	spec.Hostname = c.Net.Hostname
	if Alone(s) {
		spec.Hostname = cmp.Or(spec.Hostname, s.ID[:12])
	}
	switch own, separate := OwnNetwork(s, i); {
	case c.Net.Disabled:
		spec.Network = "none"
	case t.Bridged():
		spec.Own = &own
		spec.Hosts, spec.DNSServers, spec.DNSSearch = hosts(c.Net.ExtraHosts), c.Net.DNSServers, c.Net.DNSSearch
	case separate:
		spec.Own = &own
		spec.Hosts, spec.DNSOptions = hosts(t.ExtraHosts()), dnsOptions(t)
		spec.DNSServers, spec.DNSSearch = t.DNS()
	case t.Network == taskdef.NetworkHost:
		// In the host's network those of the pod have no effect.
		servers, search := t.DNS()
		options := dnsOptions(t)
		if spec.Hosts = hosts(t.ExtraHosts()); Alone(s) || len(spec.Hosts) > 0 || servers != nil || search != nil || options != nil {
			spec.Network, spec.DNSServers, spec.DNSSearch, spec.DNSOptions = "host", servers, search, options
		}
	}
}

// Alone reports whether the only container of a task has the network namespace that an
// infra container would have held. Each of its runs has a new one.
func Alone(s lifecycle.State) bool { return s.Sandbox.NoInfra && !s.Task.Bridged() }

// OwnNetwork returns the network of container i, if it has a network namespace of its own.
func OwnNetwork(s lifecycle.State, i int) (own libpod.OwnNetwork, separate bool) {
	c := s.Task.Containers[i]
	switch {
	case c.Net.Disabled, Alone(s) && s.Task.Network == taskdef.NetworkHost:
		return own, false
	case Alone(s):
		return libpod.OwnNetwork{Network: podNetwork(s.Task), Ports: Publish(OwnPorts(s, i))}, true
	case !s.Task.Bridged():
		return own, false
	}
	own = libpod.OwnNetwork{Network: NetworkName(s), Aliases: s.Task.Names(i), Ports: Publish(OwnPorts(s, i))}
	if OwnsNetwork(s) {
		own.Members, own.Place = memberNames(s.Task), i
	}
	return own, true
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

// addGPUs gives container i its part of the task's GPUs. The variable is the ECS agent's, which
// replaces one of the definition: libraries of NVIDIA read it.
func addGPUs(spec *libpod.ContainerSpec, s lifecycle.State, i int) {
	devices := s.GPUs(i)
	if len(devices) == 0 {
		return
	}
	spec.CDI = devices
	names := make([]string, len(devices))
	for n, d := range devices {
		_, names[n], _ = strings.Cut(d, "=")
	}
	spec.Env["NVIDIA_VISIBLE_DEVICES"] = strings.Join(names, ",")
}

// addSecrets names the Podman secrets that the container gets; see wantedSecrets.
func addSecrets(spec *libpod.ContainerSpec, s lifecycle.State, i int) {
	for _, w := range ContainerSecrets(s, i) {
		if w.Env == "" {
			f := s.Task.Containers[i].Extensions.SecretFiles[w.file]
			spec.SecretFiles = append(spec.SecretFiles, libpod.SecretFile{Secret: w.Name, Path: f.Path, Mode: f.Mode, UID: uint32(f.UID), GID: uint32(f.GID)})
			continue
		}
		if spec.SecretEnv == nil {
			spec.SecretEnv = make(map[string]string)
		}
		spec.SecretEnv[w.Env] = w.Name
	}
}

// unlimitedLog keeps Podman from rotating a file that podtask rotates, which would lose what was
// not delivered. 0 would leave the size to containers.conf.
const unlimitedLog = 1 << 62

// logOf is what becomes of a container's output. Without a configuration it is
// Podman's default. The file of a driver that sends the output to a server is placed by
// internal/engine/act/effects, and internal/engine/act/logdelivery rotates it. A log file has
// at most that size unless the definition sets another.
func logOf(l *taskdef.LogConfiguration, size int64) libpod.Log {
	switch {
	case l == nil:
		return libpod.Log{MaxSize: size}
	case l.Driver == logdriver.JSONFile && l.Options["max-size"] != "":
		return libpod.Log{Driver: "k8s-file", MaxSize: l.MaxSize()}
	case l.Driver != logdriver.JSONFile && l.Driver.Local():
		return libpod.Log{Driver: string(l.Driver)}
	case l.Remote():
		return libpod.Log{Driver: "k8s-file", MaxSize: unlimitedLog}
	default:
		return libpod.Log{Driver: "k8s-file", MaxSize: size}
	}
}
