package taskdef

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// vital are the members without which there is no task.
var vital = []string{"family", "containerDefinitions", inContainer + "name", inContainer + "image"}

// securityPath is the list whose items are members for Settings.Without, by their options.
const securityPath = inContainer + "dockerSecurityOptions"

// CheckWithout returns an error for a name that Settings.Without cannot have: one that names neither a member of a
// task definition nor a field of a Pod, or one without which there is no task.
func CheckWithout(name string) error {
	known, found := []string{}, false
	for _, path := range memberPaths() {
		plain := strings.ReplaceAll(path, "[]", "")
		if !strings.HasPrefix(path, securityPath+".") { // the options are not misspelled members
			known = append(known, plain[strings.LastIndexByte(plain, '.')+1:])
		}
		if !LeftOut([]string{name}, path) {
			continue
		}
		if slices.Contains(vital, path) {
			return fmt.Errorf("%s stands for %s, without which there is no task", quote(name), plain)
		}
		found = true
	}
	if field := name[strings.LastIndexByte(name, '.')+1:]; found || slices.Contains(podFields, field) {
		return nil
	}
	fix := suggest.Question(name, known)
	if fix != "" {
		fix = "; " + fix
	}
	return fmt.Errorf("a task definition has no member %s%s", quote(name), fix)
}

// memberPaths are the paths of everything that has a name for Settings.Without.
func memberPaths() []string {
	paths := []string{securityPath + ".apparmor", securityPath + ".credentialspec"}
	for _, table := range []memberTable{definitionTable, overrideTable} {
		paths = slices.AppendSeq(paths, maps.Keys(table.rows))
	}
	return paths
}

// LeftOut reports whether one of the names stands for a path of the table: a name is the end
// of a path, without the marks of lists.
func LeftOut(names []string, path string) bool {
	path = strings.ReplaceAll(path, "[]", "")
	return slices.ContainsFunc(names, func(name string) bool {
		name = strings.ReplaceAll(name, "[]", "")
		return name != "" && (path == name || strings.HasSuffix(path, "."+name))
	})
}

// leaveOut removes what Settings.Without names from the value at path, with a warning for each.
func (p *parser) leaveOut(c cursor, path string) {
	if len(p.settings.Without) == 0 {
		return
	}
	if c.node.Kind == doctree.List {
		if path == securityPath {
			p.leaveOutOptions(c)
		}
		for i := range c.node.Items {
			p.leaveOut(c.step(strconv.Itoa(i)), path+"[]")
		}
		return
	}
	kept := c.node.Fields[:0:0]
	for _, f := range c.node.Fields {
		below := strings.TrimPrefix(path+"."+f.Key, ".")
		ptr := c.ptr + "/" + doctree.Escape(f.Key)
		m, known := p.table.rows[below]
		if known && !f.Value.Empty() && LeftOut(p.settings.Without, below) {
			p.warnings = append(p.warnings, p.problem(ptr, f.Line, f.Col, f.Key+" is left out, as requested"+lossOf(m), ""))
			continue
		}
		kept = append(kept, f)
		if known {
			p.leaveOut(cursor{p, f.Value, ptr}, below)
		}
	}
	c.node.Fields = kept
}

// lossOf describes the loss of a task without a member.
func lossOf(m member) string {
	if m.answer == refused || m.answer == warned {
		return ": " + plain(m.note)
	}
	return ""
}

// leaveOutOptions removes security options.
func (p *parser) leaveOutOptions(c cursor) {
	kept := c.node.Items[:0:0]
	for i, item := range c.node.Items {
		name, _, _ := strings.Cut(strings.Replace(item.Text, "=", ":", 1), ":")
		if item.Kind == doctree.Text && LeftOut(p.settings.Without, securityPath+"."+name) {
			p.warnings = append(p.warnings, p.problem(c.ptr+"/"+strconv.Itoa(i), item.Line, item.Col, quote(item.Text)+" is left out, as requested", ""))
			continue
		}
		kept = append(kept, item)
	}
	c.node.Items = kept
}
