package ecspresso

import (
	"cmp"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// Is reports whether a text is a configuration of ecspresso. Its templates may keep it from being YAML.
func Is(src []byte) bool {
	if len(src) > toolfile.MaxYAML {
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

// Members decides about the members of a configuration.
var Members = toolfile.NewTable(
	toolfile.Honors("service", "service_definition", "task_definition"),
	toolfile.Drops("codedeploy", "podtask replaces the copies itself", "--strategy blue-green, linear or canary shifts connections in steps"),
	toolfile.Drops("appspec", "podtask replaces the copies itself", ""),
	toolfile.MeansNothing("it says how ecspresso finds AWS and other tools", "region", "cluster", "timeout", "plugins", "filter_command", "required_version", "ignore"),
)

// Workloads reads the service and the task definition that a configuration names.
func Workloads(r *toolfile.Reader, docs []*doctree.Node) []*toolfile.Workload {
	root := docs[0]
	for _, member := range []string{"service", "task_definition", "service_definition"} {
		if n := root.Member(member); n != nil {
			settle(r, n)
		}
	}
	name := cmp.Or(toolfile.TextOf(root.Member("service")), r.Stem())
	return []*toolfile.Workload{{Names: []string{name}, Name: name, Build: func(res *toolfile.Result) *doctree.Node {
		task := root.Member("task_definition")
		var service *doctree.Node
		if file := root.Member("service_definition"); file != nil {
			service = rendered(r, file)
		}
		def := rendered(r, task)
		if def == nil {
			return toolfile.EmptyAt(task)
		}
		def = r.UnwrapDefinition(def)
		settle(r, def)
		toolfile.Teller{Reader: r, Table: Members, What: "the configuration"}.Tell(root)
		if service != nil {
			service = toolfile.UnwrapService(service)
			toolfile.Teller{Reader: r, Table: toolfile.MembersOfService, What: "the service"}.Tell(service)
			m := toolfile.OfNode(withPortsOnly(r, service))
			m.Eval = func(n *doctree.Node) *doctree.Node { return settle(r, n) }
			r.AddService(res, m, def)
		}
		return def
	}}}
}

// withPortsOnly leaves of the load balancers of a service what podtask has a use for.
func withPortsOnly(r *toolfile.Reader, service *doctree.Node) *doctree.Node {
	for i, f := range service.Fields {
		if f.Key == "loadBalancers" && f.Value.Kind == doctree.List {
			list := r.List(f.Value)
			for _, lb := range f.Value.Items {
				list.Items = append(list.Items, r.Object(lb, "containerName", lb.Member("containerName"), "containerPort", lb.Member("containerPort")))
			}
			service.Fields[i].Value = list
		}
	}
	return service
}

// maxPending is the number of values that a configuration may lack.
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
func mark(r *toolfile.Reader, key, what, fix string) string {
	r.Pending = append(r.Pending, toolfile.Pending{Key: key, What: what, Fix: fix})
	return markBegin + strconv.Itoa(len(r.Pending)-1) + markEnd
}

// settle asks for the values that a tree lacks, and returns the tree.
func settle(r *toolfile.Reader, n *doctree.Node) *doctree.Node {
	if n.Kind == doctree.Text {
		for _, i := range marksIn(n.Text) {
			if i < len(r.Pending) {
				r.AskFor(n, r.Pending[i].Key, r.Pending[i].What, r.Pending[i].Fix)
			}
		}
	}
	for _, item := range n.Items {
		settle(r, item)
	}
	for _, f := range n.Fields {
		settle(r, f.Value)
	}
	return n
}

// rendered reads a file of JSON with templates; nil after a problem.
func rendered(r *toolfile.Reader, file *doctree.Node) *doctree.Node {
	if file.Kind != doctree.Text {
		r.Wrong(file, "the name of a file is expected here", "")
		return nil
	}
	if ext := path.Ext(file.Text); ext == ".jsonnet" || ext == ".libsonnet" {
		r.Wrong(file, file.Text+" is Jsonnet, which import does not run", "write it as JSON with ecspresso render, and name that file here")
		return nil
	}
	p, src, ok := r.OpenFile(file, cmp.Or(r.Base, "ecspresso.yml"), file.Text)
	if !ok {
		return nil
	}
	before := len(r.Problems)
	text := Render(r, r.Shown(p), src, true)
	if len(r.Problems) > before {
		return nil
	}
	docs, ok := r.Parse(r.Shown(p), text)
	if !ok {
		return nil
	}
	if docs[0].Kind != doctree.Object {
		r.Wrong(docs[0], "an object is expected here, not "+docs[0].Kind.String(), "")
		return nil
	}
	return docs[0]
}

// Render fills in the templates of ecspresso: {{ env `NAME` `default` }} and {{ must_env `NAME` }}, each also in
// json_escape. Everything else is asked for where it is used: a mark stands for it, which becomes a text of its own where
// JSON has no text around it.
func Render(r *toolfile.Reader, file string, src []byte, inJSON bool) []byte {
	text := string(src)
	if len(text) > toolfile.MaxYAML {
		return src // the parser reports it
	}
	var b strings.Builder
	line, rest := 1, text
	inside, blocks := textState{}, conditions{}
	for {
		before, after, found := strings.Cut(rest, "{{")
		line += strings.Count(before, "\n")
		at := &doctree.Node{Line: line, Col: len(before) - strings.LastIndex(before, "\n")}
		r.Files[at] = file
		if !found {
			if len(blocks) > 0 {
				r.Wrong(at, "a template {{ if }} has no {{ end }}", "")
			}
			b.WriteString(before)
			return []byte(b.String())
		}
		action, tail, closed := cutAction(after)
		if !closed {
			r.Wrong(at, "a template {{ is not closed", "")
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
		if block(r, at, action, &blocks) || !blocks.active() {
			continue
		}
		value := evaluate(r, at, action)
		if r.TextBytes += len(value); r.TextBytes > toolfile.MaxText || len(r.Pending) > maxPending {
			r.Wrong(at, "the templates make too much text", "")
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
func block(r *toolfile.Reader, at *doctree.Node, action string, open *conditions) bool {
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
			value = evaluate(r, at, rest)
			settle(r, r.TextAt(at, value))
		}
		*open = append(*open, value != "")
		return true
	case action == "else" && last >= 0:
		(*open)[last] = !(*open)[last]
		return true
	case action == "end" && last >= 0:
		*open = (*open)[:last]
		return true
	case word == "else": // else if; also where its text does not count, because what follows might
		evaluate(r, at, action)
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

// cutAction returns what stands before the end of an action. What looks like the end may be in a text or a comment.
func cutAction(s string) (action, rest string, ok bool) {
	quote, begin := byte(0), 0
	if strings.HasPrefix(strings.TrimPrefix(s, "- "), "/*") {
		if begin = strings.Index(s, "*/"); begin < 0 {
			return "", "", false
		}
	}
	for i := begin; i < len(s); i++ {
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

// evaluate evaluates an action of a template.
func evaluate(r *toolfile.Reader, at *doctree.Node, action string) string {
	words, err := actionWords(action)
	if err != nil || len(words) == 0 {
		r.Wrong(at, "the template {{ "+action+" }} cannot be read", "")
		return ""
	}
	if words[0] == "json_escape" && len(words) == 2 && strings.HasPrefix(words[1], "(") {
		return escaped(evaluate(r, at, strings.TrimSuffix(words[1][1:], ")")))
	}
	if n := len(words); n > 2 && words[n-2] == "|" && words[n-1] == "json_escape" {
		return escaped(evaluate(r, at, action[:strings.LastIndexByte(action, '|')]))
	}
	args, name := words[1:], words[0]
	if slices.Contains(args, "|") {
		name = "" // a function of templates gets the value
	}
	switch name {
	case "must_env":
		if len(args) == 1 {
			if v, ok := r.Variable(args[0]); ok {
				return v
			}
			return mark(r, args[0], "the template needs the variable "+args[0], "set it, or give --param "+toolfile.ShellWord(args[0]+"=")+"VALUE")
		}
	case "env":
		for i, name := range args {
			if i == len(args)-1 && i > 0 {
				return name // the default
			}
			if v, ok := r.Variable(name); ok {
				return v
			}
		}
		if len(args) > 0 {
			return ""
		}
	case "if", "else", "end", "range", "with", "define", "template", "block", "break", "continue":
		r.Wrong(at, "the template {{ "+action+" }} is a statement, which import does not run", "import what ecspresso render prints")
		return ""
	}
	key := strings.Join(words, " ")
	if v, ok := r.Param(key); ok {
		return v
	}
	return mark(r, key, "the template function "+words[0]+" reads something from elsewhere", "give --param "+toolfile.ShellWord(key+"=")+"VALUE")
}

func escaped(s string) string {
	quoted, _ := json.Marshal(s) // a text has a JSON form always
	return string(quoted[1 : len(quoted)-1])
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
