package export

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// unit is the text of a file for systemd, in sections.
type unit struct {
	order []string
	lines map[string][]string
	// unsaid are the keys that have a value which no line can hold, with the value.
	unsaid [][2]string
}

// set adds KEY=VALUE to a section, for a key whose value is the rest of the line. Specifiers and variables in the value have no meaning.
func (u *unit) set(section, key, value string) {
	switch isQuoted := len(value) > 1 && strings.HasPrefix(value, `"`) && strings.HasSuffix(value, `"`); {
	case strings.ContainsFunc(value, isControl) || strings.TrimSpace(value) != value || strings.HasSuffix(value, `\`) || isQuoted:
		u.unsaid = append(u.unsaid, [2]string{key, value})
	default:
		u.raw(section, key, literalValue(value))
	}
}

// words adds KEY=VALUE to a section, for a key whose value is words with escapes in them.
func (u *unit) words(section, key string, list ...string) {
	if text := strings.Join(list, " "); strings.ContainsRune(text, 0) {
		u.unsaid = append(u.unsaid, [2]string{key, text})
		return
	}
	u.raw(section, key, literalValue(quoted(list...)))
}

// plain adds KEY=VALUE to a section, for a key whose value is words of which Quadlet keeps the escapes.
func (u *unit) plain(section, key, word string) {
	if word == "" || strings.ContainsAny(word, `"\`) || strings.ContainsFunc(word, isControl) {
		u.unsaid = append(u.unsaid, [2]string{key, word})
		return
	}
	u.raw(section, key, literalValue(quoted(word)))
}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f }

// literalValue is a text without specifiers and variables.
func literalValue(text string) string {
	return strings.NewReplacer("%", "%%", "$", "$$").Replace(text)
}

// written returns the text of a unit. What its lines cannot hold is lost.
func (w *writer) written(u *unit, c *taskdef.Container) string {
	for _, one := range u.unsaid {
		w.lose(c, cmp.Or(memberOf[one[0]], one[0]), one[0]+"= cannot hold "+doctree.Quote(one[1]), "write it in other characters")
	}
	return u.String()
}

// memberOf has the members of a task definition that are told by keys whose values are texts.
var memberOf = map[string]string{
	"AddDevice": "linuxParameters.devices", "DNS": "dnsServers", "DNSOption": "dnsConfig.options", "DNSSearch": "dnsSearchDomains", "Entrypoint": "entryPoint", "Environment": "environment",
	"EnvironmentFile": "environmentFiles", "Exec": "command", "Group": "user", "HealthCmd": "healthCheck.command", "HostName": "hostname", "Label": "dockerLabels", "LogOpt": "logConfiguration.options",
	"PodmanArgs": "dockerSecurityOptions", "Secret": "secrets", "SecurityLabelFileType": "dockerSecurityOptions", "SecurityLabelLevel": "dockerSecurityOptions", "SecurityLabelType": "dockerSecurityOptions",
	"Sysctl": "systemControls", "Tmpfs": "linuxParameters.tmpfs", "User": "user", "Volume": "mountPoints", "WorkingDir": "workingDirectory",
	"Device": "volumes[].dockerVolumeConfiguration.driverOpts", "Options": "volumes[].dockerVolumeConfiguration.driverOpts", "Type": "volumes[].dockerVolumeConfiguration.driverOpts",
}

// raw adds KEY=VALUE to a section.
func (u *unit) raw(section, key, value string) {
	if u.lines == nil {
		u.lines = map[string][]string{}
	}
	if !slices.Contains(u.order, section) {
		u.order = append(u.order, section)
	}
	u.lines[section] = append(u.lines[section], key+"="+value)
}

func (u *unit) String() string {
	var b strings.Builder
	for i, section := range u.order {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "[%s]\n%s\n", section, strings.Join(u.lines[section], "\n"))
	}
	return b.String()
}

// quoted writes words as systemd splits them.
func quoted(list ...string) string {
	out := make([]string, len(list))
	for i, word := range list {
		if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@+=:,./_-%${}") == "" {
			out[i] = word
			continue
		}
		var b strings.Builder
		b.WriteByte('"')
		for _, r := range []byte(word) {
			switch {
			case r == '"' || r == '\\':
				b.WriteByte('\\')
				b.WriteByte(r)
			case r == '\n':
				b.WriteString(`\n`)
			case r == '\t':
				b.WriteString(`\t`)
			case r < 0x20 || r == 0x7f:
				fmt.Fprintf(&b, `\x%02x`, r)
			default:
				b.WriteByte(r)
			}
		}
		b.WriteByte('"')
		out[i] = b.String()
	}
	return strings.Join(out, " ")
}

// quadlet writes a .container for each container, and a .pod if there are several.
func (w *writer) quadlet() (files []File) {
	pod := &unit{}
	alone := len(w.Task.Containers) == 1
	for i := range w.Task.Containers {
		c := &w.Task.Containers[i]
		u := &unit{}
		name := w.Name
		if !alone {
			name = w.unitName(i)
		}
		u.set("Unit", "Description", "Container "+c.Name+" of "+w.Name)
		w.quadletOrder(u, c)
		u.set("Container", "Image", image(c.Image))
		u.set("Container", "ContainerName", name)
		if alone {
			w.quadletNetwork(u, "Container")
		} else {
			u.set("Container", "Pod", w.Name+".pod")
		}
		w.quadletProgram(u, c)
		w.quadletStorage(u, i, c)
		w.quadletHealth(u, i, c)
		w.quadletKernel(u, c)
		w.quadletService(u, i, c)
		if alone {
			u.set("Install", "WantedBy", "default.target")
		}
		files = append(files, File{Name: name + ".container", Text: w.written(u, c)})
	}
	if !alone {
		pod.set("Unit", "Description", "Pod "+w.Name)
		pod.set("Pod", "PodName", w.Name)
		w.quadletNetwork(pod, "Pod")
		w.quadletPod(pod)
		pod.set("Install", "WantedBy", "default.target")
		files = slices.Insert(files, 0, File{Name: w.Name + ".pod", Text: w.written(pod, nil)})
	}
	for _, v := range w.Task.Volumes {
		if text := w.quadletVolume(v); text != "" {
			files = append(files, File{Name: v.Name + ".volume", Text: text})
		}
	}
	w.together("`BindsTo=` in [Unit] of each one stops it with another")
	if w.Copies > 1 {
		w.lose(nil, "the number of copies", fmt.Sprintf("one copy is written, and not %d", w.Copies), "write a template, NAME@.container, and enable instances of it")
	}
	return files
}

// unitName is the name of the unit of container i among several.
func (w *writer) unitName(i int) string {
	name := w.Name + "-" + w.Task.Containers[i].Name
	if w.Task.Containers[i].Name == "pod" { // Quadlet calls the service of NAME.pod so
		name += "-container"
	}
	return name
}

func (w *writer) quadletOrder(u *unit, c *taskdef.Container) {
	for _, d := range c.DependsOn {
		service := w.unitName(d.Container) + ".service"
		if d.Condition == taskdef.Complete {
			u.set("Unit", "Wants", service) // its failure is no obstacle
		} else {
			u.set("Unit", "Requires", service)
		}
		u.set("Unit", "After", service)
	}
}

// quadletNetwork writes the network, the ports and the names of the pod, or of the only container.
func (w *writer) quadletNetwork(u *unit, section string) {
	switch name, joins := w.Task.Joined(); {
	case w.Task.Network == taskdef.NetworkHost || w.Task.Network == taskdef.NetworkNone:
		u.set(section, "Network", string(w.Task.Network))
	case joins:
		u.set(section, "Network", name)
	case w.Task.Extensions.Network == taskdef.NetworkPasta || w.Task.Extensions.Network == taskdef.NetworkSlirp4netns:
		u.set(section, "Network", w.Task.Extensions.Network)
	}
	seen := map[string]string{} // container ports
	for i := range w.Task.Containers {
		c := &w.Task.Containers[i]
		for _, p := range c.Ports {
			if inside := fmt.Sprintf("%d/%s", p.ContainerPort, p.Protocol); seen[inside] != "" {
				w.lose(c, "portMappings", fmt.Sprintf("port %s is that of the container %s too, with which it shares a network here", inside, seen[inside]), "let one of the two programs listen on another port")
			} else {
				seen[inside] = c.Name
			}
			if w.Task.Network != taskdef.NetworkHost {
				u.set(section, "PublishPort", w.published(c, p))
			}
		}
	}
	var done []string
	once := func(key, value string) {
		if line := key + "=" + value; !slices.Contains(done, line) {
			done = append(done, line)
			u.set(section, key, value)
		}
	}
	for _, h := range w.hosts() {
		once("AddHost", h.Name+":"+h.Address)
	}
	for _, c := range w.Task.Containers {
		for _, s := range c.Net.DNSServers {
			once("DNS", s)
		}
		for _, s := range c.Net.DNSSearch {
			once("DNSSearch", s)
		}
		for _, o := range c.Net.DNSOptions {
			once("DNSOption", o)
		}
	}
	if name := w.hostname(); name != "" {
		u.set(section, "HostName", name)
	}
}

// hosts are the lines of the hosts file of containers that share a network: their own names too.
func (w *writer) hosts() (all []taskdef.Host) {
	add := func(h taskdef.Host) {
		if !slices.Contains(all, h) {
			all = append(all, h)
		}
	}
	for _, c := range w.Task.Containers {
		for _, h := range c.Net.ExtraHosts {
			add(h)
		}
	}
	if len(w.Task.Containers) == 1 || w.Task.Network == taskdef.NetworkNone {
		return all
	}
	for i := range w.Task.Containers {
		for _, name := range w.Task.Names(i) {
			add(taskdef.Host{Name: name, Address: "127.0.0.1"})
		}
	}
	return all
}

// hostname is the host name of containers that share it.
func (w *writer) hostname() (name string) {
	for i := range w.Task.Containers {
		c := &w.Task.Containers[i]
		switch h := c.Net.Hostname; {
		case h == "" || h == name:
		case name == "":
			name = h
		default:
			w.lose(c, "hostname", "the containers share the host name "+name, "")
		}
	}
	return name
}

// quadletPod writes the settings of a pod of Quadlet for all containers together.
func (w *writer) quadletPod(u *unit) {
	if w.Task.Bridged() {
		w.lose(nil, "networkMode", "the containers share one network, in which each reaches the others as localhost too", "")
	}
	for i := range w.Task.Containers {
		if w.ends(i) { // else the pod would stop with it, before the others start
			u.raw("Pod", "PodmanArgs", "--exit-policy=continue")
			break
		}
	}
	if w.Task.Memory > 0 {
		u.raw("Pod", "PodmanArgs", fmt.Sprintf("--memory=%d", w.Task.Memory))
	}
	if w.Task.CPU > 0 {
		u.raw("Pod", "PodmanArgs", fmt.Sprintf("--cpus=%g", w.Task.CPU))
	}
}

func (w *writer) quadletProgram(u *unit, c *taskdef.Container) {
	set := func(key, value string) {
		if value != "" {
			u.set("Container", key, value)
		}
	}
	switch {
	case len(c.EntryPoint) == 1 && c.EntryPoint[0] == "":
		u.set("Container", "Entrypoint", "")
	case len(c.EntryPoint) > 0:
		text, _ := json.Marshal(c.EntryPoint) // texts have a JSON form always
		set("Entrypoint", string(text))
	}
	if len(c.Command) > 0 {
		u.words("Container", "Exec", c.Command...)
	}
	for _, v := range c.Environment {
		u.words("Container", "Environment", v.Name+"="+v.Value)
	}
	for _, f := range slices.Backward(c.EnvironmentFiles) { // of Podman's, the last one decides
		if f.Path != "" {
			u.words("Container", "EnvironmentFile", f.Path)
		}
	}
	for _, s := range c.Secrets {
		if name, ok := stored(s.SecretValue); ok && !strings.Contains(name+s.Name, ",") {
			u.words("Container", "Secret", fmt.Sprintf("%s,type=env,target=%s", name, s.Name))
		} else {
			w.lose(c, "secrets", "the value of "+s.Name+" is no secret of Podman", "store it with `podman secret create`, and write Secret=NAME,type=env,target="+s.Name)
		}
	}
	for _, s := range c.Extensions.SecretFiles {
		if name, ok := stored(s.SecretValue); ok && !strings.Contains(name+s.Path, ",") {
			u.words("Container", "Secret", fmt.Sprintf("%s,type=mount,target=%s,uid=%d,gid=%d,mode=%04o", name, s.Path, s.UID, s.GID, s.Mode))
		} else {
			w.lose(c, "x-podtask.secretFiles", "the value of "+s.Path+" is no secret of Podman, or has a comma in its name or path", "store it with `podman secret create`, and write Secret=NAME,target="+s.Path)
		}
	}
	user, group, _ := strings.Cut(c.User, ":")
	set("User", user)
	set("Group", group)
	for _, g := range c.Extensions.Kube.Groups {
		set("GroupAdd", fmt.Sprint(g))
	}
	set("WorkingDir", c.WorkingDirectory)
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		u.words("Container", "Label", name+"="+c.Labels[name])
	}
	if c.Log != nil && !c.Log.Driver.Local() {
		w.lose(c, "logConfiguration", "Podman sends no lines to "+string(c.Log.Driver), "let a program send the journal")
	} else if c.Log != nil {
		set("LogDriver", strings.Replace(string(c.Log.Driver), "json-file", "k8s-file", 1))
		for _, name := range slices.Sorted(maps.Keys(c.Log.Options)) {
			u.plain("Container", "LogOpt", name+"="+c.Log.Options[name])
		}
	}
	set("StopSignal", c.Extensions.Kube.StopSignal)
	set("StopTimeout", fmt.Sprint(whole(c.StopTimeout)))
	set("Pull", map[string]string{"always": "always", "prefer-cached": "missing", "never": "never"}[c.Extensions.Kube.Pull])
}

func (w *writer) quadletStorage(u *unit, i int, c *taskdef.Container) {
	for _, m := range w.Task.Mounts(i) {
		v, _ := w.Task.Volume(m.Volume)
		if v.Kind == taskdef.VolumeRemote {
			continue
		}
		source, _ := w.volume(v)
		if w.quadletVolume(v) != "" {
			source = v.Name + ".volume"
		}
		if w.hasColon(c, "Volume", source, m.Path) {
			continue
		}
		var options []string
		if m.ReadOnly {
			options = append(options, "ro")
		}
		if v.Relabel != "" {
			options = append(options, map[string]string{"shared": "z", "private": "Z"}[v.Relabel])
		}
		text := source + ":" + m.Path
		if len(options) > 0 {
			text += ":" + strings.Join(options, ",")
		}
		u.set("Container", "Volume", text)
	}
	for _, t := range c.Linux.Tmpfs {
		if !w.hasColon(c, "Tmpfs", t.Path) {
			u.set("Container", "Tmpfs", t.Path+":"+tmpfs(t))
		}
	}
	for _, d := range c.Linux.Devices {
		if !w.hasColon(c, "AddDevice", d.HostPath, d.ContainerPath) {
			u.plain("Container", "AddDevice", strings.TrimSuffix(d.HostPath+":"+d.ContainerPath+":"+devicePermissions(d.Permissions), ":"))
		}
	}
}

// hasColon reports whether one of the paths of a key has a colon, at which the key would end it. It is lost.
func (w *writer) hasColon(c *taskdef.Container, key string, paths ...string) bool {
	for _, p := range paths {
		if strings.Contains(p, ":") {
			w.lose(c, memberOf[key], key+"= ends a path at a colon, and "+doctree.Quote(p)+" has one", "rename it")
			return true
		}
	}
	return false
}

// quadletVolume is the text of a .volume file; empty for a volume that Podman makes as it is.
func (w *writer) quadletVolume(v taskdef.Volume) string {
	if v.Kind != taskdef.VolumeShared && v.Kind != taskdef.VolumeTask || len(v.DriverOpts)+len(v.Labels) == 0 {
		return ""
	}
	u := &unit{}
	name, _ := w.volume(v)
	u.set("Volume", "VolumeName", name)
	for _, key := range slices.Sorted(maps.Keys(v.DriverOpts)) {
		if quadletKey := map[string]string{"type": "Type", "device": "Device", "o": "Options"}[key]; quadletKey != "" {
			u.set("Volume", quadletKey, v.DriverOpts[key])
		} else {
			w.lose(nil, "volumes[].dockerVolumeConfiguration.driverOpts", "the option "+key+" of the volume "+v.Name, "make the volume with `podman volume create`")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(v.Labels)) {
		u.words("Volume", "Label", key+"="+v.Labels[key])
	}
	return w.written(u, nil)
}

func (w *writer) quadletHealth(u *unit, i int, c *taskdef.Container) {
	if slices.Contains(w.waits(i), taskdef.Healthy) {
		u.set("Container", "Notify", "healthy")
	}
	h := c.HealthCheck
	if h == nil {
		return
	}
	command := h.Command
	if text, err := json.Marshal(command); err == nil {
		u.set("Container", "HealthCmd", string(text))
	}
	u.set("Container", "HealthInterval", fmt.Sprintf("%ds", whole(h.Interval)))
	u.set("Container", "HealthTimeout", fmt.Sprintf("%ds", whole(h.Timeout)))
	u.set("Container", "HealthRetries", fmt.Sprint(h.Retries))
	if h.StartPeriod > 0 {
		u.set("Container", "HealthStartPeriod", fmt.Sprintf("%ds", whole(h.StartPeriod)))
	}
	if h.Action == taskdef.ActionRestart || w.Task.Extensions.StopWhenUnhealthy && c.Essential {
		u.set("Container", "HealthOnFailure", "kill")
	}
}

// quadletKernel writes what the kernel is asked for. What .container files of Podman 5.0 have no key for is an argument of podman.
func (w *writer) quadletKernel(u *unit, c *taskdef.Container) {
	flag := func(key string, is bool) {
		if is {
			u.set("Container", key, "true")
		}
	}
	argument := func(is bool, text string) {
		if is {
			u.words("Container", "PodmanArgs", text)
		}
	}
	l := c.Linux
	flag("ReadOnly", c.ReadonlyRootFS)
	if c.ReadonlyRootFS {
		u.set("Container", "ReadOnlyTmpfs", "false")
	}
	flag("RunInit", c.Init)
	flag("NoNewPrivileges", c.Security.NoNewPrivileges)
	for _, label := range c.Security.Labels {
		kind, value, _ := strings.Cut(label, ":")
		switch key := map[string]string{"type": "SecurityLabelType", "level": "SecurityLabelLevel", "filetype": "SecurityLabelFileType"}[kind]; {
		case kind == "disable":
			flag("SecurityLabelDisable", true)
		case key != "":
			u.set("Container", key, value)
		default:
			argument(true, "--security-opt=label="+label)
		}
	}
	if len(l.CapAdd) > 0 {
		u.words("Container", "AddCapability", l.CapAdd...)
	}
	if len(l.CapDrop) > 0 {
		u.words("Container", "DropCapability", l.CapDrop...)
	}
	for _, name := range slices.Sorted(maps.Keys(l.Sysctls)) {
		u.plain("Container", "Sysctl", name+"="+l.Sysctls[name])
	}
	for _, limit := range l.Ulimits {
		u.set("Container", "Ulimit", fmt.Sprintf("%s=%d:%d", limit.Name, limit.Soft, limit.Hard))
	}
	if l.ShmSize > 0 {
		u.set("Container", "ShmSize", fmt.Sprint(l.ShmSize))
	}
	argument(c.Privileged, "--privileged")
	argument(c.Interactive, "--interactive")
	argument(c.PseudoTerminal, "--tty")
	argument(w.Task.PIDMode == taskdef.PIDHost, "--pid=host")
	argument(w.Task.IPCMode == taskdef.IPCHost, "--ipc=host")
	argument(c.Memory > 0, fmt.Sprintf("--memory=%d", c.Memory))
	argument(c.MemoryReservation > 0, fmt.Sprintf("--memory-reservation=%d", c.MemoryReservation))
	argument(l.MaxSwap != nil && c.Memory > 0, fmt.Sprintf("--memory-swap=%d", c.Memory+deref(l.MaxSwap)))
	argument(c.CPU > 0, fmt.Sprintf("--cpu-shares=%d", c.CPU))
	argument(c.Extensions.CPULimit > 0, fmt.Sprintf("--cpus=%g", c.Extensions.CPULimit))
	argument(w.Task.Platform.Architecture != "", "--arch="+w.Task.Platform.Architecture)
}

func deref(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// quadletService writes how the service of a container is run.
func (w *writer) quadletService(u *unit, i int, c *taskdef.Container) {
	set := func(key, value string) { u.set("Service", key, value) }
	if w.ends(i) {
		set("Type", "oneshot")
		set("RemainAfterExit", "yes")
	}
	word := restart(c.Restart)
	if word != "" {
		set("Restart", word)
		codes := slices.DeleteFunc(slices.Clone(c.Restart.IgnoredExitCodes), func(code int) bool { return code == 0 })
		if len(codes) > 0 {
			set("RestartPreventExitStatus", strings.Trim(fmt.Sprint(codes), "[]"))
		}
		if c.Restart.BackOff > 0 {
			set("RestartSec", fmt.Sprint(whole(c.Restart.BackOff)))
		}
	}
	if c.StartTimeout > 0 {
		set("TimeoutStartSec", fmt.Sprint(whole(c.StartTimeout)))
	} else if len(w.waits(i)) > 0 || w.ends(i) {
		set("TimeoutStartSec", "infinity")
	}
}
