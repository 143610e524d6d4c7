package foreign

import (
	"cmp"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// isEcspresso reports whether a text is a configuration of ecspresso. Its templates may keep it from being YAML.
func isEcspresso(src []byte) bool {
	if len(src) > maxYAML {
		return false
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(src)) {
		key, value, ok := strings.Cut(line, ":")
		if ok && value != "" && (value[0] == ' ' || value[0] == '\t') {
			found[strings.Trim(key, `"`)] = true
		}
	}
	return found["task_definition"] && (found["region"] || found["cluster"] || found["service"] || found["service_definition"])
}

// membersOfEcspresso decides about the members of a configuration.
var membersOfEcspresso = newTable(
	honored("service", "service_definition", "task_definition"),
	dropped("codedeploy", "podtask replaces the copies itself", "--strategy blue-green, linear or canary shifts connections in steps"),
	dropped("appspec", "podtask replaces the copies itself", ""),
	noMeaning("it says how ecspresso finds AWS and other tools", "region", "cluster", "timeout", "plugins", "filter_command", "required_version", "ignore"),
)

// ecspresso reads the service and the task definition that a configuration names.
func (r *reader) ecspresso(docs []*doctree.Node) []*workload {
	root := docs[0]
	for _, member := range []string{"service", "task_definition", "service_definition"} {
		if n := root.Member(member); n != nil {
			r.settle(n)
		}
	}
	name := cmp.Or(textOf(root.Member("service")), r.stem())
	return []*workload{{names: []string{name}, name: name, build: func(res *Result) *doctree.Node {
		task := root.Member("task_definition")
		var service *doctree.Node
		if file := root.Member("service_definition"); file != nil {
			service = r.rendered(file)
		}
		def := r.rendered(task)
		if def == nil {
			return emptyAt(task)
		}
		def = r.unwrapDefinition(def)
		r.settle(def)
		teller{reader: r, table: membersOfEcspresso, what: "the configuration"}.tell(root)
		if service != nil {
			service = unwrapService(service)
			teller{reader: r, table: membersOfService, what: "the service"}.tell(service)
			m := ofNode(withPortsOnly(r, service))
			m.eval = r.settle
			r.service(res, m, def)
		}
		return def
	}}}
}

// withPortsOnly leaves of the load balancers of a service what podtask has a use for.
func withPortsOnly(r *reader, service *doctree.Node) *doctree.Node {
	for i, f := range service.Fields {
		if f.Key == "loadBalancers" && f.Value.Kind == doctree.List {
			list := r.list(f.Value)
			for _, lb := range f.Value.Items {
				list.Items = append(list.Items, r.object(lb, "containerName", lb.Member("containerName"), "containerPort", lb.Member("containerPort")))
			}
			service.Fields[i].Value = list
		}
	}
	return service
}

// pending is a value that a template does not have. It is asked for only if what it stands in is used: files of
// ecspresso have many values of other tools in what podtask has no use for.
type pending struct{ key, what, fix string }

// maxPending is how many values a configuration may lack.
const maxPending = 10_000

// The marks of pending values are their numbers between two characters for private use.
const markBegin, markEnd = "\ue000", "\ue001"

// marksIn returns the numbers of the pending values in a text.
func marksIn(text string) (all []int) {
	for {
		_, rest, found := strings.Cut(text, markBegin)
		number, after, closed := strings.Cut(rest, markEnd)
		if !found || !closed {
			return all
		}
		if i, err := strconv.Atoi(number); err == nil && i >= 0 {
			all = append(all, i)
		}
		text = after
	}
}

// mark returns what stands for a value that the template does not have.
func (r *reader) mark(key, what, fix string) string {
	r.pending = append(r.pending, pending{key, what, fix})
	return markBegin + strconv.Itoa(len(r.pending)-1) + markEnd
}

// settle asks for the values that a tree lacks, and returns the tree.
func (r *reader) settle(n *doctree.Node) *doctree.Node {
	if n.Kind == doctree.Text {
		for _, i := range marksIn(n.Text) {
			if i < len(r.pending) {
				r.askFor(n, r.pending[i].key, r.pending[i].what, r.pending[i].fix)
			}
		}
	}
	for _, item := range n.Items {
		r.settle(item)
	}
	for _, f := range n.Fields {
		r.settle(f.Value)
	}
	return n
}

// rendered reads a file of JSON with templates; nil after a problem.
func (r *reader) rendered(file *doctree.Node) *doctree.Node {
	if file.Kind != doctree.Text {
		r.wrong(file, "the name of a file is expected here", "")
		return nil
	}
	if ext := path.Ext(file.Text); ext == ".jsonnet" || ext == ".libsonnet" {
		r.wrong(file, file.Text+" is Jsonnet, which import does not run", "write it as JSON with ecspresso render, and name that file here")
		return nil
	}
	p, src, ok := r.open(file, cmp.Or(r.Base, "ecspresso.yml"), file.Text)
	if !ok {
		return nil
	}
	before := len(r.problems)
	text := r.render(r.shown(p), src, true)
	if len(r.problems) > before {
		return nil
	}
	docs, ok := r.parse(r.shown(p), text)
	if !ok {
		return nil
	}
	if docs[0].Kind != doctree.Object {
		r.wrong(docs[0], "an object is expected here, not "+docs[0].Kind.String(), "")
		return nil
	}
	return docs[0]
}

// render fills in the templates of ecspresso: {{ env `NAME` `default` }} and {{ must_env `NAME` }}, each also in
// json_escape. Everything else is asked for where it is used: a mark stands for it, which becomes a text of its own where
// JSON has no text around it.
func (r *reader) render(file string, src []byte, inJSON bool) []byte {
	text := string(src)
	if len(text) > maxYAML {
		return src // the parser reports it
	}
	var b strings.Builder
	line, rest := 1, text
	inside, blocks := textState{}, conditions{}
	for {
		before, after, found := strings.Cut(rest, "{{")
		line += strings.Count(before, "\n")
		at := &doctree.Node{Line: line, Col: len(before) - strings.LastIndex(before, "\n")}
		r.files[at] = file
		if !found {
			if len(blocks) > 0 {
				r.wrong(at, "a template {{ if }} has no {{ end }}", "")
			}
			b.WriteString(before)
			return []byte(b.String())
		}
		action, tail, closed := cutAction(after)
		if !closed {
			r.wrong(at, "a template {{ is not closed", "")
			return nil
		}
		line += strings.Count(action, "\n")
		if strings.HasPrefix(action, "- ") {
			before, action = strings.TrimRight(before, " \t\r\n"), action[2:]
		}
		if blocks.active() {
			b.WriteString(before)
		}
		if strings.HasSuffix(action, " -") {
			action = strings.TrimSuffix(action, " -")
			trimmed := strings.TrimLeft(tail, " \t\r\n")
			line += strings.Count(tail[:len(tail)-len(trimmed)], "\n")
			tail = trimmed
		}
		rest = tail
		if action = strings.TrimSpace(action); strings.HasPrefix(action, "/*") {
			continue
		}
		if r.block(at, action, &blocks) || !blocks.active() {
			continue
		}
		value := r.action(at, action)
		if r.text += len(value); r.text > maxText || len(r.pending) > maxPending {
			r.wrong(at, "the templates make too much text", "")
			return nil
		}
		if inJSON && len(marksIn(value)) > 0 && !inside.after(b.String()) {
			value = `"` + value + `"`
		}
		b.WriteString(value)
	}
}

// conditions are the {{ if }} that are open, and whether the text in each counts.
type conditions []bool

func (c conditions) active() bool { return !slices.Contains(c, false) }

// block handles if, else and end, and reports whether an action is one of them. What is tested is true if it is not
// empty.
func (r *reader) block(at *doctree.Node, action string, open *conditions) bool {
	word, rest, _ := strings.Cut(action, " ")
	last := len(*open) - 1
	switch {
	case word == "if" && strings.TrimSpace(rest) != "":
		value := ""
		if open.active() {
			rest = strings.TrimSpace(rest)
			if strings.HasPrefix(rest, "(") && strings.HasSuffix(rest, ")") {
				rest = rest[1 : len(rest)-1]
			}
			value = r.action(at, rest)
			r.settle(r.textAt(at, value))
		}
		*open = append(*open, value != "")
		return true
	case action == "else" && last >= 0:
		(*open)[last] = !(*open)[last]
		return true
	case action == "end" && last >= 0:
		*open = (*open)[:last]
		return true
	}
	return false
}

// textState tells whether JSON that grows ends within a text.
type textState struct {
	read   int // bytes
	inside bool
}

// after returns the state after a text that begins with the one of the last call.
func (t *textState) after(s string) bool {
	for ; t.read < len(s); t.read++ {
		switch {
		case s[t.read] == '"':
			t.inside = !t.inside
		case s[t.read] == '\\' && t.inside:
			t.read++
		}
	}
	return t.inside
}

// cutAction returns what stands before the end of an action, which may be in a text.
func cutAction(s string) (action, rest string, ok bool) {
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == '\\' && quote == '"' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '"' || c == '`':
			quote = c
		case c == '}' && strings.HasPrefix(s[i:], "}}"):
			return s[:i], s[i+2:], true
		}
	}
	return "", "", false
}

// action evaluates an action of a template.
func (r *reader) action(at *doctree.Node, action string) string {
	words, err := actionWords(action)
	if err != nil || len(words) == 0 {
		r.wrong(at, "the template {{ "+action+" }} cannot be read", "")
		return ""
	}
	if words[0] == "json_escape" && len(words) == 2 && strings.HasPrefix(words[1], "(") {
		return escaped(r.action(at, strings.TrimSuffix(words[1][1:], ")")))
	}
	if n := len(words); n > 2 && words[n-2] == "|" && words[n-1] == "json_escape" {
		before, _, _ := strings.Cut(action, "|")
		return escaped(r.action(at, before))
	}
	args := words[1:]
	switch words[0] {
	case "must_env":
		if len(args) == 1 {
			if v, ok := r.variable(args[0]); ok {
				return v
			}
			return r.mark(args[0], "the template needs the variable "+args[0], "set it, or give --param "+shellWord(args[0]+"=")+"VALUE")
		}
	case "env":
		for i, name := range args {
			if i == len(args)-1 && i > 0 {
				return name // the default
			}
			if v, ok := r.variable(name); ok {
				return v
			}
		}
		if len(args) > 0 {
			return ""
		}
	case "if", "else", "end", "range", "with", "define", "template", "block", "break", "continue":
		r.wrong(at, "the template {{ "+action+" }} is a statement, which import does not run", "import what ecspresso render prints")
		return ""
	}
	key := strings.Join(words, " ")
	if v, ok := r.param(key); ok {
		return v
	}
	return r.mark(key, "the template function "+words[0]+" reads something from elsewhere", "give --param "+shellWord(key+"=")+"VALUE")
}

func escaped(s string) string {
	quoted, _ := json.Marshal(s) // a text has a JSON form always
	return string(quoted[1 : len(quoted)-1])
}

// variable returns a variable: a parameter, or one of the environment that is not empty.
func (r *reader) variable(name string) (string, bool) {
	if v, ok := r.param(name); ok {
		return v, true
	}
	if r.Getenv == nil {
		return "", false
	}
	v := r.Getenv(name)
	return v, v != ""
}

// actionWords splits an action into words. Texts lose their quotes; what stands in parentheses is one word with them.
func actionWords(s string) (words []string, err error) {
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		end := strings.IndexAny(s, " \t\r\n")
		switch s[0] {
		case '`':
			end = strings.IndexByte(s[1:], '`') + 2
			if end < 2 {
				return nil, errors.New("a text is not closed")
			}
			words, s = append(words, s[1:end-1]), s[end:]
			continue
		case '"':
			quoted, err := strconv.QuotedPrefix(s)
			if err != nil {
				return nil, err
			}
			text, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, err
			}
			words, s = append(words, text), s[len(quoted):]
			continue
		case '(':
			if end = strings.LastIndexByte(s, ')') + 1; end < 1 {
				return nil, errors.New("a parenthesis is not closed")
			}
		}
		if end < 0 {
			end = len(s)
		}
		words, s = append(words, s[:end]), s[end:]
	}
	return words, nil
}
