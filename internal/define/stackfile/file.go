// Package stackfile reads podtask's own short file of a stack: the name, and for each member the file of its task definition or a
// container in the short form, what it waits for, and the settings of its service.
package stackfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/define/short"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// File is a stack file.
type File struct {
	// Name is the one of the stack; empty if the file has none.
	Name    string
	Members []Member
}

// Member is a service or a job of a stack file.
type Member struct {
	Name string
	Line int
	// From is the file of its definition, relative to the stack file. Service chooses a workload of that, if it has several.
	From, Service string
	// Inline is a definition in the short form, of a member that has an image in place of a file; nil for others.
	Inline *doctree.Node
	// Job: it runs to its end.
	Job   bool
	After []short.Dependency
	// Settings are flags of `podtask service create` with their values, Times those of `podtask schedule create`.
	Settings, Times []string
}

// kind names what values a key has.
type kind string

const (
	word   kind = "string"
	number kind = "integer"
	yesNo  kind = "boolean"
	list   kind = "array"
)

// settingKey is a key that is a flag of `podtask service create`, or of `podtask schedule create`.
type settingKey struct {
	key  string
	kind kind
	of   room
	what string
}

// room names the members that a key is for.
type room int

const (
	all room = iota
	services
	schedules
)

var settings = []settingKey{
	{"count", number, services, "how many copies run"},
	{"listen", list, services, "addresses of this host that lead to the copies: [IP:]PORT=CONTAINER:PORT"},
	{"name-as", list, services, "names by which other members reach the copies: NAME[:PORT][=CONTAINER:PORT]"},
	{"ingress", list, services, "public addresses: URL=CONTAINER:PORT[,OPTION=VALUE...]"},
	{"env", list, all, "variables for every container: NAME=VALUE"},
	{"secret", list, all, "secrets of Podman for every container: NAME[,type=env|mount][,target=...]"},
	{"map-volume", list, all, "what of this host is mounted for a volume: NAME=PATH, NAME=podman:VOLUME"},
	{"map-secret", list, all, "where this host has a secret of AWS: ARN=SOURCE"},
	{"memory", word, all, "the most memory of a copy, such as 512m"},
	{"cpus", word, all, "the most processors of a copy, such as 1.5"},
	{"pids-limit", number, all, "the most processes and threads of a copy"},
	{"min-healthy", number, services, "the percentage of copies that stay healthy in an update"},
	{"max", number, services, "the percentage of copies that there are at most in an update"},
	{"health-grace", word, services, "the time in which failed health checks do not count, such as 30s"},
	{"drain", word, services, "the time that a copy has to finish connections, such as 30s"},
	{"sleep-after", word, services, "the time without a connection after which the copies stop, until the next one comes, such as 30m"},
	{"hold", word, services, "the time that a connection is held while the service wakes, such as 1m"},
	{"auto-update", word, services, "registry: podtask auto-update deploys what the tags of the images have"},
	{"strategy", word, services, "how an update replaces copies: rolling, blue-green, linear or canary"},
	{"at", list, schedules, "when it is run: calendar events of systemd.time(7), lines of cron, or rate(), cron() or at() of EventBridge"},
	{"timezone", word, schedules, "the time zone of the times, such as Europe/Berlin"},
	{"overlap", word, schedules, "what happens if an earlier run has not ended: forbid, replace or allow"},
	{"catch-up", yesNo, schedules, "whether missed times are made up for with one run"},
}

// IsOfServices reports whether a word of Settings is for services only.
func IsOfServices(word string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
	i := setting(name)
	return i >= 0 && settings[i].of == services
}

// Is reports whether a text is a stack file: an object with members.
func Is(src []byte) bool {
	docs, err := doctree.Tagged(src, limits, nil)
	return err == nil && len(docs) == 1 && docs[0].Kind == doctree.Object && docs[0].Member("members") != nil
}

var limits = doctree.Limits{Size: 1 << 20, Values: 50_000, Depth: 20}

// parser gathers the problems of a file.
type parser struct {
	file     string
	problems []taskdef.Problem
}

func (p *parser) wrong(line, column int, message, fix string) {
	p.problems = append(p.problems, taskdef.Problem{File: p.file, Line: line, Column: column, Message: message, Fix: fix})
}

func (p *parser) at(n *doctree.Node, message, fix string) { p.wrong(n.Line, n.Col, message, fix) }

// Parse reads a stack file. It returns all problems.
func Parse(file string, src []byte) (f File, problems []taskdef.Problem) {
	p := &parser{file: file}
	docs, err := doctree.Tagged(src, limits, nil)
	var syntax *doctree.SyntaxError
	switch {
	case errors.As(err, &syntax):
		p.wrong(syntax.Line, syntax.Col, syntax.Message, syntax.Fix)
		return f, p.problems
	case err != nil:
		p.wrong(0, 0, err.Error(), "")
		return f, p.problems
	case len(docs) != 1 || docs[0].Kind != doctree.Object:
		p.wrong(1, 1, "a stack file is one object", "write members, each with the file of its definition")
		return f, p.problems
	}
	for _, m := range docs[0].Fields {
		switch {
		case m.Key == "name":
			f.Name = p.text(m)
		case m.Key == "members" && m.Value.Kind == doctree.Object:
			for _, one := range m.Value.Fields {
				f.Members = append(f.Members, p.member(one))
			}
		case m.Key == "members":
			p.at(m.Value, "members is an object: the name of each with what it is", "write members: {web: {file: web.yaml}}")
		case m.Key != "$schema":
			p.unknown(m, []string{"name", "members"})
		}
	}
	if len(f.Members) == 0 && len(p.problems) == 0 {
		p.at(docs[0], "the stack has no members", "write members: {web: {file: web.yaml}}")
	}
	return f, p.problems
}

func (p *parser) unknown(m doctree.Field, known []string) {
	p.wrong(m.Line, m.Col, "there is no key "+doctree.Quote(m.Key)+" here", suggest.Question(m.Key, known))
}

// text returns the text of a key.
func (p *parser) text(m doctree.Field) string {
	if !m.Value.IsScalar() || m.Value.Text == "" {
		p.at(m.Value, m.Key+" is a text", "")
		return ""
	}
	return m.Value.Text
}

// member reads a member.
func (p *parser) member(of doctree.Field) Member {
	m := Member{Name: of.Key, Line: of.Line}
	if of.Value.Kind != doctree.Object {
		p.at(of.Value, "the member "+doctree.Quote(of.Key)+" is an object", "write the file of its definition: {file: "+of.Key+".yaml}, or {image: IMAGE}")
		return m
	}
	inline := &doctree.Node{Kind: doctree.Object, Line: of.Line, Col: of.Col}
	for _, f := range of.Value.Fields {
		switch f.Key {
		case "file":
			m.From = p.text(f)
		case "service":
			m.Service = p.text(f)
		case "job":
			if m.Job = f.Value.Text == "true"; !m.Job && f.Value.Text != "false" {
				p.at(f.Value, "job is true or false", "")
			}
		case "after", "depends_on":
			after, problems := short.After(p.file, f)
			m.After, p.problems = append(m.After, after...), append(p.problems, problems...)
		default:
			if i := setting(f.Key); i >= 0 {
				to := &m.Settings
				if settings[i].of == schedules {
					to = &m.Times
				}
				*to = append(*to, p.setting(i, f)...)
			} else if short.IsContainerKey(f.Key) {
				inline.Fields = append(inline.Fields, f)
			} else {
				p.wrong(f.Line, f.Col, "there is no key "+doctree.Quote(f.Key)+" here", short.Instead(f.Key, keys()))
			}
		}
	}
	p.definition(&m, of, inline)
	return m
}

// definition settles what the definition of a member is: a file, or the keys of a container that it has.
func (p *parser) definition(m *Member, of doctree.Field, container *doctree.Node) {
	file, image := of.Value.Member("file"), container.Member("image")
	switch {
	case file != nil && len(container.Fields) > 0:
		f := container.Fields[0]
		p.wrong(f.Line, f.Col, f.Key+" is a key of a member with an image, and this one has a file", "write it in the file, or image in place of file")
	case file == nil && image == nil:
		p.wrong(of.Line, of.Col, "the member "+doctree.Quote(of.Key)+" has neither a file nor an image", "write the file of its definition: file: "+of.Key+".yaml, or image: IMAGE")
	case image != nil:
		m.Inline = &doctree.Node{Kind: doctree.Object, Line: of.Line, Col: of.Col, Fields: []doctree.Field{{Key: "containers", Line: of.Line, Col: of.Col, Value: &doctree.Node{
			Kind: doctree.Object, Line: of.Line, Col: of.Col, Fields: []doctree.Field{{Key: of.Key, Line: of.Line, Col: of.Col, Value: container}},
		}}}}
	}
}

// keys are all keys of a member.
func keys() (all []short.Key) {
	for _, name := range []string{"file", "service"} {
		all = append(all, short.Key{Name: name})
	}
	for _, s := range settings {
		all = append(all, short.Key{Name: s.key})
	}
	return append(all, short.ContainerKeys...)
}

// setting returns the index of a key among the settings; -1 for none.
func setting(key string) int {
	key = short.Canonical(key)
	return slices.IndexFunc(settings, func(s settingKey) bool { return s.key == key })
}

// setting returns a key as flags. An object in place of a list has NAME=VALUE in its items.
func (p *parser) setting(i int, f doctree.Field) (words []string) {
	s, values := settings[i], []*doctree.Node{f.Value}
	switch {
	case s.kind == list && f.Value.Kind == doctree.List:
		values = f.Value.Items
	case s.kind == list && f.Value.Kind == doctree.Object:
		values = nil
		for _, one := range f.Value.Fields {
			v := *one.Value
			if v.IsScalar() {
				v.Text = one.Key + "=" + v.Text
			}
			values = append(values, &v)
		}
	}
	for _, v := range values {
		if !v.IsScalar() || s.kind == number && v.Kind != doctree.Number || s.kind == yesNo && v.Text != "true" && v.Text != "false" {
			p.at(v, f.Key+" is "+map[kind]string{word: "a text", number: "a whole number", yesNo: "true or false", list: "a list of texts"}[s.kind], "")
			continue
		}
		words = append(words, fmt.Sprintf("--%s=%s", s.key, v.Text))
	}
	return words
}

// SchemaID is the address of the schema of stack files.
const SchemaID = "https://raw.githubusercontent.com/podtask/podtask/main/docs/stack-file.schema.json"

// Schema returns the JSON Schema (2020-12) of a stack file.
func Schema() map[string]any {
	type object = map[string]any
	text := func(what string) object { return object{"type": "string", "minLength": 1, "description": what} }
	properties := short.Properties(short.ContainerKeys)
	properties["file"] = text("the file of its definition, beside the stack file: all that podtask runs or imports")
	properties["service"] = text("which service of the file it is, if that has several")
	for _, s := range settings {
		switch s.kind {
		case list:
			properties[s.key] = object{"description": s.what, "anyOf": []any{object{"type": "string"}, object{"type": "array", "items": object{"type": "string"}}, object{"type": "object"}}}
		case number:
			properties[s.key] = object{"type": "integer", "minimum": 0, "description": s.what}
		case yesNo:
			properties[s.key] = object{"type": "boolean", "description": s.what}
		default:
			properties[s.key] = object{"type": []string{"string", "number"}, "description": s.what}
		}
	}
	return object{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SchemaID, "title": "A stack of podtask",
		"type": "object", "additionalProperties": false, "required": []string{"members"},
		"properties": object{
			"$schema": object{"type": "string"},
			"name":    object{"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,62}$", "description": "the name of the stack; without it, that of the directory"},
			"members": object{
				"type": "object", "minProperties": 1, "description": "services, jobs and schedules by their names",
				"additionalProperties": object{
					"type": "object", "additionalProperties": false, "properties": properties,
					"oneOf": []any{object{"required": []string{"file"}}, object{"required": []string{"image"}}},
				},
			},
		},
	}
}
