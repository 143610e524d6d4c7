package libpod

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
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

// containerSpec builds what is sent to Podman. It is pure.
func containerSpec(c ContainerSpec) (*specgen.SpecGenerator, error) {
	if c.Image == "" || c.Name == "" {
		return nil, &Error{Class: InvalidSpec, Cause: "a name and an image are needed"}
	}
	s := specgen.NewSpecGenerator(c.Image, false)
	s.Name = c.Name
	s.Pod = c.Pod
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
	var err error
	s.Labels, err = labels(c.Labels, c.TaskID, c)
	return s, err
}

// limits returns nil when nothing is limited, so that a host without controllers
// is not asked for any.
func limits(c ContainerSpec) *specs.LinuxResources {
	var r specs.LinuxResources
	if c.MemoryLimit > 0 || c.MemoryReservation > 0 {
		r.Memory = &specs.LinuxMemory{}
		if c.MemoryLimit > 0 {
			r.Memory.Limit = ptr(c.MemoryLimit)
		}
		if c.MemoryReservation > 0 {
			r.Memory.Reservation = ptr(c.MemoryReservation)
		}
	}
	if c.CPUShares > 0 {
		r.CPU = &specs.LinuxCPU{Shares: ptr(c.CPUShares)}
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
