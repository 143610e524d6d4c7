package command

import "github.com/podtask/podtask/pkg/taskdef"

// Document is a kind of file besides task definitions.
type Document struct {
	// Name is the word by which `podtask schema` prints the JSON Schema.
	Name   string
	Schema func() any
	// Is reports whether a file of that name is one; nil: `podtask validate` does not check such files.
	Is func(file string) bool
	// Check returns the problems of a file; none if it is valid. It is set if Is is.
	Check func(file string, source []byte) []taskdef.Problem
}
