package taskunit

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/containers/podman/v5/pkg/systemd/parser"

	"github.com/podtask/podtask/pkg/taskdef/unrendered"
)

// File is one parsed unit file or drop-in.
type File struct {
	// Path is the path of the file; relative paths in it are relative to its directory.
	Path     string
	entries  []entry
	sections []place // where each section header stands
	problems []Problem
}

// entry is one assignment. Value has no blanks around it; lines that a backslash
// joins are joined by a blank, as systemd does.
type entry struct {
	section, key, value string
	place
}

// place is a position in a file. Line counts from 1; 0 is the whole file.
type place struct {
	section string // of a header
	path    string
	line    int
}

// Problem is something wrong with a file.
type Problem struct {
	Path string
	// Line counts from 1; 0 means the file as a whole.
	Line    int
	Message string
	// Warning: the service is generated all the same.
	Warning bool
}

// String is the problem with its place, as compilers write it.
func (p Problem) String() string {
	kind := ""
	if p.Warning {
		kind = "warning: "
	}
	if p.Line == 0 {
		return p.Path + ": " + kind + p.Message
	}
	return fmt.Sprintf("%s:%d: %s%s", p.Path, p.Line, kind, p.Message)
}

// Bounds of a unit file, which has some tens of lines: a generator holds up the
// manager that called it.
const (
	maxText  = 1 << 20 // bytes
	maxLines = 5000
)

// Read parses the text of a unit file. Lines that are no assignment, section or
// comment are problems, which Generate reports; the rest of the file is read
// nevertheless. Of a file that is too long nothing is read but that.
func Read(path, text string) File {
	f := File{Path: path}
	if len(text) > maxText || strings.Count(text, "\n") > maxLines {
		f.wrong(0, "a unit has at most %d bytes and %d lines", maxText, maxLines)
		return f
	}
	section := ""
	for _, l := range logicalLines(text) {
		switch {
		case strings.ContainsFunc(l.text, isControl) || !utf8.ValidString(l.text):
			f.wrong(l.line, "%q has a control character or is not valid UTF-8", l.text)
		case l.text[0] == '[':
			name, ok := header(l.text)
			if !ok {
				f.wrong(l.line, "%q is not a section: write [Name]%s", l.text, templateTag(l.text))
				continue
			}
			section = name
			f.sections = append(f.sections, place{section: name, path: path, line: l.line})
		case section == "":
			f.wrong(l.line, "this line precedes the first section: begin with [Unit] or [Task]%s", templateTag(l.text))
		default:
			key, value, ok := strings.Cut(l.text, "=")
			key = strings.TrimRightFunc(key, unicode.IsSpace)
			if !ok || key == "" {
				f.wrong(l.line, "%q is not an assignment: write Key=value%s", l.text, templateTag(l.text))
				continue
			}
			if value = strings.TrimSpace(value); strings.HasSuffix(value, `\`) {
				f.wrong(l.line, "%q ends with a backslash, with which systemd would join the next line to it", l.text)
				continue
			}
			f.entries = append(f.entries, entry{section, key, value, place{path: path, line: l.line}})
		}
	}
	return f
}

// templateTag warns of a tag of a template in a line that cannot be read.
func templateTag(line string) string {
	if tag := unrendered.Tag(line); tag != "" {
		return fmt.Sprintf("; %q is a tag of a template that was not rendered: %s", tag, unrendered.Fix)
	}
	return ""
}

// Problems are the lines of the file that cannot be read.
func (f File) Problems() []Problem { return f.problems }

func (f *File) wrong(line int, format string, args ...any) {
	f.problems = append(f.problems, Problem{Path: f.Path, Line: line, Message: fmt.Sprintf(format, args...)})
}

// Empty reports whether the file says nothing at all, which masks the unit.
func (f File) Empty() bool { return len(f.entries)+len(f.sections)+len(f.problems) == 0 }

type logicalLine struct {
	line int
	text string // not empty
}

// logicalLines leaves out comments and joins continued lines. A comment inside a
// continued line is left out too.
func logicalLines(text string) []logicalLine {
	var out []logicalLine
	var joined []string
	first := 0
	flush := func() {
		if t := strings.TrimSpace(strings.Join(joined, " ")); t != "" {
			out = append(out, logicalLine{first, t})
		}
		joined = nil
	}
	for i, raw := range strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n") {
		line := strings.TrimSpace(raw)
		if line == "" && joined == nil || line != "" && (line[0] == '#' || line[0] == ';') {
			continue
		}
		if joined == nil {
			first = i + 1
		}
		head, more := strings.CutSuffix(line, `\`)
		joined = append(joined, strings.TrimSpace(head))
		if !more {
			flush()
		}
	}
	flush()
	return out
}

// header reads "[Name]".
func header(line string) (name string, ok bool) {
	name, ok = strings.CutSuffix(line[1:], "]")
	if !ok || name == "" || strings.ContainsFunc(name, func(r rune) bool { return r == '[' || r == ']' || unicode.IsControl(r) }) {
		return "", false
	}
	return name, true
}

// Errors counts the problems that are no warnings.
func Errors(problems []Problem) (n int) {
	for _, p := range problems {
		if !p.Warning {
			n++
		}
	}
	return n
}

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

// top is the place of the unit as a whole.
func (s Source) top() place { return place{path: s.File.Path} }

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
	return list, len(list) > 0 && !unclosed(value)
}

// unclosed reports whether a quotation has no end, which systemd refuses and Podman's parser
// ends with the value.
func unclosed(value string) bool {
	var quote rune
	escaped := false
	for _, r := range value {
		switch {
		case escaped:
			escaped = false
		case r == '\\':
			escaped = true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote = r
		}
	}
	return quote != 0
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

// Extension is the extension of our unit files.
const Extension = ".task"

// suffixes lists the suffixes that Podman's Quadlet (5.5; 5.7 for .artifact) and podtask append to the name of a unit of
// a kind to make the name of its service.
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
// registered, or of the unit itself if that holds the definition. It is empty without one,
// and where it depends on a specifier, which
// systemd alone can resolve.
func (s Source) Definition() string {
	e, ok := last(s.entries(taskSection), "Definition")
	if !ok {
		if text, inline := last(Source{File: s.File}.entries(taskSection), "DefinitionText"); inline {
			return text.path
		}
	}
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

// With returns the file with a drop-in behind it.
func (f File) With(dropIn File) File {
	f.entries = slices.Concat(f.entries, dropIn.entries)
	f.sections = slices.Concat(f.sections, dropIn.sections)
	f.problems = slices.Concat(f.problems, dropIn.problems)
	return f
}

// Assignment is a line of a unit file as its reader sees it.
type Assignment struct {
	Section, Key, Value string
	// Path is the file that the line is in, which may be a drop-in.
	Path string
	Line int
}

// Assignments returns the assignments of the file in their order.
func (f File) Assignments() []Assignment {
	out := make([]Assignment, len(f.entries))
	for i, e := range f.entries {
		out[i] = Assignment{e.section, e.key, e.value, e.path, e.line}
	}
	return out
}

// Words splits a value as systemd splits ExecStart; nil for one that is malformed.
func Words(value string) []string {
	list, _ := words(value)
	return list
}

// DefinitionText returns the definition that the text of a unit holds in DefinitionText=.
// Each of its lines has the number that it has in the unit, so problems are reported where
// they are; all else is blank. YAML may begin behind the key.
func DefinitionText(text string) (definition []byte, ok bool) {
	e, ok := last(Source{File: Read("", text)}.entries(taskSection), "DefinitionText")
	if !ok {
		return nil, false
	}
	lines := strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
	out := make([]string, e.line-1, len(lines))
	for i, line := range lines[e.line-1:] {
		trimmed := strings.TrimSpace(line)
		if i > 0 && trimmed != "" && (trimmed[0] == '#' || trimmed[0] == ';') {
			out = append(out, "")
			continue
		}
		if i == 0 {
			_, value, _ := strings.Cut(line, "=")
			line = strings.TrimLeft(value, " \t")
		}
		line, more := strings.CutSuffix(strings.TrimRight(line, " \t\r"), `\`)
		out = append(out, line)
		if !more {
			break
		}
	}
	return []byte(strings.Join(out, "\n") + "\n"), true
}
