package pod

import "github.com/podtask/podtask/internal/doctree"

func documentsOf(src string) ([]*doctree.Node, error) { return doctree.Documents([]byte(src), limits) }
