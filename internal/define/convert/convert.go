package convert

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Result is what came of a conversion.
type Result struct {
	// Definition is a task definition, JSON.
	Definition []byte
	// Unit is the text of a .task file that names the definition NAME.json.
	Unit string
	// Lost is what the two do not say, each with its place in the source.
	Lost []string
	// Needs is what the result leaves to the host, each with its place in the source.
	Needs []string
	// RunFlags are those of `podtask run` and `podtask service create` that the source asks for.
	RunFlags []string
	// Files are to be written beside the definition, readable by the user only.
	Files []File
	// Copies is the number of copies of the task that a Compose file wants. With more than one it is
	// for a service, and the definition publishes no fixed host port.
	Copies int
	// Listen are the addresses at which a service of several copies listens:
	// [IP:]PORT=CONTAINER:PORT.
	Listen []string
	// Form is a sentence about the form of a Compose project of several services, one task or a stack; empty for one service.
	Form string
}

// File is a file that a definition names.
type File struct {
	Name string
	Data []byte
}

// Definition and what is below it are the members of an ECS task definition that
// conversions fill in.
type Definition struct {
	Family      string      `json:"family"`
	NetworkMode string      `json:"networkMode,omitempty"`
	PIDMode     string      `json:"pidMode,omitempty"`
	IPCMode     string      `json:"ipcMode,omitempty"`
	CPU         string      `json:"cpu,omitempty"`    // units
	Memory      string      `json:"memory,omitempty"` // MiB
	Containers  []Container `json:"containerDefinitions"`
	Volumes     []Volume    `json:"volumes,omitempty"`
	Tags        []Tag       `json:"tags,omitempty"`
	Extensions  *Extensions `json:"x-podtask,omitempty"`
}

// Tag is a tag of a task definition.
type Tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Extensions are what a task asks for beyond the ECS model.
type Extensions struct {
	Network           string `json:"network,omitempty"`
	StopWhenUnhealthy bool   `json:"stopWhenUnhealthy,omitempty"`
}

// Container is a container of a task definition.
type Container struct {
	Name             string            `json:"name"`
	Image            string            `json:"image"`
	EntryPoint       []string          `json:"entryPoint,omitempty"`
	Command          []string          `json:"command,omitempty"`
	Essential        bool              `json:"essential"`
	Environment      []Pair            `json:"environment,omitempty"`
	EnvironmentFiles []EnvFile         `json:"environmentFiles,omitempty"`
	Secrets          []Secret          `json:"secrets,omitempty"`
	PortMappings     []Port            `json:"portMappings,omitempty"`
	DependsOn        []Dependency      `json:"dependsOn,omitempty"`
	ExtraHosts       []Host            `json:"extraHosts,omitempty"`
	Links            []string          `json:"links,omitempty"`
	HealthCheck      *HealthCheck      `json:"healthCheck,omitempty"`
	MountPoints      []MountPoint      `json:"mountPoints,omitempty"`
	VolumesFrom      []VolumesFrom     `json:"volumesFrom,omitempty"`
	User             string            `json:"user,omitempty"`
	WorkingDirectory string            `json:"workingDirectory,omitempty"`
	Labels           map[string]string `json:"dockerLabels,omitempty"`
	ReadOnly         bool              `json:"readonlyRootFilesystem,omitempty"`
	CPU              int64             `json:"cpu,omitempty"`               // units
	Memory           int64             `json:"memory,omitempty"`            // MiB
	Reservation      int64             `json:"memoryReservation,omitempty"` // MiB
	StartTimeout     int               `json:"startTimeout,omitempty"`
	StopTimeout      int               `json:"stopTimeout,omitempty"`
	Restart          *RestartPolicy    `json:"restartPolicy,omitempty"`
	Linux            *Linux            `json:"linuxParameters,omitempty"`
	Hostname         string            `json:"hostname,omitempty"`
	DNSServers       []string          `json:"dnsServers,omitempty"`
	DNSSearch        []string          `json:"dnsSearchDomains,omitempty"`
	Privileged       bool              `json:"privileged,omitempty"`
	Terminal         bool              `json:"pseudoTerminal,omitempty"`
	Interactive      bool              `json:"interactive,omitempty"`
	Ulimits          []Ulimit          `json:"ulimits,omitempty"`
	SystemControls   []SystemControl   `json:"systemControls,omitempty"`
	SecurityOptions  []string          `json:"dockerSecurityOptions,omitempty"`
	Logging          *LogConfiguration `json:"logConfiguration,omitempty"`
	Resources        []Resource        `json:"resourceRequirements,omitempty"`

	Extensions *ContainerExtensions `json:"x-podtask,omitempty"`
}

// ContainerExtensions are what a container asks for beyond the ECS model.
type ContainerExtensions struct {
	CPULimit         float64      `json:"cpuLimit,omitempty"`
	ImageHealthCheck bool         `json:"imageHealthCheck,omitempty"`
	EmptyCommand     bool         `json:"emptyCommand,omitempty"`
	StopSignal       string       `json:"stopSignal,omitempty"`
	SecretFiles      []SecretFile `json:"secretFiles,omitempty"`
}

// signalNumbers are the signals that people write as numbers.
var signalNumbers = map[string]string{"1": "HUP", "2": "INT", "3": "QUIT", "6": "ABRT", "9": "KILL", "10": "USR1", "12": "USR2", "15": "TERM", "28": "WINCH"}

// StopWith sets the signal that asks a container to stop: a name with or without SIG, or a number. It reports whether there
// is such a signal.
func (ctr *Container) StopWith(text string) bool {
	name := "SIG" + strings.TrimPrefix(strings.ToUpper(cmp.Or(signalNumbers[text], text)), "SIG")
	if !taskdef.IsSignal(name) {
		return false
	}
	ctr.AddExtensions().StopSignal = name
	return true
}

// SecretFile is a file with a secret value.
type SecretFile struct {
	Path      string `json:"path"`
	ValueFrom string `json:"valueFrom"`
	Mode      string `json:"mode,omitempty"`
	UID       int    `json:"uid,omitempty"`
	GID       int    `json:"gid,omitempty"`
}

// Resource is a requirement of a container: a number of GPUs.
type Resource struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// Ulimit is a limit of a resource of a process.
type Ulimit struct {
	Name string `json:"name"`
	Soft int64  `json:"softLimit"`
	Hard int64  `json:"hardLimit"`
}

// SystemControl is a sysctl.
type SystemControl struct {
	Name  string `json:"namespace"`
	Value string `json:"value"`
}

// LogConfiguration has the log driver of a container.
type LogConfiguration struct {
	Driver  string            `json:"logDriver"`
	Options map[string]string `json:"options,omitempty"`
}

// Tmpfs is a tmpfs mount.
type Tmpfs struct {
	Path    string   `json:"containerPath"`
	Size    int64    `json:"size"` // MiB
	Options []string `json:"mountOptions,omitempty"`
}

// Pair is a name with a value.
type Pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// EnvFile is a file of variables.
type EnvFile struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// Secret is a variable with a value from elsewhere.
type Secret struct {
	Name      string `json:"name"`
	ValueFrom string `json:"valueFrom"`
}

// Port is a port mapping.
type Port struct {
	ContainerPort int        `json:"containerPort"`
	HostPort      int        `json:"hostPort,omitempty"`
	Protocol      string     `json:"protocol,omitempty"`
	Extra         *PortExtra `json:"x-podtask,omitempty"`
}

// PortExtra is x-podtask of a port mapping.
type PortExtra struct {
	HostIP        string `json:"hostIP,omitempty"`
	HostPortRange string `json:"hostPortRange,omitempty"`
}

// Dependency is a condition on another container.
type Dependency struct {
	Container string `json:"containerName"`
	Condition string `json:"condition"`
}

// Host is a line of the hosts file.
type Host struct {
	Name    string `json:"hostname"`
	Address string `json:"ipAddress"`
}

// HealthCheck is the health check of a container.
type HealthCheck struct {
	Command     []string `json:"command"`
	Interval    int      `json:"interval,omitempty"`
	Timeout     int      `json:"timeout,omitempty"`
	Retries     int      `json:"retries,omitempty"`
	StartPeriod int      `json:"startPeriod,omitempty"`

	Extra *HealthExtra `json:"x-podtask,omitempty"`
}

// HealthExtra is x-podtask of a health check.
type HealthExtra struct {
	Action string `json:"action"`
}

// Clamp brings a check into the ranges of the ECS model.
func (h *HealthCheck) Clamp(tell func(what string)) {
	for _, r := range []struct {
		name        string
		value       *int
		least, most int
	}{{"interval", &h.Interval, 5, 300}, {"timeout", &h.Timeout, 2, 60}, {"retries", &h.Retries, 1, 10}, {"start period", &h.StartPeriod, 0, 300}} {
		if *r.value == 0 {
			continue
		}
		if fit := min(max(*r.value, r.least), r.most); fit != *r.value {
			tell(fmt.Sprintf("%s %d becomes %d", r.name, *r.value, fit))
			*r.value = fit
		}
	}
}

// MountPoint is a mount of a volume.
type MountPoint struct {
	Volume   string `json:"sourceVolume"`
	Path     string `json:"containerPath"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// VolumesFrom takes over the mounts of another container.
type VolumesFrom struct {
	Container string `json:"sourceContainer"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}

// Volume is a volume of a task.
type Volume struct {
	Name   string        `json:"name"`
	Host   *hostVolume   `json:"host,omitempty"`
	Docker *DockerVolume `json:"dockerVolumeConfiguration,omitempty"`
	Extra  *relabel      `json:"x-podtask,omitempty"`
}

type relabel struct {
	SELinux string `json:"selinuxRelabel"`
}

type hostVolume struct {
	SourcePath string `json:"sourcePath"`
}

// DockerVolume is a named volume.
type DockerVolume struct {
	Scope         string            `json:"scope"`
	Autoprovision bool              `json:"autoprovision"`
	DriverOptions map[string]string `json:"driverOpts,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
}

// RestartPolicy has when a container is restarted.
type RestartPolicy struct {
	Enabled          bool     `json:"enabled"`
	IgnoredExitCodes []int    `json:"ignoredExitCodes,omitempty"`
	AttemptPeriod    int      `json:"restartAttemptPeriod,omitempty"`
	Extra            *BackOff `json:"x-podtask,omitempty"`
}

// BackOff slows restarts down.
type BackOff struct {
	BackOff  int `json:"backOff,omitempty"`
	MaxCount int `json:"maxCount,omitempty"`
}

// Linux has the parameters of the kernel for a container.
type Linux struct {
	Init         bool          `json:"initProcessEnabled,omitempty"`
	Capabilities *Capabilities `json:"capabilities,omitempty"`
	SharedMemory int64         `json:"sharedMemorySize,omitempty"` // MiB
	MaxSwap      *int64        `json:"maxSwap,omitempty"`          // MiB
	Devices      []Device      `json:"devices,omitempty"`
	Tmpfs        []Tmpfs       `json:"tmpfs,omitempty"`
}

// Device is a device of the host.
type Device struct {
	HostPath      string   `json:"hostPath"`
	ContainerPath string   `json:"containerPath,omitempty"`
	Permissions   []string `json:"permissions,omitempty"`
}

// Capabilities are those of the kernel that are added and dropped.
type Capabilities struct {
	Add  []string `json:"add,omitempty"`
	Drop []string `json:"drop,omitempty"`
}

// AddLinux returns linuxParameters, which it adds.
func (ctr *Container) AddLinux() *Linux {
	if ctr.Linux == nil {
		ctr.Linux = &Linux{}
	}
	return ctr.Linux
}

// AddCapabilities returns the capabilities, which it adds.
func (ctr *Container) AddCapabilities() *Capabilities {
	l := ctr.AddLinux()
	if l.Capabilities == nil {
		l.Capabilities = &Capabilities{}
	}
	return l.Capabilities
}

// AddExtensions returns those of the task, which it adds.
func (b *Builder) AddExtensions() *Extensions {
	if b.Def.Extensions == nil {
		b.Def.Extensions = &Extensions{}
	}
	return b.Def.Extensions
}

// AddExtensions returns those of the container, which it adds.
func (ctr *Container) AddExtensions() *ContainerExtensions {
	if ctr.Extensions == nil {
		ctr.Extensions = &ContainerExtensions{}
	}
	return ctr.Extensions
}

// Builder gathers the parts of a result.
type Builder struct {
	Name string // of the source, in messages
	Over string // of a file that is merged over it, whose lines are overLine and more; empty for none
	// origin is the file that the unit names in a comment; empty for none.
	Origin string
	Dir    string // of the source: relative paths are relative to it
	Def    Definition
	Unit   Unit
	Lost   []Loss
	// reserved are names of volumes that paths of the host may not get.
	Reserved []string
}

// Loss is something that has no counterpart, and its line; 0 is not known.
type Loss struct {
	Line int
	Text string
	// empty: it is a value, which is empty in the result.
	empty bool
	// need: nothing is lost, but the host has to have something.
	Need bool
}

// Unit are the parts of a .task file besides its definition.
type Unit struct {
	Unit, Task, Service, Install []string // assignments
}

// OverLine is added to the lines of a file that is merged over the first one.
const OverLine = 1 << 24

// Place returns NAME:LINE; line 0 is not known.
func (b *Builder) Place(line int) string {
	switch {
	case line == 0:
		return b.Name
	case line > OverLine:
		return fmt.Sprintf("%s:%d", b.Over, line-OverLine)
	}
	return fmt.Sprintf("%s:%d", b.Name, line)
}

// Lose notes what has no counterpart; line 0 is not known.
func (b *Builder) Lose(line int, format string, args ...any) {
	b.Lost = append(b.Lost, Loss{Line: line, Text: b.Place(line) + ": " + fmt.Sprintf(format, args...)})
}

// Need notes what the host has to have.
func (b *Builder) Need(line int, format string, args ...any) {
	b.Lose(line, format, args...)
	b.Lost[len(b.Lost)-1].Need = true
}

// LoseValue is lose for a value that is empty in the result.
func (b *Builder) LoseValue(line int, format string, args ...any) {
	b.Lose(line, format, args...)
	b.Lost[len(b.Lost)-1].empty = true
}

// Emptied are the losses that left a value empty, which may be why the result is wrong.
func (b *Builder) Emptied() (errs []error) {
	for _, l := range b.Lost {
		if l.empty {
			errs = append(errs, errors.New(l.Text))
		}
	}
	return errs
}

// Invalid is the error for a file of whose definition err says what is wrong.
func (b *Builder) Invalid(file string, err error) error {
	return errors.Join(append([]error{fmt.Errorf("%s gives a definition that is not valid: %w", file, err)}, b.Emptied()...)...)
}

// Share lets containers share one network namespace, as those of a pod do, and reach
// each other by name there.
func (b *Builder) Share() {
	if len(b.Def.Containers) < 2 {
		return
	}
	b.AddExtensions().Network = taskdef.NetworkShared
	for i := range b.Def.Containers {
		for _, other := range b.Def.Containers {
			if name := strings.ReplaceAll(other.Name, "@", "-"); other.Name != b.Def.Containers[i].Name { // no host name has an @
				b.Def.Containers[i].ExtraHosts = append(b.Def.Containers[i].ExtraHosts, Host{name, "127.0.0.1"})
			}
		}
	}
}

// hostNames are the names of the host that Podman writes into each hosts file.
var hostNames = []string{"host.docker.internal", "host.containers.internal"}

// autoUpdateLabel is the label by which podman auto-update knows a container.
const autoUpdateLabel = "io.containers.autoupdate"

// AutoUpdate takes the label of podman auto-update from a container: a unit says so for the whole task.
func (b *Builder) AutoUpdate(ctr *Container, line int) {
	switch value := ctr.Labels[autoUpdateLabel]; value {
	case "":
		return
	case "registry", "image":
		if !slices.Contains(b.Unit.Task, "AutoUpdate=registry") {
			b.Unit.Task = append(b.Unit.Task, "AutoUpdate=registry")
		}
	case "disabled":
	default:
		b.Lose(line, "label %s=%s: podtask updates images from registries only", autoUpdateLabel, value)
	}
	ctr.Labels = maps.Clone(ctr.Labels)
	delete(ctr.Labels, autoUpdateLabel)
}

// ExtraHost gives a container a line of its hosts file. What is what the source calls it.
func (b *Builder) ExtraHost(ctr *Container, h Host, line int, what string) {
	switch {
	case h.Address != "host-gateway":
		ctr.ExtraHosts = append(ctr.ExtraHosts, h)
	case !slices.Contains(hostNames, h.Name):
		b.Lose(line, "%s: the address of the host is known when a container starts; use the name %s", what, hostNames[0])
	}
}

// HostPath reports whether the source of a volume is a path and no name.
func HostPath(source string) bool {
	return strings.HasPrefix(source, ".") || strings.Contains(source, "/")
}

// AddPath adds a path of the host as a volume and returns the volume's name.
func (b *Builder) AddPath(source string) string {
	path, name := b.Absolute(source), VolumeName(source)
	taken := func(name string) bool {
		i := slices.IndexFunc(b.Def.Volumes, func(v Volume) bool { return v.Name == name })
		return slices.Contains(b.Reserved, name) || i >= 0 && (b.Def.Volumes[i].Host == nil || b.Def.Volumes[i].Host.SourcePath != path)
	}
	for n, base := 2, name; taken(name); n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return b.AddVolume(Volume{Name: name, Host: &hostVolume{SourcePath: path}})
}

// Relabel asks for an SELinux label for a volume, "z" or "Z" in the words of engines.
func (b *Builder) Relabel(name, letter string) {
	word := map[string]string{"z": "shared", "Z": "private"}[letter]
	if i := slices.IndexFunc(b.Def.Volumes, func(v Volume) bool { return v.Name == name }); i >= 0 && word != "" {
		b.Def.Volumes[i].Extra = &relabel{word}
	}
}

// AddVolume adds a volume once and returns its name.
func (b *Builder) AddVolume(v Volume) string {
	for _, have := range b.Def.Volumes {
		if have.Name == v.Name {
			return v.Name
		}
	}
	b.Def.Volumes = append(b.Def.Volumes, v)
	return v.Name
}

// Absolute makes a path absolute that is relative to the source, because the result may
// be written to another directory.
func (b *Builder) Absolute(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return path.Join(b.Dir, p)
}

// Assign adds KEY=VALUE to a section of the unit, once. The value keeps its specifiers;
// one that cannot be written is listed as lost.
func (b *Builder) Assign(section *[]string, line int, key, value string) {
	if err := taskunit.CheckValue(value); err != nil {
		b.Lose(line, "%s=: %v", key, err)
		return
	}
	if assignment := key + "=" + value; !slices.Contains(*section, assignment) {
		*section = append(*section, assignment)
	}
}

// VolumeName makes a name of a path.
func VolumeName(path string) string {
	if name := strings.Trim(Plain(path), "-"); name != "" {
		return name
	}
	return "root"
}

// Plain makes a name as the ECS model has them: of letters, digits, dashes and
// underscores.
func Plain(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '-'
	}, name)
}

// rename gives containers names that the ECS model takes.
func (b *Builder) rename() {
	for i := range b.Def.Containers {
		c := &b.Def.Containers[i]
		if name := Plain(c.Name); name != c.Name {
			b.Lose(0, "the name of container %s, which becomes %s", c.Name, name)
			c.Name = name
		}
		for j := range c.DependsOn {
			c.DependsOn[j].Container = Plain(c.DependsOn[j].Container)
		}
	}
}

// Result writes everything out. Name is the unit's, without .task.
func (b *Builder) Result(name string) (Result, error) {
	file, err := taskunit.Escape(name)
	if err != nil {
		return Result{}, fmt.Errorf("name of the unit: %w", err)
	}
	b.Def.Family = Plain(name)
	b.rename()
	def, err := json.MarshalIndent(b.Def, "", "    ")
	if err != nil {
		return Result{}, err
	}
	var text strings.Builder
	if b.Origin != "" {
		fmt.Fprintf(&text, "# converted from %s by podtask import\n\n", b.Origin)
	}
	section := func(title string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(&text, "[%s]\n%s\n\n", title, strings.Join(lines, "\n"))
		}
	}
	section("Unit", b.Unit.Unit)
	section("Task", append([]string{"Definition=./" + file + ".json"}, b.Unit.Task...))
	section("Service", b.Unit.Service)
	section("Install", b.Unit.Install)
	r := Result{Definition: append(def, '\n'), Unit: strings.TrimSuffix(text.String(), "\n"), Copies: 1}
	for _, l := range b.Lost {
		if l.Need {
			r.Needs = append(r.Needs, l.Text)
		} else {
			r.Lost = append(r.Lost, l.Text)
		}
	}
	return r, nil
}
