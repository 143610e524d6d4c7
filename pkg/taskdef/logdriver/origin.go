package logdriver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
	"time"
)

// Origin describes the container that lines come from. Templates of the option tag use its
// fields and methods, which have the names of Docker's (daemon/logger.Info). No secret is in
// it.
type Origin struct {
	// Config are the options of the driver.
	Config map[string]string
	// ContainerName begins with a slash.
	ContainerID, ContainerName           string
	ContainerEntrypoint                  string
	ContainerArgs                        []string
	ContainerImageID, ContainerImageName string
	ContainerCreated                     time.Time
	// ContainerEnv are NAME=VALUE.
	ContainerEnv    []string
	ContainerLabels map[string]string
	DaemonName      string
}

// Command returns the words of the container's command.
func (o Origin) Command() string {
	return strings.Join(append([]string{o.ContainerEntrypoint}, o.ContainerArgs...), " ")
}

// shortID is the length of a shortened ID.
const shortID = 12

// ID returns the beginning of the container's ID.
func (o Origin) ID() string { return o.ContainerID[:min(len(o.ContainerID), shortID)] }

// FullID returns the container's ID.
func (o Origin) FullID() string { return o.ContainerID }

// Name returns the container's name without the slash.
func (o Origin) Name() string { return strings.TrimPrefix(o.ContainerName, "/") }

// ImageID returns the beginning of the image's ID.
func (o Origin) ImageID() string { return o.ContainerImageID[:min(len(o.ContainerImageID), shortID)] }

// ImageFullID returns the image's ID.
func (o Origin) ImageFullID() string { return o.ContainerImageID }

// ImageName returns the image as it was written.
func (o Origin) ImageName() string { return o.ContainerImageName }

// Tag is a template of Docker's option tag.
type Tag struct{ parsed *template.Template }

// longestPad is the most spaces that a template may add.
const longestPad = 1024

var tagFunctions = template.FuncMap{
	"json": func(v any) string {
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		_ = e.Encode(v)
		return strings.TrimSpace(out.String())
	},
	"split": strings.Split,
	"join":  strings.Join,
	"title": strings.Title, //nolint:staticcheck // deprecated, but Docker's templates use it
	"lower": strings.ToLower,
	"upper": strings.ToUpper,
	"pad": func(text string, before, after int) string {
		if text == "" {
			return ""
		}
		return strings.Repeat(" ", min(max(before, 0), longestPad)) + text + strings.Repeat(" ", min(max(after, 0), longestPad))
	},
	"truncate": func(text string, length int) string { return text[:min(len(text), max(length, 0))] },
}

// ParseTag reads a template. One that repeats something is refused: it could run for ever.
func ParseTag(text string) (Tag, error) {
	t, err := template.New("tag").Funcs(tagFunctions).Parse(text)
	if err != nil {
		return Tag{}, errors.New(strings.TrimPrefix(err.Error(), "template: "))
	}
	if len(t.Templates()) > 1 || t.Tree != nil && repeats(t.Root) {
		return Tag{}, errors.New("the template has a loop or another template")
	}
	tag := Tag{t}
	sample := Origin{
		ContainerID: strings.Repeat("0", 64), ContainerName: "/name", ContainerImageID: "sha256:" + strings.Repeat("0", 64), ContainerImageName: "image",
		ContainerEntrypoint: "command", ContainerLabels: map[string]string{},
	}
	if _, err := tag.render(sample); err != nil {
		return Tag{}, errors.New(strings.TrimPrefix(err.Error(), "template: "))
	}
	return tag, nil
}

// repeats reports whether a part of a template may run more than once.
func repeats(n parse.Node) bool {
	switch n := n.(type) {
	case *parse.ListNode:
		return n != nil && slices.ContainsFunc(n.Nodes, repeats)
	case *parse.IfNode:
		return repeats(n.List) || repeats(n.ElseList)
	case *parse.WithNode:
		return repeats(n.List) || repeats(n.ElseList)
	case *parse.RangeNode, *parse.TemplateNode:
		return true
	}
	return false
}

// render executes the template, with at most maxOption bytes.
func (t Tag) render(o Origin) (string, error) {
	if t.parsed == nil {
		return "", nil
	}
	out := limited{most: maxOption}
	err := t.parsed.Execute(&out, o)
	return out.text.String(), err
}

// limited fails when it has got too many bytes.
type limited struct {
	text strings.Builder
	most int
}

func (l *limited) Write(b []byte) (int, error) {
	if l.text.Len()+len(b) > l.most {
		return 0, fmt.Errorf("the tag has more than %d bytes", l.most)
	}
	return l.text.Write(b)
}

// Of returns the tag of a container. What the template cannot say of it is left out.
func (t Tag) Of(o Origin) string {
	text, _ := t.render(o)
	text = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxOption { // a byte that is no UTF-8 became three
		text = strings.ToValidUTF8(text[:maxOption], "")
	}
	return text
}

// defaultTag is Docker's.
const defaultTag = "{{.ID}}"

// tag returns the template of the option tag.
func (p *optionParser) tag(otherwise string) Tag {
	text := p.options["tag"]
	if text == "" {
		text = otherwise
	}
	t, err := ParseTag(text)
	if err != nil {
		p.add("tag", "write a template such as {{.Name}}", "the tag is not valid: %v", err)
	}
	return t
}

var attributeOptions = strings.Fields("env env-regex labels labels-regex tag")

// Attributes are the labels and variables of a container that are sent with its lines, and its
// tag.
type Attributes struct {
	Tag                    Tag
	labels, env            []string
	labelsRegex, envsRegex *regexp.Regexp
}

func (p *optionParser) attributes() Attributes {
	return Attributes{
		Tag:    p.tag(defaultTag),
		labels: strings.Split(p.options["labels"], ","), labelsRegex: p.regex("labels-regex"),
		env: strings.Split(p.options["env"], ","), envsRegex: p.regex("env-regex"),
	}
}

// Of returns the labels and variables of a container by name.
func (a Attributes) Of(o Origin) map[string]string {
	env := make(map[string]string)
	for _, e := range o.ContainerEnv {
		if name, value, ok := strings.Cut(e, "="); ok {
			env[name] = value
		}
	}
	all := chosen(o.ContainerLabels, a.labels, a.labelsRegex)
	maps.Copy(all, chosen(env, a.env, a.envsRegex))
	return all
}

// chosen returns the entries that are named or match.
func chosen(from map[string]string, names []string, re *regexp.Regexp) map[string]string {
	all := make(map[string]string)
	for name, value := range from {
		if slices.Contains(names, name) || re != nil && re.MatchString(name) {
			all[name] = value
		}
	}
	return all
}
