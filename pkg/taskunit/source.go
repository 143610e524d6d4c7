package taskunit

import (
	"path"
	"strings"

	"github.com/containers/podman/v5/pkg/systemd/parser"
)

// Source is a unit as its author wrote it: a file and the drop-ins that apply.
type Source struct {
	// Name is the file's name, "web.task", by which others refer to it. For a
	// symbolic link it is the link's: web@a.task may point to web@.task.
	Name string
	// File is the unit itself.
	File File
	// DropIns are merged in this order: see DropInDirs.
	DropIns []File
}

// entries returns all assignments to a section, drop-ins last.
func (s Source) entries(section string) []entry {
	var out []entry
	for _, f := range s.files() {
		for _, e := range f.entries {
			if e.section == section {
				out = append(out, e)
			}
		}
	}
	return out
}

func (s Source) files() []File { return append([]File{s.File}, s.DropIns...) }

// last returns the last assignment to a key. Ok is false for none and for an
// empty one, which takes back those before it.
func last(entries []entry, key string) (e entry, ok bool) {
	for _, have := range entries {
		if have.key == key {
			e, ok = have, have.value != ""
		}
	}
	return e, ok
}

// all returns the assignments to a key since the last empty one.
func all(entries []entry, key string) []entry {
	var out []entry
	for _, e := range entries {
		switch {
		case e.key != key:
		case e.value == "":
			out = nil
		default:
			out = append(out, e)
		}
	}
	return out
}

// words splits a value as systemd splits ExecStart: quotes are taken away and C
// escapes are resolved. Ok is false for a value that has none or is malformed.
func words(value string) (list []string, ok bool) {
	f := parser.NewUnitFile()
	f.Add("-", "-", value)
	list = f.LookupAllArgs("-", "-")
	return list, len(list) > 0
}

// DropInDirs returns the names of the directories with drop-ins for the unit of
// a file name, beside the unit in any of the unit directories, most specific
// first: "web-a.task.d", "web-.task.d", "task.d". Of drop-ins with one file name
// the first found counts; what remains is merged in the order of the file names
// (systemd.unit(5), and the same in Quadlet).
func DropInDirs(name string) []string {
	f := parser.NewUnitFile()
	f.Filename = name
	return f.GetUnitDropinPaths()
}

// Extension is what the names of our unit files end in.
const Extension = ".task"

// suffixes are what Podman's Quadlet (5.5; 5.7 for .artifact) and podtask append to the name of a
// unit of a kind to make the name of its service.
var suffixes = map[string]string{
	Extension:    "-task",
	".container": "", ".kube": "", ".pod": "-pod", ".volume": "-volume",
	".network": "-network", ".image": "-image", ".build": "-build", ".artifact": "-artifact",
}

// groups are the sections of Quadlet's units that may hold ServiceName.
var groups = map[string]string{
	Extension: taskSection, ".container": "Container", ".kube": "Kube", ".pod": "Pod",
	".volume": "Volume", ".network": "Network", ".image": "Image", ".build": "Build", ".artifact": "Artifact",
}

// IsUnit reports whether a file of this name makes a service, ours or Quadlet's.
func IsUnit(name string) bool {
	_, ok := suffixes[path.Ext(name)]
	return ok
}

// service returns the name of the unit's service without ".service".
func (s Source) service() string {
	ext := path.Ext(s.Name)
	base := strings.TrimSuffix(s.Name, ext)
	given, ok := last(s.entries(groups[ext]), "ServiceName")
	if ext != Extension {
		if ok {
			return given.value
		}
		return base + suffixes[ext]
	}
	name, instance, template := strings.Cut(base, "@")
	name += suffixes[ext]
	if ok {
		name = strings.TrimSuffix(given.value, "@")
	}
	if template {
		name += "@" + instance
	}
	return name
}

// ServiceName is the name of the unit's service.
func (s Source) ServiceName() string { return s.service() + ".service" }

// Definition is the path of the task definition, or FAMILY[:REVISION] of one that is
// registered. It is empty without one, and where it depends on a specifier, which
// systemd alone can resolve.
func (s Source) Definition() string {
	e, ok := last(s.entries(taskSection), "Definition")
	if !ok || strings.Contains(e.value, "%") {
		return ""
	}
	if registered(e.value) {
		return e.value
	}
	return absolute(e.path, e.value)
}

// Companions are the files that the unit and its drop-ins name relative to themselves:
// its definition and files of variables, by their paths from the unit's directory. One
// with a specifier in it is known to systemd alone.
func (s Source) Companions() []string {
	var out []string
	task := s.entries(taskSection)
	for _, e := range append(all(task, "Definition"), all(task, "EnvironmentFile")...) {
		if path.IsAbs(e.value) || e.key == "Definition" && registered(e.value) || strings.HasPrefix(e.value, "%") || strings.HasPrefix(e.value, "-") {
			continue
		}
		if dir := path.Dir(e.path); dir != path.Dir(s.File.Path) {
			out = append(out, path.Join(path.Base(dir), e.value))
		} else {
			out = append(out, path.Clean(e.value))
		}
	}
	return out
}

// Assignment is a line of a unit file as its reader sees it.
type Assignment struct {
	Section, Key, Value string
	Line                int
}

// Assignments are those of the file in their order.
func (f File) Assignments() []Assignment {
	out := make([]Assignment, len(f.entries))
	for i, e := range f.entries {
		out[i] = Assignment{e.section, e.key, e.value, e.line}
	}
	return out
}

// Words splits a value as systemd splits ExecStart; nil for one that is malformed.
func Words(value string) []string {
	list, _ := words(value)
	return list
}
