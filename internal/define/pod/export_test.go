package pod

import "github.com/podtask/podtask/pkg/taskdef/doctree"

func documentsOf(src string) ([]*doctree.Node, error) { return doctree.Documents([]byte(src), limits) }
