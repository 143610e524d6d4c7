package quadlet

import (
	"path"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
)

// declare notes what a .volume file says of its volume.
func (q *conversion) declare(f taskunit.File) {
	q.Name, q.Dir, q.systemd = path.Base(f.Path), path.Dir(f.Path), newExpansion(q.user, f)
	made := convert.DockerVolume{DriverOptions: map[string]string{}}
	var options []string
	for _, a := range effective(f.Assignments()) {
		if a.Section != "Volume" {
			continue
		}
		text := q.text(a)
		switch a.Key {
		case "VolumeName":
			q.volumes[q.Name] = text
		case "Device", "Type":
			made.DriverOptions[strings.ToLower(a.Key)] = text
		case "Options":
			options = append(options, text)
		case "User", "UID", "Group", "GID":
			option := map[byte]string{'U': "uid=", 'G': "gid="}[a.Key[0]]
			if _, err := strconv.ParseUint(text, 10, 32); err != nil {
				q.Lose(a.Line, "[Volume] %s=%s is not a number", a.Key, a.Value)
				continue
			}
			options = append(options, option+text)
		case "Label":
			label(&made, q.words(a))
		default:
			if a.Key != "Driver" || text != "local" { // which it is anyway
				q.Lose(a.Line, "[Volume] %s=%s: %s", a.Key, a.Value, quadletReason("Volume", a.Key))
			}
		}
	}
	if len(options) > 0 {
		made.DriverOptions["o"] = strings.Join(options, ",")
	}
	q.declared[q.Name] = made
}

// label adds labels of the form NAME=VALUE.
func label(v *convert.DockerVolume, words []string) {
	if v.Labels == nil {
		v.Labels = map[string]string{}
	}
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		v.Labels[name] = value
	}
}

// reserve keeps the names of the volumes in a file from paths of the host.
func (q *conversion) reserve(f taskunit.File) {
	for _, a := range f.Assignments() {
		text, _ := q.systemd.specified(a.Value)
		if source, _, mounted := strings.Cut(text, ":"); a.Key == "Volume" && mounted && !convert.HostPath(source) {
			q.Reserved = append(q.Reserved, q.named(source))
		}
	}
}

// named returns the name of a volume in Podman: the VolumeName= of its file, else the name that
// Quadlet gives it.
func (q *conversion) named(source string) string {
	base, file := strings.CutSuffix(source, ".volume")
	switch {
	case !file:
		return source
	case q.volumes[source] != "":
		return q.volumes[source]
	}
	return "systemd-" + base
}

func (q *conversion) volume(ctr *convert.Container, a taskunit.Assignment) {
	text := q.text(a)
	parts := strings.Split(text, ":")
	switch {
	case len(parts) == 1 && strings.HasPrefix(text, "/"):
		name := q.AddVolume(convert.Volume{Name: convert.VolumeName(ctr.Name + "-" + text)})
		ctr.MountPoints = append(ctr.MountPoints, convert.MountPoint{Volume: name, Path: text})
		return
	case len(parts) < 2 || strings.HasPrefix(parts[0], "%"):
		q.Lose(a.Line, "Volume=%s", a.Value)
		return
	}
	q.bind(ctr, a, parts[0], parts[1], strings.Split(strings.Join(parts[2:], ":"), ","))
}

// bind mounts a path of the host or a volume at a path of a container. The options are those of Volume=.
func (q *conversion) bind(ctr *convert.Container, a taskunit.Assignment, source, target string, options []string) {
	name := q.named(source)
	switch {
	case convert.HostPath(source):
		name = q.AddPath(source)
	case convert.Plain(name) != name:
		q.Lose(a.Line, a.Key+"=%s: the name %s is to have letters, digits, dashes and underscores only", a.Value, name)
		return
	default:
		made := q.declared[source]
		made.Scope, made.Autoprovision = "shared", true
		name = q.AddVolume(convert.Volume{Name: name, Docker: &made})
	}
	point := convert.MountPoint{Volume: name, Path: target}
	for _, option := range options {
		switch option {
		case "", "rw":
		case "ro":
			point.ReadOnly = true
		case "z", "Z":
			if convert.HostPath(source) { // Podman labels its own volumes
				q.Relabel(name, option)
			}
		case "U":
			q.Lose(a.Line, a.Key+"=%s: U: podtask does not change the owner of files: `podman unshare chown -R UID:GID` does so once", a.Value)
		default:
			q.Lose(a.Line, a.Key+"=%s: the option %s", a.Value, option)
		}
	}
	ctr.MountPoints = append(ctr.MountPoints, point)
}

// mount converts Mount=, the options of podman run --mount: KEY=VALUE with commas between them.
func (q *conversion) mount(ctr *convert.Container, a taskunit.Assignment) {
	m := mountWords{kind: "volume"}
	for word := range strings.SplitSeq(q.text(a), ",") {
		key, value, given := strings.Cut(word, "=")
		if other := m.take(key, value, given); other != "" {
			q.Lose(a.Line, "Mount=%s: the option %s", a.Value, other)
		}
	}
	switch {
	case m.target == "":
		q.Lose(a.Line, "Mount=%s: it has no destination", a.Value)
	case m.kind == "tmpfs" || m.kind == "ramfs":
		q.tmpfs(ctr, a, m.target+":"+strings.Join(m.options, ","))
	case m.kind != "bind" && m.kind != "volume":
		q.Lose(a.Line, "Mount=%s: a task mounts no %s: write its files to a directory, and mount that with Volume=", a.Value, m.kind)
	case m.source == "" && m.kind == "volume":
		name := q.AddVolume(convert.Volume{Name: convert.VolumeName(ctr.Name + "-" + m.target)})
		ctr.MountPoints = append(ctr.MountPoints, convert.MountPoint{Volume: name, Path: m.target})
	case m.source == "" || m.kind == "bind" && strings.HasPrefix(m.source, "%"):
		q.Lose(a.Line, "Mount=%s: it has no source", a.Value)
	default:
		if m.kind == "bind" && !convert.HostPath(m.source) {
			m.source = "./" + m.source
		}
		q.bind(ctr, a, m.source, m.target, m.options)
	}
}

// mountWords are the options of one Mount=.
type mountWords struct {
	kind, source, target string
	options              []string // in the words of Volume= or Tmpfs=
}

// take takes an option, and returns it if a task has no counterpart.
func (m *mountWords) take(key, value string, given bool) string {
	on := !given || isTrue(value)
	switch key {
	case "type":
		m.kind = value
	case "source", "src":
		m.source = value
	case "destination", "dst", "target":
		m.target = value
	case "ro", "readonly":
		if on {
			m.options = append(m.options, "ro")
		}
	case "rw":
		if !on {
			m.options = append(m.options, "ro")
		}
	case "U", "chown":
		if on {
			m.options = append(m.options, "U")
		}
	case "z", "Z":
		m.options = append(m.options, key)
	case "relabel":
		m.options = append(m.options, map[string]string{"shared": "z", "private": "Z"}[value])
	case "tmpfs-size", "size", "tmpfs-mode", "mode":
		m.options = append(m.options, strings.TrimPrefix(key, "tmpfs-")+"="+value)
	default:
		if !given && m.kind == "tmpfs" {
			m.options = append(m.options, key)
			return ""
		}
		return strings.TrimSuffix(key+"="+value, "=")
	}
	return ""
}

// tmpfs mounts a tmpfs that is written as PATH:OPTIONS.
func (q *conversion) tmpfs(ctr *convert.Container, a taskunit.Assignment, text string) {
	t, err := convert.ParseTmpfs(text)
	if err != nil {
		q.Lose(a.Line, "%s=%s: %s", a.Key, a.Value, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	ctr.AddLinux().Tmpfs = append(ctr.AddLinux().Tmpfs, t)
}

// onFailure converts HealthOnFailure=: a unit starts a task again that has failed, or, where nothing else would, podtask
// starts the container again.
func (q *conversion) onFailure(ctr *convert.Container, f taskunit.File, check *convert.HealthCheck) {
	restart, last := "no", taskunit.Assignment{}
	for _, a := range effective(f.Assignments()) {
		switch a.Section + "." + a.Key {
		case "Container.HealthOnFailure":
			last = a
		case "Service.Restart":
			restart = a.Value
		}
	}
	action := q.text(last)
	switch {
	case last.Key == "" || action == "none":
	case action != "kill" && action != "stop" && action != "restart":
		q.Lose(last.Line, "HealthOnFailure=%s: it is none, kill, stop or restart", last.Value)
	case len(check.Command) == 0:
		q.Lose(last.Line, "HealthOnFailure=%s: it needs HealthCmd= here: the check of the image has no action", last.Value)
	case len(q.Def.Containers) == 1 && (action != "restart" || restart != "no"):
		q.AddExtensions().StopWhenUnhealthy = true
	case action == "restart" || restart != "no":
		check.Extra = &convert.HealthExtra{Action: "restart"}
		ctr.Restart = &convert.RestartPolicy{Enabled: true}
		q.Lose(last.Line, "HealthOnFailure=%s: the container starts again also when its program ends: that is `restartPolicy` of the definition", last.Value)
	default:
		q.Lose(last.Line, "HealthOnFailure=%s: the other containers of the task go on, and this one too: write Restart=on-failure in [Service] to start it again", last.Value)
	}
}
