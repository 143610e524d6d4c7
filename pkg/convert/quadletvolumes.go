package convert

import (
	"path"
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/taskunit"
)

// declare notes the name that a .volume file gives its volume.
func (q *quadlet) declare(f taskunit.File) {
	q.name, q.dir = path.Base(f.Path), path.Dir(f.Path)
	for _, a := range f.Assignments() {
		switch {
		case a.Section != "Volume":
		case a.Key == "VolumeName" && !strings.Contains(a.Value, "%"):
			q.volumes[q.name] = a.Value
		default:
			q.lose(a.Line, "[Volume] %s=%s", a.Key, a.Value)
		}
	}
}

// reserve keeps the names of the volumes in a file from paths of the host.
func (q *quadlet) reserve(f taskunit.File) {
	for _, a := range f.Assignments() {
		if source, _, mounted := strings.Cut(a.Value, ":"); a.Key == "Volume" && mounted && !hostPath(source) {
			q.reserved = append(q.reserved, q.named(source))
		}
	}
}

// named is what a volume is called in Podman: one of a file as the file says, else as
// Quadlet calls it.
func (q *quadlet) named(source string) string {
	base, file := strings.CutSuffix(source, ".volume")
	switch {
	case !file:
		return source
	case q.volumes[source] != "":
		return q.volumes[source]
	}
	return "systemd-" + base
}

func (q *quadlet) volume(ctr *container, a taskunit.Assignment) {
	parts := strings.Split(a.Value, ":")
	if len(parts) < 2 || strings.HasPrefix(parts[0], "%") {
		q.lose(a.Line, "Volume=%s", a.Value)
		return
	}
	name := q.named(parts[0])
	switch {
	case hostPath(parts[0]):
		name = q.addPath(parts[0])
	case plain(name) != name:
		q.lose(a.Line, "Volume=%s: the name %s is to have letters, digits, dashes and underscores only", a.Value, name)
		return
	default:
		name = q.addNamed(name, false)
	}
	readOnly := len(parts) > 2 && slices.Contains(strings.Split(parts[2], ","), "ro")
	ctr.MountPoints = append(ctr.MountPoints, mountPoint{name, parts[1], readOnly})
}
