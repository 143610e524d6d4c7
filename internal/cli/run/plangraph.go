package run

import (
	"fmt"
	"io"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef"
)

// writeDOT prints the dependencies as a graph of Graphviz. An edge leads from a
// container to one that waits for it; essential containers have a double border.
func (pl plan) writeDOT(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %q {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n  edge [fontname=\"sans-serif\", fontsize=10];\n", pl.Family)
	for _, c := range pl.Containers {
		border := ""
		if c.Essential {
			border = ", peripheries=2"
		}
		fmt.Fprintf(&b, "  %q [label=%q%s];\n", c.Name, c.Name+"\n"+c.Image, border)
	}
	pl.edges(func(_, _ int, from, to string, condition taskdef.Condition) {
		fmt.Fprintf(&b, "  %q -> %q [label=%q];\n", from, to, condition)
	})
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// writeMermaid prints the dependencies as a flowchart of Mermaid. Nodes have generated
// names, because names of containers may be keywords.
func (pl plan) writeMermaid(w io.Writer) error {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for i, c := range pl.Containers {
		open, shut := "(", ")"
		if c.Essential {
			open, shut = "[[", "]]"
		}
		fmt.Fprintf(&b, "  c%d%s\"%s<br/>%s\"%s\n", i, open, c.Name, c.Image, shut)
	}
	pl.edges(func(from, to int, _, _ string, condition taskdef.Condition) {
		fmt.Fprintf(&b, "  c%d -->|%s| c%d\n", from, condition, to)
	})
	_, err := io.WriteString(w, b.String())
	return err
}

// edges calls f for every dependency, by its indices and its names.
func (pl plan) edges(f func(from, to int, fromName, toName string, condition taskdef.Condition)) {
	index := make(map[string]int)
	for i, c := range pl.Containers {
		index[c.Name] = i
	}
	for i, c := range pl.Containers {
		for _, d := range c.DependsOn {
			f(index[d.Container], i, d.Container, c.Name, d.Condition)
		}
	}
}
