package convert

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// field is an entry of a mapping.
type field struct {
	key   string
	value *yaml.Node
	line  int
}

// fields are the entries of a mapping, those of mappings that are merged into it
// with "<<" first; none of anything else.
func fields(n *yaml.Node) []field {
	var merged, own []field
	for _, f := range entries(n) {
		if f.key == "<<" {
			merged = append(merged, entries(f.value)...)
		} else {
			own = append(own, f)
		}
	}
	merged = slices.DeleteFunc(merged, func(m field) bool {
		return slices.ContainsFunc(own, func(f field) bool { return f.key == m.key })
	})
	return append(merged, own...)
}

func entries(n *yaml.Node) []field {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		return nil
	}
	var out []field
	for i := 0; i+1 < len(n.Content); i += 2 {
		out = append(out, field{n.Content[i].Value, resolve(n.Content[i+1]), n.Content[i].Line})
	}
	return out
}

// resolve follows an alias.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// list are the texts of a list, or the one text.
func list(n *yaml.Node) []string {
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		return []string{n.Value}
	}
	var out []string
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			out = append(out, item.Value)
		}
	}
	return out
}
