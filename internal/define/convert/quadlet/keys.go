package quadlet

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"

	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// kernel converts a key of [Container] about processes and the kernel. It reports whether it knows it.
func (q *conversion) kernel(ctr *convert.Container, a taskunit.Assignment) bool {
	switch a.Key {
	case "RunInit":
		ctr.AddLinux().Init = isTrue(a.Value)
	case "AddCapability":
		ctr.AddCapabilities().Add = append(ctr.AddCapabilities().Add, capabilityNames(q.words(a))...)
	case "DropCapability":
		ctr.AddCapabilities().Drop = append(ctr.AddCapabilities().Drop, capabilityNames(q.words(a))...)
	case "Ulimit":
		q.ulimit(ctr, a)
	case "Mount":
		q.mount(ctr, a)
	case "Tmpfs":
		q.tmpfs(ctr, a, q.text(a))
	case "ShmSize":
		if n, err := units.RAMInBytes(a.Value); err == nil && n > 0 {
			ctr.AddLinux().SharedMemory = (n + units.MiB - 1) / units.MiB
		} else {
			q.Lose(a.Line, "ShmSize=%s is not a size", a.Value)
		}
	case "Sysctl":
		for _, w := range q.words(a) {
			name, value, _ := strings.Cut(w, "=")
			ctr.SystemControls = append(ctr.SystemControls, convert.SystemControl{Name: name, Value: value})
		}
	case "AddDevice":
		q.device(ctr, a)
	case "NoNewPrivileges":
		if isTrue(a.Value) {
			ctr.SecurityOptions = append(ctr.SecurityOptions, "no-new-privileges")
		}
	case "SecurityLabelDisable":
		if isTrue(a.Value) {
			ctr.SecurityOptions = append(ctr.SecurityOptions, "label:disable")
		}
	case "SecurityLabelType", "SecurityLabelLevel", "SecurityLabelFileType":
		kind := strings.ToLower(strings.TrimPrefix(a.Key, "SecurityLabel"))
		ctr.SecurityOptions = append(ctr.SecurityOptions, "label:"+kind+":"+q.text(a))
	case "PodmanArgs":
		q.arguments(ctr, a)
	default:
		return false
	}
	return true
}

// valued are the arguments that arguments converts, and whose value may be a word of its own.
var valued = []string{"--memory", "--memory-reservation", "--memory-swap", "--cpu-shares", "--cpus", "--pid", "--ipc"}

// arguments converts arguments of podman run for which a definition has a member. Others are lost one by one.
func (q *conversion) arguments(ctr *convert.Container, a taskunit.Assignment) {
	all := q.words(a)
	for i := 0; i < len(all); i++ {
		w := all[i]
		if slices.Contains(valued, w) && i+1 < len(all) {
			i++
			w += "=" + all[i]
		}
		name, value, _ := strings.Cut(w, "=")
		size, err := units.RAMInBytes(value)
		mib := (size + units.MiB - 1) / units.MiB
		number, notNumber := strconv.ParseFloat(value, 64)
		switch {
		case w == "--privileged":
			ctr.Privileged = true
		case name == "--exit-policy": // a task ends with its containers, whatever it is
		case w == "--interactive" || w == "-i":
			ctr.Interactive = true
		case w == "--tty" || w == "-t":
			ctr.Terminal = true
		case w == "--pid=host":
			q.Def.PIDMode = "host"
		case w == "--ipc=host":
			q.Def.IPCMode = "host"
		case name == "--memory" && err == nil:
			ctr.Memory = mib
		case name == "--memory-reservation" && err == nil:
			ctr.Reservation = mib
		case name == "--memory-swap" && err == nil && ctr.Memory > 0 && mib >= ctr.Memory:
			swap := mib - ctr.Memory
			ctr.AddLinux().MaxSwap = &swap
		case name == "--cpu-shares" && notNumber == nil:
			ctr.CPU = int64(number)
		case name == "--cpus" && notNumber == nil:
			ctr.AddExtensions().CPULimit = number
		default:
			q.Lose(a.Line, "PodmanArgs=%s: %s", w, quadletReason("Container", "PodmanArgs"))
		}
	}
}

// capabilityNames are those of Podman in the spelling of the ECS model.
func capabilityNames(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = strings.TrimPrefix(strings.ToUpper(w), "CAP_")
	}
	return out
}

// ulimit reads NAME=SOFT[:HARD].
func (q *conversion) ulimit(ctr *convert.Container, a taskunit.Assignment) {
	text := q.text(a)
	if text == "host" {
		q.Lose(a.Line, "Ulimit=host: write the limits that the container needs")
		return
	}
	u, err := units.ParseUlimit(strings.TrimPrefix(strings.ToLower(text), "rlimit_"))
	if err != nil {
		q.Lose(a.Line, "Ulimit=%s: %v", a.Value, err)
		return
	}
	ctr.Ulimits = slices.DeleteFunc(ctr.Ulimits, func(l convert.Ulimit) bool { return l.Name == u.Name })
	ctr.Ulimits = append(ctr.Ulimits, convert.Ulimit{Name: u.Name, Soft: u.Soft, Hard: u.Hard})
}

// device reads HOST[:CONTAINER][:PERMISSIONS].
func (q *conversion) device(ctr *convert.Container, a taskunit.Assignment) {
	for _, w := range q.words(a) {
		w, optional := strings.CutPrefix(w, "-")
		if optional {
			q.Lose(a.Line, "AddDevice=-%s: the task does not start without the device", w)
		}
		parts := strings.Split(w, ":")
		if len(parts) > 3 || !strings.HasPrefix(parts[0], "/") {
			q.Lose(a.Line, "AddDevice=%s: a definition names a file of the host", w)
			continue
		}
		d := convert.Device{HostPath: parts[0]}
		rest := parts[1:]
		if len(rest) > 0 && strings.HasPrefix(rest[0], "/") {
			if rest[0] != d.HostPath {
				d.ContainerPath = rest[0]
			}
			rest = rest[1:]
		}
		if len(rest) > 0 {
			d.Permissions = convert.Permissions(rest[0])
		}
		ctr.AddLinux().Devices = append(ctr.AddLinux().Devices, d)
	}
}

// reachable converts a key of [Container] or [Pod] about names and the network. It reports whether it knows it.
func (q *conversion) reachable(ctr *convert.Container, a taskunit.Assignment) bool {
	switch a.Key {
	case "AddHost":
		names, address, ok := strings.Cut(q.text(a), ":")
		if !ok {
			q.Lose(a.Line, "AddHost=%s: it has no address", a.Value)
			return true
		}
		for name := range strings.SplitSeq(names, ";") {
			q.ExtraHost(ctr, convert.Host{Name: name, Address: strings.Trim(address, "[]")}, a.Line, "AddHost="+name)
		}
	case "HostName":
		ctr.Hostname = q.text(a)
	case "DNS":
		ctr.DNSServers = append(ctr.DNSServers, q.text(a))
	case "DNSSearch":
		ctr.DNSSearch = append(ctr.DNSSearch, q.text(a))
	case "Network":
		q.network(a)
	default:
		return false
	}
	return true
}

// network converts the modes of networks that a definition has; a network by its name is that of the unit.
func (q *conversion) network(a taskunit.Assignment) {
	switch name := q.text(a); {
	case name == "host" || name == "none":
		q.Assign(&q.Unit.Task, a.Line, "Network", name)
	case strings.HasSuffix(name, ".container") || strings.ContainsAny(name, ":, /"):
		q.Lose(a.Line, "Network=%s: a task has a network of its own, host, none, or one that Podman or a .network file has", a.Value)
	default:
		q.Assign(&q.Unit.Task, a.Line, "Network", name)
	}
}

// managed converts a key of [Container] that a unit or the whole task has. It reports whether it knows it.
func (q *conversion) managed(ctr *convert.Container, a taskunit.Assignment) bool {
	switch a.Key {
	case "EnvironmentFile":
		for _, file := range taskunit.Words(a.Value) {
			if len(q.Def.Containers) == 1 {
				q.Assign(&q.Unit.Task, a.Line, a.Key, unitPath(q.Dir, q.unitText(file)))
				continue
			}
			// The first of ECS's files that has a variable decides, and the last of Podman's.
			ctr.EnvironmentFiles = slices.Insert(ctr.EnvironmentFiles, 0, convert.EnvFile{Type: "s3", Value: q.Absolute(q.expand(a, file)[0])})
		}
	case "Secret":
		for _, w := range taskunit.Words(a.Value) {
			if len(q.Def.Containers) == 1 {
				q.Assign(&q.Unit.Task, a.Line, a.Key, q.unitText(w))
				continue
			}
			q.secret(ctr, a, strings.Join(q.expand(a, w), " "))
		}
	case "Pull":
		q.Assign(&q.Unit.Task, a.Line, a.Key, q.text(a))
	case "AutoUpdate":
		if value := q.text(a); value != "registry" {
			q.Lose(a.Line, "AutoUpdate=%s: podtask updates images from registries only", a.Value)
			return true
		}
		q.Assign(&q.Unit.Task, a.Line, a.Key, "registry")
		if len(q.Def.Containers) > 1 {
			q.once(a, "AutoUpdate= updates the images of all containers")
		}
	case "LogDriver":
		driver := strings.Replace(q.text(a), "k8s-file", "json-file", 1)
		if !logdriver.Driver(driver).Local() {
			q.Lose(a.Line, "LogDriver=%s: podtask has no such log driver", a.Value)
			return true
		}
		log(ctr).Driver = driver
	case "LogOpt":
		name, value, _ := strings.Cut(q.text(a), "=")
		if name != "max-size" {
			q.Lose(a.Line, "LogOpt=%s: the only option is max-size", a.Value)
			return true
		}
		log(ctr).Options = map[string]string{name: value}
	case "PidsLimit":
		if len(q.Def.Containers) > 1 {
			q.Lose(a.Line, "PidsLimit=: TasksMax= of a unit counts the processes of all containers")
			return true
		}
		q.Assign(&q.Unit.Task, a.Line, "TasksMax", cmp.Or(strings.Replace(q.text(a), "-1", "infinity", 1), "infinity"))
	default:
		return false
	}
	return true
}

func log(ctr *convert.Container) *convert.LogConfiguration {
	if ctr.Logging == nil {
		ctr.Logging = &convert.LogConfiguration{Driver: string(logdriver.JSONFile)}
	}
	return ctr.Logging
}

// once lists something that several files say only for the first one.
func (q *conversion) once(a taskunit.Assignment, text string) {
	if !slices.ContainsFunc(q.Lost, func(l convert.Loss) bool { return strings.HasSuffix(l.Text, ": "+text) }) {
		q.Lose(a.Line, "%s", text)
	}
}

// secret converts NAME[,OPTION=VALUE...] as podman run reads it.
func (q *conversion) secret(ctr *convert.Container, a taskunit.Assignment, text string) {
	name, rest, _ := strings.Cut(strings.TrimPrefix(text, "source="), ",")
	options := map[string]string{"type": "mount"}
	for o := range strings.SplitSeq(rest, ",") {
		if key, value, ok := strings.Cut(o, "="); ok {
			options[key] = value
		}
	}
	target := cmp.Or(options["target"], name)
	if options["type"] == "env" {
		ctr.Secrets = append(ctr.Secrets, convert.Secret{Name: target, ValueFrom: "podman:" + name})
		return
	}
	f := convert.SecretFile{Path: path.Join("/run/secrets", target), ValueFrom: "podman:" + name, Mode: cmp.Or(options["mode"], "0444")}
	if path.IsAbs(target) {
		f.Path = target
	}
	for key, number := range map[string]*int{"uid": &f.UID, "gid": &f.GID} {
		n, err := strconv.Atoi(cmp.Or(options[key], "0"))
		if err != nil || n < 0 {
			q.Lose(a.Line, "Secret=%s: the %s is not a number", name, key)
			continue
		}
		*number = n
	}
	ctr.AddExtensions().SecretFiles = append(ctr.AddExtensions().SecretFiles, f)
}

// noCounterpart lists a key that neither a definition nor a unit has.
func (q *conversion) noCounterpart(a taskunit.Assignment) {
	section := ""
	if a.Section != "Container" {
		section = "[" + a.Section + "] "
	}
	if a.Key == "UserNS" && a.Value == "host" {
		return // it is Podman's default
	}
	if slices.Contains([]string{"EnvironmentHost", "HttpProxy", "SecurityLabelNested", "VolatileTmp"}, a.Key) && slices.Contains([]string{"0", "no", "false", "off"}, strings.ToLower(a.Value)) {
		return // as it is anyway
	}
	if reason := quadletReason(a.Section, a.Key); reason != "" {
		q.Lose(a.Line, "%s%s=: %s", section, a.Key, reason)
		return
	}
	q.Lose(a.Line, "%s%s=: Quadlet has no such key here", section, a.Key)
}

// otherSection lists a key of a section that is neither Podman's nor systemd's. Sections that begin with X- are notes.
func (q *conversion) otherSection(a taskunit.Assignment) {
	switch reason := quadletReason(a.Section, a.Key); {
	case strings.HasPrefix(a.Section, "X-"):
	case reason != "":
		q.Lose(a.Line, "[%s] %s=: %s", a.Section, a.Key, reason)
	default:
		q.Lose(a.Line, "[%s] %s=: Quadlet has no such section in this file", a.Section, a.Key)
	}
}
