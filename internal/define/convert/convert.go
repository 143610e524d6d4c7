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
	// Copies is how many copies of the task a Compose file wants. With more than one it is
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

// definition and what is below it are the members of an ECS task definition that
// conversions fill in.
type definition struct {
	Family      string      `json:"family"`
	NetworkMode string      `json:"networkMode,omitempty"`
	PIDMode     string      `json:"pidMode,omitempty"`
	IPCMode     string      `json:"ipcMode,omitempty"`
	CPU         string      `json:"cpu,omitempty"`    // units
	Memory      string      `json:"memory,omitempty"` // MiB
	Containers  []container `json:"containerDefinitions"`
	Volumes     []volume    `json:"volumes,omitempty"`
	Tags        []tag       `json:"tags,omitempty"`
	Extensions  *extensions `json:"x-podtask,omitempty"`
}

type tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// extensions are what a task asks for beyond the ECS model.
type extensions struct {
	Network           string `json:"network,omitempty"`
	StopWhenUnhealthy bool   `json:"stopWhenUnhealthy,omitempty"`
}

type container struct {
	Name             string            `json:"name"`
	Image            string            `json:"image"`
	EntryPoint       []string          `json:"entryPoint,omitempty"`
	Command          []string          `json:"command,omitempty"`
	Essential        bool              `json:"essential"`
	Environment      []pair            `json:"environment,omitempty"`
	EnvironmentFiles []envFile         `json:"environmentFiles,omitempty"`
	Secrets          []secret          `json:"secrets,omitempty"`
	PortMappings     []port            `json:"portMappings,omitempty"`
	DependsOn        []dependency      `json:"dependsOn,omitempty"`
	ExtraHosts       []host            `json:"extraHosts,omitempty"`
	Links            []string          `json:"links,omitempty"`
	HealthCheck      *healthCheck      `json:"healthCheck,omitempty"`
	MountPoints      []mountPoint      `json:"mountPoints,omitempty"`
	VolumesFrom      []volumesFrom     `json:"volumesFrom,omitempty"`
	User             string            `json:"user,omitempty"`
	WorkingDirectory string            `json:"workingDirectory,omitempty"`
	Labels           map[string]string `json:"dockerLabels,omitempty"`
	ReadOnly         bool              `json:"readonlyRootFilesystem,omitempty"`
	CPU              int64             `json:"cpu,omitempty"`               // units
	Memory           int64             `json:"memory,omitempty"`            // MiB
	Reservation      int64             `json:"memoryReservation,omitempty"` // MiB
	StartTimeout     int               `json:"startTimeout,omitempty"`
	StopTimeout      int               `json:"stopTimeout,omitempty"`
	Restart          *restartPolicy    `json:"restartPolicy,omitempty"`
	Linux            *linux            `json:"linuxParameters,omitempty"`
	Hostname         string            `json:"hostname,omitempty"`
	DNSServers       []string          `json:"dnsServers,omitempty"`
	DNSSearch        []string          `json:"dnsSearchDomains,omitempty"`
	Privileged       bool              `json:"privileged,omitempty"`
	Terminal         bool              `json:"pseudoTerminal,omitempty"`
	Interactive      bool              `json:"interactive,omitempty"`
	Ulimits          []ulimit          `json:"ulimits,omitempty"`
	SystemControls   []systemControl   `json:"systemControls,omitempty"`
	SecurityOptions  []string          `json:"dockerSecurityOptions,omitempty"`
	Logging          *logConfiguration `json:"logConfiguration,omitempty"`
	Resources        []resource        `json:"resourceRequirements,omitempty"`

	Extensions *containerExtensions `json:"x-podtask,omitempty"`
}

// containerExtensions are what a container asks for beyond the ECS model.
type containerExtensions struct {
	CPULimit         float64      `json:"cpuLimit,omitempty"`
	ImageHealthCheck bool         `json:"imageHealthCheck,omitempty"`
	EmptyCommand     bool         `json:"emptyCommand,omitempty"`
	StopSignal       string       `json:"stopSignal,omitempty"`
	SecretFiles      []secretFile `json:"secretFiles,omitempty"`
}

// signalNumbers are the signals that people write as numbers.
var signalNumbers = map[string]string{"1": "HUP", "2": "INT", "3": "QUIT", "6": "ABRT", "9": "KILL", "10": "USR1", "12": "USR2", "15": "TERM", "28": "WINCH"}

// stopWith sets the signal that asks a container to stop: a name with or without SIG, or a number. It reports whether there
// is such a signal.
func (ctr *container) stopWith(text string) bool {
	name := "SIG" + strings.TrimPrefix(strings.ToUpper(cmp.Or(signalNumbers[text], text)), "SIG")
	if !taskdef.IsSignal(name) {
		return false
	}
	ctr.extensions().StopSignal = name
	return true
}

type secretFile struct {
	Path      string `json:"path"`
	ValueFrom string `json:"valueFrom"`
	Mode      string `json:"mode,omitempty"`
	UID       int    `json:"uid,omitempty"`
	GID       int    `json:"gid,omitempty"`
}

type resource struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

type ulimit struct {
	Name string `json:"name"`
	Soft int64  `json:"softLimit"`
	Hard int64  `json:"hardLimit"`
}

type systemControl struct {
	Name  string `json:"namespace"`
	Value string `json:"value"`
}

type logConfiguration struct {
	Driver  string            `json:"logDriver"`
	Options map[string]string `json:"options,omitempty"`
}

type tmpfs struct {
	Path    string   `json:"containerPath"`
	Size    int64    `json:"size"` // MiB
	Options []string `json:"mountOptions,omitempty"`
}

type pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type envFile struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

type secret struct {
	Name      string `json:"name"`
	ValueFrom string `json:"valueFrom"`
}

type port struct {
	ContainerPort int        `json:"containerPort"`
	HostPort      int        `json:"hostPort,omitempty"`
	Protocol      string     `json:"protocol,omitempty"`
	Extra         *portExtra `json:"x-podtask,omitempty"`
}

// portExtra is x-podtask of a port mapping.
type portExtra struct {
	HostIP        string `json:"hostIP,omitempty"`
	HostPortRange string `json:"hostPortRange,omitempty"`
}

type dependency struct {
	Container string `json:"containerName"`
	Condition string `json:"condition"`
}

type host struct {
	Name    string `json:"hostname"`
	Address string `json:"ipAddress"`
}

type healthCheck struct {
	Command     []string `json:"command"`
	Interval    int      `json:"interval,omitempty"`
	Timeout     int      `json:"timeout,omitempty"`
	Retries     int      `json:"retries,omitempty"`
	StartPeriod int      `json:"startPeriod,omitempty"`

	Extra *healthExtra `json:"x-podtask,omitempty"`
}

// healthExtra is x-podtask of a health check.
type healthExtra struct {
	Action string `json:"action"`
}

// clamp brings a check into the ranges of the ECS model.
func (h *healthCheck) clamp(tell func(what string)) {
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

type mountPoint struct {
	Volume   string `json:"sourceVolume"`
	Path     string `json:"containerPath"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

type volumesFrom struct {
	Container string `json:"sourceContainer"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}

type volume struct {
	Name   string        `json:"name"`
	Host   *hostVolume   `json:"host,omitempty"`
	Docker *dockerVolume `json:"dockerVolumeConfiguration,omitempty"`
	Extra  *relabel      `json:"x-podtask,omitempty"`
}

type relabel struct {
	SELinux string `json:"selinuxRelabel"`
}

type hostVolume struct {
	SourcePath string `json:"sourcePath"`
}

type dockerVolume struct {
	Scope         string            `json:"scope"`
	Autoprovision bool              `json:"autoprovision"`
	DriverOptions map[string]string `json:"driverOpts,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
}

type restartPolicy struct {
	Enabled          bool     `json:"enabled"`
	IgnoredExitCodes []int    `json:"ignoredExitCodes,omitempty"`
	AttemptPeriod    int      `json:"restartAttemptPeriod,omitempty"`
	Extra            *backOff `json:"x-podtask,omitempty"`
}

type backOff struct {
	BackOff  int `json:"backOff,omitempty"`
	MaxCount int `json:"maxCount,omitempty"`
}

type linux struct {
	Init         bool          `json:"initProcessEnabled,omitempty"`
	Capabilities *capabilities `json:"capabilities,omitempty"`
	SharedMemory int64         `json:"sharedMemorySize,omitempty"` // MiB
	MaxSwap      *int64        `json:"maxSwap,omitempty"`          // MiB
	Devices      []device      `json:"devices,omitempty"`
	Tmpfs        []tmpfs       `json:"tmpfs,omitempty"`
}

type device struct {
	HostPath      string   `json:"hostPath"`
	ContainerPath string   `json:"containerPath,omitempty"`
	Permissions   []string `json:"permissions,omitempty"`
}

type capabilities struct {
	Add  []string `json:"add,omitempty"`
	Drop []string `json:"drop,omitempty"`
}

func (ctr *container) linux() *linux {
	if ctr.Linux == nil {
		ctr.Linux = &linux{}
	}
	return ctr.Linux
}

func (ctr *container) capabilities() *capabilities {
	l := ctr.linux()
	if l.Capabilities == nil {
		l.Capabilities = &capabilities{}
	}
	return l.Capabilities
}

func (b *builder) extensions() *extensions {
	if b.def.Extensions == nil {
		b.def.Extensions = &extensions{}
	}
	return b.def.Extensions
}

func (ctr *container) extensions() *containerExtensions {
	if ctr.Extensions == nil {
		ctr.Extensions = &containerExtensions{}
	}
	return ctr.Extensions
}

// builder gathers the parts of a result.
type builder struct {
	name string // of the source, in messages
	over string // of a file that is merged over it, whose lines are overLine and more; empty for none
	// origin is the file that the unit names in a comment; empty for none.
	origin string
	dir    string // of the source: relative paths are relative to it
	def    definition
	unit   unit
	lost   []loss
	// reserved are names of volumes that paths of the host may not get.
	reserved []string
}

// loss is something that has no counterpart, and its line; 0 is not known.
type loss struct {
	line int
	text string
	// empty: it is a value, which is empty in the result.
	empty bool
	// need: nothing is lost, but the host has to have something.
	need bool
}

// unit are the parts of a .task file besides its definition.
type unit struct {
	Unit, Task, Service, Install []string // assignments
}

// overLine is added to the lines of a file that is merged over the first one.
const overLine = 1 << 24

// place returns NAME:LINE; line 0 is not known.
func (b *builder) place(line int) string {
	switch {
	case line == 0:
		return b.name
	case line > overLine:
		return fmt.Sprintf("%s:%d", b.over, line-overLine)
	}
	return fmt.Sprintf("%s:%d", b.name, line)
}

// lose notes what has no counterpart; line 0 is not known.
func (b *builder) lose(line int, format string, args ...any) {
	b.lost = append(b.lost, loss{line: line, text: b.place(line) + ": " + fmt.Sprintf(format, args...)})
}

// need notes what the host has to have.
func (b *builder) need(line int, format string, args ...any) {
	b.lose(line, format, args...)
	b.lost[len(b.lost)-1].need = true
}

// loseValue is lose for a value that is empty in the result.
func (b *builder) loseValue(line int, format string, args ...any) {
	b.lose(line, format, args...)
	b.lost[len(b.lost)-1].empty = true
}

// emptied are the losses that left a value empty, which may be why the result is wrong.
func (b *builder) emptied() (errs []error) {
	for _, l := range b.lost {
		if l.empty {
			errs = append(errs, errors.New(l.text))
		}
	}
	return errs
}

// invalid is the error for a file of whose definition err says what is wrong.
func (b *builder) invalid(file string, err error) error {
	return errors.Join(append([]error{fmt.Errorf("%s gives a definition that is not valid: %w", file, err)}, b.emptied()...)...)
}

// share lets containers share one network namespace, as those of a pod do, and reach
// each other by name there.
func (b *builder) share() {
	if len(b.def.Containers) < 2 {
		return
	}
	b.extensions().Network = taskdef.NetworkShared
	for i := range b.def.Containers {
		for _, other := range b.def.Containers {
			if name := strings.ReplaceAll(other.Name, "@", "-"); other.Name != b.def.Containers[i].Name { // no host name has an @
				b.def.Containers[i].ExtraHosts = append(b.def.Containers[i].ExtraHosts, host{name, "127.0.0.1"})
			}
		}
	}
}

// hostNames are the names of the host that Podman writes into each hosts file.
var hostNames = []string{"host.docker.internal", "host.containers.internal"}

// autoUpdateLabel is the label by which podman auto-update knows a container.
const autoUpdateLabel = "io.containers.autoupdate"

// autoUpdate takes the label of podman auto-update from a container: a unit says so for the whole task.
func (b *builder) autoUpdate(ctr *container, line int) {
	switch value := ctr.Labels[autoUpdateLabel]; value {
	case "":
		return
	case "registry", "image":
		if !slices.Contains(b.unit.Task, "AutoUpdate=registry") {
			b.unit.Task = append(b.unit.Task, "AutoUpdate=registry")
		}
	case "disabled":
	default:
		b.lose(line, "label %s=%s: podtask updates images from registries only", autoUpdateLabel, value)
	}
	ctr.Labels = maps.Clone(ctr.Labels)
	delete(ctr.Labels, autoUpdateLabel)
}

// extraHost gives a container a line of its hosts file. What is what the source calls it.
func (b *builder) extraHost(ctr *container, h host, line int, what string) {
	switch {
	case h.Address != "host-gateway":
		ctr.ExtraHosts = append(ctr.ExtraHosts, h)
	case !slices.Contains(hostNames, h.Name):
		b.lose(line, "%s: the address of the host is known when a container starts; use the name %s", what, hostNames[0])
	}
}

// hostPath reports whether the source of a volume is a path and no name.
func hostPath(source string) bool {
	return strings.HasPrefix(source, ".") || strings.Contains(source, "/")
}

// addPath adds a path of the host as a volume and returns the volume's name.
func (b *builder) addPath(source string) string {
	path, name := b.absolute(source), volumeName(source)
	taken := func(name string) bool {
		i := slices.IndexFunc(b.def.Volumes, func(v volume) bool { return v.Name == name })
		return slices.Contains(b.reserved, name) || i >= 0 && (b.def.Volumes[i].Host == nil || b.def.Volumes[i].Host.SourcePath != path)
	}
	for n, base := 2, name; taken(name); n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return b.addVolume(volume{Name: name, Host: &hostVolume{SourcePath: path}})
}

// relabel asks for an SELinux label for a volume, "z" or "Z" in the words of engines.
func (b *builder) relabel(name, letter string) {
	word := map[string]string{"z": "shared", "Z": "private"}[letter]
	if i := slices.IndexFunc(b.def.Volumes, func(v volume) bool { return v.Name == name }); i >= 0 && word != "" {
		b.def.Volumes[i].Extra = &relabel{word}
	}
}

// addVolume adds a volume once and returns its name.
func (b *builder) addVolume(v volume) string {
	for _, have := range b.def.Volumes {
		if have.Name == v.Name {
			return v.Name
		}
	}
	b.def.Volumes = append(b.def.Volumes, v)
	return v.Name
}

// absolute makes a path absolute that is relative to the source, because the result may
// be written to another directory.
func (b *builder) absolute(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return path.Join(b.dir, p)
}

// assign adds KEY=VALUE to a section of the unit, once. The value keeps its specifiers;
// one that cannot be written is listed as lost.
func (b *builder) assign(section *[]string, line int, key, value string) {
	if err := taskunit.CheckValue(value); err != nil {
		b.lose(line, "%s=: %v", key, err)
		return
	}
	if assignment := key + "=" + value; !slices.Contains(*section, assignment) {
		*section = append(*section, assignment)
	}
}

// volumeName makes a name of a path.
func volumeName(path string) string {
	if name := strings.Trim(plain(path), "-"); name != "" {
		return name
	}
	return "root"
}

// plain makes a name as the ECS model has them: of letters, digits, dashes and
// underscores.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '-'
	}, name)
}

// rename gives containers names that the ECS model takes.
func (b *builder) rename() {
	for i := range b.def.Containers {
		c := &b.def.Containers[i]
		if name := plain(c.Name); name != c.Name {
			b.lose(0, "the name of container %s, which becomes %s", c.Name, name)
			c.Name = name
		}
		for j := range c.DependsOn {
			c.DependsOn[j].Container = plain(c.DependsOn[j].Container)
		}
	}
}

// result writes everything out. Name is the unit's, without .task.
func (b *builder) result(name string) (Result, error) {
	file, err := taskunit.Escape(name)
	if err != nil {
		return Result{}, fmt.Errorf("name of the unit: %w", err)
	}
	b.def.Family = plain(name)
	b.rename()
	def, err := json.MarshalIndent(b.def, "", "    ")
	if err != nil {
		return Result{}, err
	}
	var text strings.Builder
	if b.origin != "" {
		fmt.Fprintf(&text, "# converted from %s by podtask import\n\n", b.origin)
	}
	section := func(title string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(&text, "[%s]\n%s\n\n", title, strings.Join(lines, "\n"))
		}
	}
	section("Unit", b.unit.Unit)
	section("Task", append([]string{"Definition=./" + file + ".json"}, b.unit.Task...))
	section("Service", b.unit.Service)
	section("Install", b.unit.Install)
	r := Result{Definition: append(def, '\n'), Unit: strings.TrimSuffix(text.String(), "\n"), Copies: 1}
	for _, l := range b.lost {
		if l.need {
			r.Needs = append(r.Needs, l.text)
		} else {
			r.Lost = append(r.Lost, l.text)
		}
	}
	return r, nil
}
