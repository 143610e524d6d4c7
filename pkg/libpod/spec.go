package libpod

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net"
	"time"

	"github.com/containers/image/v5/manifest"
	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/specgen"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// ContainerSpec describes one container of a task.
type ContainerSpec struct {
	Name string
	// Pod is the name or id of the pod it joins; "" means none.
	Pod string
	// TaskID becomes the TaskLabel.
	TaskID string
	// Image is a reference or image id in the local store. Nothing is pulled.
	Image  string
	Labels map[string]string
	// EntryPoint and Command replace the image's own; nil keeps them. As in Docker,
	// an EntryPoint without a Command drops the image's command.
	EntryPoint, Command []string
	// Env is added to the image's environment. The host's environment and its proxy
	// variables are not.
	Env map[string]string
	// WorkDir is made in the container if it does not exist; "" keeps the image's.
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
	// MemoryLimit is a hard limit in bytes; 0 means none. Podman, as Docker, lets
	// the container swap as much again: memory.swap.max becomes the same figure, if
	// the host has swap. Rootless on cgroup v1 Podman drops it with a warning.
	MemoryLimit int64
	// MemoryReservation is a soft limit in bytes; 0 means none.
	MemoryReservation int64
	// CPUShares is the relative weight, 2 to 262144, 1024 is usual; 0 means unset.
	CPUShares uint64
	// StopTimeout is what podman stop uses when the user stops the container without
	// podtask, rounded up to whole seconds; 0 keeps Podman's default of 10 s.
	StopTimeout time.Duration
	// Health is the probe; nil means none, even if the image has one.
	Health *Health

	// What follows is left out of the digest in specLabel when it is not used, so
	// that containers made before it existed are still recognised.

	// CPULimit is a hard limit in processors; 0 means none.
	CPULimit float64 `json:",omitzero"`
	// MemorySwap is memory and swap together, in bytes; 0 leaves it to Podman. crun
	// 1.21 under systemd makes the sum the limit of swap alone.
	MemorySwap int64 `json:",omitzero"`
	// CapAdd and CapDrop change Docker's default set of capabilities; names are upper
	// case, with CAP_ or without, or ALL. They hold in the user's namespace only.
	CapAdd, CapDrop []string `json:",omitzero"`
	// Privileged gives what the user has, and never more.
	Privileged      bool `json:",omitzero"`
	NoNewPrivileges bool `json:",omitzero"`
	// SELinux are options of the label, such as disable or type:NAME.
	SELinux []string      `json:",omitzero"`
	Rlimits []Rlimit      `json:",omitzero"`
	Binds   []Bind        `json:",omitzero"`
	Volumes []NamedVolume `json:",omitzero"`
	Tmpfs   []Tmpfs       `json:",omitzero"`
	Devices []Device      `json:",omitzero"`
	// SecretEnv are variables with the names of the Podman secrets that hold their
	// values. Podman reads those at every start, and inspect does not show them.
	SecretEnv   map[string]string `json:",omitzero"`
	SecretFiles []SecretFile      `json:",omitzero"`
	// Sysctls are set in the container's own namespaces, or in those it shares with
	// its pod, where the last one counts.
	Sysctls map[string]string `json:",omitzero"`
	// ShmSize is that of /dev/shm in bytes; 0 means Podman's default of 64 MiB. It is
	// the pod's where that shares its IPC namespace, and in any pod on 4.3.1.
	ShmSize int64 `json:",omitzero"`
	// PIDHost lets the container see the processes of the user.
	PIDHost bool `json:",omitzero"`
	// IPCHost shares the host's IPC namespace and /dev/shm; else the container has its
	// own, or the pod's if that shares it. Podman's none cannot be asked for through
	// its API (up to 5.4.2).
	IPCHost bool `json:",omitzero"`
	// Network is none for loopback only, host to join the host's with Hosts and DNS
	// of its own (those of a pod in the host's network have no effect), or "" for the
	// pod's.
	Network string `json:",omitzero"`
	// Bridge is a network of which the container is part by itself, in place of
	// Network. It then has a host name of its own too.
	Bridge *Bridge `json:",omitzero"`
	// Hostname makes a name of its own; "" means the pod's, with a Bridge the first
	// twelve digits of the container's id.
	Hostname string `json:",omitzero"`
	// Hosts, DNSServers and DNSSearch are as in PodSpec, which has them for a
	// container in the pod's network.
	Hosts                 []string `json:",omitzero"`
	DNSServers, DNSSearch []string `json:",omitzero"`
	// Log is where the output goes.
	Log Log `json:",omitzero"`
	// Reference is the image as the user wrote it, which podman auto-update asks the
	// registry for; empty leaves it out.
	Reference string `json:",omitzero"`
}

// Log configures what becomes of a container's output.
type Log struct {
	// Driver is k8s-file, journald or none; "" leaves it to the server.
	Driver string
	// MaxSize bounds the file of k8s-file in bytes; 0 means no bound. What is older is
	// lost when it is reached.
	MaxSize int64 `json:",omitzero"`
}

// Health is a health check that podtask runs with Probe. Podman never runs it.
type Health struct {
	// Command is ["CMD", arg...] or ["CMD-SHELL", command].
	Command []string
	// Timeout is when Podman calls a probe late. It does not end the probe (up to
	// 5.5 at least): the context given to Probe is what bounds the wait. 0 means
	// 30 s.
	Timeout time.Duration
	// Retries and StartPeriod only shape what podman inspect shows.
	Retries     int
	StartPeriod time.Duration
}

// defaultProbeTimeout is Podman's own. It must not be 0: then every probe is late.
const defaultProbeTimeout = 30 * time.Second

// The health log as the podman command makes it. They are never left out of the
// request, and zero would mean a log without end (Podman 5.3 on).
const (
	healthLogCount = 5
	healthLogSize  = 500
)

// containerSpec builds what is sent to Podman. root: the container's user is root.
// It is pure.
func containerSpec(c ContainerSpec, root bool) (*specgen.SpecGenerator, error) {
	if c.Image == "" || c.Name == "" {
		return nil, &Error{Class: InvalidSpec, Cause: "a name and an image are needed"}
	}
	s := specgen.NewSpecGenerator(c.Image, false)
	s.Name = c.Name
	s.Pod = c.Pod
	s.RawImageName = c.Reference
	s.Entrypoint = c.EntryPoint
	s.Command = c.Command
	s.Env = c.Env
	// Left out, these follow containers.conf from 5.x on, where http_proxy is true.
	s.EnvHost, s.HTTPProxy = ptr(false), ptr(false)
	s.WorkDir = c.WorkDir
	if c.WorkDir != "" {
		// As the podman command does; without it such a container fails at start.
		s.CreateWorkingDir = ptr(true)
	}
	s.User = c.User
	s.Stdin, s.Terminal = ptr(c.Stdin), ptr(c.TTY)
	s.Init = ptr(c.Init)
	s.ReadOnlyFilesystem, s.ReadWriteTmpfs = ptr(c.ReadOnly), ptr(false)
	// podtask restarts, and reads the exit code before it removes.
	s.RestartPolicy, s.Remove = define.RestartPolicyNo, ptr(false)
	// Nothing in a task may speak to the service manager in podtask's name.
	s.SdNotifyMode = define.SdNotifyModeIgnore
	if c.StopTimeout > 0 {
		s.StopTimeout = ptr(seconds(c.StopTimeout))
	}
	s.ResourceLimits = limits(c)
	s.HealthConfig = healthConfig(c.Health)
	s.HealthLogDestination = define.DefaultHealthCheckLocalDestination
	s.HealthMaxLogCount, s.HealthMaxLogSize = healthLogCount, healthLogSize
	security(s, c, root)
	s.Mounts, s.Volumes, s.Devices = mounts(c), namedVolumes(c), devices(c)
	s.EnvSecrets, s.Secrets = c.SecretEnv, secretFiles(c)
	s.Rlimits, s.Sysctl = rlimits(c), c.Sysctls
	if c.ShmSize > 0 {
		s.ShmSize = ptr(c.ShmSize)
	}
	if c.Log.Driver != "" {
		s.LogConfiguration = &specgen.LogConfig{Driver: c.Log.Driver, Size: c.Log.MaxSize}
	}
	if err := namespaces(s, c); err != nil {
		return nil, err
	}
	var err error
	s.Labels, err = labels(c.Labels, c.TaskID, c)
	return s, err
}

func security(s *specgen.SpecGenerator, c ContainerSpec, root bool) {
	s.Privileged = ptr(c.Privileged)
	if !c.Privileged {
		s.CapAdd, s.CapDrop = capabilities(c, root)
	}
	s.NoNewPrivileges = ptr(c.NoNewPrivileges)
	s.SelinuxOpts = c.SELinux
}

// namespaces sets those that differ from the pod's.
func namespaces(s *specgen.SpecGenerator, c ContainerSpec) (err error) {
	if c.PIDHost {
		s.PidNS.NSMode = specgen.Host
	}
	if c.IPCHost {
		s.IpcNS.NSMode = specgen.Host
	}
	if c.Network != "" {
		s.NetNS.NSMode = specgen.NamespaceMode(c.Network)
	}
	if c.Hostname != "" || c.Bridge != nil {
		s.UtsNS.NSMode, s.Hostname = specgen.Private, c.Hostname
	}
	if b := c.Bridge; b != nil {
		s.NetNS.NSMode = specgen.Bridge
		if s.PortMappings, err = portMappings(b.Ports, b.Choose); err != nil {
			return err
		}
	}
	s.HostAdd, s.DNSSearch = c.Hosts, c.DNSSearch
	s.DNSServers, err = addresses(c.DNSServers)
	return err
}

// addresses parses the addresses of name servers.
func addresses(texts []string) ([]net.IP, error) {
	var out []net.IP
	for _, text := range texts {
		ip := net.ParseIP(text)
		if ip == nil {
			return nil, &Error{Class: InvalidSpec, Cause: fmt.Sprintf("name server %q: an IP address is needed", text)}
		}
		out = append(out, ip)
	}
	return out, nil
}

// cpuPeriod is the kernel's usual period of CPU limits in microseconds.
const cpuPeriod = 100_000

// limits returns nil when nothing is limited, so that a host without controllers
// is not asked for any.
func limits(c ContainerSpec) *specs.LinuxResources {
	var r specs.LinuxResources
	if c.MemoryLimit > 0 || c.MemoryReservation > 0 || c.MemorySwap > 0 {
		r.Memory = &specs.LinuxMemory{}
		if c.MemoryLimit > 0 {
			r.Memory.Limit = ptr(c.MemoryLimit)
		}
		if c.MemoryReservation > 0 {
			r.Memory.Reservation = ptr(c.MemoryReservation)
		}
	}
	if c.MemorySwap > 0 {
		r.Memory.Swap = ptr(c.MemorySwap)
	}
	if c.CPUShares > 0 || c.CPULimit > 0 {
		r.CPU = &specs.LinuxCPU{}
	}
	if c.CPUShares > 0 {
		r.CPU.Shares = ptr(c.CPUShares)
	}
	if c.CPULimit > 0 {
		r.CPU.Quota, r.CPU.Period = ptr(int64(math.Ceil(c.CPULimit*cpuPeriod))), ptr(uint64(cpuPeriod))
	}
	if r.Memory == nil && r.CPU == nil {
		return nil
	}
	return &r
}

// healthConfig turns the image's own check off by NONE, and Podman's timers by an
// Interval of 0: the timers need a systemd session, hold probes back when it is
// missing, and report the state before the last one on 4.3.1.
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

// labels returns the caller's labels with the task's id and the digest of spec,
// which is a ContainerSpec or PodSpec: Podman's own form of it may change with the
// version of the bindings. Only a digest, because it covers the environment.
func labels(given map[string]string, task string, spec any) (map[string]string, error) {
	if task == "" {
		return nil, &Error{Class: InvalidSpec, Cause: "a task id is needed"}
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

func ptr[T any](v T) *T { return &v }
