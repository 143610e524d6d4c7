package export

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// compose writes a Compose file.
func (w *writer) compose() []File {
	var services, volumes, secrets, doc fields
	for i := range w.Task.Containers {
		c := &w.Task.Containers[i]
		services.put(c.Name, w.composeService(i, c, &secrets))
	}
	for _, v := range w.Task.Volumes {
		if name, isPath := w.volume(v); !isPath && v.Kind != taskdef.VolumeRemote {
			volumes.put(name, composeVolume(v, name))
		}
	}
	w.together("`docker compose up --abort-on-container-exit` stops all")
	doc.add("name", projectName(w.Name))
	doc.add("services", services)
	if name, joins := w.Task.Joined(); joins {
		doc.add("networks", fields{{"default", fields{{"name", name}, {"external", true}}}})
	}
	doc.add("volumes", volumes)
	doc.add("secrets", secrets)
	return []File{{Name: "compose.yaml", Documents: []any{literal(doc)}}}
}

// projectName is a name as Compose has those of projects.
func projectName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	return cmp.Or(strings.TrimLeft(name, "_-"), "task")
}

func composeVolume(v taskdef.Volume, name string) fields {
	var f fields
	if v.Kind == taskdef.VolumeTask {
		return f
	}
	f.put("name", name)
	f.add("external", !v.Autoprovision)
	f.add("driver", v.Driver)
	f.add("driver_opts", sorted(v.DriverOpts))
	f.add("labels", sorted(v.Labels))
	return f
}

// variable is a text with a variable of Compose, the only one that literal leaves as it is.
type variable string

// literal is a value in which Compose puts no variables.
func literal(value any) any {
	switch value := value.(type) {
	case string:
		return strings.ReplaceAll(value, "$", "$$")
	case []string:
		return each(value)
	case []any:
		return each(value)
	case fields:
		out := make(fields, len(value))
		for i, f := range value {
			out[i] = field{f.name, literal(f.value)}
		}
		return out
	}
	return value
}

func each[T any](list []T) []any {
	out := make([]any, 0, len(list))
	for _, one := range list {
		out = append(out, literal(one))
	}
	return out
}

func sorted(m map[string]string) (f fields) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		f.put(name, m[name])
	}
	return f
}

// composeService writes a container.
func (w *writer) composeService(i int, c *taskdef.Container, secrets *fields) fields {
	var f fields
	f.put("image", image(c.Image))
	f.add("platform", platform(w.Task.Platform))
	f.add("pull_policy", map[string]string{"always": "always", "prefer-cached": "missing", "never": "never"}[cmp.Or(c.Extensions.Kube.Pull, w.Task.Extensions.Pull)])
	switch {
	case len(c.EntryPoint) == 1 && c.EntryPoint[0] == "":
		f.put("entrypoint", []string{})
	default:
		f.add("entrypoint", c.EntryPoint)
	}
	if c.Extensions.EmptyCommand {
		f.put("command", []string{})
	}
	f.add("command", c.Command)
	f.add("environment", w.composeEnvironment(c))
	f.add("env_file", w.composeEnvFiles(c))
	f.add("user", c.User)
	f.add("group_add", texts(c.Extensions.Kube.Groups))
	f.add("working_dir", c.WorkingDirectory)
	w.composeNetwork(&f, i, c)
	f.add("depends_on", w.composeOrder(c))
	f.add("healthcheck", w.composeHealth(c))
	f.add("restart", w.composeRestart(c))
	f.add("volumes", w.composeMounts(i))
	f.add("tmpfs", composeTmpfs(c))
	f.add("secrets", w.composeSecrets(c, secrets))
	w.composeKernel(&f, c)
	f.add("labels", sorted(c.Labels))
	w.composeLog(&f, c)
	f.add("stop_signal", c.Extensions.Kube.StopSignal)
	f.add("stop_grace_period", fmt.Sprintf("%ds", whole(c.StopTimeout)))
	if w.Copies > 1 {
		f.add("deploy", fields{{"replicas", w.Copies}})
	}
	return f
}

func platform(p taskdef.Platform) string {
	if p.Architecture == "" {
		return ""
	}
	return "linux/" + p.Architecture
}

func texts(numbers []int64) (out []string) {
	for _, n := range numbers {
		out = append(out, fmt.Sprint(n))
	}
	return out
}

// composeVariable matches what the name of a variable of Compose cannot have.
var composeVariable = lazy.MustCompile(`^[0-9]|[^A-Za-z0-9_]`)

// composeEnvironment has the variables, and those of secrets, which come from the environment of Compose.
func (w *writer) composeEnvironment(c *taskdef.Container) (f fields) {
	for _, v := range c.Environment {
		f.put(v.Name, v.Value)
	}
	for _, s := range c.Secrets {
		name := w.unique("variable", composeVariable.ReplaceAllString(s.Name, "_"), "_", cmp.Or(s.Source, s.ValueFrom)+" "+s.JSONKey)
		f.put(s.Name, variable("${"+name+":?}"))
		w.lose(c, "secrets", "the value of "+s.Name+" is not written: Compose takes it from the environment or from .env", "write "+name+"=VALUE into .env, readable by you only")
	}
	return f
}

// composeEnvFiles has the files of variables. The first of a definition that has a variable decides, and the last one of Compose.
func (w *writer) composeEnvFiles(c *taskdef.Container) (files []string) {
	for _, f := range slices.Backward(c.EnvironmentFiles) {
		if f.Path != "" {
			files = append(files, f.Path)
		}
	}
	return files
}

// composeNetwork writes the network and the ports. Containers that share a network have that of the one that starts first.
func (w *writer) composeNetwork(f *fields, i int, c *taskdef.Container) {
	owner := -1
	if w.shared() {
		owner = w.first()
	}
	switch {
	case c.Net.Disabled || w.Task.Network == taskdef.NetworkNone:
		f.put("network_mode", "none")
	case w.Task.Network == taskdef.NetworkHost:
		f.put("network_mode", "host")
	case owner >= 0 && owner != i:
		f.put("network_mode", "service:"+w.Task.Containers[owner].Name)
	default:
		f.add("networks", w.composeAliases(i))
		if n := w.Task.Extensions.Network; n == taskdef.NetworkPasta || n == taskdef.NetworkSlirp4netns {
			w.lose(nil, "x-podtask.network", "the engine chooses the program that connects the containers", "write network_mode: "+n)
		}
	}
	if owner < 0 || owner == i {
		f.add("hostname", c.Net.Hostname)
	}
	if w.Task.Network == taskdef.NetworkHost || owner >= 0 && owner != i {
		return
	}
	of := []*taskdef.Container{c}
	if owner == i {
		of = nil
		for k := range w.Task.Containers {
			of = append(of, &w.Task.Containers[k])
		}
	}
	var ports, hosts, dns, search, options []string
	for _, one := range of {
		for _, p := range one.Ports {
			text := w.published(one, p)
			if p.AnyOf.Given() {
				text = strings.Replace(text, fmt.Sprint(p.ContainerPort), fmt.Sprintf("%s:%d", p.AnyOf, p.ContainerPort), 1)
			}
			ports = append(ports, text)
		}
		for _, h := range one.Net.ExtraHosts {
			hosts = appendNew(hosts, h.Name+"="+h.Address)
		}
		dns, search, options = appendNew(dns, one.Net.DNSServers...), appendNew(search, one.Net.DNSSearch...), appendNew(options, one.Net.DNSOptions...)
	}
	f.add("ports", ports)
	f.add("extra_hosts", hosts)
	f.add("dns", dns)
	f.add("dns_search", search)
	f.add("dns_opt", options)
}

func appendNew(list []string, more ...string) []string {
	for _, s := range more {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// shared reports whether several containers have one network namespace.
func (w *writer) shared() bool {
	return len(w.Task.Containers) > 1 && !w.Task.Bridged() && (w.Task.Network == taskdef.NetworkBridge || w.Task.Network == taskdef.NetworkAWSVPC)
}

// first is the first container that waits for none.
func (w *writer) first() int {
	return slices.IndexFunc(w.Task.Containers, func(c taskdef.Container) bool { return len(c.DependsOn) == 0 && !c.Net.Disabled })
}

// composeAliases has the names by which others link to a container.
func (w *writer) composeAliases(i int) (f fields) {
	var aliases []string
	for _, c := range w.Task.Containers {
		for _, l := range c.Net.Links {
			if l.Container == i && l.Alias != w.Task.Containers[i].Name {
				aliases = appendNew(aliases, l.Alias)
			}
		}
	}
	if len(aliases) > 0 {
		f.put("default", fields{{"aliases", aliases}})
	}
	return f
}

func (w *writer) composeOrder(c *taskdef.Container) (f fields) {
	for _, d := range c.DependsOn {
		on := w.Task.Containers[d.Container].Name
		word := map[taskdef.Condition]string{taskdef.Start: "service_started", taskdef.Healthy: "service_healthy", taskdef.Success: "service_completed_successfully", taskdef.Complete: "service_completed_successfully"}[d.Condition]
		if d.Condition == taskdef.Complete {
			w.lose(c, "dependsOn", "Compose waits until "+on+" has ended with exit code 0: another code ends the start", "let "+on+" end with 0")
		}
		f.put(on, fields{{"condition", word}})
	}
	return f
}

func (w *writer) composeHealth(c *taskdef.Container) (f fields) {
	h := c.HealthCheck
	if h == nil {
		return nil
	}
	f.put("test", h.Command)
	f.put("interval", fmt.Sprintf("%ds", whole(h.Interval)))
	f.put("timeout", fmt.Sprintf("%ds", whole(h.Timeout)))
	f.put("retries", h.Retries)
	if h.StartPeriod > 0 {
		f.put("start_period", fmt.Sprintf("%ds", whole(h.StartPeriod)))
	}
	return f
}

func (w *writer) composeRestart(c *taskdef.Container) string {
	word := restart(c.Restart)
	if word != "" {
		w.ignored(c)
	}
	if word == "always" && c.Restart.MaxCount > 0 {
		w.lose(c, "restartPolicy.x-podtask.maxCount", "the container is restarted any number of times", "write on-failure:N")
	}
	if word == "on-failure" && c.Restart.MaxCount > 0 {
		return fmt.Sprintf("%s:%d", word, c.Restart.MaxCount)
	}
	return word
}

func (w *writer) composeMounts(i int) (all []any) {
	for _, m := range w.Task.Mounts(i) {
		v, _ := w.Task.Volume(m.Volume)
		if v.Kind == taskdef.VolumeRemote {
			continue
		}
		var f fields
		source, isPath := w.volume(v)
		f.put("type", map[bool]string{true: "bind", false: "volume"}[isPath])
		f.put("source", source)
		f.put("target", m.Path)
		f.add("read_only", m.ReadOnly)
		if v.Relabel != "" {
			f.put("bind", fields{{"selinux", map[string]string{"shared": "z", "private": "Z"}[v.Relabel]}})
		}
		all = append(all, f)
	}
	return all
}

func composeTmpfs(c *taskdef.Container) (all []string) {
	for _, t := range c.Linux.Tmpfs {
		all = append(all, t.Path+":"+tmpfs(t))
	}
	return all
}

// composeSecrets has the secrets that are files, and declares them for the project.
func (w *writer) composeSecrets(c *taskdef.Container, declared *fields) (all []any) {
	for _, s := range c.Extensions.SecretFiles {
		from := cmp.Or(s.Source, s.ValueFrom)
		name, ok := stored(s.SecretValue)
		source := fields{{"external", true}, {"name", name}}
		if file, is := strings.CutPrefix(from, "file:"); is && s.JSONKey == "" {
			name, ok, source = base(file), true, fields{{"file", file}}
		}
		if !ok {
			w.lose(c, "x-podtask.secretFiles", "the file "+s.Path+" is not written: its value is neither a secret of Podman nor a file", "store it with `podman secret create`")
			continue
		}
		if name = w.unique("secret", projectName(name), "-", from); name == source[len(source)-1].value {
			source = source[:1]
		}
		if !slices.ContainsFunc(*declared, func(f field) bool { return f.name == name }) {
			declared.put(name, source)
		}
		var f fields
		f.put("source", name)
		f.put("target", s.Path)
		f.put("uid", fmt.Sprint(s.UID))
		f.put("gid", fmt.Sprint(s.GID))
		f.put("mode", int(s.Mode))
		all = append(all, f)
	}
	return all
}

// composeKernel writes what the kernel is asked for.
func (w *writer) composeKernel(f *fields, c *taskdef.Container) {
	l := c.Linux
	f.add("read_only", c.ReadonlyRootFS)
	f.add("init", c.Init)
	f.add("stdin_open", c.Interactive)
	f.add("tty", c.PseudoTerminal)
	f.add("privileged", c.Privileged)
	if w.Task.PIDMode == taskdef.PIDHost {
		f.put("pid", "host")
	}
	if w.Task.IPCMode == taskdef.IPCHost {
		f.put("ipc", "host")
	}
	f.add("cap_add", l.CapAdd)
	f.add("cap_drop", l.CapDrop)
	var options []string
	if c.Security.NoNewPrivileges {
		options = append(options, "no-new-privileges:true")
	}
	for _, label := range c.Security.Labels {
		options = append(options, "label:"+label)
	}
	f.add("security_opt", options)
	var devices []string
	for _, d := range l.Devices {
		devices = append(devices, strings.TrimSuffix(d.HostPath+":"+d.ContainerPath+":"+devicePermissions(d.Permissions), ":"))
	}
	f.add("devices", devices)
	if l.GPUs > 0 {
		f.put("gpus", []any{fields{{"count", l.GPUs}}})
	}
	f.add("shm_size", l.ShmSize)
	f.add("cpu_shares", c.CPU)
	if c.Extensions.CPULimit > 0 {
		f.put("cpus", c.Extensions.CPULimit)
	}
	f.add("mem_limit", c.Memory)
	f.add("mem_reservation", c.MemoryReservation)
	if l.MaxSwap != nil && c.Memory > 0 {
		f.put("memswap_limit", c.Memory+*l.MaxSwap)
	}
	f.add("sysctls", sorted(l.Sysctls))
	var limits fields
	for _, u := range l.Ulimits {
		limits.put(u.Name, fields{{"soft", u.Soft}, {"hard", u.Hard}})
	}
	f.add("ulimits", limits)
}

func (w *writer) composeLog(f *fields, c *taskdef.Container) {
	switch {
	case c.Log == nil:
		return
	case c.Log.Driver == logdriver.FireLens:
		w.lose(c, "logConfiguration", "the lines do not go to the log router", "write the driver fluentd, with the address of the router")
		return
	}
	log := fields{{"driver", string(c.Log.Driver)}}
	log.add("options", sorted(c.Log.Options))
	f.put("logging", log)
}
