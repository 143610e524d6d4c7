package pod

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/refs"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// variable is one of the environment: a value, where a secret one comes from, or the parts of a value
// of which some are secret.
type variable struct {
	name, value string
	secret      *taskdef.SecretValue
	parts       []taskdef.SecretPart
}

// hidden reports whether the value is a secret, or has one in it.
func (v variable) hidden() bool { return v.secret != nil || len(v.parts) > 0 }

// environment gathers the variables of one container.
type environment struct {
	b    *reader
	i    int // of the container
	vars []variable
	own  map[string]variable // those of env, which $(VAR) in a value may name
}

func (b *reader) environment(i int) {
	e := &environment{b: b, i: i, own: make(map[string]variable)}
	for _, from := range b.containers[i].at("envFrom").items() {
		e.from(from)
	}
	for _, v := range b.containers[i].at("env").items() {
		e.add(v)
	}
	c := &b.result.Task.Containers[i]
	for _, v := range e.vars {
		switch {
		case v.secret != nil:
			c.Secrets = append(c.Secrets, taskdef.Secret{Name: v.name, SecretValue: *v.secret})
			continue
		case len(v.parts) > 0:
			c.Secrets = append(c.Secrets, taskdef.Secret{Name: v.name, Parts: v.parts})
			continue
		}
		c.Environment = append(c.Environment, taskdef.EnvVar{Name: v.name, Value: v.value})
	}
	c.EntryPoint = e.arguments(b.containers[i].at("command"))
	c.Command = e.arguments(b.containers[i].at("args"))
}

func (e *environment) set(v variable) {
	for i := range e.vars {
		if e.vars[i].name == v.name {
			e.vars[i] = v
			return
		}
	}
	e.vars = append(e.vars, v)
}

// nameProblem says what is wrong with the name of a variable; empty for nothing.
func nameProblem(name string) string {
	switch {
	case name == "":
		return "the variable has no name"
	case strings.ContainsAny(name, "=\x00"):
		return `the name of a variable holds "=" or a NUL character`
	}
	return ""
}

// add takes over one entry of env.
func (e *environment) add(v value) {
	name, from := v.at("name"), v.at("valueFrom")
	if wrong := nameProblem(name.str()); wrong != "" {
		v.wrong(wrong, "")
		return
	}
	out := variable{name: name.str()}
	if !from.filled() {
		if out, ok := e.compose(v.at("value"), out.name); ok {
			e.own[out.name] = out
			e.set(out)
		}
		return
	}
	if v.at("value").filled() {
		v.wrong("the variable has both value and valueFrom", "remove one of the two")
		return
	}
	if out, ok := e.valueFrom(from, out); ok {
		e.own[out.name] = out
		e.set(out)
	}
}

// valueFrom finds the value of a variable; false where it has none.
func (e *environment) valueFrom(from value, out variable) (variable, bool) {
	if len(from.entries()) > 1 {
		from.wrong("valueFrom names more than one source", "keep one of them")
		return out, false
	}
	var ok bool
	switch {
	case from.at("fieldRef").present():
		out.value, ok = e.b.fieldRef(from.at("fieldRef"))
	case from.at("resourceFieldRef").present():
		out.value, ok = e.b.resourceFieldRef(from.at("resourceFieldRef"), e.i)
	case from.at("configMapKeyRef").present():
		ref := from.at("configMapKeyRef")
		var data []byte
		if data, ok = (e.b).configKey(ref, ref.at("name").str(), ref.at("key").str()); ok {
			out.value = string(data)
		}
	case from.at("secretKeyRef").present():
		ref := from.at("secretKeyRef")
		return e.b.secretVariable(ref, ref.at("name").str(), ref.at("key").str(), out.name)
	}
	return out, ok
}

// from takes over one entry of envFrom.
func (e *environment) from(v value) {
	prefix := v.at("prefix").str()
	if ref := v.at("configMapRef"); ref.present() {
		doc, ok := e.b.document(ref, "ConfigMap", ref.at("name").str())
		if !ok {
			return
		}
		for _, f := range doc.at("data").entries() {
			if e.usable(ref, prefix+f.Key) {
				e.set(variable{name: prefix + f.Key, value: f.Value.Text})
			}
		}
	}
	if ref := v.at("secretRef"); ref.present() {
		name := ref.at("name").str()
		doc, ok := e.b.document(ref, "Secret", name)
		if !ok {
			return
		}
		for _, key := range slices.Sorted(maps.Keys(secretData(doc))) {
			if !e.usable(ref, prefix+key) {
				continue
			}
			if out, ok := (e.b).secretVariable(ref, name, key, prefix+key); ok {
				e.set(out)
			}
		}
	}
}

func (e *environment) usable(v value, name string) bool {
	wrong := nameProblem(name)
	if wrong != "" {
		v.warn("a key is left out: "+wrong, "")
	}
	return wrong == ""
}

func (e *environment) lookupOwn(name string) (variable, bool) {
	v, ok := e.own[name]
	return v, ok
}

func (e *environment) lookupAll(name string) (variable, bool) {
	i := slices.IndexFunc(e.vars, func(v variable) bool { return v.name == name })
	if i < 0 {
		return variable{}, false
	}
	return e.vars[i], true
}

// arguments expands the words of a command line.
func (e *environment) arguments(v value) []string {
	var out []string
	for _, item := range v.items() {
		word, _ := e.expand(item, item.str(), e.lookupAll)
		out = append(out, word)
	}
	return out
}

// compose returns a variable with a value in which $(VAR) is replaced. One that holds a secret is a
// secret itself: what runs the task puts it together.
func (e *environment) compose(at value, name string) (variable, bool) {
	out := variable{name: name}
	secret, address := false, false
	for _, p := range pieces(at.str(), e.lookupOwn) {
		secret = secret || p.hidden()
		address = address || strings.Contains(p.value, taskdef.PodIP) || strings.Contains(p.value, taskdef.PodIPs)
		switch {
		case p.secret != nil:
			out.parts = append(out.parts, taskdef.SecretPart{Secret: p.secret})
		case len(p.parts) > 0:
			out.parts = append(out.parts, p.parts...)
		case p.value != "":
			out.value += p.value
			out.parts = append(out.parts, taskdef.SecretPart{Text: p.value})
		}
	}
	switch {
	case !secret:
		out.parts = nil
	case address:
		at.wrong("the value has a secret and the address of the Pod in it, which is not known when secrets are made", "give the program two variables")
		return out, false
	default:
		out.value = ""
	}
	return out, true
}

// expand replaces $(VAR) by the value of a variable. A secret is refused: it is no part of a text that
// is shown.
func (e *environment) expand(at value, text string, lookup func(string) (variable, bool)) (string, bool) {
	var b strings.Builder
	for _, p := range pieces(text, lookup) {
		if p.hidden() {
			at.wrong("$("+printable(p.name)+") is a secret, which must not be part of an argument or a path", "let the program read the variable itself")
			return "", false
		}
		b.WriteString(p.value)
	}
	return b.String(), true
}

// pieces are the parts of a text: what stands there, and the variables that $(VAR) names. $$ stands
// for $, and what names no variable stays (k8s.io/kubernetes/third_party/forked/golang/expansion).
func pieces(text string, lookup func(string) (variable, bool)) (out []variable) {
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			out = append(out, variable{value: b.String()})
			b.Reset()
		}
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		end := strings.IndexByte(text[i:], ')')
		switch {
		case text[i] == '$':
			b.WriteByte('$')
		case text[i] != '(':
			b.WriteString(text[i-1 : i+1])
		case end < 0:
			b.WriteString("$(")
		default:
			name := text[i+1 : i+end]
			if v, ok := lookup(name); ok {
				flush()
				v.name = name
				out = append(out, v)
			} else {
				b.WriteString("$(" + name + ")")
			}
			i += end
		}
	}
	flush()
	return out
}

// expandPath expands a subPathExpr. Each variable must have a value, as in Kubernetes
// (k8s.io/kubernetes/pkg/kubelet/container, ExpandContainerVolumeMounts).
func (e *environment) expandPath(expr value) (string, bool) {
	var missing []string
	path, ok := e.expand(expr, expr.str(), func(name string) (variable, bool) {
		v, known := e.lookupAll(name)
		if (!known || v.value == "" && !v.hidden()) && !slices.Contains(missing, printable(name)) {
			missing = append(missing, printable(name))
		}
		return v, known
	})
	if len(missing) > 0 {
		expr.wrong("missing value for "+strings.Join(missing, ", "), "give the container a variable of that name, with a value that is not empty")
		return "", false
	}
	return path, ok
}

// document returns a ConfigMap or Secret of the file. One that is missing is a need,
// unless it is optional.
func (b *reader) document(ref value, kind, name string) (value, bool) {
	docs := b.configs
	if kind == "Secret" {
		docs = b.secrets
	}
	doc, ok := docs[name]
	switch {
	case name == "":
		ref.wrong("the name of the "+kind+" is missing", "")
	case !ok && !ref.at("optional").flag(false):
		ref.need("the "+kind+" "+doctree.Quote(name)+" is not in the file, and there is no cluster to ask", "add its document to the file")
	}
	return doc, ok
}

// configKey returns the content of a key of a ConfigMap.
func (b *reader) configKey(ref value, name, key string) ([]byte, bool) {
	doc, ok := b.document(ref, "ConfigMap", name)
	if !ok {
		return nil, false
	}
	data := configData(doc)
	c, ok := data[key]
	if !ok {
		b.noKey(ref, "ConfigMap", name, key, slices.Sorted(maps.Keys(data)))
	}
	return c.bytes, ok
}

func (b *reader) noKey(ref value, kind, name, key string, keys []string) {
	if ref.at("optional").flag(false) {
		return
	}
	if key == "" {
		ref.wrong("key is missing", "")
		return
	}
	ref.wrong(fmt.Sprintf("the %s %s has no key %s", kind, doctree.Quote(name), doctree.Quote(key)), suggest.Question(key, keys))
}

// secretVariable returns a variable whose value is a key of a Secret.
func (b *reader) secretVariable(ref value, name, key, variableName string) (variable, bool) {
	out := variable{name: variableName}
	if _, here := b.secrets[name]; !here {
		if source, mapped := answer(ref, b.options.Refs, refs.Secret, refs.OfKey(name, key)); mapped {
			out.secret = &taskdef.SecretValue{ValueFrom: source, Source: source}
			return out, true
		}
		if name != "" && key != "" && !ref.at("optional").flag(false) {
			ref.need("the Secret "+doctree.Quote(name)+" is not in the file, and there is no cluster to ask",
				"add its document to the file, give --map-secret "+name+"/"+key+"=SOURCE, or add to podtask.toml: "+taskdef.RuleFor(refs.Secret, refs.OfKey(name, key).Name()))
			return out, false
		}
	}
	doc, ok := b.document(ref, "Secret", name)
	if !ok {
		return out, false
	}
	data := secretData(doc)
	content, ok := data[key]
	switch {
	case !ok:
		b.noKey(ref, "Secret", name, key, slices.Sorted(maps.Keys(data)))
		return out, false
	case content.empty():
		return out, true // there is nothing to hide
	case !utf8.Valid(content.bytes) || bytes.ContainsRune(content.bytes, 0):
		ref.wrong("the value cannot be that of a variable: it is not text", "mount it as a file")
		return out, false
	}
	out.secret = b.secret("Secret", name, key, content)
	return out, true
}

// content is what a key of a ConfigMap or Secret holds: bytes, or, of a Secret that Podman
// keeps, the source.
type content struct {
	bytes  []byte
	source string
}

func (c content) empty() bool { return len(c.bytes) == 0 && c.source == "" }

// configData returns the content of a ConfigMap by key.
func configData(doc value) map[string]content {
	out := make(map[string]content)
	for _, f := range doc.at("data").entries() {
		out[f.Key] = content{bytes: []byte(f.Value.Text)}
	}
	decode(doc.at("binaryData"), out)
	return out
}

// secretData returns the content of a Secret by key; stringData goes before data.
func secretData(doc value) map[string]content {
	out := make(map[string]content)
	for key, source := range keptOf(doc).Keys {
		out[key] = content{source: source}
	}
	decode(doc.at("data"), out)
	for _, f := range doc.at("stringData").entries() {
		out[f.Key] = content{bytes: []byte(f.Value.Text)}
	}
	return out
}

func decode(v value, out map[string]content) {
	for _, f := range v.entries() {
		if bytes, err := base64.StdEncoding.DecodeString(squeeze(f.Value.Text)); err == nil {
			out[f.Key] = content{bytes: bytes}
		}
	}
}
