package taskunit

import (
	"fmt"
	"strings"
	"unicode"
)

// File is one parsed unit file or drop-in.
type File struct {
	// Path is where it lies; relative paths in it are relative to its directory.
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

// place is where something is written. Line counts from 1; 0 is the whole file.
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
		case l.text[0] == '[':
			name, ok := header(l.text)
			if !ok {
				f.wrong(l.line, "%q is no section: write [Name]", l.text)
				continue
			}
			section = name
			f.sections = append(f.sections, place{section: name, path: path, line: l.line})
		case section == "":
			f.wrong(l.line, "this stands before the first section: begin with [Unit] or [Task]")
		default:
			key, value, ok := strings.Cut(l.text, "=")
			key = strings.TrimRightFunc(key, unicode.IsSpace)
			if !ok || key == "" {
				f.wrong(l.line, "%q is no assignment: write Key=value", l.text)
				continue
			}
			f.entries = append(f.entries, entry{section, key, strings.TrimSpace(value), place{path: path, line: l.line}})
		}
	}
	return f
}

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
