package doctree

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef/unrendered"
)

// YAML reads the YAML documents of a source, without those that have no content.
// Anchors, aliases and merge keys are followed, within the limits. The error is a
// *SyntaxError.
func YAML(src []byte, l Limits) ([]*Node, error) {
	docs, err := readYAML(src, l, nil)
	if err != nil {
		return nil, explain(src, unrendered.Find, err)
	}
	return docs, nil
}

// Tagged reads all documents of a source, JSON or YAML, in which YAML tags stand for functions, as in
// CloudFormation: a value with a tag of tags becomes an object whose only member is that of the tag. Text that
// opens with a brace or a bracket is JSON, or else YAML. The error is a *SyntaxError.
func Tagged(src []byte, l Limits, tags map[string]string) ([]*Node, error) {
	text := body(src)
	if !bytes.HasPrefix(text, []byte("{")) && !bytes.HasPrefix(text, []byte("[")) {
		docs, err := readYAML(src, l, tags)
		if err != nil {
			return nil, explain(src, unrendered.Find, err)
		}
		return docs, nil
	}
	docs, err := JSON(src, l)
	if err != nil {
		if flow, yamlErr := readYAML(src, l, tags); yamlErr == nil {
			return flow, nil
		}
	}
	return docs, err
}

func readYAML(src []byte, l Limits, tags map[string]string) ([]*Node, error) {
	src, b, err := start(src, l)
	if err != nil {
		return nil, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(src))
	r := yamlReader{b, tags}
	var docs []*Node
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, yamlError(src, err)
		}
		if len(doc.Content) == 0 {
			continue
		}
		root, err := r.value(doc.Content[0], 0)
		if err != nil {
			return nil, err
		}
		if root.Kind != Null {
			docs = append(docs, root)
		}
	}
}

var yamlLine = lazy.MustCompile(`line (\d+): `)

// yamlError finds the line that the library writes into its message.
func yamlError(src []byte, err error) error {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if m := yamlLine.FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1])
		msg = strings.Replace(msg, m[0], "", 1)
	}
	if strings.Contains(msg, "cannot start any token") && tabIndent(src, line) {
		return &SyntaxError{line, 1, "not valid YAML: a line is indented with a tab", "indent with spaces"}
	}
	return &SyntaxError{line, 1, "not valid YAML: " + msg, ""}
}

// tabIndent reports whether a line, counted from 1, or the one after it is indented with
// a tab: the library counts some lines from 0.
func tabIndent(src []byte, line int) bool {
	lines := bytes.Split(src, []byte("\n"))
	for _, l := range lines[min(max(line-1, 0), len(lines)):min(line+1, len(lines))] {
		if indent := l[:len(l)-len(bytes.TrimLeft(l, " \t"))]; bytes.ContainsRune(indent, '\t') {
			return true
		}
	}
	return false
}

type yamlReader struct {
	budget *budget
	tags   map[string]string // of functions; nil for none
}

func (r *yamlReader) value(y *yaml.Node, depth int) (*Node, error) {
	if err := r.budget.spend(depth, y.Line, y.Column); err != nil {
		return nil, err
	}
	n := &Node{Line: y.Line, Col: y.Column, Text: y.Value}
	if function, ok := r.tags[y.Tag]; ok {
		bare := *y
		bare.Tag = ""
		v, err := r.value(&bare, depth+1)
		n.Kind, n.Text, n.Fields = Object, "", []Field{{function, y.Line, y.Column, v}}
		return n, err
	}
	switch y.Kind {
	case yaml.AliasNode:
		// A loop of aliases ends at the depth limit.
		return r.value(y.Alias, depth+1)
	case yaml.SequenceNode:
		n.Kind = List
		for _, item := range y.Content {
			v, err := r.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.Items = append(n.Items, v)
		}
		return n, nil
	case yaml.MappingNode:
		n.Kind = Object
		return n, r.object(n, y, depth)
	}
	return n, scalar(n, y)
}

// scalar sets the kind of a scalar from its resolved tag.
func scalar(n *Node, y *yaml.Node) error {
	switch tag := y.ShortTag(); tag {
	case "!!null":
		n.Kind = Null
	case "!!int", "!!float":
		n.Kind = Number
	case "!!bool":
		n.Kind, n.Text = Boolean, strings.ToLower(y.Value)
	case "!!str", "!!timestamp", "!!merge":
		n.Kind = Text
	default:
		return &SyntaxError{y.Line, y.Column, "the YAML tag " + Quote(tag) + " has no meaning here", "write the value itself; podtask import reads templates of CloudFormation"}
	}
	return nil
}

func (r *yamlReader) object(n *Node, y *yaml.Node, depth int) error {
	var merged []*Node
	for i := 0; i+1 < len(y.Content); i += 2 {
		key := y.Content[i]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			return &SyntaxError{key.Line, key.Column, "a key must be text, not a list or an object", ""}
		}
		v, err := r.value(y.Content[i+1], depth+1)
		if err != nil {
			return err
		}
		if key.ShortTag() == "!!merge" {
			merged = append(merged, v)
			continue
		}
		n.Fields = append(n.Fields, Field{key.Value, y.Content[i].Line, y.Content[i].Column, v})
	}
	return merge(n, merged)
}

// merge adds the members of merge keys ("<<") that n does not have itself.
// Among several, the first wins (YAML 1.1, merge key type).
func merge(n *Node, merged []*Node) error {
	have := make(map[string]bool, len(n.Fields))
	for _, f := range n.Fields {
		have[f.Key] = true
	}
	for _, m := range merged {
		sources := []*Node{m}
		if m.Kind == List {
			sources = m.Items
		}
		for _, s := range sources {
			if s.Kind != Object {
				return &SyntaxError{m.Line, m.Col, `"<<" merges objects, and this is ` + s.Kind.String(), ""}
			}
			for _, f := range s.Fields {
				if !have[f.Key] {
					have[f.Key] = true
					n.Fields = append(n.Fields, f)
				}
			}
		}
	}
	return nil
}
