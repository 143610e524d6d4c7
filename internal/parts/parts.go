// Package parts lists the parts of podtask: what a program has besides the core. A build with the tag podtask_core has
// none of them. A new part is a row of table and a line of linked.
package parts

import "github.com/podtask/podtask/internal/cli/part"

// table has a row for each part, so that a build without it can say what it lacks.
var table = []part.Absent{
	{Name: "faults", Commands: []string{"fault"}},
	{Name: "views", Commands: []string{"top", "ui", "timeline", "view"}},
	{Name: "test", Commands: []string{"test"}},
	{Name: "schedules", Commands: []string{"schedule"}},
	{Name: "scaling", Commands: []string{"service scaling"}},
	{Name: "stacks", Commands: []string{"stack"}, Settings: []string{"stack-previews"}},
	{Name: "notices", Commands: []string{"notify"}, Settings: []string{"notify"}},
	{Name: "updates"},
	{Name: "deploy", Commands: []string{"deploy"}},
	{Name: "import", Commands: []string{"import", "ecs import", "ecs diff"}},
	{Name: "export"},
	{Name: "kubelet", Commands: []string{"kubelet"}},
	{Name: "ecs", Commands: []string{"ecs"}},
	{Name: "aws", Commands: []string{"aws"}, Settings: []string{"aws-listen"}},
}

// Build returns what this program is built of.
func Build() part.Build { return buildOf(linked()) }

// Core returns the build without any part.
func Core() part.Build { return buildOf(nil) }

func buildOf(parts []part.Part) part.Build {
	b := part.Build{Parts: parts}
	have := make(map[string]bool)
	for _, p := range parts {
		have[p.Name] = true
	}
	for _, a := range table {
		if !have[a.Name] {
			b.Absent = append(b.Absent, a)
		}
	}
	return b
}
