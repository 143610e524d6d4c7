package libpod

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/specgen"
	"github.com/opencontainers/runtime-spec/specs-go"
	"go.podman.io/common/libnetwork/types"
	"go.podman.io/common/pkg/signal"
	"go.podman.io/image/v5/manifest"
)

// ContainerSpec describes one container of a task.
type ContainerSpec struct {
	Name string
	// Pod is the name or ID of the pod that the container joins; "" means none.
	Pod string
	// CgroupParent is PodSpec.CgroupParent. It is not part of the digest in specLabel.
	CgroupParent string `json:"-"`
	// InPodCgroup: the pod has a cgroup for its containers, as one with an infra container has. Then CgroupParent is only
	// used where Podman cannot start such a pod.
	InPodCgroup bool `json:"-"`
	// TaskID becomes the TaskLabel.
	TaskID string
	// Image is a reference or image ID in the local store. It is never pulled.
	Image  string
	Labels map[string]string
	// EntryPoint and Command replace those of the image; nil keeps them. As in Docker, an
	// EntryPoint without a Command also drops the image's command.
	EntryPoint, Command []string
	// EmptyCommand drops the image's command and keeps its entry point (class InvalidSpec without one). It has no effect
	// with an EntryPoint or a Command.
	EmptyCommand bool `json:",omitzero"`
	// Env is added to the image's environment. The host's environment and its proxy
	// variables are not.
	Env map[string]string
	// WorkDir is created in the container if it does not exist; "" keeps the image's.
	WorkDir string
	// User is user[:group], names or numbers; "" keeps the image's.
	User       string
	Stdin, TTY bool
	// ReadOnly makes the root file system read-only, without the writable tmpfs that
	// podman run --read-only puts on /tmp, /run and /var/tmp (Podman 4.6 on; 4.3.1
	// mounts none through its API).
	ReadOnly bool
	// Init runs a small init process as PID 1 (catatonit).
	Init bool
	// MemoryLimit is a hard limit in bytes; 0 means none. Podman, like Docker, lets the
	// container use the same amount of swap in addition: memory.swap.max gets the same
	// value if the host has swap. Rootless Podman on cgroup v1 drops the limit with a
	// warning.
	MemoryLimit int64
	// MemoryReservation is a soft limit in bytes; 0 means none.
	MemoryReservation int64
	// CPUShares is the relative weight, 2 to 262144, 1024 is usual; 0 means unset.
	CPUShares uint64
	// StopTimeout applies when the user stops the container with podman stop, rounded up to whole seconds; 0 keeps
	// Podman's default of 10 s.
	StopTimeout time.Duration
	// StopSignal is the name of the signal that asks the container to stop, as in
	// SIGTERM; empty for that of the image.
	StopSignal string `json:",omitzero"`
	// Health is the health check; nil means none, even if the image has one.
	Health *Health

	// The fields below are left out of the digest in specLabel if they are not used, so
	// that containers created before these fields existed are still recognized.

	// CPULimit is a hard limit in processors; 0 means none.
	CPULimit float64 `json:",omitzero"`
	// MemorySwap is the limit of memory and swap together, in bytes; 0 leaves it to
	// Podman. crun 1.21 with systemd applies it to swap alone; internal/engine/act/limits corrects that.
	MemorySwap int64 `json:",omitzero"`
	// CapAdd and CapDrop change Docker's default set of capabilities. Names are upper
	// case, with or without CAP_, or ALL. They apply to the user's namespace only.
	CapAdd, CapDrop []string `json:",omitzero"`
	// Privileged gives the container all rights of the user, and never more.
	Privileged      bool `json:",omitzero"`
	NoNewPrivileges bool `json:",omitzero"`
	// SELinux holds options of the SELinux label, such as disable or type:NAME.
	SELinux []string      `json:",omitzero"`
	Rlimits []Rlimit      `json:",omitzero"`
	Binds   []Bind        `json:",omitzero"`
	Volumes []NamedVolume `json:",omitzero"`
	// VolumesFrom are containers whose mounts this one gets too, including the anonymous volumes
	// that Podman creates for the volumes of an image. Binds and Volumes at the same path win.
	VolumesFrom []VolumesFrom `json:",omitzero"`
	Tmpfs       []Tmpfs       `json:",omitzero"`
	Devices     []Device      `json:",omitzero"`
	// CDI are qualified names of CDI devices, such as nvidia.com/gpu=0, which the server looks up
	// in its directories. They require CDISince.
	CDI []string `json:",omitzero"`
	// SecretEnv maps variables to the names of the Podman secrets that hold their values.
	// Podman reads the secrets at every start, and inspect does not show them.
	SecretEnv   map[string]string `json:",omitzero"`
	SecretFiles []SecretFile      `json:",omitzero"`
	// Sysctls are set in the container's namespaces. In namespaces shared with the pod,
	// the last value set wins.
	Sysctls map[string]string `json:",omitzero"`
	// ShmSize is the size of /dev/shm in bytes; 0 means Podman's default of 64 MiB. The
	// pod's value applies instead if the pod shares its IPC namespace, and always on
	// 4.3.1.
	ShmSize int64 `json:",omitzero"`
	// PIDHost lets the container see the host's processes.
	PIDHost bool `json:",omitzero"`
	// IPCHost shares the host's IPC namespace and /dev/shm; otherwise the container has
	// its own, or the pod's if the pod shares it. Podman's mode none is not available
	// through its API (up to 5.4.2).
	IPCHost bool `json:",omitzero"`
	// PIDPath is the file of a PID namespace that the container joins, as /proc/1/ns/pid; "" for the pod's or
	// one of its own. The namespace ends with its first process, and every process in it too.
	PIDPath string `json:",omitzero"`
	// Network is none for loopback only, host for the host's network with the container's
	// own Hosts and DNS (those of a pod in the host's network have no effect), or "" for
	// the pod's.
	Network string `json:",omitzero"`
	// Own gives the container a network namespace of its own and replaces Network. The
	// container then has its own host name too. (Its name in the digest is an older one.)
	Own *OwnNetwork `json:"Bridge,omitzero"`
	// Hostname is the container's host name; "" means the pod's or, with Own or without
	// an infra container, the first twelve digits of the container's ID.
	Hostname string `json:",omitzero"`
	// Hosts, DNSServers and DNSSearch are as in PodSpec, which sets them for containers
	// in the pod's network.
	Hosts                 []string `json:",omitzero"`
	DNSServers, DNSSearch []string `json:",omitzero"`
	// DNSOptions are options of the resolver, set like DNSServers.
	DNSOptions []string `json:",omitzero"`
	// Group is the primary group if User is empty; the user is the image's then.
	Group string `json:",omitzero"`
	// Groups are supplementary groups, names or numbers, besides those of the user.
	Groups []string `json:",omitzero"`
	// NonRoot refuses to create the container if the image's user is root, or a name
	// (class RootUser). It has no effect if User is set.
	NonRoot bool `json:",omitzero"`
	// SeccompUnconfined removes the seccomp profile. Unmasked makes all of /proc and /sys
	// visible.
	SeccompUnconfined bool `json:",omitzero"`
	Unmasked          bool `json:",omitzero"`
	// Images are read-only mounts of the file systems of images.
	Images []ImageMount `json:",omitzero"`
	// OOMScoreAdj is the oom_score_adj of the processes, -1000 to 1000, as far as this user may set it; 0 leaves it
	// to Podman.
	OOMScoreAdj int `json:",omitzero"`
	// Log configures where the output goes.
	Log Log `json:",omitzero"`
	// Reference is the image as the user wrote it, which podman auto-update looks up at
	// the registry; "" means none.
	Reference string `json:",omitzero"`
}

// Log configures a container's log.
type Log struct {
	// Driver is k8s-file, journald or none; "" leaves it to the server.
	Driver string
	// MaxSize limits the log file of k8s-file in bytes; 0 means no limit. When it is
	// reached, older output is lost. Other drivers ignore it.
	MaxSize int64 `json:",omitzero"`
	// Path is the log file of k8s-file; "" leaves it to the server. Podman does not remove
	// it with the container.
	Path string `json:",omitzero"`
}

// Health is a health check that podtask runs with Probe. Podman never runs it.
type Health struct {
	// Command is ["CMD", arg...] or ["CMD-SHELL", command].
	Command []string
	// Timeout is the time after which Podman reports a health check as timed out. Podman does not kill the command (at
	// least up to 5.5): the context passed to Probe limits the wait. 0 means 30 s.
	Timeout time.Duration
	// Retries and StartPeriod only shape what podman inspect shows.
	Retries     int
	StartPeriod time.Duration
}

// defaultProbeTimeout is Podman's default. It must not be 0, because then every health
// check would time out.
const defaultProbeTimeout = 30 * time.Second

// The limits of the health log that the podman command sets. The request always contains
// them, and zero would mean an unlimited log (since Podman 5.3).
const (
	healthLogCount = 5
	healthLogSize  = 500
)

// containerSpec builds the request for a version of the server; root says whether the
// container's user is root. It is as pure as podSpec.
func containerSpec(c ContainerSpec, root bool, server semver.Version) (*specgen.SpecGenerator, error) {
	if c.Image == "" || c.Name == "" {
		return nil, &Error{Class: InvalidSpec, Cause: "a name and an image are required"}
	}
	s := specgen.NewSpecGenerator(c.Image, false)
	s.Name = c.Name
	s.Pod = c.Pod
	if !c.InPodCgroup || failsInSlice(server) {
		s.CgroupParent = c.CgroupParent
	}
	s.RawImageName = c.Reference
	s.Entrypoint = c.EntryPoint
	s.Command = c.Command
	s.Env = c.Env
	// If these are missing, 5.x uses containers.conf, where http_proxy is true.
	s.EnvHost, s.HTTPProxy = new(false), new(false)
	s.WorkDir = c.WorkDir
	if c.WorkDir != "" {
		// As the podman command does; otherwise a container with a missing directory
		// fails at start.
		s.CreateWorkingDir = new(true)
	}
	s.User, s.Groups = c.User, c.Groups
	s.Stdin, s.Terminal = new(c.Stdin), new(c.TTY)
	s.Init = new(c.Init)
	s.ReadOnlyFilesystem, s.ReadWriteTmpfs = new(c.ReadOnly), new(false)
	// podtask restarts containers itself, and reads the exit code before it removes one.
	s.RestartPolicy, s.Remove = define.RestartPolicyNo, new(false)
	// No container may notify the service manager on behalf of podtask.
	s.SdNotifyMode = define.SdNotifyModeIgnore
	if err := stopping(s, c); err != nil {
		return nil, err
	}
	s.ResourceLimits = limits(c)
	s.HealthConfig = healthConfig(c.Health)
	s.HealthLogDestination = define.DefaultHealthCheckLocalDestination
	s.HealthMaxLogCount, s.HealthMaxLogSize = healthLogCount, healthLogSize
	security(s, c, root)
	s.Mounts, s.Volumes, s.Devices = mounts(c), namedVolumes(c), devices(c)
	s.VolumesFrom = volumesFrom(c)
	for _, m := range c.Images {
		s.ImageVolumes = append(s.ImageVolumes, &specgen.ImageVolume{Source: m.Image, Destination: m.Path, SubPath: m.SubPath})
	}
	s.EnvSecrets, s.Secrets = c.SecretEnv, secretFiles(c)
	s.Rlimits, s.Sysctl = rlimits(c), c.Sysctls
	if c.ShmSize > 0 {
		s.ShmSize = new(c.ShmSize)
	}
	if c.Log != (Log{}) {
		s.LogConfiguration = &specgen.LogConfig{Driver: c.Log.Driver, Size: c.Log.MaxSize, Path: c.Log.Path}
	}
	if err := namespaces(s, c, server); err != nil {
		return nil, err
	}
	var err error
	s.Labels, err = labels(c.Labels, c.TaskID, c)
	return s, err
}

// stopping sets how podman stop ends the container.
func stopping(s *specgen.SpecGenerator, c ContainerSpec) error {
	if c.StopTimeout > 0 {
		s.StopTimeout = new(seconds(c.StopTimeout))
	}
	if c.StopSignal == "" {
		return nil
	}
	n, err := signal.ParseSignal(c.StopSignal)
	s.StopSignal = &n
	return err
}

func security(s *specgen.SpecGenerator, c ContainerSpec, root bool) {
	s.Privileged = new(c.Privileged)
	if !c.Privileged {
		s.CapAdd, s.CapDrop = capabilities(c, root)
	}
	s.NoNewPrivileges = new(c.NoNewPrivileges)
	s.SelinuxOpts = c.SELinux
	if c.SeccompUnconfined {
		s.SeccompProfilePath = "unconfined"
	}
	if c.Unmasked {
		s.Unmask = []string{"ALL"}
	}
}

// namespaces sets the namespaces that differ from the pod's.
func namespaces(s *specgen.SpecGenerator, c ContainerSpec, server semver.Version) (err error) {
	if c.PIDHost {
		s.PidNS.NSMode = specgen.Host
	}
	if c.PIDPath != "" {
		s.PidNS.NSMode, s.PidNS.Value = specgen.Path, c.PIDPath
	}
	if c.IPCHost {
		s.IpcNS.NSMode = specgen.Host
	}
	if c.Network != "" {
		s.NetNS.NSMode = specgen.NamespaceMode(c.Network)
	}
	if c.Hostname != "" || c.Own != nil {
		s.UtsNS.NSMode, s.Hostname = specgen.Private, c.Hostname
	}
	if own := c.Own; own != nil {
		if s.NetNS, s.Networks, s.NetworkOptions, err = networkOf(own.Network, server); err != nil {
			return err
		}
		if s.PortMappings, err = portMappings(own.Ports, own.Choose); err != nil {
			return err
		}
	}
	s.HostAdd, s.DNSSearch, s.DNSOptions = c.Hosts, c.DNSSearch, c.DNSOptions
	s.DNSServers, err = addresses(c.DNSServers)
	return err
}

// addresses parses the addresses of name servers.
func addresses(texts []string) ([]net.IP, error) {
	var out []net.IP
	for _, text := range texts {
		ip := net.ParseIP(text)
		if ip == nil {
			return nil, &Error{Class: InvalidSpec, Cause: fmt.Sprintf("name server %q is not an IP address", text)}
		}
		out = append(out, ip)
	}
	return out, nil
}

// cpuPeriod is the kernel's usual period of CPU limits in microseconds.
const cpuPeriod = 100_000

// limits returns nil if nothing is limited, so that no controllers are requested from a
// host without them.
func limits(c ContainerSpec) *specs.LinuxResources {
	var r specs.LinuxResources
	if c.MemoryLimit > 0 || c.MemoryReservation > 0 || c.MemorySwap > 0 {
		r.Memory = &specs.LinuxMemory{}
		if c.MemoryLimit > 0 {
			r.Memory.Limit = new(c.MemoryLimit)
		}
		if c.MemoryReservation > 0 {
			r.Memory.Reservation = new(c.MemoryReservation)
		}
	}
	if c.MemorySwap > 0 {
		r.Memory.Swap = new(c.MemorySwap)
	}
	if c.CPUShares > 0 || c.CPULimit > 0 {
		r.CPU = &specs.LinuxCPU{}
	}
	if c.CPUShares > 0 {
		r.CPU.Shares = new(c.CPUShares)
	}
	if c.CPULimit > 0 {
		r.CPU.Quota, r.CPU.Period = new(int64(math.Ceil(c.CPULimit*cpuPeriod))), new(uint64(cpuPeriod))
	}
	if r.Memory == nil && r.CPU == nil {
		return nil
	}
	return &r
}

// healthConfig disables the image's own check with NONE, and Podman's timers with an
// Interval of 0: the timers need a systemd session, do not run without one, and on 4.3.1
// report the state before the last check.
func healthConfig(h *Health) *manifest.Schema2HealthConfig {
	if h == nil {
		return &manifest.Schema2HealthConfig{Test: []string{define.HealthConfigTestNone}}
	}
	timeout := h.Timeout
	if timeout <= 0 {
		timeout = defaultProbeTimeout
	}
	return &manifest.Schema2HealthConfig{Test: h.Command, Timeout: timeout, Retries: h.Retries, StartPeriod: h.StartPeriod}
}

// labels returns the caller's labels plus the task's ID and the digest of spec, which is
// a ContainerSpec or PodSpec: Podman's own specification may change with the version of
// the bindings. Only the digest is stored, because the specification contains the
// environment.
func labels(given map[string]string, task string, spec any) (map[string]string, error) {
	if task == "" {
		return nil, &Error{Class: InvalidSpec, Cause: "a task ID is required"}
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, &Error{Class: InvalidSpec, Cause: "the specification cannot be encoded: " + err.Error()}
	}
	sum := sha256.Sum256(data)
	all := make(map[string]string, len(given)+2)
	maps.Copy(all, given)
	all[TaskLabel] = task
	all[specLabel] = hex.EncodeToString(sum[:])
	return all, nil
}

// Bind is a recursive bind mount of a host path. The path must exist when the container
// is created and at each start; otherwise the start fails with class Temporary.
type Bind struct {
	HostPath, Path string
	ReadOnly       bool `json:",omitzero"`
	// Relabel is z (shared) or Z (private) to change the SELinux labels of the host's
	// files, or "" to keep them. It has no effect without SELinux.
	Relabel string `json:",omitzero"`
}

// NamedVolume mounts a Podman volume. The volume must exist, because Podman would create
// one without labels.
type NamedVolume struct {
	Name, Path string
	ReadOnly   bool `json:",omitzero"`
	// Empty: the image's files at Path are not copied into a new volume.
	Empty bool `json:",omitzero"`
}

// VolumesFrom is a container that exists when the one that takes its volumes is created.
type VolumesFrom struct {
	Container string
	ReadOnly  bool `json:",omitzero"`
}

// volumesFrom returns the containers in the podman command's notation, which Podman parses.
func volumesFrom(c ContainerSpec) []string {
	var out []string
	for _, v := range c.VolumesFrom {
		out = append(out, v.Container+":"+access(v.ReadOnly))
	}
	return out
}

// ImageMount is the file system of an image in the local store.
type ImageMount struct {
	// Image is the ID of the image.
	Image, Path string
	// SubPath is a directory of the image; "" means all of it. It has no effect before
	// Podman 5.5.
	SubPath string `json:",omitzero"`
}

// Tmpfs is an in-memory file system, empty at each start.
type Tmpfs struct {
	Path string
	// Size is in bytes, at least 1.
	Size int64
	// Options are mount options such as noexec or mode=1770. Podman adds rw,nosuid,nodev
	// unless overridden.
	Options []string `json:",omitzero"`
}

// Device is a device node of the host. In rootless Podman it is a bind mount: the
// container has the user's access to it and cannot mknod.
type Device struct {
	HostPath, Path string
	// Permissions is a combination of r, w and m.
	Permissions string
}

// SecretFile is a Podman secret mounted as a file, copied when the container is created.
type SecretFile struct {
	Secret, Path string
	Mode         uint32
	UID, GID     uint32 `json:",omitzero"`
}

// mounts returns the specification's bind and tmpfs mounts.
func mounts(c ContainerSpec) []specs.Mount {
	var out []specs.Mount
	for _, b := range c.Binds {
		options := []string{"rbind", access(b.ReadOnly)}
		if b.Relabel != "" {
			options = append(options, b.Relabel)
		}
		out = append(out, specs.Mount{Type: "bind", Source: b.HostPath, Destination: b.Path, Options: options})
	}
	for _, t := range c.Tmpfs {
		// Podman would copy what the image has there (tmpcopyup).
		options := append([]string{fmt.Sprintf("size=%d", t.Size), "notmpcopyup"}, t.Options...)
		out = append(out, specs.Mount{Type: "tmpfs", Source: "tmpfs", Destination: t.Path, Options: options})
	}
	return out
}

func access(readOnly bool) string {
	if readOnly {
		return "ro"
	}
	return "rw"
}

func namedVolumes(c ContainerSpec) []*specgen.NamedVolume {
	var out []*specgen.NamedVolume
	for _, v := range c.Volumes {
		options := []string{access(v.ReadOnly)}
		if v.Empty {
			options = append(options, "nocopy")
		}
		out = append(out, &specgen.NamedVolume{Name: v.Name, Dest: v.Path, Options: options})
	}
	return out
}

// devices returns devices in the podman command's notation, which Podman parses.
func devices(c ContainerSpec) []specs.LinuxDevice {
	var out []specs.LinuxDevice
	for _, d := range c.Devices {
		out = append(out, specs.LinuxDevice{Path: strings.Join([]string{d.HostPath, d.Path, d.Permissions}, ":")})
	}
	for _, name := range c.CDI {
		out = append(out, specs.LinuxDevice{Path: name})
	}
	return out
}

func secretFiles(c ContainerSpec) []specgen.Secret {
	var out []specgen.Secret
	for _, f := range c.SecretFiles {
		out = append(out, specgen.Secret{Source: f.Secret, Target: f.Path, UID: f.UID, GID: f.GID, Mode: f.Mode})
	}
	return out
}

// Rlimit is a resource limit of a container's processes.
type Rlimit struct {
	// Name is the name in task definitions: nofile, nproc, core.
	Name string
	// Soft and Hard are the limits; Unlimited means none.
	Soft, Hard uint64
}

// Unlimited is the value of Soft and Hard for no limit.
const Unlimited = ^uint64(0)

func rlimits(c ContainerSpec) []specs.POSIXRlimit {
	var out []specs.POSIXRlimit
	for _, r := range c.Rlimits {
		// Podman adds the prefix RLIMIT_.
		out = append(out, specs.POSIXRlimit{Type: strings.ToUpper(r.Name), Soft: r.Soft, Hard: r.Hard})
	}
	return out
}

// dockerCapabilities is the default set of Docker, and therefore of ECS. Podman's default
// lacks audit_write, mknod and net_raw.
var dockerCapabilities = []string{
	"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD", "CAP_NET_BIND_SERVICE",
	"CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
}

const allCapabilities = "ALL"

// capabilities returns the capabilities to add and drop in the request, so that root in
// the container has Docker's set plus the changes of the specification. For other users
// Podman makes added capabilities ambient, which Docker does not; they get only those
// that the specification adds, and Podman's own bounding set.
func capabilities(c ContainerSpec, root bool) (add, drop []string) {
	drop = capNames(c.CapDrop)
	if !root || slices.Contains(c.CapAdd, allCapabilities) {
		return capNames(c.CapAdd), drop
	}
	if !slices.Contains(drop, allCapabilities) {
		for _, name := range dockerCapabilities {
			if !slices.Contains(drop, name) {
				add = append(add, name)
			}
		}
	}
	for _, name := range capNames(c.CapAdd) {
		if !slices.Contains(add, name) {
			add = append(add, name)
		}
	}
	slices.Sort(add)
	return add, []string{allCapabilities}
}

// capNames adds the prefix CAP_ where it is missing, as Podman requires.
func capNames(names []string) []string {
	var out []string
	for _, name := range names {
		if name != allCapabilities && !strings.HasPrefix(name, "CAP_") {
			name = "CAP_" + name
		}
		out = append(out, name)
	}
	return out
}

// isRoot reports whether a user in the form user[:group] is root.
func isRoot(user string) bool {
	name, _, _ := strings.Cut(user, ":")
	return name == "" || name == "root" || name == "0"
}

// Port is one published port.
type Port struct {
	// HostIP is an address of the host; "" means all addresses.
	HostIP string
	// HostPort is 1 to 65535; 0 lets Podman choose a port when the pod is created.
	HostPort uint16
	// ContainerPort is 1 to 65535.
	ContainerPort uint16
	// Protocol is tcp or udp; "" means tcp.
	Protocol string
}

func (p Port) protocol() string {
	if p.Protocol == "" {
		return "tcp"
	}
	return p.Protocol
}

// String returns the port in the notation of the podman command line.
func (p Port) String() string {
	return fmt.Sprintf("%s:%d:%d/%s", p.HostIP, p.HostPort, p.ContainerPort, p.protocol())
}

// portsOf returns the ports that a container publishes, sorted by container port.
func portsOf(c *define.InspectContainerData) (ports []Port, err error) {
	if c.HostConfig == nil {
		return nil, nil
	}
	for key, bindings := range c.HostConfig.PortBindings {
		port, protocol, _ := strings.Cut(key, "/")
		inside, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("port %q has an unknown format", key)
		}
		for _, b := range bindings {
			outside, err := strconv.ParseUint(b.HostPort, 10, 16)
			if err != nil {
				return nil, fmt.Errorf("host port %q has an unknown format", b.HostPort)
			}
			ports = append(ports, Port{HostIP: b.HostIP, HostPort: uint16(outside), ContainerPort: uint16(inside), Protocol: protocol})
		}
	}
	slices.SortFunc(ports, comparePorts)
	return ports, nil
}

func comparePorts(a, b Port) int {
	if a.ContainerPort != b.ContainerPort {
		return int(a.ContainerPort) - int(b.ContainerPort)
	}
	if a.Protocol != b.Protocol {
		return strings.Compare(a.Protocol, b.Protocol)
	}
	return int(a.HostPort) - int(b.HostPort)
}

// portMappings converts ports to Podman's type, after choose has set host ports if it is
// not nil.
func portMappings(ports []Port, choose func([]Port) ([]Port, error)) (mappings []types.PortMapping, err error) {
	if choose != nil {
		if ports, err = choose(ports); err != nil {
			return nil, &Error{Class: PortInUse, Cause: err.Error()}
		}
	}
	for _, port := range ports {
		if port.ContainerPort == 0 || (port.HostIP != "" && net.ParseIP(port.HostIP) == nil) {
			return nil, &Error{Class: InvalidSpec, Cause: fmt.Sprintf("port %s: the container port must be 1 to 65535 and the host address an IP address", port)}
		}
		mappings = append(mappings, types.PortMapping{
			HostIP: port.HostIP, HostPort: port.HostPort, ContainerPort: port.ContainerPort, Protocol: port.protocol(), Range: 1,
		})
	}
	return mappings, nil
}

// adoptable returns nil if an object with these labels belongs to the task and was
// created from the specification with this digest; otherwise an Error that names its
// owner.
func adoptable(labels map[string]string, task, spec string) error {
	if err := ownedBy(labels, task); err != nil {
		return err
	}
	if labels[specLabel] != spec {
		return &Error{Class: Conflict, Cause: "it already exists with another specification, from an earlier attempt; remove it first"}
	}
	return nil
}

// ownedBy returns nil if an object with these labels belongs to the task; otherwise an
// Error that names its owner.
func ownedBy(labels map[string]string, task string) error {
	switch owner, ok := labels[TaskLabel]; {
	case !ok:
		return &Error{Class: Conflict, Cause: fmt.Sprintf("the name is used by an object that podtask did not create (it does not have the label %s); rename or remove it", TaskLabel)}
	case owner != task:
		return &Error{Class: Conflict, Cause: fmt.Sprintf("it belongs to task %q", owner)}
	}
	return nil
}

func labelsOf(data *define.InspectContainerData) map[string]string {
	if data.Config == nil {
		return nil
	}
	return data.Config.Labels
}

// labels returns the labels that ownedBy needs.
func (o Observed) labels() map[string]string {
	if o.Foreign {
		return nil
	}
	return map[string]string{TaskLabel: o.TaskID}
}
