package metadata

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Task is the document about a task. The keys are those of the ECS agent, without those
// that need AWS.
type Task struct {
	Cluster            string
	TaskARN            string
	Family             string
	Revision           string
	DesiredStatus      string
	KnownStatus        string
	Limits             *TaskLimits `json:",omitempty"`
	PullStartedAt      *time.Time  `json:",omitempty"`
	PullStoppedAt      *time.Time  `json:",omitempty"`
	ExecutionStoppedAt *time.Time  `json:",omitempty"`
	LaunchType         string
	ServiceName        string `json:",omitempty"`
	// FaultInjectionEnabled lets containers inject faults.
	FaultInjectionEnabled bool
	Containers            []Container
	Errors                []Error `json:",omitempty"`
	// TaskTags holds the tags of the definition, in the document with tags only.
	TaskTags map[string]string `json:",omitempty"`
}

// TaskLimits are the task's hard limits.
type TaskLimits struct {
	CPU    float64 `json:",omitempty"` // vCPU
	Memory int64   `json:",omitempty"` // MiB
}

// Container is the document about a container.
type Container struct {
	DockerID      string `json:"DockerId"`
	Name          string
	DockerName    string
	Image         string
	ImageID       string            `json:",omitempty"`
	Ports         []Port            `json:",omitempty"`
	Labels        map[string]string `json:",omitempty"`
	DesiredStatus string
	KnownStatus   string
	ExitCode      *int `json:",omitempty"`
	Limits        Limits
	CreatedAt     *time.Time `json:",omitempty"`
	StartedAt     *time.Time `json:",omitempty"`
	FinishedAt    *time.Time `json:",omitempty"`
	Type          string
	ContainerARN  string
	Networks      []Network `json:",omitempty"`
	Health        *Health   `json:",omitempty"`
	Volumes       []Volume  `json:",omitempty"`
	// LogDriver and LogOptions are not set for a driver that sends nothing, because the task's
	// logs stay on this host.
	LogDriver  string            `json:",omitempty"`
	LogOptions map[string]string `json:",omitempty"`
	// RestartCount is nil for a container without a restart policy.
	RestartCount *int `json:",omitempty"`
}

// Volume is mounted in a container: a Podman volume by its name, or a host path.
type Volume struct {
	DockerName  string `json:",omitempty"`
	Source      string `json:",omitempty"`
	Destination string
}

// Limits are a container's: CPU in shares, Memory in MiB.
type Limits struct {
	CPU    int64
	Memory int64
}

// Port is a published port.
type Port struct {
	ContainerPort uint16
	Protocol      string
	HostPort      uint16 `json:",omitempty"`
	HostIP        string `json:"HostIp,omitempty"`
}

// Network is a network of a container.
type Network struct {
	NetworkMode   string
	IPv4Addresses []string `json:",omitempty"`
	IPv6Addresses []string `json:",omitempty"`
}

// Health is the state of a health check.
type Health struct {
	Status   string     `json:"status"`
	Since    *time.Time `json:"statusSince,omitempty"`
	ExitCode int        `json:"exitCode,omitempty"`
	Output   string     `json:"output,omitempty"`
}

// Error is something that went wrong with the task.
type Error struct {
	ErrorField   string
	ErrorCode    string
	ErrorMessage string
}

// Names returns the names of the parts of a task outside of its state.
type Names struct {
	Cluster, TaskARN string
	// Revision is the revision of the definition; empty for the task's own.
	Revision string
	// Container is the name of a container in Podman and its labels.
	Container func(i int) (name string, labels map[string]string)
	// Volume is the name of a volume of the task in Podman.
	Volume func(n int) string
}

// TaskOf returns the document about a task. addresses are as for ContainerOf.
func TaskOf(s lifecycle.State, n Names, addresses []netip.Addr) Task {
	t := Task{
		Cluster: n.Cluster, TaskARN: n.TaskARN, Family: s.Task.Family, Revision: cmp.Or(n.Revision, strconv.Itoa(s.Task.Revision)),
		DesiredStatus: desired(s), KnownStatus: s.Status().String(), LaunchType: "EXTERNAL", ServiceName: s.Options.Service,
		FaultInjectionEnabled: s.Task.FaultInjection,
		Containers:            make([]Container, len(s.Containers)),
	}
	if q := s.Quota(); q.CPU > 0 || q.Memory > 0 {
		t.Limits = &TaskLimits{CPU: q.CPU, Memory: q.Memory >> 20}
	}
	for _, h := range s.History {
		switch {
		case h.Container == "" && h.Status == lifecycle.StatusManifestPulled.String():
			t.PullStartedAt = &h.At // pulls begin when every digest is known
		case h.Status == lifecycle.StatusPulled.String():
			t.PullStoppedAt = &h.At
		}
	}
	if !s.Stop.At.IsZero() {
		t.ExecutionStoppedAt = &s.Stop.At
	}
	for i := range s.Containers {
		t.Containers[i] = ContainerOf(s, i, n, addresses)
	}
	for _, f := range s.Sandbox.Failures {
		t.Errors = append(t.Errors, Error{ErrorField: "Task", ErrorCode: f.Name, ErrorMessage: f.Message})
	}
	return t
}

// ContainerOf returns the document about container i of a task. addresses are those of
// the task's network namespace; a bridged task has none, and its containers their own.
func ContainerOf(s lifecycle.State, i int, n Names, addresses []netip.Addr) Container {
	def, c := s.Task.Containers[i], s.Containers[i]
	if s.Task.Bridged() {
		addresses = c.Addresses
	}
	out := Container{
		DockerID: c.ID, Name: def.Name, Image: def.Image, ImageID: imageID(c.ImageID),
		DesiredStatus: desired(s), KnownStatus: c.Status().String(), Type: "NORMAL",
		Limits:       Limits{CPU: min(max(def.CPU, 2), 262144), Memory: def.Memory >> 20},
		ContainerARN: n.TaskARN + "/" + def.Name,
		Networks:     []Network{network(s.Task.Network, addresses)},
		CreatedAt:    reached(s, def.Name, lifecycle.StatusCreated),
	}
	out.DockerName, out.Labels = n.Container(i)
	if c.Ended {
		out.DesiredStatus = lifecycle.StatusStopped.String()
	}
	if c.HasExit && c.Ended {
		out.ExitCode = &c.ExitCode
	}
	if !c.StartedAt.IsZero() {
		out.StartedAt = &c.StartedAt
	}
	if !c.FinishedAt.IsZero() {
		out.FinishedAt = &c.FinishedAt
	}
	if def.HasHealth() {
		h := c.HealthCheck()
		out.Health = &Health{Status: h.Status.String(), Since: latest(s, def.Name, h.Status.String()), ExitCode: h.ExitCode, Output: h.Output}
	}
	if def.Restart != nil {
		out.RestartCount = &c.Restarts
	}
	if l := def.Log; l != nil && (l.Driver.Local() || l.Sent(taskdef.LogSettings{Mode: s.Options.Logs, AWSLogs: true})) {
		out.LogDriver, out.LogOptions = string(l.Driver), l.Shown()
	}
	out.Ports, out.Volumes = portsOf(s, i), volumesOf(s.Task, i, n)
	return out
}

// reached returns when a container reached a status, nil if it has not.
func reached(s lifecycle.State, container string, st lifecycle.Status) *time.Time {
	for _, h := range s.History {
		if h.Container == container && h.Status == st.String() {
			return &h.At
		}
	}
	return nil
}

// latest returns when a container last reached a status, nil if never.
func latest(s lifecycle.State, container, status string) *time.Time {
	for _, h := range slices.Backward(s.History) {
		if h.Container == container && h.Status == status {
			return &h.At
		}
	}
	return nil
}

// volumesOf returns the mounts of container i.
func volumesOf(t taskdef.Task, i int, n Names) (out []Volume) {
	for _, m := range t.Mounts(i) {
		at := slices.IndexFunc(t.Volumes, func(v taskdef.Volume) bool { return v.Name == m.Volume })
		switch {
		case at < 0: // no Task has that
		case t.Volumes[at].Kind == taskdef.VolumeBind:
			out = append(out, Volume{Source: t.Volumes[at].HostPath, Destination: m.Path})
		default:
			out = append(out, Volume{DockerName: n.Volume(at), Destination: m.Path})
		}
	}
	return out
}

// portsOf are the ports of container i, those of a range one by one: as they are
// published, and before that as the definition has them.
func portsOf(s lifecycle.State, i int) (out []Port) {
	published := s.Containers[i].Ports
	if !s.Sandbox.NoInfra && !s.Task.Bridged() {
		published = s.Sandbox.Ports // where no two containers have the same port
	}
	told := make(map[Port]bool)
	for _, p := range s.Task.Containers[i].Ports {
		for n := range p.Count() {
			one := Port{ContainerPort: p.ContainerPort + uint16(n), Protocol: p.Protocol}
			if told[one] {
				continue
			}
			told[one] = true
			bound := boundTo(published, one)
			if len(bound) == 0 {
				bound = []Port{wanted(p, n)}
			}
			out = append(out, bound...)
		}
	}
	return out
}

// boundTo are the published ports that lead to a port of a container.
func boundTo(published []taskdef.Port, inner Port) (out []Port) {
	for _, b := range published {
		if b.ContainerPort == inner.ContainerPort && b.Protocol == inner.Protocol {
			out = append(out, Port{ContainerPort: b.ContainerPort, Protocol: b.Protocol, HostPort: b.HostPort, HostIP: b.HostIP})
		}
	}
	return out
}

// wanted is port n of a mapping as the definition has it.
func wanted(p taskdef.Port, n int) Port {
	out := Port{ContainerPort: p.ContainerPort + uint16(n), Protocol: p.Protocol, HostIP: p.HostIP}
	if p.HostPort != 0 {
		out.HostPort = p.HostPort + uint16(n)
	}
	return out
}

func network(m taskdef.NetworkMode, addresses []netip.Addr) Network {
	n := Network{NetworkMode: string(m)}
	for _, a := range addresses {
		if a.Is4() {
			n.IPv4Addresses = append(n.IPv4Addresses, a.String())
		} else {
			n.IPv6Addresses = append(n.IPv6Addresses, a.String())
		}
	}
	return n
}

func imageID(id string) string {
	if id == "" {
		return ""
	}
	return "sha256:" + id
}

func desired(s lifecycle.State) string {
	if s.Goal == lifecycle.Up {
		return lifecycle.StatusRunning.String()
	}
	return lifecycle.StatusStopped.String()
}
