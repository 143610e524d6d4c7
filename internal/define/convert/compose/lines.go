package compose

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v3"

	"github.com/podtask/podtask/internal/define/members"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// lines has the line of each member of a YAML document.
type lines map[string]int

// maxPlaces limits the places of a document that get a line number, because aliases and merges multiply them.
const maxPlaces = 100_000

// numbered returns the lines of a document. An entry of a list is found by its
// index, and by its name if it is NAME, NAME=VALUE, NAME:VALUE or has a source.
func numbered(doc *yaml.Node) lines {
	l, left := lines{}, maxPlaces
	for _, n := range doc.Content {
		l.add("", n, &left)
	}
	return l
}

// add adds the lines below a place. Left is the number of nodes that are still looked at.
func (l lines) add(at string, n *yaml.Node, left *int) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if *left--; *left < 0 || strings.Count(at, "\x00") > 20 {
		return
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			if key.Value == "<<" {
				l.merge(at, value, left)
				continue
			}
			l[at+"\x00"+key.Value] = key.Line
			l.add(at+"\x00"+key.Value, value, left)
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			l[at+"\x00"+strconv.Itoa(i)] = item.Line
			if name := item.Value; item.Kind == yaml.ScalarNode {
				if end := strings.IndexAny(name, "=:"); end >= 0 {
					name = name[:end]
				}
				l[at+"\x00"+name] = item.Line
			} else if item.Kind == yaml.MappingNode {
				for j := 0; j+1 < len(item.Content); j += 2 {
					if item.Content[j].Value == "source" {
						l[at+"\x00"+item.Content[j+1].Value] = item.Line
					}
				}
			}
			l.add(at+"\x00"+strconv.Itoa(i), item, left)
		}
	}
}

// merge adds what a mapping takes over with "<<". What it has itself goes first.
func (l lines) merge(at string, value *yaml.Node, left *int) {
	other := lines{}
	if value.Kind == yaml.SequenceNode {
		for _, n := range value.Content {
			other.add(at, n, left)
		}
	} else {
		other.add(at, value, left)
	}
	for place, line := range other {
		if _, ok := l[place]; !ok {
			l[place] = line
		}
	}
}

// at returns the line of a member, or of the closest one above it that the document has.
// It is 0 if the document has none of them: they are in another file.
func (l lines) at(path ...string) int {
	for n := len(path); n > 0; n-- {
		if line := l[l.path(path[:n]...)]; line != 0 {
			return line
		}
	}
	return 0
}

func (lines) path(path ...string) string {
	if len(path) == 0 {
		return ""
	}
	return "\x00" + strings.Join(path, "\x00")
}

// copy gives what is below a path the same lines below another one.
func (l lines) copy(from, to string) {
	for at, line := range l {
		if rest, ok := strings.CutPrefix(at, from); ok && (rest == "" || rest[0] == 0) {
			l[to+rest] = line
		}
	}
}

// below is the line of a member of the member with a path.
func (l lines) below(path string, member string) int {
	return l.at(append(strings.Split(path, "\x00")[1:], member)...)
}

// entries are the texts of a list, in their order.
func (l lines) entries(path ...string) (names []string) {
	prefix := l.path(path...) + "\x00"
	for at := range l {
		name, ok := strings.CutPrefix(at, prefix)
		if _, err := strconv.Atoi(name); ok && err != nil && !strings.Contains(name, "\x00") {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(l[prefix+a], l[prefix+b]), cmp.Compare(a, b)) })
	return names
}

// inOrder sorts the members of a mapping by their lines, and those of other files by
// their names.
func (c *conversion) inOrder(names []string, path ...string) []string {
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(c.lines[c.lines.path(append(path, a)...)], c.lines[c.lines.path(append(path, b)...)]), cmp.Compare(a, b))
	})
	return names
}

// noMember is the error for a member that Compose does not have, by its path.
func (c *conversion) noMember(path string) error {
	place, name := "", path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		place, name = path[:i], path[i+1:]
	}
	at := reflect.TypeFor[types.Project]()
	for _, step := range strings.FieldsFunc(place, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		at = below(at, step)
	}
	names := slices.DeleteFunc(memberNames(at), func(have string) bool { return have == name }) // the library has members that no file may have
	if question := suggest.Question(name, names); question != "" {
		return fmt.Errorf("a Compose file has no member %s: %s", path, question)
	}
	return fmt.Errorf("a Compose file has no member %s", path)
}

// memberNames are the names of those of a type of Compose; nil for a map or a scalar.
func memberNames(t reflect.Type) (names []string) {
	t = pointed(t)
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case f.Anonymous && options == "inline":
			names = append(names, memberNames(f.Type)...)
		case f.IsExported() && tag != "" && tag != "-" && tag[0] != '#':
			names = append(names, tag)
		}
	}
	return names
}

// below is the type of a member, or of what a map or a list holds; nil if there is none.
func below(t reflect.Type, member string) reflect.Type {
	t = pointed(t)
	if t == nil {
		return nil
	}
	switch t.Kind() {
	case reflect.Map, reflect.Slice:
		return t.Elem()
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			tag, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if tag == member {
				return f.Type
			}
			if f.Anonymous && options == "inline" {
				if found := below(f.Type, member); found != nil {
					return found
				}
			}
		}
	}
	return nil
}

func pointed(t reflect.Type) reflect.Type {
	if t != nil && t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// left lists the members of a part of the file that are set and lost. In is the path of the part in composeMembers.
func (c *conversion) left(part any, path, in string) {
	v := reflect.ValueOf(part)
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if f.Anonymous && options == "inline" {
			c.left(v.Field(i).Interface(), path, in)
			continue
		}
		if !f.IsExported() || tag == "" || tag == "-" || tag[0] == '#' || unset(v.Field(i)) {
			continue
		}
		row, decided := composeRow(strings.TrimPrefix(in+"."+tag, "."))
		if decided && (row.Treatment != members.Lost || row.told) {
			continue
		}
		// The two levels at the top are named by their kinds.
		what := strings.TrimPrefix(strings.ReplaceAll(strings.TrimPrefix(path, "\x00"), "\x00", "."), "services.")
		text := strings.TrimPrefix(what+"."+tag, ".")
		if decided {
			text += ": " + members.Plain(row.Note)
			if row.Remedy != "" {
				text += ": " + members.Plain(row.Remedy)
			}
		} else {
			text += ": podtask does not know this member"
		}
		c.Lose(c.lines.below(path, tag), "%s", text)
	}
}

func unset(v reflect.Value) bool {
	if k := v.Kind(); k == reflect.Map || k == reflect.Slice {
		return v.Len() == 0
	}
	return v.IsZero()
}

// madeOf has the members of a service that give those of a container, where their names differ.
var madeOf = map[string]string{
	"dependsOn": "depends_on", "dockerLabels": "labels", "dockerSecurityOptions": "security_opt", "entryPoint": "entrypoint", "environmentFiles": "env_file",
	"extraHosts": "extra_hosts", "healthCheck": "healthcheck", "logConfiguration": "logging", "memory": "mem_limit", "mountPoints": "volumes", "portMappings": "ports",
	"restartPolicy": "restart", "stopTimeout": "stop_grace_period", "systemControls": "sysctls", "workingDirectory": "working_dir",
}

// inFile gives what is wrong with the definition the places of the services that it was made from.
func (c *conversion) inFile(err error) error {
	var invalid *taskdef.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	var errs []error
	for _, p := range invalid.Problems {
		steps := strings.Split(strings.TrimPrefix(p.Pointer, "/"), "/")
		p.File, p.Line, p.Column = "", 0, 0
		where := c.Name
		if i, err := strconv.Atoi(append(steps, "")[1]); err == nil && steps[0] == "containerDefinitions" && i < len(c.Def.Containers) {
			at := []string{"services", c.Def.Containers[i].Name}
			for n, step := range steps[2:] {
				if n == 0 {
					step = cmp.Or(madeOf[step], step)
				}
				at = append(at, step)
			}
			where = c.Place(c.lines.at(at...))
			p.Pointer = "/" + strings.Join(at, "/")
		}
		errs = append(errs, fmt.Errorf("%s: %s", where, p))
	}
	return errors.Join(append(errs, c.Emptied()...)...)
}
