package quadlet

import (
	"path"
	"strings"

	"github.com/podtask/podtask/internal/unitfile/taskunit"
)

// Manager is what a user's systemd knows of the user and puts in the place of specifiers and of
// variables. What is empty is not known.
type Manager struct {
	User, UID, Group, GID, Home, Shell string
	// Runtime, Config, State and Cache are the user's directories.
	Runtime, Config, State, Cache string
}

// expansion replaces the specifiers and variables of one Quadlet file, which systemd replaces in the command
// line that Quadlet makes of it.
type expansion struct {
	specifiers map[byte]string
	variables  map[string]string
}

// newExpansion knows what the manager and the file itself say: its name, and the variables of its service.
func newExpansion(m Manager, f taskunit.File) expansion {
	stem := strings.TrimSuffix(path.Base(f.Path), path.Ext(f.Path))
	if path.Ext(f.Path) == ".pod" {
		stem += "-pod"
	}
	prefix, instance, _ := strings.Cut(stem, "@")
	last := prefix[strings.LastIndex(prefix, "-")+1:]
	e := expansion{
		specifiers: map[byte]string{
			'n': stem + ".service", 'N': stem, 'p': prefix, 'P': prefix, 'i': instance, 'I': instance, 'j': last, 'J': last,
			'u': m.User, 'U': m.UID, 'g': m.Group, 'G': m.GID, 'h': m.Home, 's': m.Shell,
			't': m.Runtime, 'E': m.Config, 'S': m.State, 'C': m.Cache, 'T': "/tmp", 'V': "/var/tmp", 'y': f.Path, 'Y': path.Dir(f.Path),
		},
		variables: map[string]string{
			"PODMAN_SYSTEMD_UNIT": stem + ".service", "HOME": m.Home, "USER": m.User, "LOGNAME": m.User, "SHELL": m.Shell, "XDG_RUNTIME_DIR": m.Runtime,
		},
	}
	for s, value := range e.specifiers {
		// The unescaped forms of names with dashes or backslashes differ.
		if value == "" && (s != 'i' && s != 'I' || strings.Contains(stem, "@")) || strings.ContainsRune("IPJ", rune(s)) && strings.ContainsAny(value, `-\`) {
			delete(e.specifiers, s)
		}
	}
	for name, value := range e.variables {
		if value == "" {
			delete(e.variables, name)
		}
	}
	for _, a := range f.Assignments() {
		if a.Section != "Service" || a.Key != "Environment" {
			continue
		}
		for _, w := range taskunit.Words(a.Value) {
			if name, value, ok := strings.Cut(w, "="); ok {
				e.variables[name], _ = e.specified(value)
			}
		}
	}
	return e
}

// systemdSpecifiers are all that systemd.unit(5) lists; another letter after % has no meaning.
const systemdSpecifiers = "aAbBCdDEfgGhHiIjJlLmMnNopPqsStTuUvVwWyY"

// specified replaces specifiers and returns those that it does not know.
func (e expansion) specified(text string) (out string, unknown []string) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		value, known := e.specifiers[text[i]]
		switch {
		case text[i] == '%':
			b.WriteByte('%')
		case known:
			b.WriteString(value)
		default:
			b.WriteString(text[i-1 : i+1])
			if strings.IndexByte(systemdSpecifiers, text[i]) >= 0 {
				unknown = append(unknown, text[i-1:i+1])
			}
		}
	}
	return b.String(), unknown
}

// braced replaces ${NAME} and $$ in a word, as systemd does in a command line: $NAME inside of a word is left
// to the program. It returns the names of variables that the service does not have; they are empty.
func (e expansion) braced(word string) (out string, unknown []string) {
	var b strings.Builder
	for word != "" {
		before, after, found := strings.Cut(word, "$")
		b.WriteString(before)
		if !found {
			break
		}
		word = after
		if strings.HasPrefix(word, "$") {
			b.WriteByte('$')
			word = word[1:]
			continue
		}
		name, rest, closed := strings.Cut(strings.TrimPrefix(word, "{"), "}")
		if !strings.HasPrefix(word, "{") || !closed || !isVariable(name) {
			b.WriteByte('$')
			continue
		}
		value, known := e.variables[name]
		if !known {
			unknown = append(unknown, "${"+name+"}")
		}
		b.WriteString(value)
		word = rest
	}
	return b.String(), unknown
}

// isVariable reports whether a text can be the name of a variable.
func isVariable(name string) bool {
	return name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == "" && (name[0] < '0' || name[0] > '9')
}

// expand returns what the words of an assignment are when Podman gets them, and lists what is not known here. A
// word that is one variable becomes the words of its value.
func (q *conversion) expand(a taskunit.Assignment, words ...string) []string {
	var out []string
	for _, w := range words {
		w, letters := q.systemd.specified(w)
		if len(letters) > 0 {
			q.Lose(a.Line, "%s=: a definition has nothing for the specifier %s, which stays as it is: write what it stands for", a.Key, strings.Join(letters, ", "))
		}
		var names []string
		if name := strings.TrimPrefix(w, "$"); len(name) == len(w)-1 && isVariable(name) {
			value, known := q.systemd.variables[name]
			if !known {
				names = []string{w}
			}
			out = append(out, strings.Fields(value)...)
		} else {
			w, names = q.systemd.braced(w)
			out = append(out, w)
		}
		if len(names) > 0 {
			q.LoseValue(a.Line, "%s=: %s is a variable of the service, and no Environment= of [Service] sets it: it is empty; write $$ for a dollar sign", a.Key, strings.Join(names, ", "))
		}
	}
	return out
}

// words splits a value as Quadlet does, and lists one that Quadlet does not take.
func (q *conversion) words(a taskunit.Assignment) []string {
	words := taskunit.Words(a.Value)
	if len(words) == 0 && a.Value != "" {
		q.Lose(a.Line, "%s=%s: it cannot be split into words: check quotes and backslashes", a.Key, a.Value)
	}
	return q.expand(a, words...)
}

// unquoted is a value without the quotes around it. One quote alone, and quotes that belong to words inside, are part of the value.
func unquoted(value string) string {
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return value
	}
	inner := value[1 : len(value)-1]
	if strings.Contains(strings.ReplaceAll(inner, `\"`, ""), `"`) || strings.HasSuffix(inner, `\`) {
		return value
	}
	return inner
}

// text is a value that is one word. Quadlet takes the quotes around it off.
func (q *conversion) text(a taskunit.Assignment) string {
	return strings.Join(q.expand(a, unquoted(a.Value)), " ")
}

// unitText is a value for the .task file, where systemd replaces specifiers too: those of the name are replaced
// here, because the service has another name.
func (q *conversion) unitText(value string) string {
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		known := ""
		if value[i] == '%' && i+1 < len(value) && strings.IndexByte("nNpPiIjJyY", value[i+1]) >= 0 {
			known = q.systemd.specifiers[value[i+1]]
		}
		switch {
		case known != "":
			b.WriteString(strings.ReplaceAll(known, "%", "%%"))
			i++
		case value[i] == '%' && i+1 < len(value):
			b.WriteString(value[i : i+2])
			i++
		default:
			b.WriteByte(value[i])
		}
	}
	return b.String()
}
