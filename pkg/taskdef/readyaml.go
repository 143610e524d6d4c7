package taskdef

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readYAML reads one YAML document. Anchors, aliases and merge keys are
// followed, within the bounds of every document.
func readYAML(src []byte) (*node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(src))
	var doc, more yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return &node{kind: null, line: 1, col: 1}, nil
	}
	if err != nil {
		return nil, yamlError(src, err)
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, &syntaxError{max(more.Line, 1), max(more.Column, 1), "the file holds more than one YAML document", "keep one task definition in a file"}
	}
	var r yamlReader
	return r.value(doc.Content[0], 0)
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// yamlError finds the line that the library writes into its message.
func yamlError(src []byte, err error) error {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if m := yamlLine.FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1])
		msg = strings.Replace(msg, m[0], "", 1)
	}
	if strings.Contains(msg, "cannot start any token") && tabIndent(src, line) {
		return &syntaxError{line, 1, "not valid YAML: a line is indented with a tab", "indent with spaces"}
	}
	return &syntaxError{line, 1, "not valid YAML: " + msg, ""}
}

// tabIndent reports whether a line, counted from 1, or the one after it is indented with a
// tab: the library counts some lines from 0.
func tabIndent(src []byte, line int) bool {
	lines := bytes.Split(src, []byte("\n"))
	for _, l := range lines[min(max(line-1, 0), len(lines)):min(line+1, len(lines))] {
		if indent := l[:len(l)-len(bytes.TrimLeft(l, " \t"))]; bytes.ContainsRune(indent, '\t') {
			return true
		}
	}
	return false
}

type yamlReader struct{ budget budget }

func (r *yamlReader) value(y *yaml.Node, depth int) (*node, error) {
	if err := r.budget.spend(depth, y.Line, y.Column); err != nil {
		return nil, err
	}
	n := &node{line: y.Line, col: y.Column, text: y.Value}
	switch y.Kind {
	case yaml.AliasNode:
		// A loop of aliases ends at the depth limit.
		return r.value(y.Alias, depth+1)
	case yaml.SequenceNode:
		n.kind = list
		for _, item := range y.Content {
			v, err := r.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, v)
		}
		return n, nil
	case yaml.MappingNode:
		n.kind = object
		return n, r.object(n, y, depth)
	}
	return n, scalar(n, y)
}

// scalar sets the kind of a scalar from its resolved tag.
func scalar(n *node, y *yaml.Node) error {
	switch tag := y.ShortTag(); tag {
	case "!!null":
		n.kind = null
	case "!!int", "!!float":
		n.kind = number
	case "!!bool":
		n.kind, n.text = boolean, strings.ToLower(y.Value)
	case "!!str", "!!timestamp", "!!merge":
		n.kind = text
	default:
		return &syntaxError{y.Line, y.Column, "the YAML tag " + quote(tag) + " has no meaning in a task definition", "write the value itself"}
	}
	return nil
}

func (r *yamlReader) object(n *node, y *yaml.Node, depth int) error {
	var merged []*node
	for i := 0; i+1 < len(y.Content); i += 2 {
		key := y.Content[i]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			return &syntaxError{key.Line, key.Column, "a key must be text, not a list or an object", ""}
		}
		v, err := r.value(y.Content[i+1], depth+1)
		if err != nil {
			return err
		}
		if key.ShortTag() == "!!merge" {
			merged = append(merged, v)
			continue
		}
		n.fields = append(n.fields, field{key.Value, y.Content[i].Line, y.Content[i].Column, v})
	}
	return merge(n, merged)
}

// merge adds the members of merge keys ("<<") that n does not have itself.
// Among several, the first wins (YAML 1.1, merge key type).
func merge(n *node, merged []*node) error {
	have := make(map[string]bool, len(n.fields))
	for _, f := range n.fields {
		have[f.key] = true
	}
	for _, m := range merged {
		sources := []*node{m}
		if m.kind == list {
			sources = m.items
		}
		for _, s := range sources {
			if s.kind != object {
				return &syntaxError{m.line, m.col, `"<<" merges objects, and this is ` + s.kind.String(), ""}
			}
			for _, f := range s.fields {
				if !have[f.key] {
					have[f.key] = true
					n.fields = append(n.fields, f)
				}
			}
		}
	}
	return nil
}
